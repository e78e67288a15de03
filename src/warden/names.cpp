#include "warden/names.h"

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

Status check_names(const std::vector<policy::Rule>& rules, const policy::Profiles& profiles,
                   const std::function<bool(std::string_view)>& is_known) {
  for (const policy::Rule& rule : rules) TRY(check(rule, profiles, is_known));
  for (const auto& [name, profile] : profiles.all()) {
    for (const policy::Rule& rule : profile.rules) TRY(check(rule, profiles, is_known));
  }
  return ok();
}

}  // namespace sallyport::warden
