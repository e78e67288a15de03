// Paths with wildcards, as profiles write them.
#pragma once

#include <string_view>

namespace sallyport {

// Whether a relative path is what the pattern names, without regard to case. `*`, `?` and `[a-c]` stay within one part
// of the path and match a leading dot too; `**` as a part of its own is any number of parts. The time is bounded for
// one `**`; who takes patterns from outside allows no second.
bool matches_path(std::string_view pattern, std::string_view path);

}  // namespace sallyport
