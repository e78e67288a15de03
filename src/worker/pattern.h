// A compiled search pattern: a required literal sought with vectors, and RE2 behind it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "worker/scan.h"

namespace re2 {
class RE2;
}

namespace sallyport::worker {

struct PatternOptions {
  enum class Case : std::uint8_t { sensitive, insensitive, smart };  // smart: insensitive unless it has a capital
  bool is_fixed = false;
  bool is_word = false;  // no word character (Unicode's) on either side of a match
  bool is_multiline = false;
  Case letter_case = Case::sensitive;
};

struct Span {
  const char* begin;
  const char* end;
};

// Immutable after compile; one may be used by any number of threads.
class Pattern {
 public:
  // INVALID_PARAMS with RE2's reason for what it refuses (back-references, look-around, too large).
  static Result<Pattern> compile(std::string_view text, const PatternOptions& options);
  Pattern(Pattern&&) noexcept;
  Pattern& operator=(Pattern&&) noexcept;
  ~Pattern();

  // A line of [from, end) that matches, the first one: the place of its match. `from` is the start of
  // a line; [from, end) is followed by kScanPadding readable bytes. Lines end at '\n'; a '\r' before it
  // belongs to the line's end. nullopt if there is none.
  std::optional<Span> find_line(const char* from, const char* end) const;

  // The next match at or behind `from` within a line or, for a multiline pattern, within [begin, end).
  std::optional<Span> find(const char* begin, const char* from, const char* end) const;

  bool is_multiline() const { return is_multiline_; }
  // False means surely no match in [from, end).
  bool may_match(const char* from, const char* end) const;

 private:
  class UnicodeWord;

  Pattern();
  std::optional<Span> match_regex(const char* begin, const char* from, const char* end) const;

  std::optional<LiteralScanner> scanner_;
  std::unique_ptr<re2::RE2> regex_;  // none where the literal is the whole pattern
  std::unique_ptr<UnicodeWord> word_;
  bool is_multiline_ = false;
  bool has_line_end_ = false;  // '$' occurs: lines with '\r' must be looked at one by one
};

}  // namespace sallyport::worker
