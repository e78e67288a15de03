#include "policy/host.h"

#include <arpa/inet.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <utility>
#include <vector>

namespace sallyport::policy {
namespace {

constexpr std::size_t kMaxNameBytes = 253;
constexpr std::size_t kMaxLabelBytes = 63;

struct Range {
  std::array<std::uint8_t, 16> prefix;
  unsigned bits;
  std::string_view what;
};

// The first match counts.
constexpr Range kRangesV4[] = {
    {{0}, 8, "unspecified"},
    {{10}, 8, "private"},
    {{100, 64}, 10, "carrier-grade NAT"},
    {{127}, 8, "loopback"},
    {{169, 254}, 16, "link-local"},
    {{172, 16}, 12, "private"},
    {{192, 0, 0}, 24, "reserved"},
    {{192, 0, 2}, 24, "reserved"},
    {{192, 88, 99}, 24, "reserved"},
    {{192, 168}, 16, "private"},
    {{168, 63, 129, 16}, 32, "cloud metadata"},
    {{198, 18}, 15, "reserved"},
    {{198, 51, 100}, 24, "reserved"},
    {{203, 0, 113}, 24, "reserved"},
    {{224}, 4, "multicast"},
    {{240}, 4, "reserved"},
};
constexpr Range kRangesV6[] = {
    {{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}, 128, "loopback"},
    {{0}, 128, "unspecified"},
    {{0}, 8, "IPv4 inside IPv6"},  // mapped, compatible, NAT64: 64:ff9b:: begins with 00 too
    {{0x20, 0x01, 0x0d, 0xb8}, 32, "reserved"},
    {{0x20, 0x01, 0, 0}, 32, "IPv4 inside IPv6"},  // Teredo
    {{0x20, 0x01, 0}, 23, "reserved"},
    {{0x20, 0x02}, 16, "IPv4 inside IPv6"},  // 6to4
    {{0x3f, 0xff}, 20, "reserved"},
    {{0xfc}, 7, "private"},
    {{0xfe, 0x80}, 10, "link-local"},
    {{0xfe, 0xc0}, 10, "private"},
    {{0xff}, 8, "multicast"},
};

bool is_within(const Address& address, const Range& range) {
  const unsigned whole = range.bits / 8, rest = range.bits % 8;
  if (std::memcmp(address.bytes.data(), range.prefix.data(), whole) != 0) return false;
  if (rest == 0) return true;
  const auto mask = static_cast<std::uint8_t>(0xff << (8 - rest));
  return ((address.bytes.at(whole) ^ range.prefix.at(whole)) & mask) == 0;
}

Error fault(std::string what) { return Error::make(Code::invalid_params, std::move(what)); }

std::vector<std::string_view> split(std::string_view text) {
  std::vector<std::string_view> labels;
  for (;;) {
    const std::size_t dot = text.find('.');
    labels.push_back(text.substr(0, dot));
    if (dot == std::string_view::npos) return labels;
    text.remove_prefix(dot + 1);
  }
}

// A number as inet_aton reads it: 0x hexadecimal, 0 octal, else decimal.
std::optional<std::uint64_t> parse_number(std::string_view text) {
  int base = 10;
  if (text.starts_with("0x")) {
    base = 16;
    text.remove_prefix(2);
    if (text.empty()) return 0;
  } else if (text.size() > 1 && text[0] == '0') {
    base = 8;
  }
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// A name whose last label is a number is an address to every resolver that knows the old spellings.
bool looks_like_address(std::string_view last) {
  return std::all_of(last.begin(), last.end(), is_digit) ||
         (last.starts_with("0x") &&
          std::all_of(last.begin() + 2, last.end(), [](char c) { return is_digit(c) || (c >= 'a' && c <= 'f'); }));
}

std::optional<Address> parse_old_spelling(const std::vector<std::string_view>& parts) {
  if (parts.size() > 4) return std::nullopt;
  std::uint64_t all = 0;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const auto number = parts[i].empty() ? std::nullopt : parse_number(parts[i]);
    if (!number) return std::nullopt;
    const bool is_last = i + 1 == parts.size();
    // The last part fills all bytes that are left.
    const std::size_t bytes = is_last ? 4 - i : 1;
    if (*number >> (8 * bytes) != 0) return std::nullopt;
    all = (all << (8 * bytes)) | *number;
  }
  Address address;
  for (std::size_t i = 0; i < 4; ++i) address.bytes.at(i) = static_cast<std::uint8_t>(all >> (24 - 8 * i));
  return address;
}

}  // namespace

std::string Address::to_string() const {
  std::array<char, INET6_ADDRSTRLEN> text{};
  ::inet_ntop(is_v6 ? AF_INET6 : AF_INET, bytes.data(), text.data(), text.size());
  return text.data();
}

std::optional<Address> parse_address(std::string_view text) {
  const std::string terminated(text);
  if (terminated.size() != text.size() || text.find('\0') != std::string_view::npos) return std::nullopt;
  Address address;
  if (::inet_pton(AF_INET, terminated.c_str(), address.bytes.data()) == 1) return address;
  address.is_v6 = true;
  if (::inet_pton(AF_INET6, terminated.c_str(), address.bytes.data()) == 1) return address;
  return std::nullopt;
}

std::string_view special_range(const Address& address) {
  if (!address.is_v6) {
    for (const Range& range : kRangesV4) {
      if (is_within(address, range)) return range.what;
    }
    return {};
  }
  for (const Range& range : kRangesV6) {
    if (is_within(address, range)) return range.what;
  }
  const auto& b = address.bytes;
  if ((b[8] & 0xfd) == 0 && b[9] == 0 && b[10] == 0x5e && b[11] == 0xfe) return "IPv4 inside IPv6";  // ISATAP
  return (b[0] & 0xe0) == 0x20 ? std::string_view() : "reserved";
}

std::string Host::to_string() const {
  if (!address) return name;
  return address->is_v6 ? "[" + address->to_string() + "]" : address->to_string();
}

Result<Host> parse_host(std::string_view text) {
  if (text.empty()) return fault("is empty");
  if (text.size() > kMaxNameBytes + 2) return fault("is too long for a host's name");
  const bool is_bracketed = text.front() == '[';
  if (is_bracketed || text.find(':') != std::string_view::npos) {
    if (is_bracketed && text.back() != ']') return fault("has '[' without ']'");
    const auto address = parse_address(is_bracketed ? text.substr(1, text.size() - 2) : text);
    if (!address || !address->is_v6) return fault("is no IPv6 address");
    return Host{{}, address};
  }
  if (text.back() == '.') text.remove_suffix(1);
  std::string name(text);
  for (char& c : name) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    const bool is_plain = (c >= 'a' && c <= 'z') || is_digit(c) || c == '-' || c == '_' || c == '.';
    if (c == '@') return fault("has user information, which no host has");
    if (static_cast<unsigned char>(c) >= 0x80) return fault("is not ASCII; write its xn-- form");
    if (!is_plain) return fault("has a character that no host name has");
  }
  if (name.size() > kMaxNameBytes) return fault("is too long for a host's name");
  const auto labels = split(name);
  for (const std::string_view label : labels) {
    if (label.empty()) return fault("has an empty label");
    if (label.size() > kMaxLabelBytes) return fault("has a label of more than 63 bytes");
  }
  if (looks_like_address(labels.back())) {
    const auto address = parse_old_spelling(labels);
    if (!address) return fault("ends in a number but is no address");
    return Host{{}, address};
  }
  for (const std::string_view label : labels) {
    if (label.front() == '-' || label.back() == '-') return fault("has a label that begins or ends with '-'");
  }
  return Host{std::move(name), std::nullopt};
}

std::optional<std::uint16_t> parse_port(std::string_view text) {
  std::uint32_t port = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), port);
  const bool is_whole = error == std::errc() && end == text.data() + text.size() && text.size() <= 5;
  if (!is_whole || port < 1 || port > 65'535 || text.front() == '0') return std::nullopt;
  return static_cast<std::uint16_t>(port);
}

std::pair<std::string_view, std::optional<std::string_view>> split_port(std::string_view text) {
  const std::size_t bracket = text.starts_with('[') ? text.find(']') : 0;
  if (bracket == std::string_view::npos) return {text, std::nullopt};
  const std::size_t colon = text.find(':', bracket);
  if (colon == std::string_view::npos) return {text, std::nullopt};
  // An IPv6 address without brackets has no place for a port.
  if (bracket == 0 && text.find(':', colon + 1) != std::string_view::npos) return {text, std::nullopt};
  return {text.substr(0, colon), text.substr(colon + 1)};
}

}  // namespace sallyport::policy
