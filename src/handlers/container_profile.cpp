// What a container may do: its profile, narrowed as its creator asked.
#include "handlers/method.h"

namespace sallyport::handlers {

using containers::Container;

Result<policy::Profile> profile_of(const policy::Profiles& profiles, const containers::Config& config) {
  const policy::Profile* found = profiles.find(config.profile);
  if (found == nullptr) return Error::make(Code::not_found, "no profile '" + config.profile + "'");
  policy::Profile profile = *found;
  profile.net_allow.insert(profile.net_allow.end(), config.net_allow.begin(), config.net_allow.end());
  if (config.overrides.empty()) return profile;
  wire::Decoder decoder;
  TRY(const wire::Document overrides, decoder.parse(config.overrides));
  TRY(narrow_profile(profile, overrides.root()));
  return profile;
}

void set_policy(Host& host, const Container& container) {
  const auto profile = profile_of(host.profiles, container.config);
  if (!profile) {
    host.sessions.log().warn("a container may do nothing any more",
                             {{"container", container.id}, {"error", profile.error().describe()}});
    return host.engine.set_container(container.id, {});
  }
  policy::ContainerPolicy policy = policy::container_policy(*profile);
  const std::string owner = containers::owner_of(container);
  policy.counts_as = owner.starts_with("group/") ? owner : Principal::container(owner).to_string();
  if (containers::is_over(container.state)) policy.methods.clear();
  host.engine.set_container(container.id, std::move(policy));
}

namespace {

Status narrow_net(policy::Profile& profile, wire::Value overrides) {
  const auto parse = [](const std::string& text, const char* field) -> Result<policy::NetRule> {
    auto rule = policy::NetRule::parse(text);
    if (!rule) return Error::invalid_param(field, rule.error().message);
    return rule;
  };
  if (const wire::Value wanted = overrides.get("allow")) {
    constexpr const char* kField = "params.config.profile.net.allow";
    const std::vector<std::string> narrowed = strings(wanted);
    for (const std::string& text : narrowed) {
      TRY(const policy::NetRule rule, parse(text, kField));
      bool is_allowed = false;
      for (const std::string& own : profile.net_allow) {
        TRY(const policy::NetRule allowed, parse(own, kField));
        is_allowed |= rule.is_within(allowed);
      }
      if (!is_allowed) return Error::invalid_param(kField, "may only name what the profile allows");
    }
    profile.net_allow = narrowed;
  }
  for (const std::string& text : strings(overrides.get("deny"))) {
    TRY(parse(text, "params.config.profile.net.deny"));
    profile.net_deny.push_back(text);
  }
  return ok();
}

}  // namespace

Status narrow_profile(policy::Profile& profile, wire::Value overrides) {
  for (const auto& [name, value] : overrides.get("limits").members()) {
    policy::ProfileLimits wanted = profile.limits;
    const std::string text = value.is_string() ? std::string(*value.as_string()) : value.to_json();
    if (const Status set = wanted.set(std::string(name), text); !set) {
      return Error::invalid_param("params.config.profile.limits", set.error().message);
    }
    const auto is_wider = [](auto now, auto before) {
      return before != decltype(before){} && (now > before || now == decltype(now){});
    };
    const policy::ProfileLimits& old = profile.limits;
    if (is_wider(wanted.memory, old.memory) || is_wider(wanted.pids, old.pids) || is_wider(wanted.cpu, old.cpu) ||
        is_wider(wanted.open_files, old.open_files) || is_wider(wanted.file_size, old.file_size) ||
        is_wider(wanted.scratch, old.scratch) || is_wider(wanted.duration, old.duration) ||
        is_wider(wanted.idle, old.idle)) {
      return Error::invalid_param("params.config.profile.limits", "may only be lowered");
    }
    profile.limits = wanted;
  }
  for (const auto& [key, list] : {std::pair{"methods", &profile.methods}, std::pair{"signals", &profile.signals}}) {
    const wire::Value wanted = overrides.get(key);
    if (!wanted) continue;
    std::vector<std::string> narrowed;
    for (const wire::Value item : wanted.items()) {
      const std::string name(*item.as_string());
      if (!policy::matches_any(*list, name)) {
        return Error::invalid_param("params.config.profile." + std::string(key),
                                    "may only name what the profile allows");
      }
      narrowed.push_back(name);
    }
    *list = std::move(narrowed);
  }
  for (const std::string& path : strings(overrides.get("deny"))) {
    if (const auto problem = policy::deny_problem(path)) {
      return Error::invalid_param("params.config.profile.deny", "has '" + path + "', " + *problem);
    }
    profile.fs_deny.push_back(path);
  }
  if (overrides.get("read_only").as_bool().value_or(false)) {
    profile.fs_read.insert(profile.fs_read.end(), profile.fs_write.begin(), profile.fs_write.end());
    profile.fs_write.clear();
  }
  return narrow_net(profile, overrides.get("net"));
}

}  // namespace sallyport::handlers
