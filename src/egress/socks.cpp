#include "egress/socks.h"

#include <algorithm>

#include "policy/host.h"

namespace sallyport::egress {
namespace {

constexpr std::uint8_t kConnect = 1;
constexpr std::uint8_t kIpv4 = 1, kDomain = 3, kIpv6 = 4;
constexpr std::size_t kRequestHead = 4;  // version, command, reserved, address type

Error malformed(std::string what) { return Error::make(Code::protocol_error, std::move(what)); }

std::string address_text(ByteView bytes) {
  policy::Address address;
  address.is_v6 = bytes.size() == 16;
  std::copy(bytes.begin(), bytes.end(), address.bytes.begin());
  return policy::Host{{}, address}.to_string();
}

}  // namespace

Result<std::optional<SocksGreeting>> parse_socks_greeting(ByteView bytes) {
  if (bytes.empty()) return std::optional<SocksGreeting>();
  if (bytes[0] != kSocksVersion) return malformed("no SOCKS 5");
  if (bytes.size() < 2 || bytes.size() < 2U + bytes[1]) return std::optional<SocksGreeting>();
  const ByteView methods = bytes.subspan(2, bytes[1]);
  return std::optional(
      SocksGreeting{std::find(methods.begin(), methods.end(), 0) != methods.end(), 2 + methods.size()});
}

Result<std::optional<SocksRequest>> parse_socks_request(ByteView bytes) {
  if (!bytes.empty() && bytes[0] != kSocksVersion) return malformed("no SOCKS 5");
  if (bytes.size() < kRequestHead + 1) return std::optional<SocksRequest>();
  if (bytes[2] != 0) return malformed("a reserved byte is set");
  const std::uint8_t type = bytes[3];
  const bool is_domain = type == kDomain;
  SocksRequest request;
  if (type != kIpv4 && type != kIpv6 && !is_domain) {
    // How long it would be nobody knows: the connection ends with the answer.
    request.fault = SocksReply::address_not_supported;
    request.bytes = bytes.size();
    return std::optional(std::move(request));
  }
  const std::size_t start = kRequestHead + (is_domain ? 1 : 0);
  const std::size_t length = is_domain ? bytes[kRequestHead] : type == kIpv4 ? 4 : 16;
  request.bytes = start + length + 2;
  if (bytes.size() < request.bytes) return std::optional<SocksRequest>();
  const ByteView address = bytes.subspan(start, length);
  request.host = is_domain ? std::string(as_text(address)) : address_text(address);
  request.port = static_cast<std::uint16_t>(bytes[start + length] << 8 | bytes[start + length + 1]);
  if (bytes[1] != kConnect) {
    request.fault = SocksReply::command_not_supported;
  } else if (request.host.empty() || request.port == 0) {
    request.fault = SocksReply::failed;
  }
  return std::optional(std::move(request));
}

std::string socks_reply(SocksReply reply) {
  // The bound address is nobody's business.
  return {static_cast<char>(kSocksVersion), static_cast<char>(reply), 0, static_cast<char>(kIpv4), 0, 0, 0, 0, 0, 0};
}

}  // namespace sallyport::egress
