// Named lists of hosts, so that a profile can say "@github". One rule per line, # starts a comment.
//
// The host's own are files in net.lists/ beside the directory of profiles; those in src/policy/net.lists/ are
// compiled in, and one of the host's takes the place of a built-in one of the same name.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/base.h"

namespace sallyport::policy {

// The directory that belongs to a directory of profiles.
std::string net_lists_dir(const std::string& profiles_dir);

// Puts a list's rules in the place of its name. NOT_FOUND names a list that does not exist, and which do.
Result<std::vector<std::string>> expand_net_lists(const std::vector<std::string>& rules, const std::string& lists_dir);

// The built-in ones, as text. Generated from src/policy/net.lists/.
const std::map<std::string, std::string_view, std::less<>>& builtin_net_lists();

}  // namespace sallyport::policy
