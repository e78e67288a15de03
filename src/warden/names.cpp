#include "warden/names.h"

#include <algorithm>
#include <functional>
#include <string_view>

#include "scheduler/declared.h"
#include "warden/pipeline.h"

namespace sallyport::warden {
namespace {

Error fault(const policy::Rule& rule, const std::string& problem) {
  return Error::make(Code::invalid_params, rule.source + ": '" + rule.name + "' " + problem);
}

Status check(const policy::Rule& rule, const policy::Profiles& profiles,
             const std::function<bool(std::string_view)>& is_known) {
  for (const std::string& pattern : rule.match) {
    if (pattern != "*" && !is_known(pattern)) {
      return fault(rule, "speaks of '" + pattern + "', and no method or signal has that name");
    }
  }
  for (const std::string& name : rule.profiles) {
    if (profiles.find(name) == nullptr) return fault(rule, "speaks of profile '" + name + "', and there is none");
  }
  return ok();
}

}  // namespace

bool is_name(std::string_view name, const Config& config, const std::vector<mailbox::Signal>& more) {
  const auto is_it = [name](const auto& signal) { return signal.name == name; };
  return has_method(name) || scheduler::is_builtin_signal(name) ||
         std::any_of(config.signals.begin(), config.signals.end(), is_it) ||
         std::any_of(more.begin(), more.end(), is_it);
}

Status check_names(const Config& config, const policy::Profiles& profiles, const std::vector<mailbox::Signal>& more) {
  const std::function<bool(std::string_view)> is_known = [&](std::string_view name) {
    return is_name(name, config, more);
  };
  for (const policy::Rule& rule : config.rules) TRY(check(rule, profiles, is_known));
  for (const auto& [name, profile] : profiles.all()) {
    for (const policy::Rule& rule : profile.rules) TRY(check(rule, profiles, is_known));
  }
  return ok();
}

}  // namespace sallyport::warden
