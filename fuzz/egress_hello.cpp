// TLS greetings: what is decided about the whole is not decided otherwise about its beginning.
#include <cstdlib>

#include "egress/client_hello.h"
#include "egress/limits.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace sallyport;
  using Kind = egress::ClientHello::Kind;
  const auto demand = [](bool holds) {
    if (!holds) std::abort();
  };
  const ByteView bytes{data, size};
  const egress::ClientHello whole = egress::read_client_hello(bytes);
  demand((whole.kind == Kind::named) == !whole.name.empty());
  if (size >= egress::kMaxClientHelloBytes) demand(whole.kind != Kind::incomplete);
  for (std::size_t cut = 0; cut < size; cut += 1 + cut / 8) {
    const egress::ClientHello part = egress::read_client_hello(bytes.first(cut));
    if (part.kind != Kind::incomplete) demand(part.kind == whole.kind && part.name == whole.name);
  }
  return 0;
}
