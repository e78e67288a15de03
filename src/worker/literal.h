// Which literal every match of a regular expression must contain.
#pragma once

#include <string>
#include <string_view>

namespace sallyport::worker {

struct RequiredLiteral {
  std::string text;          // empty: none was found
  bool ignore_case = false;  // ASCII letters of the text match in both cases
  bool is_whole = false;     // the expression is this literal and nothing else
};

// Conservative: an expression it does not understand gets no literal, never a wrong one. Sound for
// RE2's syntax. With ignore_case, letters that Unicode folds to others (k, s) end a run.
// Alternatives at the top level have none: that is the seam for an engine that seeks several literals
// at once, which would take a set of these.
RequiredLiteral required_literal(std::string_view regex, bool ignore_case);

}  // namespace sallyport::worker
