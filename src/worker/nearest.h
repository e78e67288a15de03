// Which lines of a file are most like a text that is not in it.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace sallyport::worker {

struct NearLine {
  std::size_t number = 0;       // from 1: the first line at this place that differs
  std::size_t first = 0;        // where the place begins: the line that the first of several was compared with
  std::string text;             // of the line that differs, cut to kHitLineBytes
  std::string_view differs_in;  // "whitespace", "case", "case and whitespace", "line ends"; empty: in more
};
struct Nearest {
  std::vector<NearLine> lines;  // at most kMaxNearest, most alike first, none that have nothing in common
  bool is_cut = false;          // the file has more lines than kMaxLinesCompared, and those behind were not compared
};

// Blanks and the case of ASCII letters do not count. Places are found by the longest line of `wanted` and judged by all
// of its first kMaxWantedLines; of a line in the file the first kHitLineBytes count.
Nearest nearest_lines(std::string_view content, std::string_view wanted);

}  // namespace sallyport::worker
