#include <dirent.h>

#include <algorithm>

#include "policy/builtin_profiles.h"
#include "policy/made_profiles.h"
#include "policy/net_lists.h"
#include "policy/profile.h"
#include "policy/text_file.h"

namespace sallyport::policy {
namespace {

constexpr std::size_t kMaxProfileBytes = 1U << 20;

}  // namespace

Result<Profiles> Profiles::load(const std::string& directory) {
  Profiles all;
  for (const MadeProfile& builtin : made_profiles()) all.profiles_.emplace(builtin.name, builtin.make());
  TRY(all.add_files(directory));
  TRY(all.expand_lists(directory));
  return all;
}

Result<Profile> Profiles::load_one(const std::string& directory, std::string_view name) {
  Profiles some;
  for (const MadeProfile& builtin : made_profiles()) {
    if (builtin.name == name) some.profiles_.emplace(name, builtin.make());
  }
  TRY(some.add_files(directory));
  const auto found = some.profiles_.find(name);
  if (found == some.profiles_.end()) {
    return Error::make(Code::not_found, "no profile '" + std::string(name) + "'; see: sallyport policy show");
  }
  TRY(some.expand_lists(directory));
  return std::move(found->second);
}

Status Profiles::add_files(const std::string& directory) {
  std::vector<std::string> names;
  if (DIR* listing = ::opendir(directory.c_str())) {
    while (const dirent* entry = ::readdir(listing)) {
      const std::string name = entry->d_name;
      if (name.ends_with(".toml") && name[0] != '.') names.push_back(name);
    }
    ::closedir(listing);
  }
  std::sort(names.begin(), names.end());
  for (const std::string& name : names) {
    const std::string path = directory + "/" + name;
    TRY(const std::string text, read_text_file(path, kMaxProfileBytes));
    TRY(auto profiles, parse_profiles(text, path));
    for (Profile& profile : profiles) {
      const auto known = profiles_.find(profile.name);
      const auto builtin = made_profiles();
      const bool is_builtin = std::any_of(builtin.begin(), builtin.end(),
                                          [&](const MadeProfile& each) { return each.name == profile.name; });
      if (is_builtin || known != profiles_.end()) {
        return Error::make(Code::conflict, path + ": profile '" + profile.name + "' is already defined (" +
                                               (is_builtin ? kBuiltinSource : known->second.source) + ")");
      }
      profiles_.emplace(profile.name, std::move(profile));
    }
  }
  return ok();
}

Status Profiles::expand_lists(const std::string& directory) {
  for (auto& [name, profile] : profiles_) {
    for (std::vector<std::string>* rules : {&profile.net_allow, &profile.net_deny}) {
      auto expanded = expand_net_lists(*rules, net_lists_dir(directory));
      if (!expanded) {
        return Error::make(expanded.error().code,
                           profile.source + ": profile '" + name + "': " + expanded.error().message);
      }
      *rules = std::move(*expanded);
    }
    if (const auto made = NetPolicy::make(profile.net_allow, profile.net_deny, profile.net_limits); !made) {
      return Error::make(made.error().code, profile.source + ": profile '" + name + "': " + made.error().message);
    }
  }
  return ok();
}

const Profile* Profiles::find(std::string_view name) const {
  const auto found = profiles_.find(name);
  return found == profiles_.end() ? nullptr : &found->second;
}

}  // namespace sallyport::policy
