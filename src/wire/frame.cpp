#include "wire/frame.h"

#include <algorithm>

namespace sallyport::wire {
namespace {

// One read's worth: small enough to be shared by connections that take turns, large enough that
// many small frames come in one system call.
constexpr std::size_t kReadBytes = 64U << 10;
// After a read that filled its room: who sends in bulk is better served by fewer turns.
constexpr std::size_t kBulkReadBytes = 256U << 10;

constexpr std::uint8_t kChunkTag = 0x01;
constexpr std::uint8_t kHandshakeTag = 0x02;

}  // namespace

FrameKind frame_kind(ByteView body) {
  if (body.empty()) return FrameKind::unknown;
  if (body[0] == '{') return FrameKind::message;
  if (body[0] == kChunkTag) return FrameKind::chunk;
  if (body[0] == kHandshakeTag) return FrameKind::handshake;
  return FrameKind::unknown;
}

std::size_t FrameReader::wanted() const {
  if (buffered() < kHeaderBytes) return kHeaderBytes;
  // A length that next() is going to refuse must not be allocated for before it is asked.
  return kHeaderBytes + std::min<std::size_t>(load_be32(buffer_.data() + begin_), kMaxFrameBytes);
}

void FrameReader::commit(std::size_t count) {
  end_ += count;
  is_bulk_ = end_ == buffer_.capacity();
}

std::span<std::uint8_t> FrameReader::writable() {
  if (begin_ == end_) {
    begin_ = end_ = 0;
  } else if (begin_ > 0 && begin_ + wanted() > buffer_.capacity()) {
    std::memmove(buffer_.data(), buffer_.data() + begin_, buffered());
    end_ -= begin_;
    begin_ = 0;
  }
  const std::size_t least = std::exchange(is_bulk_, false) ? kBulkReadBytes : kReadBytes;
  if (end_ == buffer_.capacity() || buffer_.capacity() < least) {
    // Whole frames may be waiting here, more than the first one wants.
    const std::size_t missing = wanted() > buffered() ? wanted() - buffered() : 0;
    const std::size_t room = buffered() < kReadBytes ? least : std::max(missing, least);
    buffer_.resize(end_);
    buffer_.reserve(end_ + room);
  }
  return {buffer_.data() + end_, buffer_.capacity() - end_};
}

void FrameReader::feed(ByteView bytes) {
  while (!bytes.empty()) {
    const auto room = writable();
    const std::size_t count = std::min(room.size(), bytes.size());
    std::memcpy(room.data(), bytes.data(), count);
    commit(count);
    bytes = bytes.subspan(count);
  }
}

Result<std::optional<ByteView>> FrameReader::next() {
  if (buffered() < kHeaderBytes) return std::optional<ByteView>();
  const std::size_t length = load_be32(buffer_.data() + begin_);
  if (length == 0) return Error::make(Code::protocol_error, "frame of length 0");
  if (length > kMaxFrameBytes) {
    return Error::make(Code::payload_too_large,
                       "frame of " + std::to_string(length) + " bytes exceeds max " + std::to_string(kMaxFrameBytes));
  }
  if (buffered() < kHeaderBytes + length) return std::optional<ByteView>();
  const ByteView body{buffer_.data() + begin_ + kHeaderBytes, length};
  begin_ += kHeaderBytes + length;
  return std::optional<ByteView>(body);
}

Status FrameReader::finish() const {
  if (is_between_frames()) return ok();
  if (buffered() < kHeaderBytes) {
    return Error::make(Code::protocol_error,
                       "unexpected end after " + std::to_string(buffered()) + " of 4 length-prefix bytes");
  }
  return Error::make(Code::protocol_error, "unexpected end after " + std::to_string(buffered() - kHeaderBytes) +
                                               " of " + std::to_string(wanted() - kHeaderBytes) + " body bytes");
}

void FrameReader::trim() {
  if (is_between_frames()) {
    buffer_.release();
    begin_ = end_ = 0;
    return;
  }
  if (buffer_.capacity() <= 2 * std::max<std::size_t>(buffered(), 256)) return;
  Bytes exact;
  exact.append(buffer_.data() + begin_, buffered());
  end_ = exact.size();
  begin_ = 0;
  buffer_ = std::move(exact);
}

void FrameReader::adopt(Bytes spare) {
  if (buffer_.capacity() == 0) buffer_ = std::move(spare);
}

Bytes FrameReader::surrender() {
  if (!is_between_frames()) return {};
  begin_ = end_ = 0;
  return std::move(buffer_);
}

Status FrameBuilder::refuse(std::size_t length) {
  abandon();
  return Error::make(Code::payload_too_large, "outgoing frame of " + std::to_string(length) + " bytes exceeds max " +
                                                  std::to_string(kMaxFrameBytes));
}

Status append_frame(Bytes& out, ByteView body) {
  if (body.size() > kMaxFrameBytes) {
    return Error::make(Code::payload_too_large, "outgoing frame of " + std::to_string(body.size()) +
                                                    " bytes exceeds max " + std::to_string(kMaxFrameBytes));
  }
  FrameBuilder frame(out);
  out.append(body);
  return frame.finish();
}

Result<Chunk> parse_chunk(ByteView body) {
  if (body.size() < kChunkHeaderBytes || body[0] != kChunkTag) {
    return Error::make(Code::protocol_error, "chunk without a stream number");
  }
  const std::uint32_t stream = load_be32(body.data() + 1);
  if (stream == 0) return Error::make(Code::protocol_error, "chunk for stream 0");
  return Chunk{stream, body.subspan(kChunkHeaderBytes)};
}

ChunkHead chunk_head(std::uint32_t stream, std::size_t data_bytes) {
  ChunkHead head;
  store_be32(head.data(), static_cast<std::uint32_t>(kChunkHeaderBytes + data_bytes));
  head[kHeaderBytes] = kChunkTag;
  store_be32(head.data() + kHeaderBytes + 1, stream);
  return head;
}

Status append_chunk(Bytes& out, std::uint32_t stream, ByteView data) {
  if (data.size() > kMaxChunkBytes) {
    return Error::make(Code::payload_too_large, "chunk of " + std::to_string(data.size()) + " bytes exceeds max " +
                                                    std::to_string(kMaxChunkBytes));
  }
  const ChunkHead head = chunk_head(stream, data.size());
  out.reserve(out.size() + head.size() + data.size());
  out.append(ByteView(head));
  out.append(data);
  return ok();
}

}  // namespace sallyport::wire
