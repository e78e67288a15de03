// What git keeps in a git directory about work in progress, as far as it makes the host's git run a program or leave
// its work tree: git writes these files itself, and believes them. Internal to the module.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "sandbox/held_directory.h"

namespace sallyport::sandbox {

// Whether git would run a command of this list (git-rebase-todo) when the rebase goes on.
bool has_command(std::string_view todo);

// Whether a merge by this strategy runs a program of the work tree: git runs "git-merge-STRATEGY", and a path is one.
bool is_strategy_a_path(std::string_view strategy);

// The files in a git directory that git never writes like this, by their paths below it. Only those for which `is_new`
// is true are read.
using IsNew = std::function<bool(const HeldDirectory& directory, const std::string& name)>;
std::vector<std::string> harmful_state(const HeldDirectory& git, const HeldDirectory& workspace, const IsNew& is_new);

// The same of a part of a split index.
bool is_harmful_index(const HeldDirectory& git, const std::string& name, const HeldDirectory& workspace);

}  // namespace sallyport::sandbox
