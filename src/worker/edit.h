// Replacing text in a file's bytes. Pure: no I/O, no decoding.
//
// Outside the replaced ranges every byte is the byte it was: line endings, byte-order marks, other
// encodings and a missing last newline survive because nothing here knows about them. Two
// conveniences do, since callers often cannot see which line ends a file uses: text whose line feeds
// are not found is tried again with CRLF, in the match and in the replacement; and where the match is
// within one line, and every line of the file ends with CRLF, so do the lines of the replacement.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"
#include "worker/stop.h"

namespace sallyport::worker {

struct Edit {
  std::string old_text;
  std::string new_text;
  bool replace_all = false;
};

struct Edited {
  std::string content;
  std::size_t replacements = 0;
};

// Each edit works on what the one before it left; the first that fails fails all.
//   NOT_FOUND  details {"reason":"not_found","edit":0,"nearest":[{"line":7,"text":"..."}]}, and
//              "compared_lines" where not all of them were (see nearest.h)
//   CONFLICT   details {"reason":"not_unique","edit":0,"count":3,"lines":[1,8,9]}; the count is what
//              replace_all would replace; the lines are those of the first kMaxLineNumbers
//   INVALID_PARAMS for an empty old text, or one equal to the new.
//   PAYLOAD_TOO_LARGE for a result above kMaxEditBytes, before memory is spent on it.
// Occurrences that overlap are not unique either: "aa" in "aaa" has a count of 1, and "overlapping":true.
Result<Edited> apply_edits(std::string_view content, std::span<const Edit> edits, const Stop& stop = Stop());

}  // namespace sallyport::worker
