// What `case: smart` makes of a pattern.
#pragma once

#include <string_view>

namespace sallyport::worker {

// Whether a pattern has letters to compare and none of them is a capital, Unicode's capitals included. Only what
// stands for itself counts, also in a set and as \x41: the S of \S or of \p{Sc}, and a group's name, do not.
bool is_without_capitals(std::string_view pattern, bool is_fixed);

}  // namespace sallyport::worker
