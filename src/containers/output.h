// An agent's structured output: JSON lines on its command's stdout, and nothing else.
//
//   {"type":"message","text":"..."}      {"type":"progress","text":"..."}
//
// A line has exactly these two members and at most kMaxOutputLine bytes. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "containers/log_ring.h"

namespace sallyport::containers {

inline constexpr std::size_t kMaxOutputLine = 64U << 10;  // without its newline

struct OutputLine {
  enum class Kind : std::uint8_t { message, progress };
  Kind kind = Kind::message;
  std::string text;
};

struct TakenOutput {
  std::vector<OutputLine> lines;
  std::uint64_t malformed = 0;   // lines of anything else; empty ones are not counted
  std::uint64_t lost_bytes = 0;  // that the ring no longer had
  std::uint64_t cursor = 0;      // where to go on
};

// What was written since `cursor`. A line that has not ended yet is left for later, unless nothing more comes.
TakenOutput take_output(const LogRing& ring, std::uint64_t cursor, bool is_over);

}  // namespace sallyport::containers
