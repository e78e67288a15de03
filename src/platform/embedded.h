// Stand-ins that need no model: deterministic, and labelled as none. The same in a worker and on the host.
#pragma once

#include <cstdint>
#include <functional>
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

// What `echo` says to a text: its words, at most as many as are wanted (0: all of them), each handed over as it comes;
// false ends it there.
struct Echo {
  std::string text, finish_reason = "stop";
  std::int64_t words = 0;
};
Echo echo(std::string_view text, std::int64_t most, const std::function<bool(std::string_view)>& on_word);

}  // namespace sallyport::platform
