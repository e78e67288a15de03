// Stand-ins that need no model: deterministic, and labelled as none. The same in a worker and on the host.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace sallyport::platform {

inline constexpr std::string_view kNoModel = "a deterministic stand-in, no model";
inline constexpr std::int64_t kHashDimensions = 256;

// Words and their beginnings, hashed into a vector of length 1: alike texts get alike vectors.
std::vector<float> hash_text(std::string_view text, std::size_t dimensions);

// The words of a text, each with the blanks in front of it: what `echo` streams one by one.
std::vector<std::string_view> split_words(std::string_view text);

}  // namespace sallyport::platform
