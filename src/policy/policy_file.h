// Any file that holds policy, for those who check one before it is in force.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/base.h"
#include "policy/profile.h"
#include "policy/rule.h"

namespace sallyport::policy {

struct PolicyFile {
  std::vector<Profile> profiles;    // [profile.NAME]
  std::vector<Rule> rules;          // [[rule]]
  std::vector<std::string> others;  // what else is in it: not policy, so not checked
};

// Faults as everywhere: file, line, column, word.
Result<PolicyFile> parse_policy_file(std::string_view text, const std::string& path);

}  // namespace sallyport::policy
