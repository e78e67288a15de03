// Frames: [u32 big-endian length][body], 1 <= length <= kMaxFrameBytes. No I/O here: the caller moves
// the bytes, so that sockets, files, tests and fuzzers use the same reader.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>

#include "base/bytes.h"
#include "base/result.h"
#include "wire/limits.h"

namespace sallyport::wire {

inline std::uint32_t load_be32(const std::uint8_t* from) {
  return (std::uint32_t{from[0]} << 24) | (std::uint32_t{from[1]} << 16) | (std::uint32_t{from[2]} << 8) | from[3];
}
inline void store_be32(std::uint8_t* to, std::uint32_t value) {
  to[0] = static_cast<std::uint8_t>(value >> 24);
  to[1] = static_cast<std::uint8_t>(value >> 16);
  to[2] = static_cast<std::uint8_t>(value >> 8);
  to[3] = static_cast<std::uint8_t>(value);
}

// A body's first byte says what it is.
enum class FrameKind : std::uint8_t { message, chunk, handshake, unknown };
FrameKind frame_kind(ByteView body);

// Assembles frames from bytes as they arrive.
//
// Promises: a length of 0 or above the cap is refused before anything is allocated for it; memory
// grows with the bytes that came, not with the length that was claimed (at most one frame's worth
// once 64 KiB of it are here). Does not promise that a body is well formed.
class FrameReader {
 public:
  // Where the next bytes may be received; never empty. Invalidates every frame returned so far.
  std::span<std::uint8_t> writable();
  // Says that `count` bytes were received into writable().
  void commit(std::size_t count);
  // Copies; for callers that already hold the bytes.
  void feed(ByteView bytes);

  // The next complete frame's body, valid until writable() or feed(); nullopt when more bytes are
  // needed. A protocol error is final: the stream has lost its framing.
  Result<std::optional<ByteView>> next();

  // At end of input: fine between frames, an error that says how much was missing inside one.
  Status finish() const;

  bool is_between_frames() const { return begin_ == end_; }
  std::size_t buffered() const { return end_ - begin_; }
  std::size_t wanted() const;  // bytes of the frame that comes next, header included, as far as is known

  // Gives memory back that a waiting connection does not need: all of it between frames, all but
  // the bytes that came inside one.
  void trim();
  // Takes over a spare buffer's memory if it has none; the counterpart of surrender().
  void adopt(Bytes spare);
  // Hands its memory out if it holds no bytes.
  Bytes surrender();

 private:
  Bytes buffer_;
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
  bool is_bulk_ = false;  // the last read filled its room
};

// Builds one frame in place at the end of a buffer:
//
//   FrameBuilder frame(out);
//   ... append the body to out ...
//   TRY(frame.finish());        // patches the length; too large: the buffer is as it was before
class FrameBuilder {
 public:
  explicit FrameBuilder(Bytes& out) : out_(out), start_(out.size()) { out.extend(kHeaderBytes); }
  Status finish() {
    const std::size_t length = out_.size() - start_ - kHeaderBytes;
    if (length == 0 || length > kMaxFrameBytes) return refuse(length);
    store_be32(out_.data() + start_, static_cast<std::uint32_t>(length));
    return ok();
  }
  void abandon() { out_.resize(start_); }

 private:
  Status refuse(std::size_t length);

  Bytes& out_;
  std::size_t start_;
};

// Appends a whole frame. Refuses what a peer would refuse to read.
Status append_frame(Bytes& out, ByteView body);

struct Chunk {
  std::uint32_t stream = 0;
  ByteView data;  // empty: the stream ended well
};
Result<Chunk> parse_chunk(ByteView body);
Status append_chunk(Bytes& out, std::uint32_t stream, ByteView data);
// All of a chunk's frame but its data, for callers that send the data from where it is. At most
// kMaxChunkBytes.
using ChunkHead = std::array<std::uint8_t, kHeaderBytes + kChunkHeaderBytes>;
ChunkHead chunk_head(std::uint32_t stream, std::size_t data_bytes);

}  // namespace sallyport::wire
