// .gitignore files: parsing, matching, and their order of precedence. No I/O.
//
// Equal to git's rules (checked against `git check-ignore`), with two limits: the user's global
// excludes file is not read, because it belongs to the host and not to the container's view, and
// case is never ignored.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "worker/glob.h"
#include "worker/stop.h"

namespace sallyport::worker {

enum class Verdict : std::uint8_t { none, ignored, included };

class IgnoreRules {
 public:
  static IgnoreRules parse(std::string_view text);

  // `path` is relative to the directory of the file the rules came from, `name` its last component.
  // The last rule that matches decides. Ends early, with no verdict, when it is time to stop: a file can hold 100,000
  // rules that take a microsecond each.
  Verdict judge(std::string_view path, std::string_view name, bool is_directory, const Stop& stop) const;
  bool empty() const { return rules_.empty(); }

 private:
  struct Rule {
    std::string prefix;  // of the path; the glob is for what follows
    Glob glob;
    bool is_negated;
    bool is_for_directories;
    bool is_by_name;
  };
  void add(std::string_view line);

  std::vector<Rule> rules_;
  // Most rules are a name or *.extension: found by hash. Values are the rules' numbers, rising.
  struct Hash {
    using is_transparent = void;  // NOLINT(readability-identifier-naming): the standard's name
    std::size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
  };
  using Index = std::unordered_map<std::string, std::vector<std::uint32_t>, Hash, std::equal_to<>>;
  Index by_name_;
  Index by_extension_;                  // with the dot
  std::vector<std::uint32_t> by_glob_;  // everything else
};

// The rules in force in one directory: its own file's, then its parent's, up to the repository's top.
struct IgnoreScope {
  std::shared_ptr<const IgnoreScope> parent;
  std::size_t base = 0;  // length of this directory's path (with its slash) in the paths judged
  IgnoreRules rules;

  static Verdict judge(const IgnoreScope* scope, std::string_view path, std::string_view name, bool is_directory,
                       const Stop& stop);
};

}  // namespace sallyport::worker
