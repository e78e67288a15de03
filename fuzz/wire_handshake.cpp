// Neither side of the handshake is ever convinced by bytes that were made without the token.
#include <algorithm>
#include <cstdlib>
#include <vector>

#include "wire/frame.h"
#include "wire/handshake.h"

namespace {

using namespace sallyport;

void demand(bool holds) {
  if (!holds) std::abort();
}

template <typename Array>
Array filled(std::uint8_t byte) {
  Array array;
  array.fill(byte);
  return array;
}

// The input as a sequence of bodies: as frames if it is some, else cut by its own bytes.
std::vector<Bytes> bodies_in(ByteView bytes) {
  std::vector<Bytes> bodies;
  wire::FrameReader reader;
  reader.feed(bytes);
  for (auto frame = reader.next(); frame && *frame; frame = reader.next()) bodies.emplace_back().append(**frame);
  while (!bytes.empty() && bodies.size() < 16) {
    constexpr std::size_t kSizes[] = {35, 67, 34, 2, 3, 0};
    const std::size_t size = std::min<std::size_t>(kSizes[bytes[0] % 6], bytes.size() - 1);
    bodies.emplace_back().append(bytes.subspan(1, size));
    bytes = bytes.subspan(1 + size);
  }
  return bodies;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const wire::Binding binding{"127.0.0.1:4000", "boot", 1, 2};
  // No input can know this token: it differs from the one that the vectors were made with.
  const auto token = filled<wire::Token>(0xa7);
  wire::HandshakeServer server(token, binding, filled<wire::Nonce>(0x5c));
  wire::HandshakeClient client(token, binding, filled<wire::Nonce>(0xc5));
  Bytes hello;
  client.start(hello);
  std::size_t challenges = 0;
  for (const Bytes& body : bodies_in({data, size})) {
    Bytes from_server, from_client;
    if (server.receive(body.view(), from_server)) ++challenges;
    demand(!server.is_done());
    demand(!client.receive(body.view(), from_client));
    demand(from_client.empty());
    demand(from_server.empty() || from_server.size() == wire::kHeaderBytes + 67);
  }
  demand(challenges <= 1);

  // Noise that an honest pair sees in between does not make it fail, and never helps.
  wire::HandshakeServer honest_server(token, binding, filled<wire::Nonce>(1));
  wire::HandshakeClient honest_client(token, binding, filled<wire::Nonce>(2));
  Bytes out, challenge, proof, last;
  honest_client.start(out);
  demand(bool(honest_server.receive(out.view().subspan(wire::kHeaderBytes), challenge)));
  demand(bool(honest_client.receive(challenge.view().subspan(wire::kHeaderBytes), proof)));
  Bytes altered;
  altered.append(proof.view().subspan(wire::kHeaderBytes));
  if (size >= 2 && data[0] < altered.size() && data[1] != 0) {
    altered.data()[data[0]] ^= data[1];
    demand(!honest_server.receive(altered.view(), last) && !honest_server.is_done());
  }
  demand(bool(honest_server.receive(proof.view().subspan(wire::kHeaderBytes), last)) && honest_server.is_done());
  return 0;
}
