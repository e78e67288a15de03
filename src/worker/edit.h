// Replacing text in a file's bytes. Pure: no I/O, no decoding.
//
// Outside the replaced ranges every byte is the byte it was: line endings, byte-order marks, other
// encodings and a missing last newline survive because nothing here knows about them. One
// convenience does: text whose line feeds are not found is tried again with CRLF, in the match and
// in the replacement, since callers often cannot see which one a file uses.
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
//   NOT_FOUND  details {"reason":"not_found","edit":0,"nearest":[{"line":7,"text":"..."}]}
//   CONFLICT   details {"reason":"not_unique","edit":0,"count":3,"lines":[1,8,9]}
//   INVALID_PARAMS for an empty old text, or one equal to the new.
// Overlapping occurrences count as several: "aa" is not unique in "aaa".
Result<Edited> apply_edits(std::string_view content, std::span<const Edit> edits, const Stop& stop = Stop());

}  // namespace sallyport::worker
