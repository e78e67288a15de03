#include "policy/profile.h"

#include <algorithm>
#include <charconv>
#include <sstream>

#include "policy/adapter_setters.h"
#include "policy/policy_file.h"
#include "policy/rule_toml.h"
#include "policy/toml_table.h"

namespace sallyport::policy {
namespace {

namespace table = toml_table;

constexpr std::string_view kWorkspace = "${workspace}";

struct Unit {
  std::string_view name;
  std::uint64_t factor;
};

// A number and, directly behind it, one of the units.
template <std::size_t kCount>
std::optional<std::uint64_t> parse_with_unit(const std::string& text, const Unit (&units)[kCount]) {
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc()) return std::nullopt;
  const std::string_view rest(end, static_cast<std::size_t>(text.data() + text.size() - end));
  for (const Unit& unit : units) {
    if (unit.name == rest && number <= (UINT64_MAX >> 1) / unit.factor) return number * unit.factor;
  }
  return std::nullopt;
}

bool is_profile_name(std::string_view name) {
  return !name.empty() && name.size() <= 64 && std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
  });
}

std::optional<std::string> path_problem(const std::string& path) {
  const bool is_anchored = path[0] == '/' || path == "~" || path.starts_with("~/") || path == kWorkspace ||
                           path.starts_with("${workspace}/");
  if (is_anchored) return std::nullopt;
  return "which is neither absolute nor below ~ or ${workspace}";
}

// Reports the first word of a list that is not a path we understand.
table::Setter paths(std::vector<std::string>& target, bool is_deny) {
  return [&target, is_deny, list = table::strings(target)](const toml::node& node) -> std::optional<std::string> {
    if (auto problem = list(node)) return problem;
    for (const std::string& path : target) {
      if (const auto problem = is_deny ? deny_problem(path) : path_problem(path))
        return "has '" + path + "', " + *problem;
    }
    return std::nullopt;
  };
}

// Reports the first rule that is none.
table::Setter hosts(std::vector<std::string>& target) {
  return [&target, list = table::strings(target)](const toml::node& node) -> std::optional<std::string> {
    if (auto problem = list(node)) return problem;
    for (const std::string& text : target) {
      if (text.starts_with('@')) continue;
      if (const auto rule = NetRule::parse(text); !rule) return rule.error().message;
    }
    return std::nullopt;
  };
}

template <typename Limits>
table::Setter limit(Limits& limits, const std::string& name) {
  return table::parsed([&limits, name](const std::string& value) -> std::optional<std::string> {
    const Status set = limits.set(name, value);
    if (set) return std::nullopt;
    return set.error().message;
  });
}

// A list of names or patterns; a word that could never match is a fault.
table::Setter names(std::vector<std::string>& target, Rule::Names kind) {
  return [&target, kind, list = table::strings(target)](const toml::node& node) -> std::optional<std::string> {
    if (auto problem = list(node)) return problem;
    for (const std::string& pattern : target) {
      if (const auto problem = name_pattern_problem(pattern, kind)) return "has " + *problem;
    }
    return std::nullopt;
  };
}

table::Setter duration(Millis& target) {
  return table::parsed([&target](const std::string& text) -> std::optional<std::string> {
    const auto time = parse_duration(text);
    if (!time) return time.error().message;
    target = *time;
    return std::nullopt;
  });
}

// "rules", or the argv of an executable.
table::Setter deputy(std::vector<std::string>& argv) {
  return [&argv](const toml::node& node) -> std::optional<std::string> {
    if (node.value_exact<std::string>() == "rules") return std::nullopt;
    if (!node.is_array() || table::strings(argv)(node) || argv.empty() || argv[0][0] != '/') {
      return "must be \"rules\" or an array of strings that begins with an absolute path";
    }
    return std::nullopt;
  };
}

// `review` and `rates`: a table of names, each of which becomes a rule that only demands.
Status read_demands(const std::string& path, const std::string& word, const toml::node& node, Profile& profile) {
  const toml::table* demands = node.as_table();
  if (demands == nullptr) return table::fault(path, node.source(), "'" + word + "' must be a table");
  for (const auto& [key, value] : *demands) {
    const std::string pattern(key.str());
    if (const auto problem = name_pattern_problem(pattern, Rule::Names::all)) {
      return table::fault(path, key.source(), "'" + word + "' has " + *problem);
    }
    Rule rule;
    rule.name = "profile." + profile.name + "." + word + "." + pattern;
    rule.source = path + ":" + std::to_string(key.source().begin.line);
    rule.match = {pattern};
    if (word == "review") {
      TRY(read_effects(path, value, rule));
      if (rule.allows || rule.denies) {
        return table::fault(path, value.source(), "'" + pattern + "' in review must be deputy, human or both");
      }
    } else {
      auto rate = parse_rate(value.value_exact<std::string>().value_or(""));
      if (!rate) return table::fault(path, value.source(), "'" + pattern + "' " + rate.error().message);
      rule.rate = std::move(*rate);
      rule.rate->rule = rule.name;
    }
    profile.rules.push_back(std::move(rule));
  }
  return ok();
}

Result<Profile> parse_profile(const std::string& path, const std::string& name, const toml::node& node) {
  Profile profile;
  std::map<std::string, const toml::node*> later;
  const auto keep = [&later](const char* word) -> table::Setter {
    return [&later, word](const toml::node& value) -> std::optional<std::string> {
      later[word] = &value;
      return std::nullopt;
    };
  };
  profile.name = name;
  profile.source = path;
  table::Setters setters = {
      {"fs.read", paths(profile.fs_read, false)},
      {"fs.write", paths(profile.fs_write, false)},
      {"fs.deny", paths(profile.fs_deny, true)},
      {"fs.refuse_hard_links", table::boolean(profile.refuse_hard_links)},
      {"exec", paths(profile.exec, false)},
      {"net.allow", hosts(profile.net_allow)},
      {"net.deny", hosts(profile.net_deny)},
      {"methods", names(profile.methods, Rule::Names::methods)},
      {"token_methods", names(profile.token_methods, Rule::Names::methods)},
      {"signals", names(profile.signals, Rule::Names::signals)},
      {"review", keep("review")},
      {"rates", keep("rates")},
      {"rule", keep("rule")},
      {"agent", table::strings(profile.agent)},
      {"deputy", deputy(profile.deputy)},
      {"deputy_limits.prompt_length", table::count(profile.deputy_limits.prompt_length)},
      {"deputy_limits.forbidden", table::strings(profile.deputy_limits.forbidden)},
      {"deputy_limits.interval", duration(profile.deputy_limits.interval)},
      {"deputy_limits.protected_paths", table::strings(profile.deputy_limits.protected_paths)},
      {"deputy_limits.timeout", duration(profile.deputy_limits.timeout)},
      {"command", table::strings(profile.command)},
      {"env", table::string_map(profile.env)},
      {"env_pass", table::strings(profile.env_pass)},
      {"all_landlock_rights", table::boolean(profile.all_landlock_rights)},
      {"allow_weak", table::boolean(profile.allow_weak)},
  };
  for (const char* key : {"memory", "pids", "cpu", "open_files", "file_size", "scratch", "duration", "idle"}) {
    setters.emplace(std::string("limits.") + key, limit(profile.limits, key));
  }
  for (const char* key : {"bytes", "requests", "tunnels", "idle", "duration"}) {
    setters.emplace(std::string("net.limits.") + key, limit(profile.net_limits, key));
  }
  add_adapter_setters(setters, profile.adapters);
  TRY(table::read(path, "profile." + name, node, setters));
  for (const char* word : {"review", "rates"}) {
    if (later.contains(word)) TRY(read_demands(path, word, *later[word], profile));
  }
  if (later.contains("rule")) {
    TRY(auto rules, read_rules(path, *later["rule"], "profile." + name + ".rule.", name));
    profile.rules.insert(profile.rules.end(), rules.begin(), rules.end());
  }
  std::ostringstream text;
  text << toml::toml_formatter(*node.as_table());
  profile.text = text.str();
  return profile;
}

Result<std::vector<Profile>> read_profiles(const std::string& path, const toml::key& key, const toml::node& node) {
  const toml::table* named = node.as_table();
  if (named == nullptr) return table::fault(path, key.source(), "expected [profile.NAME]");
  std::vector<Profile> profiles;
  for (const auto& [name, each] : *named) {
    if (!is_profile_name(name.str())) {
      return table::fault(path, name.source(), "'" + std::string(name.str()) + "' is no profile name (a-z 0-9 - _)");
    }
    TRY(Profile profile, parse_profile(path, std::string(name.str()), each));
    profiles.push_back(std::move(profile));
  }
  return profiles;
}

}  // namespace

std::optional<std::string> deny_problem(const std::string& path) {
  const bool is_anywhere = path.starts_with("**/");
  if (auto problem = path_problem(path); problem && !is_anywhere) return *problem + " nor of the form **/NAME";
  if (path.find_first_of("{}", path.starts_with(kWorkspace) ? kWorkspace.size() : 0) != std::string::npos) {
    return "but braces mean nothing here: write an entry for each";
  }
  const bool has_wildcard = path.find_first_of("*?[") != std::string::npos;
  int all_depths = 0;
  bool goes_up = false;
  bool names_something = false;
  std::istringstream parts(path);
  for (std::string part; std::getline(parts, part, '/');) {
    all_depths += part == "**" ? 1 : 0;
    goes_up |= part == "..";
    names_something |= !part.empty() && part != "**" && part != ".";
  }
  if (!names_something && path != "/") return "which names nothing";
  if (goes_up && has_wildcard) return "but '..' and wildcards do not go together";
  if (all_depths > 1) return "but '**' may stand in it only once";
  if (all_depths > 0 && !is_anywhere && !path.starts_with("${workspace}/")) {
    return "but '**' is looked for in the workspace only: begin with ${workspace}/ or **/, or deny a whole directory";
  }
  return std::nullopt;
}

Result<std::uint64_t> parse_size(const std::string& text) {
  constexpr Unit kUnits[] = {
      {"", 1}, {"KiB", 1ULL << 10}, {"MiB", 1ULL << 20}, {"GiB", 1ULL << 30}, {"TiB", 1ULL << 40}};
  if (const auto bytes = parse_with_unit(text, kUnits)) return *bytes;
  return Error::make(Code::invalid_params, "is no size such as 512MiB or 4GiB: " + text);
}

Result<Millis> parse_duration(const std::string& text) {
  constexpr Unit kUnits[] = {{"ms", 1}, {"s", 1000}, {"m", 60'000}, {"h", 3'600'000}, {"d", 86'400'000}};
  // A clock that counts nanoseconds can wait no longer.
  constexpr std::uint64_t kLongest = 36'500ULL * 86'400'000;
  const auto millis = parse_with_unit(text, kUnits);
  if (millis && *millis <= kLongest) return Millis(static_cast<std::int64_t>(*millis));
  if (millis) return Error::make(Code::invalid_params, "is longer than a hundred years: " + text);
  return Error::make(Code::invalid_params, "is no time such as 30s, 10m or 2h: " + text);
}

Status ProfileLimits::set(const std::string& name, const std::string& value) {
  const auto number = [&]() -> Result<std::uint64_t> {
    std::uint64_t parsed = 0;
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), parsed);
    if (error == std::errc() && end == value.data() + value.size()) return parsed;
    return Error::make(Code::invalid_params, "is no whole number: " + value);
  };
  // What the kernel takes for no limit, or nothing can start with, is a mistake.
  const auto size = [&](std::uint64_t least, const char* in_words) -> Result<std::uint64_t> {
    TRY(const std::uint64_t parsed, parse_size(value));
    if (parsed >= least) return parsed;
    return Error::make(Code::invalid_params, std::string("must be at least ") + in_words + ": " + value);
  };
  if (name == "memory") {
    TRY(memory, size(4U << 20, "4MiB"));
  } else if (name == "file_size") {
    TRY(file_size, size(1, "1 byte"));
  } else if (name == "scratch") {
    TRY(scratch, size(64U << 10, "64KiB"));
  } else if (name == "duration") {
    TRY(duration, parse_duration(value));
  } else if (name == "idle") {
    TRY(idle, parse_duration(value));
  } else if (name == "open_files") {
    TRY(open_files, number());
    if (open_files < 16) return Error::make(Code::invalid_params, "must be at least 16");
  } else if (name == "pids") {
    TRY(const std::uint64_t count, number());
    if (count < 1 || count > 4'000'000) return Error::make(Code::invalid_params, "must be from 1 to 4000000");
    pids = static_cast<std::uint32_t>(count);
  } else if (name == "cpu") {
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), cpu);
    if (error != std::errc() || end != value.data() + value.size() || !(cpu > 0) || cpu > 1e6) {
      return Error::make(Code::invalid_params, "is no number of CPUs such as 1.5: " + value);
    }
  } else {
    return Error::make(Code::invalid_params,
                       "there is no limit '" + name +
                           "'; there are memory, pids, cpu, open_files, file_size, scratch, duration, idle");
  }
  return ok();
}

Result<PolicyFile> parse_policy_file(std::string_view text, const std::string& path) {
  TRY(const toml::table root, table::parse(text, path));
  PolicyFile file;
  for (const auto& [key, value] : root) {
    if (key.str() == "rule") {
      TRY(file.rules, read_rules(path, value, "rule."));
    } else if (key.str() == "profile") {
      TRY(file.profiles, read_profiles(path, key, value));
    } else {
      file.others.emplace_back(key.str());
    }
  }
  return file;
}

Result<std::vector<Profile>> parse_profiles(std::string_view text, const std::string& path) {
  TRY(const toml::table root, table::parse(text, path));
  std::vector<Profile> profiles;
  for (const auto& [key, value] : root) {
    if (key.str() != "profile" || !value.is_table()) {
      return table::fault(path, key.source(), "unknown key '" + std::string(key.str()) + "'; expected [profile.NAME]");
    }
    TRY(profiles, read_profiles(path, key, value));
  }
  return profiles;
}

}  // namespace sallyport::policy
