// Every limit of the wire, with its reason. A peer that breaks one is answered or disconnected before
// memory is spent on it.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

namespace sallyport::wire {

// One frame's body. Larger values travel as chunks of a stream.
inline constexpr std::size_t kMaxFrameBytes = 1U << 20;
inline constexpr std::size_t kHeaderBytes = 4;
// A list ends behind this much of it and says that there is more. Whatever its last item was, it still fits.
inline constexpr std::size_t kPageBytes = kMaxFrameBytes * 3 / 8;

// Deep enough for any real parameter; shallow enough that recursion over a document is safe.
inline constexpr std::size_t kMaxDepth = 32;
// Of what is kept, and told later inside of other messages, some levels further down: these must be readable too.
inline constexpr std::size_t kMaxKeptDepth = 24;

// Ids, methods and tokens are names, not payload: they are copied into logs and tables.
inline constexpr std::size_t kMaxIdBytes = 128;
inline constexpr std::size_t kMaxMethodBytes = 128;
inline constexpr std::size_t kMaxTokenBytes = 4096;
inline constexpr std::uint32_t kMaxDeadlineMs = 24U * 60 * 60 * 1000;

// A peer that keeps sending what we cannot read is broken or hostile; one slip is forgiven.
inline constexpr int kMaxMalformed = 8;

// Requests in flight on one connection, by count and by bytes; beyond either the socket is not read.
inline constexpr std::size_t kMaxInFlight = 256;
inline constexpr std::size_t kMaxInFlightBytes = 8U << 20;

// Unsent replies of one connection; beyond it the socket is not read until the peer reads again.
inline constexpr std::size_t kMaxUnsentBytes = 4U << 20;

// What a stream's sender may send before the receiver grants more, and how many may be open at once:
// their product bounds what one connection can make us hold.
inline constexpr std::uint32_t kInitialCredit = 1U << 20;
// The receiver grants again once it has used up `grant_after` bytes.
struct StreamWindow {
  std::uint32_t credit = kInitialCredit;
  std::uint32_t grant_after = kInitialCredit / 2;
};
// A terminal's: less on its way means that Ctrl-C is answered sooner, and frequent grants say how fast the
// reader really is.
inline constexpr StreamWindow kPodWindow{256U << 10, 32U << 10};
inline constexpr std::size_t kMaxOpenStreams = 16;
inline constexpr std::size_t kChunkHeaderBytes = 5;
inline constexpr std::size_t kMaxChunkBytes = kMaxFrameBytes - kChunkHeaderBytes;

// The loopback handshake, before which a TCP peer is nobody.
inline constexpr std::size_t kNonceBytes = 32;
inline constexpr std::size_t kMacBytes = 32;
inline constexpr std::size_t kTokenBytes = 32;
inline constexpr std::uint8_t kHandshakeVersion = 1;
inline constexpr std::chrono::milliseconds kHandshakeTimeout{5000};
inline constexpr std::size_t kMaxHandshakesWaiting = 8;

}  // namespace sallyport::wire
