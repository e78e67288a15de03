// UTF-8: what is valid, and a spelling for what is not.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace sallyport {

// The length of the valid sequence at the start of a text that is not empty, or 0.
std::size_t utf8_sequence(std::string_view text);
bool is_utf8(std::string_view text);
// Every byte that belongs to no valid sequence becomes U+FFFD.
std::string to_utf8_lossy(std::string_view text);

inline constexpr std::string_view kUtf8Replacement = "\xef\xbf\xbd";

}  // namespace sallyport
