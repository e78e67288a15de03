// A unified diff of two versions of a file.
#pragma once

#include <string>
#include <string_view>

namespace sallyport::worker {

struct Diff {
  std::string text;  // UTF-8; bytes that are none are shown as U+FFFD
  bool cut = false;  // longer than kMaxDiffBytes, or not made because the change is above kMaxDiffInput
};

// Three lines of context, `--- a/name` and `+++ b/name` headers, as patch(1) reads it. Minimal up
// to kMaxDiffEdits changed lines; beyond that one hunk replaces everything between the first and
// the last change.
Diff unified_diff(std::string_view name, std::string_view before, std::string_view after);

}  // namespace sallyport::worker
