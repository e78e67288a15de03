// Rules from TOML, for the readers of files that hold them. For .cpp files only: toml++ is a heavy header.
#pragma once

#include <string>
#include <vector>

#include "policy/rule.h"
#include "policy/toml_table.h"

namespace sallyport::policy {

// An array of rule tables. Names get `prefix` in front; `profile`, if given, is the only one they concern. The
// examples of every rule are tried.
Result<std::vector<Rule>> read_rules(const std::string& path, const toml::node& node, const std::string& prefix,
                                     const std::string& profile = {});

// "allow", "deputy", "human", "deny", or an array of them, into the rule's demands.
Status read_effects(const std::string& path, const toml::node& node, Rule& rule);

}  // namespace sallyport::policy
