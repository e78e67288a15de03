#include "worker/expression.h"

#include <algorithm>
#include <charconv>

namespace sallyport::worker {
namespace {

// Lazy, so that a match holds the '\r' only where it must.
constexpr std::string_view kLineEnd = "(?:\\r??$)";

class Reader {
 public:
  explicit Reader(std::string_view regex) : left_(regex) {}

  Expression read() {
    while (!left_.empty()) {
      const char c = left_[0];
      if (c == '\\') {
        escape(false);
      } else if (c == '[') {
        set();
      } else if (c == '$') {
        expression_.text += kLineEnd;
        left_.remove_prefix(1);
      } else if (left_.starts_with("(?")) {
        flags();
      } else {
        take(1);
      }
    }
    return std::move(expression_);
  }

 private:
  void take(std::size_t count, bool is_excluded = false) {
    const std::string_view taken = left_.substr(0, count);
    expression_.wants_newline |= !is_excluded && taken.find('\n') != std::string_view::npos;
    expression_.text += taken;
    left_.remove_prefix(taken.size());
  }

  void set() {
    const bool is_negated = left_.starts_with("[^");
    take(is_negated ? 2 : 1);
    if (left_.starts_with(']')) take(1);  // at its beginning a set's end is a member
    while (!left_.empty() && left_[0] != ']') {
      if (left_[0] == '\\')
        escape(is_negated);
      else
        take(left_.starts_with("[:") ? std::min(left_.find(":]"), left_.size() - 2) + 2 : 1, is_negated);
    }
    take(1);
  }

  void escape(bool is_excluded) {
    const char c = left_.size() > 1 ? left_[1] : '\\';
    if (c == 'Q') {
      take(std::min(left_.find("\\E"), left_.size() - 2) + 2, is_excluded);
      return;
    }
    expression_.has_text_anchor |= c == 'A' || c == 'z';
    const bool is_newline = c == 'n' || number(c) == '\n';
    expression_.wants_newline |= is_newline && !is_excluded;
    take(2, is_excluded);
  }

  // The character that \x0a, \x{a} or \012 stands for; -1 for other escapes.
  int number(char c) const {
    std::string_view digits = left_.substr(std::min<std::size_t>(2, left_.size()));
    int base = 16;
    if (c >= '0' && c <= '7') {
      digits = left_.substr(1, 3);
      base = 8;
    } else if (c != 'x') {
      return -1;
    } else if (digits.starts_with('{')) {
      digits = digits.substr(1, digits.find('}') - 1);
    } else {
      digits = digits.substr(0, 2);
    }
    int value = -1;
    std::from_chars(digits.data(), digits.data() + digits.size(), value, base);
    return value;
  }

  // (?flags), (?flags: or (?P<name>.
  void flags() {
    const std::size_t end = std::min(left_.find_first_of(":)>"), left_.size() - 1) + 1;
    const std::string_view all = left_.substr(0, end);
    const std::size_t minus = all.find('-');
    expression_.has_text_anchor |=
        minus != std::string_view::npos && all.find('m', minus) != std::string_view::npos && !all.ends_with('>');
    take(end);
  }

  std::string_view left_;
  Expression expression_;
};

}  // namespace

Expression read_expression(std::string_view regex) { return Reader(regex).read(); }

}  // namespace sallyport::worker
