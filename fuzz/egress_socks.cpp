// SOCKS messages: never more bytes than came, and the same result byte by byte.
#include <cstdlib>

#include "egress/socks.h"

namespace {

using namespace sallyport;

void demand(bool holds) {
  if (!holds) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const ByteView bytes{data, size};
  const auto greeting = egress::parse_socks_greeting(bytes);
  if (greeting && *greeting) {
    demand((*greeting)->bytes <= size);
    for (std::size_t cut = 0; cut < (*greeting)->bytes; ++cut) {
      const auto part = egress::parse_socks_greeting(bytes.first(cut));
      demand(part && !*part);
    }
  }
  const auto request = egress::parse_socks_request(bytes);
  if (request && *request) {
    demand((*request)->bytes <= size);
    demand((*request)->fault != egress::SocksReply::granted || (!(*request)->host.empty() && (*request)->port != 0));
    if ((*request)->fault != egress::SocksReply::address_not_supported) {
      for (std::size_t cut = 0; cut < (*request)->bytes; ++cut) {
        const auto part = egress::parse_socks_request(bytes.first(cut));
        demand(part && !*part);
      }
    }
  }
  return 0;
}
