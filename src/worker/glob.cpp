#include "worker/glob.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <iterator>
#include <optional>

#include "worker/limits.h"

namespace sallyport::worker {
namespace {

struct Class {
  std::string_view name;
  bool (*contains)(unsigned char);
};

// In the C locale: what a pattern means must not depend on where the worker runs.
constexpr bool is_upper(unsigned char c) { return c >= 'A' && c <= 'Z'; }
constexpr bool is_lower(unsigned char c) { return c >= 'a' && c <= 'z'; }
constexpr bool is_digit(unsigned char c) { return c >= '0' && c <= '9'; }
constexpr bool is_graph(unsigned char c) { return c > 0x20 && c < 0x7f; }
constexpr std::array<Class, 12> kClasses = {{
    {"alnum", [](unsigned char c) { return is_upper(c) || is_lower(c) || is_digit(c); }},
    {"alpha", [](unsigned char c) { return is_upper(c) || is_lower(c); }},
    {"blank", [](unsigned char c) { return c == ' ' || c == '\t'; }},
    {"cntrl", [](unsigned char c) { return c < 0x20 || c == 0x7f; }},
    {"digit", is_digit},
    {"graph", is_graph},
    {"lower", is_lower},
    {"print", [](unsigned char c) { return is_graph(c) || c == ' '; }},
    {"punct", [](unsigned char c) { return is_graph(c) && !is_upper(c) && !is_lower(c) && !is_digit(c); }},
    {"space", [](unsigned char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }},
    {"upper", is_upper},
    {"xdigit", [](unsigned char c) { return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'); }},
}};

constexpr std::size_t kBroken = std::string_view::npos;
// A longer pattern is not repeated in the error about it.
constexpr std::size_t kMaxShownPattern = 200;

// Why no path can match, as far as components tell; empty if one may. Paths that are compared have neither empty
// components nor dots.
std::string_view component_fault(std::string_view pattern) {
  for (std::size_t at = 0; at <= pattern.size();) {
    const std::size_t end = std::min(pattern.find('/', at), pattern.size());
    const std::string_view component = pattern.substr(at, end - at);
    if (component == "..") return "leads out of its directory with '..': set root to where it should begin";
    if (component == ".") return "has a '.' as a component, which matches nothing";
    if (component.empty()) return "has an empty component, which matches nothing";
    at = end + 1;
  }
  return {};
}

}  // namespace

Glob::Glob(std::string_view pattern) {
  for (std::size_t i = 0; i < pattern.size();) {
    const char c = pattern[i];
    if (c == '*') {
      std::size_t end = i;
      while (end < pattern.size() && pattern[end] == '*') ++end;
      const std::string_view rest = pattern.substr(end);
      const bool is_at_start = i == 0 || pattern[i - 1] == '/';
      const bool is_whole = end - i >= 2 && is_at_start && (rest.empty() || rest[0] == '/' || rest.starts_with("\\/"));
      const bool takes_slash = is_whole && rest.starts_with('/');
      tokens_.push_back({!is_whole ? Kind::star : takes_slash ? Kind::deep_slash : Kind::deep, 0, 0});
      i = end + (takes_slash ? 1 : 0);
    } else if (c == '?') {
      tokens_.push_back({Kind::any, 0, 0});
      ++i;
    } else if (c == '[') {
      i = parse_set(pattern, i);
      if (i == kBroken) {
        tokens_ = {{Kind::never, 0, 0}};
        return;
      }
    } else if (c == '\\' && i + 1 == pattern.size()) {
      tokens_ = {{Kind::never, 0, 0}};
      fault_ = "ends in a backslash with nothing behind it";
      return;
    } else {
      const std::size_t at = c == '\\' ? i + 1 : i;
      tokens_.push_back({Kind::byte, static_cast<std::uint8_t>(pattern[at]), 0});
      i = at + 1;
    }
  }
  const auto is_byte = [](const Token& token) { return token.kind == Kind::byte; };
  const auto first_sign = std::find_if_not(tokens_.begin(), tokens_.end(), is_byte);
  for (auto token = tokens_.begin(); token != first_sign; ++token) prefix_ += static_cast<char>(token->byte);
  if (first_sign == tokens_.end()) {
    shape_ = Shape::exact;
    literal_ = prefix_;
  } else if (tokens_.front().kind == Kind::star && std::all_of(tokens_.begin() + 1, tokens_.end(), is_byte)) {
    shape_ = Shape::suffix;
    for (auto token = tokens_.begin() + 1; token != tokens_.end(); ++token) literal_ += static_cast<char>(token->byte);
  }
}

// A set from its '[': where the pattern goes on behind its ']', or kBroken.
std::size_t Glob::parse_set(std::string_view pattern, std::size_t at) {
  std::bitset<256> set;
  const std::string_view old_fault = fault_;
  fault_ = "has a [ without its ] (write \\[ for the sign itself)";
  ++at;
  const bool is_negated = at < pattern.size() && (pattern[at] == '!' || pattern[at] == '^');
  if (is_negated) ++at;
  int previous = -1;      // what a '-' can start a range from
  std::size_t close = 0;  // the next ']', once it was looked for
  for (bool is_first = true;; is_first = false) {
    if (at >= pattern.size()) return kBroken;
    if (pattern[at] == ']' && !is_first) break;
    const bool is_range = pattern[at] == '-' && previous >= 0 && at + 1 < pattern.size() && pattern[at + 1] != ']';
    if (is_range) {
      ++at;
      if (pattern[at] == '\\') ++at;
      if (at >= pattern.size()) return kBroken;
      for (int c = previous; c <= static_cast<unsigned char>(pattern[at]); ++c) set.set(static_cast<std::size_t>(c));
      previous = -1;
      ++at;
      continue;
    }
    if (pattern.substr(at).starts_with("[:")) {
      if (close < at + 2) close = pattern.find(']', at + 2);
      if (close == std::string_view::npos) return kBroken;
      if (close > at + 2 && pattern[close - 1] == ':') {
        const std::string_view name = pattern.substr(at + 2, close - 1 - (at + 2));
        const auto* found =
            std::find_if(kClasses.begin(), kClasses.end(), [&](const Class& c) { return c.name == name; });
        if (found == kClasses.end()) {
          fault_ = "has a [:class:] that does not exist";
          return kBroken;
        }
        for (std::size_t c = 0; c < 256; ++c) {
          if (found->contains(static_cast<unsigned char>(c))) set.set(c);
        }
        previous = -1;
        at = close + 1;
        continue;
      }
    }
    if (pattern[at] == '\\') ++at;
    if (at >= pattern.size()) return kBroken;
    previous = static_cast<unsigned char>(pattern[at]);
    set.set(static_cast<std::size_t>(previous));
    ++at;
  }
  if (is_negated) set.flip();
  set.reset('/');
  fault_ = set.none() ? "has a [set] that no character is in" : old_fault;
  tokens_.push_back({Kind::set, 0, static_cast<std::uint16_t>(sets_.size())});
  sets_.push_back(set);
  return at + 1;
}

bool Glob::matches_one(const Token& token, char c) const {
  switch (token.kind) {
    case Kind::byte:
      return static_cast<std::uint8_t>(c) == token.byte;
    case Kind::any:
      return c != '/';
    case Kind::set:
      return sets_[token.set].test(static_cast<unsigned char>(c));
    default:
      return false;
  }
}

// Two places to go back to are enough. A star can be lengthened only up to the next slash, and a later
// star in the same directory makes lengthening an earlier one pointless; the last `**` can absorb
// whatever anything before it could.
bool Glob::matches_tokens(std::string_view text) const {
  struct Retry {
    std::size_t token = SIZE_MAX;
    std::size_t at = 0;
  };
  Retry star;
  Retry deep;
  std::size_t token = 0;
  std::size_t at = 0;
  while (true) {
    if (token < tokens_.size()) {
      const Kind kind = tokens_[token].kind;
      if (kind == Kind::star) {
        star = {++token, at};
        continue;
      }
      if (kind == Kind::deep || kind == Kind::deep_slash) {
        deep = {++token, at};
        star = {};
        continue;
      }
      if (at < text.size() && matches_one(tokens_[token], text[at])) {
        ++token;
        ++at;
        continue;
      }
    } else if (at == text.size()) {
      return true;
    }
    if (star.token != SIZE_MAX && star.at < text.size() && text[star.at] != '/') {
      at = ++star.at;
      token = star.token;
    } else if (deep.token != SIZE_MAX && deep.at < text.size()) {
      if (tokens_[deep.token - 1].kind == Kind::deep_slash) {
        const std::size_t slash = text.find('/', deep.at);
        if (slash == std::string_view::npos) return false;
        deep.at = slash;
      }
      at = ++deep.at;
      token = deep.token;
      star = {};
    } else {
      return false;
    }
  }
}

bool Glob::matches(std::string_view text) const {
  switch (shape_) {
    case Shape::exact:
      return text == literal_;
    case Shape::suffix:
      return text.ends_with(literal_) &&
             text.substr(0, text.size() - literal_.size()).find('/') == std::string_view::npos;
    case Shape::general:
      return matches_tokens(text);
  }
  return false;
}

namespace {

// Of the first brace that closes and has a comma of its own: where it opens, its commas, where it closes. In one pass:
// a pattern may be nothing but braces.
std::optional<std::vector<std::size_t>> first_choice(std::string_view text) {
  std::vector<std::vector<std::size_t>> open;  // braces that are not closed yet, with their commas
  std::optional<std::vector<std::size_t>> first;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\\') {
      ++i;
    } else if (text[i] == '{') {
      open.push_back({i});
    } else if (text[i] == ',' && !open.empty()) {
      open.back().push_back(i);
    } else if (text[i] == '}' && !open.empty()) {
      std::vector<std::size_t> cuts = std::move(open.back());
      open.pop_back();
      cuts.push_back(i);
      if (cuts.size() > 2 && (!first || cuts.front() < first->front())) first = std::move(cuts);
    }
  }
  return first;
}

}  // namespace

Result<std::vector<std::string>> expand_braces(std::string_view pattern) {
  std::vector<std::string> done;
  std::vector<std::string> waiting = {std::string(pattern)};
  while (!waiting.empty()) {
    const std::string text = std::move(waiting.back());
    waiting.pop_back();
    const auto cuts = first_choice(text);
    if (!cuts) {
      done.push_back(text);
      continue;
    }
    if (done.size() + waiting.size() + cuts->size() - 1 > kMaxGlobAlternatives) {
      return Error::make(Code::invalid_params, "has more than " + std::to_string(kMaxGlobAlternatives) +
                                                   " alternatives: give several patterns instead");
    }
    for (std::size_t i = cuts->size() - 1; i > 0; --i) {
      const std::size_t from = (*cuts)[i - 1] + 1;
      waiting.push_back(text.substr(0, cuts->front()) + text.substr(from, (*cuts)[i] - from) +
                        text.substr(cuts->back() + 1));
    }
  }
  return done;
}

namespace {

std::string_view field_of(PathPattern::Use use) {
  switch (use) {
    case PathPattern::Use::glob:
      return "params.pattern";
    case PathPattern::Use::include:
      return "params.include";
    case PathPattern::Use::exclude:
      return "params.exclude";
  }
  return {};
}

}  // namespace

Result<PathPattern::Alternative> PathPattern::compile_one(std::string_view text, Use use, std::string_view root) {
  const auto refuse = [&](std::string_view why) {
    const std::string shown = text.size() <= kMaxShownPattern ? "'" + std::string(text) + "' " : "";
    return Error::invalid_param(field_of(use), shown + std::string(why));
  };
  std::string_view rest = text;
  if (rest.starts_with('!')) {
    return refuse("begins with '!', which negates nothing here: grep has exclude for that (\\! is the sign itself)");
  }
  const bool is_absolute = rest.starts_with('/');
  if (is_absolute && (root.empty() || !rest.starts_with(root)))
    return refuse("is absolute and not below the root: set root, and give a pattern relative to it");
  if (is_absolute) rest.remove_prefix(root.size());
  bool is_anchored = is_absolute || use == Use::glob;
  for (; rest.starts_with("./"); rest.remove_prefix(2)) is_anchored = true;
  const bool is_for_directories = rest.ends_with('/') && !rest.ends_with("\\/");
  if (is_for_directories && use == Use::glob)
    return refuse("ends in a slash: leave it out and set kind to directory, or add ** for what is below");
  if (is_for_directories && use == Use::include) return refuse("ends in a slash: add ** for the files below");
  if (is_for_directories) rest.remove_suffix(1);
  if (rest.empty()) return refuse("is empty");
  if (const std::string_view why = component_fault(rest); !why.empty()) return refuse(why);

  const std::string_view below = rest.starts_with("**/") ? rest.substr(3) : rest;
  const bool has_slash = below.find('/') != std::string_view::npos;
  const bool is_by_name = !has_slash && below != "**" && (rest.starts_with("**/") || !is_anchored);
  Glob glob(is_by_name ? below : rest);
  if (!glob.fault().empty()) return refuse(glob.fault());
  std::string prefix;
  if (!is_by_name) {
    prefix = glob.literal_prefix();
    prefix.resize(prefix.rfind('/') == std::string::npos ? 0 : prefix.rfind('/') + 1);
  }
  const std::string_view behind = is_by_name ? std::string_view() : rest.substr(std::min(prefix.size(), rest.size()));
  const bool is_deep =
      is_by_name || behind.find('/') != std::string_view::npos || behind.find("**") != std::string_view::npos;
  return Alternative{std::move(glob), is_by_name, std::move(prefix), is_deep, is_for_directories};
}

Result<PathPattern> PathPattern::compile(std::string_view pattern, Use use, std::string_view root) {
  if (pattern.size() > kMaxPatternBytes) return Error::invalid_param(field_of(use), "is too long");
  const auto texts = expand_braces(pattern);
  if (!texts) return Error::invalid_param(field_of(use), texts.error().message);
  PathPattern compiled;
  for (const std::string& text : *texts) {
    compiled.bytes_ += text.size() + kGlobOverhead;
    if (compiled.bytes_ > kMaxGlobBytes)
      return Error::invalid_param(field_of(use), "has alternatives that are too long together");
    TRY(Alternative alternative, compile_one(text, use, root));
    compiled.alternatives_.push_back(std::move(alternative));
  }
  return compiled;
}

void PathPattern::append(PathPattern other) {
  bytes_ += other.bytes_;
  std::move(other.alternatives_.begin(), other.alternatives_.end(), std::back_inserter(alternatives_));
}

bool PathPattern::matches(std::string_view path, std::string_view name, bool is_directory, const Stop& stop) const {
  std::size_t compared = 0;
  for (const Alternative& alternative : alternatives_) {
    if (alternative.is_for_directories && !is_directory) continue;
    const std::string_view text = alternative.is_by_name ? name : path;
    compared += text.size();
    if (compared > kJudgedBytes) {
      if (stop.is_over()) return false;
      compared = 0;
    }
    if (alternative.glob.matches(text)) return true;
  }
  return false;
}

bool PathPattern::can_match_below(std::string_view directory) const {
  return std::any_of(alternatives_.begin(), alternatives_.end(), [&](const Alternative& alternative) {
    if (directory.size() <= alternative.prefix.size()) return alternative.prefix.starts_with(directory);
    return alternative.is_deep && directory.starts_with(alternative.prefix);
  });
}

}  // namespace sallyport::worker
