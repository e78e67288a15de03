#include "worker/pattern.h"

#include <re2/re2.h>

#include <algorithm>
#include <cstring>

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

// Without the '\r' of a CRLF.
const char* text_end(const char* start, const char* newline) {
  return newline > start && newline[-1] == '\r' ? newline - 1 : newline;
}

// A newline that can never be found within a line: better refused than answered with no hits.
bool wants_newline(std::string_view text, bool is_fixed) {
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\n') return true;
    if (text[i] != '\\' || is_fixed) continue;
    ++i;
    if (i < text.size() && text[i] == 'n') return true;
  }
  return false;
}

std::optional<Span> match(const re2::RE2& regex, const char* begin, const char* from, const char* end) {
  const re2::StringPiece text(begin, static_cast<std::size_t>(end - begin));
  re2::StringPiece found;
  if (!regex.Match(text, static_cast<std::size_t>(from - begin), text.size(), re2::RE2::UNANCHORED, &found, 1))
    return std::nullopt;
  return Span{found.data(), found.data() + found.size()};
}

}  // namespace

Pattern::Pattern() = default;
Pattern::Pattern(Pattern&&) noexcept = default;
Pattern& Pattern::operator=(Pattern&&) noexcept = default;
Pattern::~Pattern() = default;

Result<Pattern> Pattern::compile(std::string_view text, const PatternOptions& options) {
  if (text.empty()) return Error::invalid_param("params.pattern", "must not be empty");
  if (text.size() > kMaxPatternBytes) return Error::invalid_param("params.pattern", "is too long");
  if (!options.is_multiline && wants_newline(text, options.is_fixed)) {
    return Error::invalid_param("params.pattern", "contains a newline; set multiline to search across lines");
  }
  const bool has_capital = std::any_of(text.begin(), text.end(), [](char c) { return c >= 'A' && c <= 'Z'; });
  const bool ignore_case = options.letter_case == PatternOptions::Case::insensitive ||
                           (options.letter_case == PatternOptions::Case::smart && !has_capital);
  Pattern pattern;
  pattern.is_multiline_ = options.is_multiline;
  const std::string regex =
      options.is_fixed ? re2::RE2::QuoteMeta(re2::StringPiece(text.data(), text.size())) : std::string(text);
  RequiredLiteral literal;
  if (options.is_fixed && !ignore_case)
    literal = {std::string(text), false, true};
  else
    literal = required_literal(regex, ignore_case);
  // A single byte is on most lines: RE2 alone is faster than asking it line by line.
  const bool is_worth_it = literal.is_whole || literal.text.size() > 1;
  if (is_worth_it && !literal.text.empty()) pattern.scanner_.emplace(literal.text, literal.ignore_case);
  pattern.has_line_end_ = !options.is_fixed && text.find('$') != std::string_view::npos;
  if (literal.is_whole && !options.is_word && !options.is_multiline) return pattern;

  re2::RE2::Options settings;
  settings.set_log_errors(false);
  settings.set_case_sensitive(!ignore_case);
  settings.set_max_mem(kMaxRegexBytes);
  settings.set_never_nl(!options.is_multiline);
  // Bytes that are no UTF-8 would make RE2 refuse a pattern; file contents may be anything.
  if (!is_utf8(text)) settings.set_encoding(re2::RE2::Options::EncodingLatin1);
  const std::string wrapped = options.is_word ? "(?m:\\b(?:" + regex + ")\\b)" : "(?m:" + regex + ")";
  pattern.regex_ = std::make_unique<re2::RE2>(wrapped, settings);
  if (!pattern.regex_->ok()) {
    // The reason without RE2's echo of the wrapped text; on its own, so that the place is the caller's.
    const re2::RE2 alone(regex, settings);
    return Error::invalid_param("params.pattern",
                                "RE2 refuses it: " + (alone.ok() ? pattern.regex_->error() : alone.error()) +
                                    " (no back-references and no look-around)");
  }
  return pattern;
}

bool Pattern::may_match(const char* from, const char* end) const {
  return !scanner_ || scanner_->find(from, end) != nullptr;
}

std::optional<Span> Pattern::find(const char* begin, const char* from, const char* end) const {
  if (regex_) return match(*regex_, begin, from, end);
  const char* const place = scanner_->find(from, end);
  if (place == nullptr) return std::nullopt;
  return Span{place, place + scanner_->literal().size()};
}

std::optional<Span> Pattern::find_line(const char* from, const char* end) const {
  if (!regex_) return find(from, from, end);
  const bool goes_by_line =
      scanner_ || (has_line_end_ && std::memchr(from, '\r', static_cast<std::size_t>(end - from)) != nullptr);
  if (!goes_by_line) {
    const auto found = match(*regex_, from, from, end);
    // An empty match behind the last newline is on no line.
    if (found && found->begin == end && end > from && end[-1] == '\n') return std::nullopt;
    return found;
  }
  while (from < end) {
    const char* start = from;
    if (scanner_) {
      const char* const place = scanner_->find(from, end);
      if (place == nullptr) return std::nullopt;
      start = line_start(from, place);
    }
    const char* const newline = line_end(start, end);
    if (const auto found = match(*regex_, start, start, text_end(start, newline))) return found;
    from = newline == end ? end : newline + 1;
  }
  return std::nullopt;
}

}  // namespace sallyport::worker
