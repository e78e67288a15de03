// Answers what programs ask their terminal, for the time in which nobody's terminal is there to answer.
#pragma once

#include <cstdint>
#include <string>

#include "base/bytes.h"

namespace sallyport::pod {

// Finds device attribute and status queries in output, however it is cut, and appends the answers of a plain
// VT220. Where the cursor is, it cannot know: it says home, so that nobody waits forever.
class DeviceQueries {
 public:
  void feed(ByteView output, Bytes& answers);
  void reset() { sequence_.clear(); }

 private:
  std::string sequence_;  // ESC [ ... so far; empty outside
};

}  // namespace sallyport::pod
