// A unified diff of two versions of a file.
#pragma once

#include <string>
#include <string_view>

namespace sallyport::worker {

struct Diff {
  std::string text;      // UTF-8
  bool cut = false;      // longer than kMaxDiffBytes, or not made because the change is above kMaxDiffInput
  bool is_exact = true;  // false: bytes that are no UTF-8 are shown as U+FFFD, so it is to be read and not applied
};

// Three lines of context, `--- a/name` and `+++ b/name` headers, as patch(1) and git read them: a name with blanks is
// followed by a tab, one with control characters, quotes or backslashes is quoted as in C. Minimal up
// to kMaxDiffEdits changed lines; beyond that one hunk replaces everything between the first and
// the last change.
Diff unified_diff(std::string_view name, std::string_view before, std::string_view after);

}  // namespace sallyport::worker
