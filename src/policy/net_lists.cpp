#include "policy/net_lists.h"

#include <algorithm>

#include "policy/net.h"
#include "policy/text_file.h"

namespace sallyport::policy {
namespace {

constexpr std::size_t kMaxListBytes = 1U << 20;  // comments included; of rules a policy takes fewer, see net.h

bool is_list_name(std::string_view name) {
  return !name.empty() && name.size() <= 64 && std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
  });
}

Result<std::string> read_list(const std::string& name, const std::string& directory) {
  // One that cannot be read is not replaced by the built-in one, which may allow more.
  auto text = read_text_file(directory + "/" + name, kMaxListBytes);
  if (text || text.error().code != Code::not_found) return text;
  const auto found = builtin_net_lists().find(name);
  if (found != builtin_net_lists().end()) return std::string(found->second);
  std::string known;
  for (const auto& [each, rules] : builtin_net_lists()) known += " @" + each;
  return Error::make(Code::not_found, "there is no list @" + name + " in " + directory + "; built in are" + known);
}

// Each rule is checked, so that a fault is found with its line and not when a connection needs it.
Status append_rules(std::vector<std::string>& to, std::string_view text, const std::string& list) {
  for (std::size_t number = 1; !text.empty(); ++number) {
    std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    line = line.substr(0, line.find('#'));
    while (!line.empty() && (line.front() == ' ' || line.front() == '\t')) line.remove_prefix(1);
    while (!line.empty() && (line.back() == ' ' || line.back() == '\t' || line.back() == '\r')) line.remove_suffix(1);
    if (line.empty()) continue;
    if (const auto rule = NetRule::parse(line); !rule) {
      return Error::make(Code::invalid_params,
                         "list @" + list + ", line " + std::to_string(number) + " " + rule.error().message);
    }
    to.emplace_back(line);
  }
  return ok();
}

}  // namespace

std::string net_lists_dir(const std::string& profiles_dir) {
  return profiles_dir.substr(0, profiles_dir.rfind('/')) + "/net.lists";
}

Result<std::vector<std::string>> expand_net_lists(const std::vector<std::string>& rules, const std::string& lists_dir) {
  std::vector<std::string> expanded;
  for (const std::string& rule : rules) {
    if (!rule.starts_with('@')) {
      expanded.push_back(rule);
      continue;
    }
    const std::string name = rule.substr(1);
    if (!is_list_name(name))
      return Error::make(Code::invalid_params, "'" + rule + "' is no name of a list (a-z 0-9 - _)");
    TRY(const std::string text, read_list(name, lists_dir));
    TRY(append_rules(expanded, text, name));
  }
  return expanded;
}

}  // namespace sallyport::policy
