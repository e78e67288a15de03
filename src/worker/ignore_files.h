// Where ignore rules are read from. Nothing outside of the roots is, and a fault means no rules, as in git.
#pragma once

#include <string>
#include <string_view>

#include "worker/root.h"

namespace sallyport::worker {

struct RulesText {
  std::string text;
  bool is_cut = false;  // after the last line that ends within kMaxIgnoreFileBytes
};

// A file below a directory, following no link.
RulesText read_rules(int directory, const char* path);

// info/exclude of the repository that has this directory as its top; `path` is the directory's absolute one. Where .git
// is a file (a linked work tree, a submodule) it names the repository.
RulesText read_exclude(const Roots& roots, int directory, std::string_view path);

}  // namespace sallyport::worker
