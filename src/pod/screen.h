// What a pod remembers of its terminal's output, and how it shows it to those who come later.
//
// Feed bytes, get a repaint. Today it is a bounded ring of raw output, so a program that draws by differences
// is repainted by being asked to redraw; whatever models the screen will stand behind this same interface.
// Offsets count all output since the start and never go back.
#pragma once

#include <array>
#include <cstdint>
#include <memory>

#include "base/bytes.h"

namespace sallyport::pod {

class Screen {
 public:
  // Memory is touched only as output comes.
  explicit Screen(std::size_t capacity);

  void feed(ByteView bytes);
  std::uint64_t end() const { return end_; }
  std::uint64_t begin() const { return end_ - std::min<std::uint64_t>(end_, capacity_); }

  // Where to begin so that at most `most` bytes repaint the screen: behind a line's end, where there is one,
  // because a position inside an escape sequence or a character shows as garbage.
  std::uint64_t repaint_from(std::size_t most) const;
  // The bytes from an offset on, up to `most`, in at most two pieces. `from` lies between begin() and end().
  std::array<ByteView, 2> read(std::uint64_t from, std::size_t most) const;

 private:
  std::size_t capacity_;
  std::unique_ptr<std::uint8_t[]> ring_;
  std::uint64_t end_ = 0;
};

}  // namespace sallyport::pod
