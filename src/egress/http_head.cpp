#include "egress/http_head.h"

#include <algorithm>
#include <charconv>

#include "egress/limits.h"
#include "policy/host.h"

namespace sallyport::egress {
namespace {

constexpr std::uint16_t kHttpPort = 80;

Error malformed(std::string what) { return Error::make(Code::protocol_error, std::move(what)); }

bool is_token_char(char c) {
  const auto u = static_cast<unsigned char>(c);
  if ((u >= '0' && u <= '9') || (u >= 'a' && u <= 'z') || (u >= 'A' && u <= 'Z')) return true;
  return std::string_view("!#$%&'*+-.^_`|~").find(c) != std::string_view::npos;
}
bool is_token(std::string_view text) { return !text.empty() && std::all_of(text.begin(), text.end(), is_token_char); }

bool is_ascii(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < 0x80; });
}
// Neither blank nor control character: what may stand in a request's target.
bool is_visible(std::string_view text) {
  return std::all_of(text.begin(), text.end(),
                     [](char c) { return static_cast<unsigned char>(c) > 0x20 && c != 0x7f; });
}

// Clients send what they are given. As they should have written it there is one way to read it.
std::string in_ascii(std::string_view path) {
  constexpr std::string_view kHex = "0123456789ABCDEF";
  std::string out;
  for (const char c : path) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x80) {
      out += c;
    } else {
      out.append({'%', kHex[byte >> 4], kHex[byte & 15]});
    }
  }
  return out;
}

std::string_view trimmed(std::string_view text) {
  const auto is_blank = [](char c) { return c == ' ' || c == '\t'; };
  while (!text.empty() && is_blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_blank(text.back())) text.remove_suffix(1);
  return text;
}

struct Lines {
  std::string_view first;
  std::vector<Header> headers;
  std::size_t bytes = 0;
};

Result<Header> parse_header(std::string_view line) {
  const std::size_t colon = line.find(':');
  if (colon == std::string_view::npos) return malformed("a header without ':'");
  if (!is_token(line.substr(0, colon))) return malformed("a header's name is malformed");
  const std::string_view value = trimmed(line.substr(colon + 1));
  const bool is_clean = std::all_of(value.begin(), value.end(), [](char c) {
    return c == '\t' || (static_cast<unsigned char>(c) >= 0x20 && c != 0x7f);
  });
  if (!is_clean) return malformed("a header has a control character");
  return Header{std::string(line.substr(0, colon)), std::string(value)};
}

// Every line ends in CRLF, and neither CR nor LF stands anywhere else.
Result<std::optional<Lines>> split_lines(std::string_view bytes, std::size_t most) {
  const std::size_t end = bytes.substr(0, most).find("\r\n\r\n");
  if (end == std::string_view::npos) {
    if (bytes.size() >= most) return Error::make(Code::payload_too_large, "the head is too large");
    // What is wrong already will not get better: a bare LF would otherwise wait for its time-out.
    const std::size_t feed = bytes.find('\n');
    if (feed != std::string_view::npos && (feed == 0 || bytes[feed - 1] != '\r')) return malformed("a bare line feed");
    return std::optional<Lines>();
  }
  Lines lines;
  lines.bytes = end + 4;
  std::string_view rest = bytes.substr(0, end + 2);
  for (bool is_first = true; !rest.empty(); is_first = false) {
    const std::size_t stop = rest.find("\r\n");
    const std::string_view line = rest.substr(0, stop);
    rest.remove_prefix(stop + 2);
    if (line.find_first_of("\r\n") != std::string_view::npos) return malformed("a bare carriage return or line feed");
    if (is_first) {
      lines.first = line;
      continue;
    }
    if (line.starts_with(' ') || line.starts_with('\t')) return malformed("a folded header");
    if (lines.headers.size() == kMaxHeaders) return Error::make(Code::payload_too_large, "too many headers");
    TRY(Header header, parse_header(line));
    lines.headers.push_back(std::move(header));
  }
  return std::optional<Lines>(std::move(lines));
}

// The one header of this name; a second one is a fault.
Result<const Header*> only(const std::vector<Header>& headers, std::string_view name) {
  const Header* found = nullptr;
  for (const Header& header : headers) {
    if (!equals_ignoring_case(header.name, name)) continue;
    if (found != nullptr) return malformed("two headers " + std::string(name));
    found = &header;
  }
  return found;
}

Result<std::uint64_t> parse_length(std::string_view text) {
  std::uint64_t length = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), length);
  if (error != std::errc() || end != text.data() + text.size()) return malformed("Content-Length is no number");
  return length;
}

Result<Framing> framing_of(const std::vector<Header>& headers, bool is_http_1_0, Framing otherwise) {
  TRY(const Header* length, only(headers, "Content-Length"));
  TRY(const Header* coding, only(headers, "Transfer-Encoding"));
  if (length != nullptr && coding != nullptr) return malformed("both Content-Length and Transfer-Encoding");
  if (coding != nullptr) {
    if (is_http_1_0 || !equals_ignoring_case(coding->value, "chunked"))
      return malformed("an unknown Transfer-Encoding");
    return Framing{Framing::Kind::chunked, 0};
  }
  if (length == nullptr) return otherwise;
  TRY(const std::uint64_t bytes, parse_length(length->value));
  return Framing{bytes == 0 ? Framing::Kind::none : Framing::Kind::length, bytes};
}

std::vector<std::string_view> list_of(std::string_view value) {
  std::vector<std::string_view> items;
  while (!value.empty()) {
    const std::size_t comma = value.find(',');
    items.push_back(trimmed(value.substr(0, comma)));
    value = comma == std::string_view::npos ? std::string_view() : value.substr(comma + 1);
  }
  return items;
}

bool connection_says(const std::vector<Header>& headers, std::string_view word) {
  for (const Header& header : headers) {
    if (!equals_ignoring_case(header.name, "Connection") && !equals_ignoring_case(header.name, "Proxy-Connection")) {
      continue;
    }
    for (const std::string_view item : list_of(header.value)) {
      if (equals_ignoring_case(item, word)) return true;
    }
  }
  return false;
}

// Other upgrades are offers that a server may pass over; without this one there is no conversation.
bool wants_websocket(const std::vector<Header>& headers) {
  constexpr std::string_view kWebSocket = "websocket";
  return connection_says(headers, "Upgrade") && std::any_of(headers.begin(), headers.end(), [&](const Header& header) {
           if (!equals_ignoring_case(header.name, "Upgrade")) return false;
           const auto offers = list_of(header.value);
           return std::any_of(offers.begin(), offers.end(), [&](std::string_view offer) {
             return equals_ignoring_case(offer.substr(0, offer.find('/')), kWebSocket);
           });
         });
}

// What is between this hop's two ends only.
bool is_of_this_hop(const std::vector<Header>& headers, std::string_view name) {
  constexpr std::string_view kHop[] = {"Connection", "Proxy-Connection",   "Keep-Alive", "Proxy-Authorization",
                                       "Upgrade",    "Proxy-Authenticate", "TE"};
  for (const std::string_view hop : kHop) {
    if (equals_ignoring_case(name, hop)) return true;
  }
  // The framing must reach the other side, whatever Connection calls it.
  constexpr std::string_view kFraming[] = {"Content-Length", "Transfer-Encoding", "Host"};
  for (const std::string_view framing : kFraming) {
    if (equals_ignoring_case(name, framing)) return false;
  }
  return connection_says(headers, name);
}

struct Authority {
  std::string host;
  std::uint16_t port = 0;
};

Result<Authority> parse_authority(std::string_view text, std::uint16_t default_port) {
  if (text.find('@') != std::string_view::npos) return malformed("user information in the target");
  if (!is_ascii(text)) return malformed("a host that is not ASCII: write its xn-- form");
  const auto [host, port] = policy::split_port(text);
  if (host.empty()) return malformed("no host in the target");
  Authority authority{std::string(host), default_port};
  if (port) {
    const auto number = policy::parse_port(*port);
    if (!number) return malformed("a port that is none");
    authority.port = *number;
  }
  if (authority.port == 0) return malformed("no port in the target");
  return authority;
}

// "same" for every spelling that names one host; a name that cannot be read equals only itself.
bool is_same_host(std::string_view a, std::string_view b) {
  const auto left = policy::parse_host(a), right = policy::parse_host(b);
  if (left && right) return *left == *right;
  return !left && !right && a == b;
}

Status check_host_header(const RequestHead& request) {
  TRY(const Header* header, only(request.headers, "Host"));
  // Of CONNECT it goes nowhere, and node's own example sends the proxy's.
  if (header == nullptr || request.is_connect) return ok();
  TRY(const Authority named, parse_authority(header->value, kHttpPort));
  if (is_same_host(named.host, request.host) && named.port == request.port) return ok();
  return malformed("Host is not the target's");
}

Status parse_target(std::string_view target, RequestHead& request) {
  if (!is_visible(target) || target.empty()) return malformed("the target is malformed");
  if (request.is_connect) {
    TRY(Authority authority, parse_authority(target, 0));
    request.host = std::move(authority.host);
    request.port = authority.port;
    return ok();
  }
  constexpr std::string_view kScheme = "http://";
  if (target.starts_with('/') || target == "*") {
    return malformed("this is a proxy: the target must be an absolute URL (or the method CONNECT)");
  }
  if (!equals_ignoring_case(target.substr(0, kScheme.size()), kScheme)) {
    return malformed("only http:// can be asked for so; for https use CONNECT");
  }
  if (target.find_first_of("#\\") != std::string_view::npos) return malformed("the target is malformed");
  target.remove_prefix(kScheme.size());
  const std::size_t slash = target.find_first_of("/?");
  TRY(Authority authority, parse_authority(target.substr(0, slash), kHttpPort));
  request.host = std::move(authority.host);
  request.port = authority.port;
  const std::string_view path = slash == std::string_view::npos ? "/" : target.substr(slash);
  request.path = (path.starts_with('?') ? "/" : "") + in_ascii(path);
  return ok();
}

Result<bool> parse_version(std::string_view version) {
  if (version == "HTTP/1.1") return false;
  if (version == "HTTP/1.0") return true;
  return malformed("only HTTP/1.0 and HTTP/1.1 are spoken here");
}

void append(std::string& out, const Header& header) {
  out.append(header.name).append(": ").append(header.value).append("\r\n");
}

}  // namespace

bool equals_ignoring_case(std::string_view a, std::string_view b) {
  const auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; };
  return a.size() == b.size() &&
         std::equal(a.begin(), a.end(), b.begin(), [&](char x, char y) { return lower(x) == lower(y); });
}

Result<std::optional<RequestHead>> parse_request_head(std::string_view bytes) {
  TRY(auto lines, split_lines(bytes, kMaxHeadBytes));
  if (!lines) return std::optional<RequestHead>();
  const std::size_t first = lines->first.find(' ');
  const std::size_t second = first == std::string_view::npos ? first : lines->first.find(' ', first + 1);
  if (second == std::string_view::npos) return malformed("the request line is malformed");
  RequestHead request;
  request.method = lines->first.substr(0, first);
  if (!is_token(request.method)) return malformed("the method is malformed");
  request.is_connect = request.method == "CONNECT";
  TRY(request.is_http_1_0, parse_version(lines->first.substr(second + 1)));
  TRY(parse_target(lines->first.substr(first + 1, second - first - 1), request));
  request.headers = std::move(lines->headers);
  request.bytes = lines->bytes;
  TRY(check_host_header(request));
  TRY(request.framing, framing_of(request.headers, request.is_http_1_0, Framing{}));
  if (request.is_connect && request.framing.kind != Framing::Kind::none) return malformed("CONNECT with a body");
  request.wants_keep_alive = !connection_says(request.headers, "close") && !request.is_http_1_0;
  request.wants_websocket = wants_websocket(request.headers);
  return std::optional<RequestHead>(std::move(request));
}

Result<std::optional<ResponseHead>> parse_response_head(std::string_view bytes) {
  TRY(auto lines, split_lines(bytes, kMaxResponseHeadBytes));
  if (!lines) return std::optional<ResponseHead>();
  ResponseHead response;
  response.line = lines->first;
  const std::string_view line = lines->first;
  constexpr std::size_t kVersionBytes = 8;
  if (line.size() < kVersionBytes + 4 || line[kVersionBytes] != ' ') return malformed("the status line is malformed");
  TRY(response.is_http_1_0, parse_version(line.substr(0, kVersionBytes)));
  const std::string_view status = line.substr(kVersionBytes + 1, 3);
  const auto [end, error] = std::from_chars(status.data(), status.data() + 3, response.status);
  const bool is_last = line.size() == kVersionBytes + 4 || line[kVersionBytes + 4] == ' ';
  if (error != std::errc() || end != status.data() + 3 || response.status < 100 || !is_last) {
    return malformed("the status line is malformed");
  }
  response.headers = std::move(lines->headers);
  response.bytes = lines->bytes;
  TRY(response.framing, framing_of(response.headers, response.is_http_1_0, Framing{Framing::Kind::until_close, 0}));
  return std::optional<ResponseHead>(std::move(response));
}

std::string to_origin(const RequestHead& request) {
  std::string out = request.method + " " + request.path + (request.is_http_1_0 ? " HTTP/1.0\r\n" : " HTTP/1.1\r\n");
  out += "Host: " + request.host + (request.port == kHttpPort ? "" : ":" + std::to_string(request.port)) + "\r\n";
  for (const Header& header : request.headers) {
    if (!equals_ignoring_case(header.name, "Host") && !is_of_this_hop(request.headers, header.name))
      append(out, header);
  }
  return out + "Connection: close\r\n\r\n";
}

std::string to_client(const ResponseHead& response, bool keeps_alive) {
  std::string out = response.line + "\r\n";
  for (const Header& header : response.headers) {
    if (!is_of_this_hop(response.headers, header.name)) append(out, header);
  }
  return out + (keeps_alive ? "Connection: keep-alive\r\n\r\n" : "Connection: close\r\n\r\n");
}

}  // namespace sallyport::egress
