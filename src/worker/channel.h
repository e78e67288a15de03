// One end of a worker's socket: frames in, frames out, streams between them. It blocks.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "base/bytes.h"
#include "base/result.h"
#include "base/spin.h"
#include "base/unique_fd.h"
#include "wire/wire.h"
#include "worker/service.h"
#include "worker/walk.h"

namespace sallyport::worker {

// Requests are handed out in the order they came. While one is worked on, look() takes in what arrives
// meanwhile: a cancel for it takes effect, other requests wait. Descriptors that a peer passes along are
// closed by the kernel, because no room is ever offered for them.
class Channel final : public StreamPort {
 public:
  // The worker is the accepting side: its streams have even numbers.
  explicit Channel(UniqueFd socket);

  // The next request; nullopt when the peer is done. An error is final: the framing is lost, the peer
  // kept sending nonsense, or it vanished inside a frame.
  Result<std::optional<wire::Message>> next_request();

  // Without waiting: takes in what has arrived; cancels `stop` if the request that was handed out last was
  // cancelled or the peer is gone.
  void look(Stop& stop);
  // Whether the request that was handed out last was cancelled, before or since.
  bool is_cancelled() const { return cancelled_.contains(current_); }

  // Writes out whole frames and empties the buffer. Streams that were announced in them are sent between the
  // requests that follow, as far as their readers let them: one that does not read holds up nobody.
  Status send(Bytes& frames) { return flush(frames); }
  // Sends what is left of all streams.
  Status drain();

  Result<std::uint32_t> send_file(UniqueFd file, std::uint64_t from, std::uint64_t to) override;
  Result<std::optional<std::string_view>> receive(std::uint32_t stream) override;
  Status send_progress(std::string_view params, Stop& stop) override;

  // A request is done: forgets the streams it named but did not read to their end, and keeps its memory
  // for the next one unless that is much.
  void finish(wire::Message request);

 private:
  struct Outgoing {
    std::uint32_t stream;
    UniqueFd file;
    std::uint64_t at;
    std::uint64_t end;
  };

  enum class Wait : std::uint8_t { no, yes };
  // Receives some bytes and takes in all frames in them. False: nothing there, or end of input.
  Result<bool> take_in(Wait wait);
  ssize_t receive_bytes(Wait wait);
  Status take_frame(ByteView body);
  Status take_chunk(ByteView body);
  Status take_event(const wire::Message& event);
  Status refuse(std::string_view id, const Error& error);
  Status reset(std::uint32_t stream, const Error& error);
  Status flush(Bytes& frames);
  Status flush() { return flush(out_); }
  enum class Pumped : std::uint8_t { nothing, some, all };
  Result<bool> pump_all();
  Result<Pumped> pump(Outgoing& outgoing);

  UniqueFd socket_;
  wire::FrameReader reader_;
  wire::Decoder decoder_;
  wire::Streams streams_{wire::Side::accepting};
  Bytes out_;  // our own frames: refusals, credit, chunks
  std::deque<wire::Message> waiting_;
  std::deque<Outgoing> outgoing_;
  std::map<std::uint32_t, std::deque<std::string>> arrived_;  // chunks of streams we receive; empty: the end
  std::string chunk_;                                         // what receive() handed out
  std::string current_;                                       // id of the request that was handed out last
  std::set<std::string, std::less<>> cancelled_;              // of the current request and of those that wait
  int malformed_ = 0;
  Spinner spinner_;
  bool is_at_end_ = false;
};

}  // namespace sallyport::worker
