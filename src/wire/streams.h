// The book-keeping of streams on one connection: numbers, credit, ends. No I/O and no buffers.
//
// The connecting side numbers its streams odd, the accepting side even, each in rising order and never
// again. A stream carries bytes one way, from the side that numbered it. Its receiver grants credit;
// an empty chunk ends it well, `stream.reset` ends it badly.
#pragma once

#include <cstdint>
#include <map>

#include "base/result.h"
#include "wire/limits.h"

namespace sallyport::wire {

enum class Side : std::uint8_t { connecting, accepting };

class Streams {
 public:
  explicit Streams(Side side, StreamWindow window = {}, std::size_t most_open = kMaxOpenStreams)
      : next_own_(side == Side::connecting ? 1 : 2), window_(window), most_open_(most_open) {}

  // ---- streams we send on ----
  Result<std::uint32_t> open();                        // RATE_LIMITED beyond most_open
  std::uint32_t sendable(std::uint32_t stream) const;  // bytes of credit; 0 if it is not open
  void sent(std::uint32_t stream, std::uint32_t bytes);
  // The peer granted more. A stream already closed is ignored; nonsense is a protocol error.
  Status credit(std::uint32_t stream, std::int64_t bytes);
  bool is_sending(std::uint32_t stream) const { return sending_.contains(stream); }

  // ---- streams the peer sends on ----
  // A message named the stream. Refuses our own numbers and numbers already used, and too many (RATE_LIMITED: it counts
  // as one that was closed).
  Status announce(std::uint32_t stream);
  enum class Arrival : std::uint8_t { data, end, ignored };
  // A chunk came. `ignored`: for a stream that is closed already, as happens after a reset. A stream
  // nobody named is NOT_FOUND; more bytes than were granted is a protocol error and final.
  Result<Arrival> arrive(std::uint32_t stream, std::size_t bytes);
  // The bytes were used up. Returns what to grant now, 0 while too little was to be worth a message.
  std::uint32_t consumed(std::uint32_t stream, std::uint32_t bytes);
  bool is_receiving(std::uint32_t stream) const { return receiving_.contains(stream); }

  // Ends a stream of either side.
  void close(std::uint32_t stream);
  bool is_own(std::uint32_t stream) const { return stream % 2 == next_own_ % 2; }

 private:
  struct Inbound {
    std::uint32_t granted = 0;   // may still arrive
    std::uint32_t consumed = 0;  // used up since the last grant
  };

  std::uint32_t next_own_;
  StreamWindow window_;
  std::size_t most_open_;
  std::uint32_t last_announced_ = 0;
  std::map<std::uint32_t, std::uint32_t> sending_;  // stream -> credit
  std::map<std::uint32_t, Inbound> receiving_;
};

}  // namespace sallyport::wire
