// Glob patterns over paths, with git's rules for what each sign means.
//
//   ?  [a-z]  [!x]  [[:digit:]]   one byte, never '/'
//   *                             any bytes but '/'
//   **/  at the start or after /  any number of whole directories, also none
//   /**  at the end               everything below
//   \x                            the sign itself
//
// A pattern that cannot match anything (an open bracket, a trailing backslash) compiles and matches
// nothing, as in git. Matching takes no memory and, whatever the pattern, no more than a product of
// both lengths per `**`.
#pragma once

#include <bitset>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "worker/stop.h"

namespace sallyport::worker {

class Glob {
 public:
  explicit Glob(std::string_view pattern);

  // The whole text must match.
  bool matches(std::string_view text) const;

  // Why it is no pattern that could match, for those who must be told; empty for a well-formed one.
  std::string_view fault() const { return fault_; }

  // The leading part without any sign: what every match starts with.
  std::string_view literal_prefix() const { return prefix_; }

 private:
  enum class Kind : std::uint8_t { byte, any, set, star, deep, deep_slash, never };
  enum class Shape : std::uint8_t { exact, suffix, general };
  struct Token {
    Kind kind;
    std::uint8_t byte;
    std::uint16_t set;
  };

  std::size_t parse_set(std::string_view pattern, std::size_t at);
  bool matches_one(const Token& token, char c) const;
  bool matches_tokens(std::string_view text) const;

  std::vector<Token> tokens_;
  std::vector<std::bitset<256>> sets_;
  Shape shape_ = Shape::general;
  std::string literal_;  // of an exact or suffix shape
  std::string prefix_;
  std::string_view fault_;
};

// Expands {a,b} and {x,{y,z}}; braces without a comma, and unbalanced ones, stand for themselves.
// More than kMaxGlobAlternatives results are an error.
Result<std::vector<std::string>> expand_braces(std::string_view pattern);

// A pattern as callers of glob and grep write it, matched against a path relative to the search's
// root. In a filter (include, exclude) one without a slash matches in any directory (as in .gitignore
// and in ripgrep's -g); `./x`, and every pattern of a glob, only at the top.
class PathPattern {
 public:
  enum class Use : std::uint8_t { glob, include, exclude };

  // `root` is the absolute path of the search's root with a slash at its end: an absolute pattern means
  // the place below it that it names. INVALID_PARAMS with the reason for what is malformed or could
  // never match: `[`, `../x`, `/elsewhere`, `a//b`. Only an exclude may end in a slash: it is for directories.
  static Result<PathPattern> compile(std::string_view pattern, Use use, std::string_view root = {});

  // False also when it is time to stop: hundreds of alternatives can take a millisecond each.
  bool matches(std::string_view path, std::string_view name, bool is_directory = false,
               const Stop& stop = Stop()) const;
  // What it takes of kMaxGlobBytes.
  std::size_t bytes() const { return bytes_; }
  // One that has not been compiled matches nothing.
  bool is_empty() const { return alternatives_.empty(); }
  // Matches from now on what the other one matches, too.
  void append(PathPattern other);
  // False if nothing in this directory or below it can match; `directory` ends with a slash or is empty.
  bool can_match_below(std::string_view directory) const;

 private:
  struct Alternative {
    Glob glob;
    bool is_by_name;     // **/x: only the last component counts
    std::string prefix;  // literal directories, with the last slash
    bool is_deep;        // may match below its prefix's own directory
    bool is_for_directories;
  };
  static Result<Alternative> compile_one(std::string_view text, Use use, std::string_view root);

  std::vector<Alternative> alternatives_;
  std::size_t bytes_ = 0;
};

}  // namespace sallyport::worker
