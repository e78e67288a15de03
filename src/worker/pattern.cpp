#include "worker/pattern.h"

#include <re2/re2.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <mutex>

#include "worker/expression.h"
#include "worker/letter_case.h"
#include "worker/limits.h"
#include "worker/literal.h"
#include "worker/text.h"

namespace sallyport::worker {
namespace {

const char* line_start(const char* least, const char* at) {
  const void* newline = ::memrchr(least, '\n', static_cast<std::size_t>(at - least));
  return newline == nullptr ? least : static_cast<const char*>(newline) + 1;
}

const char* line_end(const char* at, const char* end) {
  const void* newline = std::memchr(at, '\n', static_cast<std::size_t>(end - at));
  return newline == nullptr ? end : static_cast<const char*>(newline);
}

// How much of a text RE2 is given at once.
std::size_t piece_bytes(const re2::RE2& regex) {
  return std::max(kRegexWork / static_cast<std::size_t>(std::max(regex.ProgramSize(), 1)), kMinRegexPiece);
}

// Whole lines that can be searched at once, or one line.
const char* piece_end(const char* from, const char* end, std::size_t bytes) {
  if (static_cast<std::size_t>(end - from) <= bytes) return end;
  const char* const last = line_start(from, from + bytes);
  return last != from ? last : std::min(line_end(from, end) + 1, end);
}

std::optional<Span> match(const re2::RE2& regex, int group, Span text, const char* from, const char* upto) {
  const re2::StringPiece whole(text.begin, text.size());
  std::array<re2::StringPiece, 2> found;
  // What is before `from` and behind `upto` is seen by ^, $ and \b.
  if (!regex.Match(whole, static_cast<std::size_t>(from - text.begin), static_cast<std::size_t>(upto - text.begin),
                   re2::RE2::UNANCHORED, found.data(), group + 1)) {
    return std::nullopt;
  }
  const re2::StringPiece& part = found[static_cast<std::size_t>(group)];
  return Span{part.data(), part.data() + part.size()};
}

// An expression with nothing but line ends or characters of this set beside it; group 1 is itself.
std::string as_word(std::string_view regex, std::string_view others) {
  std::string text = "(?m:(?:^|";
  text.append(others).append(")(").append(regex).append(")(?:$|").append(others).append("))");
  return text;
}

// All that is no word character, for ASCII: everything beyond it counts as none.
constexpr std::string_view kOthers = "[^0-9A-Za-z_]";
// The same as Unicode has it: no letter, mark, digit, connector or joiner.
constexpr std::string_view kUnicodeOthers =
    "[^\\p{L}\\p{M}\\p{Nd}\\p{Nl}\\p{Pc}\\x{200c}\\x{200d}\\x{24b6}-\\x{24e9}"
    "\\x{1f130}-\\x{1f149}\\x{1f150}-\\x{1f169}\\x{1f170}-\\x{1f189}]";

bool is_ascii(char c) { return static_cast<unsigned char>(c) < 0x80; }

// What RE2 says, and what to know about it.
Error refusal(const re2::RE2& regex, std::string_view text) {
  const std::string& part = regex.error_arg();
  const auto has = [&](std::string_view sign) { return text.find(sign) != std::string_view::npos; };
  std::string_view hint;
  switch (regex.error_code()) {
    case re2::RE2::ErrorBadEscape:
      if (part.size() == 2 && ((part[1] >= '1' && part[1] <= '9') || part[1] == 'k' || part[1] == 'g'))
        hint = " (there are no back-references)";
      break;
    case re2::RE2::ErrorBadPerlOp:
      if (part == "(?=" || part == "(?!" || (part == "(?<" && (has("(?<=") || has("(?<!"))))
        hint = " (there is no look-around)";
      else if (part == "(?<")
        hint = " (a named group is (?P<name>...))";
      else if (part == "(?P" && has("(?P="))
        hint = " (there are no back-references)";
      break;
    case re2::RE2::ErrorRepeatSize:
      hint = " (at most 1000 times, nested repeats multiplied)";
      break;
    default:
      break;
  }
  return Error::invalid_param("params.pattern", "RE2 refuses it: " + regex.error() + std::string(hint));
}

}  // namespace

// Which characters beyond ASCII are letters takes RE2 milliseconds to learn; few searches need to know.
class Pattern::UnicodeWord {
 public:
  UnicodeWord(std::string regex, const re2::RE2::Options& settings) : text_(std::move(regex)), settings_(settings) {
    settings_.set_max_mem(2 * kMaxRegexBytes);  // never refused where the ASCII form was not
  }
  const re2::RE2& regex() {
    std::call_once(is_compiled_, [this] { regex_ = std::make_unique<re2::RE2>(text_, settings_); });
    return *regex_;
  }

 private:
  std::string text_;
  re2::RE2::Options settings_;
  std::once_flag is_compiled_;
  std::unique_ptr<re2::RE2> regex_;
};

Pattern::Pattern() = default;
Pattern::Pattern(Pattern&&) noexcept = default;
Pattern& Pattern::operator=(Pattern&&) noexcept = default;
Pattern::~Pattern() = default;

Result<Pattern> Pattern::compile(std::string_view text, const PatternOptions& options) {
  if (text.empty()) return Error::invalid_param("params.pattern", "must not be empty");
  if (text.size() > kMaxPatternBytes) return Error::invalid_param("params.pattern", "is too long");
  Expression expression;
  if (options.is_fixed) {
    expression.text = re2::RE2::QuoteMeta(re2::StringPiece(text.data(), text.size()));
    expression.wants_newline = text.find('\n') != std::string_view::npos;
  } else {
    expression = read_expression(text);
  }
  // A newline can never be found within a line: better refused than answered with no hits.
  if (!options.is_multiline && expression.wants_newline) {
    return Error::invalid_param("params.pattern", "contains a newline; set multiline to search across lines");
  }
  const bool ignore_case =
      options.letter_case == PatternOptions::Case::insensitive ||
      (options.letter_case == PatternOptions::Case::smart && is_without_capitals(text, options.is_fixed));
  Pattern pattern;
  pattern.is_multiline_ = options.is_multiline;
  const std::string own = options.is_fixed ? expression.text : std::string(text);
  RequiredLiteral literal;
  if (options.is_fixed && !ignore_case)
    literal = {std::string(text), false, true};
  else
    literal = required_literal(own, ignore_case);
  // A single byte is on most lines: RE2 alone is faster than asking it line by line.
  const bool is_worth_it = literal.is_whole || literal.text.size() > 1;
  if (is_worth_it && !literal.text.empty()) pattern.scanner_.emplace(literal.text, literal.ignore_case);
  pattern.goes_by_line_ = pattern.scanner_.has_value() || expression.has_text_anchor;
  if (literal.is_whole) pattern.least_piece_ = 4 * text.size();
  if (literal.is_whole && !options.is_word && !options.is_multiline) return pattern;

  re2::RE2::Options settings;
  settings.set_log_errors(false);
  settings.set_case_sensitive(!ignore_case);
  settings.set_max_mem(kMaxRegexBytes);
  settings.set_never_nl(!options.is_multiline);
  // Bytes that are no UTF-8 would make RE2 refuse a pattern; file contents may be anything.
  if (!is_utf8(text)) settings.set_encoding(re2::RE2::Options::EncodingLatin1);
  const std::string wrapped = options.is_word ? as_word(expression.text, kOthers) : "(?m:" + expression.text + ")";
  pattern.regex_ = std::make_unique<re2::RE2>(wrapped, settings);
  if (pattern.regex_->error_code() == re2::RE2::ErrorPatternTooLarge) return refusal(*pattern.regex_, text);
  if (!pattern.regex_->ok()) {
    // Asked for on its own, so that the place in the reason is the caller's.
    const re2::RE2 alone(own, settings);
    return refusal(alone.ok() ? *pattern.regex_ : alone, text);
  }
  if (pattern.regex_->ProgramSize() > kMaxRegexProgram) {
    return Error::invalid_param("params.pattern", "is too large: RE2 needs " +
                                                      std::to_string(pattern.regex_->ProgramSize()) + " of at most " +
                                                      std::to_string(kMaxRegexProgram) +
                                                      " instructions for it (repeats multiply what they repeat)");
  }
  if (options.is_word)
    pattern.word_ = std::make_unique<UnicodeWord>(as_word(expression.text, kUnicodeOthers), settings);
  return pattern;
}

bool Pattern::may_match(const char* from, const char* end) const {
  return !scanner_ || scanner_->find(from, end) != nullptr;
}

std::optional<Span> Pattern::search(const re2::RE2& regex, Span text, const char* from, const char* upto,
                                    Effort& effort) const {
  // A word's match begins a character before the word.
  constexpr std::size_t kLookBehind = 8;
  const std::size_t piece = std::max(piece_bytes(regex), least_piece_);
  const auto is_long = [&] { return static_cast<std::size_t>(upto - from) > piece; };
  if (is_long() && least_piece_ == 0) ++effort.long_texts;
  while (true) {
    const char* const end = is_long() ? from + piece : upto;
    effort.spent += static_cast<std::size_t>(end - from) + kRegexCallBytes;
    if (effort.spent > piece) {
      effort.spent = 0;
      effort.is_stopped = effort.is_stopped || effort.stop.is_over();
    }
    if (effort.is_stopped) return std::nullopt;
    const auto found = match(regex, word_ ? 1 : 0, text, from, end);
    // What begins in the second half may go on behind the piece: the next one has more of it.
    if (end == upto || (found && found->begin < from + piece / 2)) return found;
    from += piece / 2 - kLookBehind;
  }
}

std::optional<Span> Pattern::search_words(Span text, const char* from, const char* upto, Effort& effort) const {
  const auto found = search(*regex_, text, from, upto, effort);
  // All that Unicode's form matches the ASCII form matches too, and both prefer the same match: where only ASCII
  // stands beside it, they agree.
  const bool is_certain = !found || ((found->begin == text.begin || is_ascii(found->begin[-1])) &&
                                     (found->end == text.end || is_ascii(*found->end)));
  return is_certain ? found : search(word_->regex(), text, from, upto, effort);
}

std::optional<Span> Pattern::find(Span text, const char* from, const char* upto, Effort& effort) const {
  if (word_) return search_words(text, from, upto, effort);
  if (regex_) return search(*regex_, text, from, upto, effort);
  const char* const place = scanner_->find(from, upto);
  if (place == nullptr) return std::nullopt;
  return Span{place, place + scanner_->literal().size()};
}

std::optional<Span> Pattern::find_line(const char* from, const char* end, Effort& effort) const {
  if (!regex_) return find({from, end}, from, end, effort);
  while (from < end) {
    const char* start = from;
    if (scanner_) {
      const char* const place = scanner_->find(from, end);
      if (place == nullptr) return std::nullopt;
      start = line_start(from, place);
    }
    const char* const upto = goes_by_line_ ? line_end(start, end) : piece_end(start, end, piece_bytes(*regex_));
    const auto found = find({start, upto}, start, upto, effort);
    if (effort.is_stopped) return std::nullopt;
    // An empty match behind the last newline of a piece is on none of its lines.
    if (found && (goes_by_line_ || found->begin < upto || upto[-1] != '\n')) return found;
    from = goes_by_line_ ? upto + 1 : upto;
  }
  return std::nullopt;
}

}  // namespace sallyport::worker
