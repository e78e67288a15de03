#include "pod/screen.h"

#include <algorithm>
#include <cstring>

namespace sallyport::pod {

Screen::Screen(std::size_t capacity)
    : capacity_(capacity), ring_(std::make_unique_for_overwrite<std::uint8_t[]>(capacity)) {}

void Screen::feed(ByteView bytes) {
  end_ += bytes.size();
  if (bytes.size() > capacity_) bytes = bytes.last(capacity_);
  const auto at = static_cast<std::size_t>((end_ - bytes.size()) % capacity_);
  const std::size_t first = std::min(bytes.size(), capacity_ - at);
  if (first > 0) std::memcpy(ring_.get() + at, bytes.data(), first);
  if (first < bytes.size()) std::memcpy(ring_.get(), bytes.data() + first, bytes.size() - first);
}

std::array<ByteView, 2> Screen::read(std::uint64_t from, std::size_t most) const {
  const auto size = static_cast<std::size_t>(std::min<std::uint64_t>(end_ - from, most));
  const auto at = static_cast<std::size_t>(from % capacity_);
  const std::size_t first = std::min(size, capacity_ - at);
  return {ByteView{ring_.get() + at, first}, ByteView{ring_.get(), size - first}};
}

std::uint64_t Screen::repaint_from(std::size_t most) const {
  if (end_ <= most && begin() == 0) return 0;
  const std::uint64_t earliest = std::max(begin(), end_ - std::min<std::uint64_t>(end_, most));
  std::uint64_t at = earliest;
  for (const ByteView piece : read(earliest, most)) {
    const auto found = std::find(piece.begin(), piece.end(), '\n');
    if (found != piece.end()) return at + static_cast<std::uint64_t>(found - piece.begin()) + 1;
    at += piece.size();
  }
  return earliest;
}

}  // namespace sallyport::pod
