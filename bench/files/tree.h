// The tree that searches are measured on: made once, the same on every machine.
#pragma once

#include <string>

namespace sallyport::bench {

struct TreeFacts {
  std::size_t files = 0;
  std::size_t bytes = 0;
};

// Words that occur on known lines of it.
inline constexpr const char* kRareWord = "quixotic_sentinel";  // in one file of 200
inline constexpr const char* kCommonWord = "buffer";           // in nearly all

// At least `files` files below `root`: source-like text of a few kilobytes, some large, some binary, a fifth
// of it named by .gitignore files. Kept if it is there already.
TreeFacts make_tree(const std::string& root, std::size_t files);

}  // namespace sallyport::bench
