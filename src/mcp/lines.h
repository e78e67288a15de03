// Messages are lines. Bytes in, lines out; no I/O.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/bytes.h"
#include "mcp/limits.h"

namespace sallyport::mcp {

class LineReader {
 public:
  explicit LineReader(std::size_t most = kMaxLineBytes) : most_(most) {}

  // Where the next bytes go, and how many came. Views of earlier lines end here.
  std::span<std::uint8_t> writable();
  void commit(std::size_t count);
  void feed(ByteView bytes);

  struct Line {
    ByteView text;                // without its end
    bool is_too_long = false;     // then the text is left out, because it was not kept,
    std::string_view head, tail;  // but for a little of both ends
  };
  // The next line that is not blank; nullopt when more bytes must come first.
  std::optional<Line> next();

 private:
  void skip(ByteView part);  // of a line that is too long

  std::size_t most_;
  Bytes buffer_;
  std::size_t filled_ = 0;   // bytes of the buffer that came from outside
  std::size_t from_ = 0;     // where the next line begins
  std::size_t scanned_ = 0;  // up to here there is no newline
  bool is_skipping_ = false;
  std::string head_, tail_;  // of the line that is skipped
};

}  // namespace sallyport::mcp
