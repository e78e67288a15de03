#include "platform/address.h"

#include <algorithm>
#include <charconv>

namespace sallyport::platform {

std::string Address::url() const {
  std::string text = scheme + "://" + (host.find(':') == std::string::npos ? host : "[" + host + "]");
  if (port != 0) text += ":" + std::to_string(port);
  return text + path;
}

namespace {

// Which whoever fetches it takes out, and then it is another path than the one that was looked at.
bool has_dots(std::string path) {
  for (std::size_t at = 0; (at = path.find("%2", at)) != std::string::npos;) {
    if (at + 2 < path.size() && (path[at + 2] == 'e' || path[at + 2] == 'E')) path.replace(at, 3, ".");
    ++at;
  }
  path += '/';
  return path.find("/./") != std::string::npos || path.find("/../") != std::string::npos;
}

}  // namespace

Result<Address> parse_address(std::string_view url) {
  const auto bad = [](const char* why) { return Error::make(Code::invalid_params, why); };
  Address address;
  const std::size_t scheme = url.find("://");
  if (scheme == std::string_view::npos) return bad("must be SCHEME://...");
  address.scheme = url.substr(0, scheme);
  std::string_view rest = url.substr(scheme + 3);
  if (rest.find_first_of("?#@\\ \t\r\n") != std::string_view::npos) {
    return bad("must have neither user info nor query, fragment or blanks");
  }
  const std::size_t slash = rest.find('/');
  std::string_view host = rest.substr(0, slash);
  address.path = slash == std::string_view::npos ? "" : rest.substr(slash);
  if (address.scheme == "unix") {
    if (!host.empty() || address.path.size() < 2) return bad("must be unix:///PATH");
    return address;
  }
  if (has_dots(address.path)) return bad("must have no . or .. in its path");
  const std::size_t bracket = host.rfind(']');
  const std::size_t colon = host.rfind(':');
  if (colon != std::string_view::npos && (bracket == std::string_view::npos || colon > bracket)) {
    const std::string_view digits = host.substr(colon + 1);
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), address.port);
    if (error != std::errc() || end != digits.data() + digits.size() || address.port == 0)
      return bad("has no valid port");
    host = host.substr(0, colon);
  }
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') host = host.substr(1, host.size() - 2);
  const bool is_host = !host.empty() && host.size() <= 253 && std::all_of(host.begin(), host.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '.' || c == '-' || c == ':';
  });
  if (!is_host) return bad("must name a host in lower case");
  address.host = host;
  return address;
}

}  // namespace sallyport::platform
