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
#include "worker/stop.h"

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
  std::size_t size() const { return static_cast<std::size_t>(end - begin); }
};

// What searching costs a thread. RE2 looks at texts of bounded work, and at whether to stop in between.
struct Effort {
  const Stop& stop;
  bool is_stopped = false;  // it was to stop: that nothing was found says nothing
  // Texts too long for the pattern to be searched at once: they were in pieces that overlap by half. All that is found
  // matches, but a match that is longer than the overlap may be missed or cut.
  std::uint64_t long_texts = 0;
  std::size_t spent = 0;  // bytes since the last look
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
  // a line; [from, end) is followed by kScanPadding readable bytes. Lines end at '\n'; a '\r' before it is a character
  // of the line, and `$` stands before it as well as behind it. nullopt if there is none.
  std::optional<Span> find_line(const char* from, const char* end, Effort& effort) const;

  // The next match at or behind `from` and before `upto`, of a line or, for a multiline pattern, of a whole text.
  std::optional<Span> find(Span text, const char* from, const char* upto, Effort& effort) const;

  bool is_multiline() const { return is_multiline_; }
  // False means surely no match in [from, end).
  bool may_match(const char* from, const char* end) const;

 private:
  class UnicodeWord;

  Pattern();
  std::optional<Span> search(const re2::RE2& regex, Span text, const char* from, const char* upto,
                             Effort& effort) const;
  std::optional<Span> search_words(Span text, const char* from, const char* upto, Effort& effort) const;

  std::optional<LiteralScanner> scanner_;
  std::unique_ptr<re2::RE2> regex_;  // none where the literal is the whole pattern
  std::unique_ptr<UnicodeWord> word_;
  std::size_t least_piece_ = 0;  // holds a literal that is all of the pattern; 0 where matches may have any length
  bool is_multiline_ = false;
  bool goes_by_line_ = false;  // lines are looked at one by one: those with the literal, or all
};

}  // namespace sallyport::worker
