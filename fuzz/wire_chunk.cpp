// The chunk layer and the books of streams, driven by arbitrary commands and checked against a model
// that is too simple to be wrong.
#include <cstdlib>
#include <map>

#include "wire/frame.h"
#include "wire/streams.h"

namespace {

using namespace sallyport;
using wire::Streams;

void demand(bool holds) {
  if (!holds) std::abort();
}

constexpr std::uint32_t kCredit = 1000;

class Model {
 public:
  explicit Model(wire::Side side)
      : streams_(side, {kCredit, kCredit / 2}), own_parity_(side == wire::Side::connecting ? 1 : 0) {}

  void apply(std::uint8_t command, std::uint32_t stream, std::uint32_t amount) {
    switch (command % 7) {
      case 0:
        open();
        break;
      case 1:
        send(stream, amount);
        break;
      case 2:
        credit(stream, static_cast<std::int32_t>(amount));
        break;
      case 3:
        announce(stream);
        break;
      case 4:
        arrive(stream, amount % 3000);
        break;
      case 5:
        consume(stream, amount);
        break;
      default:
        close(stream);
        break;
    }
    demand(sending_.size() <= wire::kMaxOpenStreams && receiving_.size() <= wire::kMaxOpenStreams);
    for (const auto& [number, bytes] : sending_) demand(streams_.sendable(number) == bytes);
  }

 private:
  struct Inbound {
    std::uint64_t arrived = 0, used = 0, granted = kCredit;
  };

  void open() {
    const auto opened = streams_.open();
    demand(opened.has_value() == (sending_.size() < wire::kMaxOpenStreams));
    if (!opened) return;
    demand(*opened > last_own_ && *opened % 2 == own_parity_ % 2);
    last_own_ = *opened;
    sending_[*opened] = kCredit;
  }
  void send(std::uint32_t stream, std::uint32_t amount) {
    const std::uint32_t allowed = streams_.sendable(stream);
    demand((allowed > 0) <= streams_.is_sending(stream));
    if (allowed == 0) return;
    const std::uint32_t bytes = amount % (allowed + 1);
    streams_.sent(stream, bytes);
    sending_.at(stream) -= bytes;
  }
  void credit(std::uint32_t stream, std::int64_t bytes) {
    const bool was_opened = stream != 0 && stream % 2 == own_parity_ % 2 && stream <= last_own_;
    const Status credited = streams_.credit(stream, bytes);
    if (!was_opened) return demand(!credited);
    const auto found = sending_.find(stream);
    if (found == sending_.end()) return demand(bool(credited));
    const bool makes_sense = bytes >= 1 && std::int64_t{found->second} + bytes <= INT32_MAX;
    demand(bool(credited) == makes_sense);
    if (makes_sense) found->second += static_cast<std::uint32_t>(bytes);
  }
  void announce(std::uint32_t stream) {
    const bool is_theirs = stream != 0 && stream % 2 != own_parity_ % 2;
    const Status announced = streams_.announce(stream);
    demand(bool(announced) == (is_theirs && stream > last_announced_ && receiving_.size() < wire::kMaxOpenStreams));
    if (!announced) return;
    last_announced_ = stream;
    receiving_[stream] = {};
  }
  void arrive(std::uint32_t stream, std::uint32_t bytes) {
    const auto arrival = streams_.arrive(stream, bytes);
    const auto found = receiving_.find(stream);
    if (found == receiving_.end()) return demand(!arrival || *arrival == Streams::Arrival::ignored);
    Inbound& inbound = found->second;
    if (bytes == 0) {
      demand(arrival && *arrival == Streams::Arrival::end);
      receiving_.erase(found);
    } else if (inbound.arrived + bytes > inbound.granted) {
      demand(!arrival && arrival.error().code == Code::protocol_error);
    } else {
      demand(arrival && *arrival == Streams::Arrival::data);
      inbound.arrived += bytes;
    }
  }
  void consume(std::uint32_t stream, std::uint32_t amount) {
    const auto found = receiving_.find(stream);
    if (found == receiving_.end()) return demand(streams_.consumed(stream, amount) == 0);
    Inbound& inbound = found->second;
    const auto bytes = static_cast<std::uint32_t>(amount % (inbound.arrived - inbound.used + 1));
    inbound.used += bytes;
    inbound.granted += streams_.consumed(stream, bytes);
    // What is held and what may still come never exceed the credit of one stream.
    demand(inbound.granted - inbound.used <= kCredit);
  }
  void close(std::uint32_t stream) {
    streams_.close(stream);
    sending_.erase(stream);
    receiving_.erase(stream);
    demand(!streams_.is_sending(stream) && !streams_.is_receiving(stream));
  }

  Streams streams_;
  std::uint32_t own_parity_;
  std::uint32_t last_own_ = 0, last_announced_ = 0;
  std::map<std::uint32_t, std::uint32_t> sending_;
  std::map<std::uint32_t, Inbound> receiving_;
};

void check_chunk(ByteView body) {
  const auto chunk = wire::parse_chunk(body);
  if (!chunk) return;
  demand(chunk->stream != 0 && chunk->data.size() + wire::kChunkHeaderBytes == body.size());
  Bytes out;
  if (!wire::append_chunk(out, chunk->stream, chunk->data)) return demand(body.size() > wire::kMaxFrameBytes);
  demand(as_text(out.view().subspan(wire::kHeaderBytes)) == as_text(body));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  check_chunk({data, size});
  if (size > wire::kHeaderBytes) check_chunk({data + wire::kHeaderBytes, size - wire::kHeaderBytes});
  for (const wire::Side side : {wire::Side::connecting, wire::Side::accepting}) {
    Model model(side);
    for (std::size_t i = 0; i + 4 <= size && i < 4096; i += 4) {
      // Small numbers mostly, so that commands meet; a wide one now and then.
      const std::uint32_t stream = data[i + 1] == 0xff ? 0xffffff00U + data[i + 2] : data[i + 1] % 48U;
      const std::uint32_t amount = data[i + 2] == 0xff ? 0x7fffff00U + data[i + 3] : data[i + 2] * 16U + data[i + 3];
      model.apply(data[i], stream, amount);
    }
  }
  return 0;
}
