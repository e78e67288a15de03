#include "mcp/lines.h"

#include <algorithm>
#include <cstring>

namespace sallyport::mcp {
namespace {

constexpr std::size_t kReadBytes = 64U << 10;
// Of either end of a line that is too long: enough to find its id.
constexpr std::size_t kKeptBytes = 1U << 10;

ByteView trim(ByteView text) {
  while (!text.empty() && (text.back() == '\r' || text.back() == ' ' || text.back() == '\t')) {
    text = text.first(text.size() - 1);
  }
  return text;
}

}  // namespace

std::span<std::uint8_t> LineReader::writable() {
  if (from_ > 0) {
    std::memmove(buffer_.data(), buffer_.data() + from_, filled_ - from_);
    filled_ -= from_;
    scanned_ -= from_;
    from_ = 0;
  }
  if (filled_ == 0 && buffer_.capacity() > 4 * kReadBytes) buffer_.release();
  buffer_.resize(filled_ + kReadBytes);
  return {buffer_.data() + filled_, kReadBytes};
}

void LineReader::commit(std::size_t count) { filled_ += count; }

void LineReader::feed(ByteView bytes) {
  while (!bytes.empty()) {
    const auto room = writable();
    const std::size_t count = std::min(room.size(), bytes.size());
    std::memcpy(room.data(), bytes.data(), count);
    commit(count);
    bytes = bytes.subspan(count);
  }
}

void LineReader::skip(ByteView part) {
  const std::string_view text = as_text(part);
  if (!is_skipping_) head_ = text.substr(0, kKeptBytes), tail_.clear();
  is_skipping_ = true;
  tail_ += text.substr(text.size() - std::min(text.size(), kKeptBytes));
  tail_.erase(0, tail_.size() - std::min(tail_.size(), kKeptBytes));
}

std::optional<LineReader::Line> LineReader::next() {
  for (;;) {
    const void* end = filled_ > scanned_ ? std::memchr(buffer_.data() + scanned_, '\n', filled_ - scanned_) : nullptr;
    if (end == nullptr) {
      scanned_ = filled_;
      if (is_skipping_ || filled_ - from_ > most_) {
        skip({buffer_.data() + from_, filled_ - from_});
        from_ = scanned_ = filled_ = 0;
      }
      return std::nullopt;
    }
    const auto stop = static_cast<std::size_t>(static_cast<const std::uint8_t*>(end) - buffer_.data());
    const ByteView text = trim({buffer_.data() + from_, stop - from_});
    from_ = scanned_ = stop + 1;
    if (is_skipping_ || text.size() > most_) {
      skip(text);
      is_skipping_ = false;
      return Line{{}, true, head_, tail_};
    }
    if (!text.empty()) return Line{text, false, as_text(text), as_text(text)};
  }
}

}  // namespace sallyport::mcp
