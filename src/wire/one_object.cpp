#include "wire/one_object.h"

#include <algorithm>

namespace sallyport::wire {

bool is_one_object(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\n";
  const auto skip_space = [&](std::size_t from) { return std::min(text.find_first_not_of(kSpace, from), text.size()); };
  std::size_t at = skip_space(0);
  if (at == text.size() || text[at] != '{') return false;
  std::size_t depth = 0;
  for (; at < text.size(); ++at) {
    const char c = text[at];
    if (c == '{' || c == '[') {
      ++depth;
    } else if (c == '}' || c == ']') {
      if (--depth == 0) return skip_space(at + 1) == text.size();
    } else if (c == '"') {
      // To the quote that no odd number of backslashes stands before.
      for (std::size_t escapes = 1; escapes % 2 != 0;) {
        at = text.find('"', at + 1);
        if (at == std::string_view::npos) return false;
        for (escapes = 0; text[at - escapes - 1] == '\\'; ++escapes) {
        }
      }
    }
  }
  return false;
}

}  // namespace sallyport::wire
