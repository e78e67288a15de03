#include "policy/within.h"

#include <algorithm>

#include "policy/rule.h"
#include "policy/tokens.h"

namespace sallyport::policy {
namespace {

using Words = std::vector<std::string>;

std::string_view without_stars(std::string_view path) {
  for (const std::string_view stars : {"/**", "/*"}) {
    if (path.ends_with(stars)) return path.substr(0, path.size() - stars.size());
  }
  return path;
}

bool is_at_or_below(std::string_view path, std::string_view base) {
  return path == base || (path.starts_with(base) && path[base.size()] == '/' && path.find("..") == path.npos);
}

// A wildcard stands for the names that are there when a sandbox starts, without the hidden ones: DIR is more than
// DIR/*.
bool is_shown(std::string_view path, const Words& allowed) {
  return std::any_of(allowed.begin(), allowed.end(), [&](const std::string& each) {
    return path == each || (each.find_first_of("*?[") == each.npos && is_at_or_below(path, each));
  });
}

// Stars at the end of what may be executed stand for the whole directory.
bool is_executed(std::string_view path, const Words& allowed) {
  return std::any_of(allowed.begin(), allowed.end(),
                     [&](const std::string& each) { return is_at_or_below(without_stars(path), without_stars(each)); });
}

bool has(const Words& words, const std::string& word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

// Zero is no limit.
template <typename Number>
bool is_at_most(Number wanted, Number own) {
  return own == Number{} || (wanted != Number{} && wanted <= own);
}

bool are_limits_within(const ProfileLimits& wanted, const ProfileLimits& own) {
  return is_at_most(wanted.memory, own.memory) && is_at_most(wanted.pids, own.pids) &&
         is_at_most(wanted.cpu, own.cpu) && is_at_most(wanted.open_files, own.open_files) &&
         is_at_most(wanted.file_size, own.file_size) && is_at_most(wanted.scratch, own.scratch) &&
         is_at_most(wanted.duration, own.duration) && is_at_most(wanted.idle, own.idle);
}

// What is denied and counted of a network counts only for who has one.
bool is_net_within(const Profile& wanted, const Profile& own) {
  const NetLimits& limits = wanted.net_limits;
  return wanted.net_allow.empty() ||
         (std::all_of(own.net_deny.begin(), own.net_deny.end(),
                      [&](const std::string& host) { return has(wanted.net_deny, host); }) &&
          is_at_most(limits.bytes, own.net_limits.bytes) && is_at_most(limits.requests, own.net_limits.requests) &&
          is_at_most(limits.tunnels, own.net_limits.tunnels) && is_at_most(limits.idle, own.net_limits.idle) &&
          is_at_most(limits.duration, own.net_limits.duration));
}

// The host may have put anything there.
bool is_environment_within(const Profile& wanted, const Profile& own) {
  return std::all_of(wanted.env.begin(), wanted.env.end(), [&](const auto& variable) {
    const auto found = own.env.find(variable.first);
    return found != own.env.end() && found->second == variable.second;
  });
}

// Whether a rule asks for at least what another does, of the same names. One that looks into payloads is not
// understood well enough to be compared.
bool demands_as_much(const Rule& rule, const Rule& own) {
  const bool is_as_slow =
      !own.rate || (rule.rate && rule.rate->period == own.rate->period && rule.rate->count <= own.rate->count);
  return rule.match == own.match && rule.names == own.names && own.when.empty() && own.unless.empty() &&
         rule.when.empty() && rule.unless.empty() && rule.needs_deputy >= own.needs_deputy &&
         rule.needs_human >= own.needs_human && rule.denies >= own.denies && is_as_slow;
}

bool is_demand(const Rule& rule) { return rule.needs_deputy || rule.needs_human || rule.denies || rule.rate; }

bool are_demands_kept(const std::vector<Rule>& own, const std::vector<Rule>& wanted) {
  return std::all_of(own.begin(), own.end(), [&](const Rule& rule) {
    return !is_demand(rule) ||
           std::any_of(wanted.begin(), wanted.end(), [&](const Rule& other) { return demands_as_much(other, rule); });
  });
}

// What a rule of the other profile permits might be nothing that one's own lists name.
bool has_no_permits(const std::vector<Rule>& wanted) {
  return std::none_of(wanted.begin(), wanted.end(), [](const Rule& rule) { return rule.permits; });
}

// Of the rules that name profiles: what is demanded of one's own is demanded of the other, and that one gets no more.
bool are_rules_kept(std::span<const Rule> rules, const Profile& wanted, const Profile& own) {
  return std::all_of(rules.begin(), rules.end(), [&](const Rule& rule) {
    if (rule.profiles.empty()) return true;
    const bool names_own = has(rule.profiles, own.name), names_wanted = has(rule.profiles, wanted.name);
    return names_own == names_wanted || (names_own ? !is_demand(rule) : !rule.permits);
  });
}

}  // namespace

Status check_within(const Profile& wanted, const Profile& own, std::span<const Rule> rules) {
  const auto all = [](const Words& words, const auto& holds) { return std::all_of(words.begin(), words.end(), holds); };
  const auto is_written = [&](const std::string& path) { return is_shown(path, own.fs_write); };
  const auto is_read = [&](const std::string& path) { return is_shown(path, own.fs_read) || is_written(path); };
  const auto is_called = [&](const std::string& method) { return matches_any(own.methods, method); };
  const std::pair<const char*, bool> checks[] = {
      {"fs.read", all(wanted.fs_read, is_read)},
      {"fs.write", all(wanted.fs_write, is_written)},
      {"fs.deny", all(own.fs_deny, [&](const std::string& path) { return has(wanted.fs_deny, path); })},
      {"exec", all(wanted.exec, [&](const std::string& path) { return is_executed(path, own.exec); })},
      {"net.allow", all(wanted.net_allow, [&](const std::string& host) { return has(own.net_allow, host); })},
      {"net.deny, net.limits", is_net_within(wanted, own)},
      {"methods", all(wanted.methods, is_called)},
      {"signals", all(wanted.signals, [&](const std::string& signal) { return matches_any(own.signals, signal); })},
      {"review, rates, rule",
       are_demands_kept(own.rules, wanted.rules) && has_no_permits(wanted.rules) && are_rules_kept(rules, wanted, own)},
      {"token_methods",
       all(own.token_methods, [&](const std::string& each) { return has(wanted.token_methods, each); })},
      {"deputy, deputy_limits", wanted.deputy == own.deputy && wanted.deputy_limits == own.deputy_limits},
      // Another profile is another tenant: other data, and quotas of its own.
      {"permissions.adapters", wanted.adapters.adapters.empty()},
      {"env", is_environment_within(wanted, own)},
      {"env_pass", all(wanted.env_pass, [&](const std::string& name) { return has(own.env_pass, name); })},
      {"limits", are_limits_within(wanted.limits, own.limits)},
      {"fs.refuse_hard_links", wanted.refuse_hard_links || !own.refuse_hard_links},
      {"all_landlock_rights", wanted.all_landlock_rights || !own.all_landlock_rights},
      {"allow_weak", !wanted.allow_weak || own.allow_weak},
  };
  for (const auto& [key, holds] : checks) {
    if (!holds) {
      return Error::make(Code::policy_denied, "profile '" + wanted.name + "' allows more than your own (" + key + ")");
    }
  }
  return ok();
}

}  // namespace sallyport::policy
