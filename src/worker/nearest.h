// Which lines of a file are most like a text that is not in it.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace sallyport::worker {

struct NearLine {
  std::size_t number = 0;  // from 1
  std::string text;        // cut to kHitLineBytes
  bool differs_in_space = false;
};

// At most kMaxNearest lines, most alike first, none that have nothing in common. The longest line
// of `wanted` stands for all of it.
std::vector<NearLine> nearest_lines(std::string_view content, std::string_view wanted);

}  // namespace sallyport::worker
