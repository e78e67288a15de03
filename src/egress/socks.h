// SOCKS version 5 (RFC 1928), as far as it is served: no authentication, TCP connect. No I/O.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/base.h"

namespace sallyport::egress {

inline constexpr std::uint8_t kSocksVersion = 5;

enum class SocksReply : std::uint8_t {
  granted = 0,
  failed = 1,
  refused_by_rule = 2,
  network_unreachable = 3,
  host_unreachable = 4,
  connection_refused = 5,
  timed_out = 6,
  command_not_supported = 7,
  address_not_supported = 8,
};

struct SocksGreeting {
  bool offers_no_authentication = false;
  std::size_t bytes = 0;
};

struct SocksRequest {
  std::string host;  // as it was written, or the address as text
  std::uint16_t port = 0;
  SocksReply fault = SocksReply::granted;  // why it cannot be served
  std::size_t bytes = 0;
};

// nullopt: more bytes are needed. PROTOCOL_ERROR: this is no SOCKS 5.
Result<std::optional<SocksGreeting>> parse_socks_greeting(ByteView bytes);
Result<std::optional<SocksRequest>> parse_socks_request(ByteView bytes);

std::string socks_reply(SocksReply reply);

}  // namespace sallyport::egress
