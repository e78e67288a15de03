#include "worker/literal.h"

#include <cctype>
#include <optional>
#include <vector>

namespace sallyport::worker {
namespace {

// Reads an expression from left to right, gathering runs of literal bytes. A run ends at whatever
// may match something else; the longest finished run wins.
class Reader {
 public:
  Reader(std::string_view regex, bool ignore_case) : left_(regex), ignore_case_(ignore_case) {}

  RequiredLiteral read() {
    if (!sequence(0)) return {};
    end_run();
    const bool is_whole = is_only_literal_ && !best_.empty();
    return {best_, ignore_case_, is_whole};
  }

 private:
  // Everything up to a closing parenthesis or the end. False: nothing can be said.
  bool sequence(int depth) {
    if (depth > 50) return false;
    while (!left_.empty() && left_[0] != ')') {
      if (left_[0] == '|') return false;
      if (!item(depth)) return false;
    }
    return true;
  }

  bool item(int depth) {
    const char c = left_[0];
    if (c == '(') return group(depth);
    if (c == '[') {
      if (!skip_class()) return false;
      return other();
    }
    if (c == '.') {
      left_.remove_prefix(1);
      return other();
    }
    if (c == '^' || c == '$') {
      left_.remove_prefix(1);
      is_only_literal_ = false;
      return !is_repeat();  // ^* is legal and means nothing; too odd to follow
    }
    if (c == '*' || c == '+' || c == '?') return false;
    if (c == '\\') return escape();
    left_.remove_prefix(1);
    std::string bytes(1, c);
    // The whole character, so that a repeat after it takes all of its bytes.
    while (!left_.empty() && (static_cast<unsigned char>(left_[0]) & 0xc0) == 0x80) {
      bytes += left_[0];
      left_.remove_prefix(1);
    }
    return literal(bytes);
  }

  bool group(int depth) {
    left_.remove_prefix(1);
    is_only_literal_ = false;
    if (left_.starts_with("?P<")) {
      const std::size_t end = left_.find('>');
      if (end == std::string_view::npos) return false;
      left_.remove_prefix(end + 1);
    } else if (left_.starts_with("?:")) {
      left_.remove_prefix(2);
    } else if (left_.starts_with('?')) {
      return false;  // flags change what follows
    }
    // What is inside a group counts only if the group itself is not optional or alternative; both are
    // known at its end. So it is read twice: once to find its end.
    const std::string_view inside = left_;
    const std::optional<std::size_t> length = group_length();
    if (!length) return false;
    const std::string_view after = inside.substr(*length + 1);
    const bool has_alternatives = has_top_bar(inside.substr(0, *length));
    const bool is_repeated = is_repeat_sign(after);
    if (has_alternatives || is_repeated) {
      left_ = after;
      return other();
    }
    left_ = inside.substr(0, *length);
    if (!sequence(depth + 1) || !left_.empty()) return false;
    left_ = after;
    return true;
  }

  bool escape() {
    if (left_.size() < 2) return false;
    const char c = left_[1];
    if (c == 'b' || c == 'B' || c == 'A' || c == 'z') {
      left_.remove_prefix(2);
      is_only_literal_ = false;
      return !is_repeat();
    }
    if (c == 'd' || c == 'D' || c == 'w' || c == 'W' || c == 's' || c == 'S') {
      left_.remove_prefix(2);
      return other();
    }
    if (std::ispunct(static_cast<unsigned char>(c)) != 0) {
      left_.remove_prefix(2);
      return literal(std::string(1, c));
    }
    if (c == 't' || c == 'n' || c == 'r' || c == 'f' || c == 'v' || c == 'a') {
      // \n never matches inside a line; the others are rare enough to leave to the regex.
      left_.remove_prefix(2);
      return other();
    }
    return false;  // \Q \p \x \C and whatever comes
  }

  // Something that is no literal was passed; its repeat is passed too.
  bool other() {
    is_only_literal_ = false;
    end_run();
    return skip_repeat().has_value();
  }

  bool literal(const std::string& bytes) {
    const bool folds_beyond_ascii =
        ignore_case_ && (bytes.size() > 1 || bytes == "k" || bytes == "K" || bytes == "s" || bytes == "S");
    if (folds_beyond_ascii) {
      // Whole expressions must go on to be matched by the regex, which knows the foldings.
      is_only_literal_ = false;
      end_run();
      return skip_repeat().has_value();
    }
    if (!is_repeat()) {
      run_ += bytes;
      return true;
    }
    is_only_literal_ = false;
    const std::optional<bool> at_least_once = skip_repeat();
    if (!at_least_once) return false;
    if (*at_least_once) run_ += bytes;
    end_run();
    if (*at_least_once) run_ = bytes;  // x+ ends in an x: a new run may start with it
    return true;
  }

  static bool is_repeat_sign(std::string_view text) {
    return !text.empty() && (text[0] == '*' || text[0] == '+' || text[0] == '?' || text[0] == '{');
  }
  bool is_repeat() const { return is_repeat_sign(left_); }

  // Passes repeats; answers whether what they repeat must occur, nothing if that is unclear.
  std::optional<bool> skip_repeat() {
    bool at_least_once = true;
    while (is_repeat()) {
      const char c = left_[0];
      if (c == '{') {
        const std::size_t end = left_.find('}');
        const std::string_view count = left_.substr(1, end == std::string_view::npos ? 0 : end - 1);
        if (count.empty() || count.find_first_not_of("0123456789,") != std::string_view::npos || count[0] == ',')
          return std::nullopt;
        if (count[0] == '0') at_least_once = false;
        left_.remove_prefix(end + 1);
      } else {
        if (c != '+') at_least_once = false;
        left_.remove_prefix(1);
      }
    }
    return at_least_once;
  }

  // left_ is at '['.
  bool skip_class() {
    std::size_t i = 1;
    if (i < left_.size() && left_[i] == '^') ++i;
    if (i < left_.size() && left_[i] == ']') ++i;
    for (; i < left_.size() && left_[i] != ']'; ++i) {
      if (left_[i] == '\\')
        ++i;
      else if (left_.substr(i).starts_with("[:")) {
        i = left_.find(":]", i);
        if (i == std::string_view::npos) return false;
        ++i;
      }
    }
    if (i >= left_.size()) return false;
    left_.remove_prefix(i + 1);
    return true;
  }

  // The distance from left_ to the parenthesis that closes the group it is in.
  std::optional<std::size_t> group_length() {
    const std::string_view start = left_;
    int open = 1;
    while (!left_.empty()) {
      if (left_[0] == '[') {
        if (!skip_class()) return std::nullopt;
        continue;
      }
      if (left_[0] == '\\') {
        if (left_.size() < 2 || left_[1] == 'Q') return std::nullopt;
        left_.remove_prefix(2);
        continue;
      }
      if (left_[0] == '(') ++open;
      if (left_[0] == ')' && --open == 0) return start.size() - left_.size();
      left_.remove_prefix(1);
    }
    return std::nullopt;
  }

  bool has_top_bar(std::string_view inside) {
    // A bar anywhere, also nested or in a class, is reason enough to give the group up.
    return inside.find('|') != std::string_view::npos;
  }

  void end_run() {
    if (run_.size() > best_.size()) best_ = run_;
    run_.clear();
  }

  std::string_view left_;
  bool ignore_case_;
  std::string run_;
  std::string best_;
  bool is_only_literal_ = true;
};

}  // namespace

RequiredLiteral required_literal(std::string_view regex, bool ignore_case) { return Reader(regex, ignore_case).read(); }

}  // namespace sallyport::worker
