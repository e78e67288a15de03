#include "worker/letter_case.h"

#include <re2/re2.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <string>

#include "worker/text.h"

namespace sallyport::worker {
namespace {

constexpr bool is_ascii_capital(char c) { return c >= 'A' && c <= 'Z'; }

// The characters of an RE2 expression that stand for themselves. What RE2 will refuse is read somehow.
class Characters {
 public:
  explicit Characters(std::string_view regex) : left_(regex) {}

  std::string read() {
    bool is_in_set = false;
    while (!left_.empty()) {
      const char c = left_[0];
      if (c == '\\') {
        escape(is_in_set);
      } else if (is_in_set) {
        is_in_set = c != ']';
        if (left_.starts_with("[:"))
          skip(std::min(left_.find(":]"), left_.size()) + 2);
        else if (is_in_set)
          take(1);
        else
          skip(1);
      } else if (c == '[') {
        is_in_set = true;
        skip(left_.starts_with("[^") ? 2 : 1);
        if (left_.starts_with(']')) take(1);  // at its beginning a set's end is a member
      } else if (left_.starts_with("(?")) {
        // Flags, or a name.
        skip(std::min(left_.find_first_of(":)>"), left_.size()) + 1);
      } else if (c == '{' && repeat_length() > 0) {
        skip(repeat_length());
      } else if (std::string_view("()|*+?.^$").find(c) != std::string_view::npos) {
        skip(1);
      } else {
        take(1);
      }
    }
    return std::move(characters_);
  }

 private:
  void skip(std::size_t count) { left_.remove_prefix(std::min(count, left_.size())); }
  void take(std::size_t count) {
    characters_.append(left_.substr(0, count));
    skip(count);
  }

  // {2}, {2,} and {2,3}; anything else in braces stands for itself.
  std::size_t repeat_length() const {
    const std::size_t end = left_.find_first_not_of("0123456789,", 1);
    return end != std::string_view::npos && end > 1 && left_[end] == '}' ? end + 1 : 0;
  }

  void escape(bool is_in_set) {
    const char c = left_.size() > 1 ? left_[1] : '\\';
    if (c == 'Q' && !is_in_set) {
      skip(2);
      take(std::min(left_.find("\\E"), left_.size()));
      skip(2);
    } else if (c == 'p' || c == 'P') {
      skip(2);
      skip(left_.starts_with('{') ? std::min(left_.find('}'), left_.size()) + 1 : 1);
    } else if (c == 'x') {
      skip(2);
      const bool is_braced = left_.starts_with('{');
      skip(is_braced ? 1 : 0);
      number(16, is_braced ? 6 : 2);
      skip(is_braced ? 1 : 0);
    } else if (c >= '0' && c <= '7') {
      skip(1);
      number(8, 3);
    } else if (std::isalnum(static_cast<unsigned char>(c)) != 0) {
      if (std::string_view("afnrtv").find(c) != std::string_view::npos) characters_ += ' ';
      skip(2);
    } else {
      skip(1);
      take(1);
    }
  }

  void number(int base, std::size_t most_digits) {
    unsigned point = 0;
    const char* const end = left_.data() + std::min(most_digits, left_.size());
    skip(static_cast<std::size_t>(std::from_chars(left_.data(), end, point, base).ptr - left_.data()));
    append_utf8(characters_, point);
  }

  std::string_view left_;
  std::string characters_;
};

}  // namespace

bool is_without_capitals(std::string_view pattern, bool is_fixed) {
  const std::string characters = is_fixed ? std::string(pattern) : Characters(pattern).read();
  if (characters.empty() || std::any_of(characters.begin(), characters.end(), is_ascii_capital)) return false;
  const bool is_ascii =
      std::all_of(characters.begin(), characters.end(), [](char c) { return static_cast<unsigned char>(c) < 0x80; });
  // Lu, and the few capitals that Unicode does not call letters: Roman numerals, letters in circles and squares.
  return is_ascii || !re2::RE2::PartialMatch(characters,
                                             "[\\p{Lu}\\x{2160}-\\x{216f}\\x{24b6}-\\x{24cf}"
                                             "\\x{1f130}-\\x{1f149}\\x{1f150}-\\x{1f169}\\x{1f170}-\\x{1f189}]");
}

}  // namespace sallyport::worker
