// The name or address of a host, in the one spelling that rules are compared with. No I/O.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace sallyport::policy {

struct Address {
  bool is_v6 = false;
  std::array<std::uint8_t, 16> bytes{};  // the first four for IPv4

  bool operator==(const Address&) const = default;
  std::string to_string() const;  // without brackets
};

// Four decimal numbers, or IPv6 text without a zone; nothing else.
std::optional<Address> parse_address(std::string_view text);

// Why an address is no ordinary public host: "loopback", "private", "link-local", "cloud metadata", "IPv4 inside
// IPv6", ... Empty for a public one.
std::string_view special_range(const Address& address);

struct Host {
  std::string name;                // lower case, no trailing dot; empty for an address
  std::optional<Address> address;  // however it was spelled

  bool operator==(const Host&) const = default;
  std::string to_string() const;  // IPv6 in brackets, as in URLs
};

// Every spelling that some resolver would take for an address becomes one: 127.1, 0x7f.0.0.1, 017700000001,
// 2130706433. One trailing dot is dropped. Refused: user info, ports, zones, empty or long labels, and every
// character but letters, digits, '-' and '_'. Names that are not ASCII are refused here; see egress/idn.h.
Result<Host> parse_host(std::string_view text);

// "host:port" or "[v6]:port"; the port is decimal, 1 to 65535.
struct HostPort {
  Host host;
  std::uint16_t port = 0;
};
std::optional<std::uint16_t> parse_port(std::string_view text);
// Where "host" ends and "port" begins, brackets honoured; no port: the second part is empty.
std::pair<std::string_view, std::optional<std::string_view>> split_port(std::string_view text);

}  // namespace sallyport::policy
