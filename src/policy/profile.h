// A profile: what a container may do, as the host wrote it down in TOML. See docs/profiles.md.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/base.h"
#include "policy/adapter_grants.h"

namespace sallyport::policy {

struct ProfileLimits {
  std::uint64_t memory = 4ULL << 30;  // bytes
  std::uint32_t pids = 512;
  double cpu = 0;  // CPUs; 0: no limit
  std::uint64_t open_files = 1024;
  std::uint64_t file_size = 2ULL << 30;
  std::uint64_t scratch = 1ULL << 30;  // /tmp, /dev/shm and home together
  Millis duration{0};                  // 0: no limit
  Millis idle{0};

  // Sets one limit from text such as memory=2GiB or duration=90s; the error is a sentence.
  Status set(const std::string& name, const std::string& value);
};

struct Profile {
  std::string name;
  std::string source;  // the file it came from, or "built in"
  // Paths: absolute, ~/..., ${workspace}/..., with * ? [] as in the shell. Deny also takes **/NAME.
  std::vector<std::string> fs_read, fs_write, fs_deny;
  std::vector<std::string> exec;  // files, or directories as DIR, DIR/* or DIR/**
  std::vector<std::string> net_allow;
  std::vector<std::string> methods;        // what its door answers
  std::vector<std::string> token_methods;  // of these, what also needs a capability token
  std::vector<std::string> command;        // a template's command; empty: none
  std::map<std::string, std::string> env;
  std::vector<std::string> env_pass;  // names passed on from the caller's environment
  ProfileLimits limits;
  AdapterPermissions adapters;
  bool all_landlock_rights = false;
  bool allow_weak = false;  // accept Landlock and seccomp alone where user namespaces are forbidden
};

// The profiles in one file: its [profile.NAME] tables. Unknown keys and wrong types are faults.
Result<std::vector<Profile>> parse_profiles(std::string_view text, const std::string& path);

class Profiles {
 public:
  // The built-in ones, and those in `directory`/*.toml, which may not redefine each other. One faulty
  // file is an error for all: nothing starts on a guess.
  static Result<Profiles> load(const std::string& directory);

  const Profile* find(std::string_view name) const;
  const std::map<std::string, Profile, std::less<>>& all() const { return profiles_; }

 private:
  std::map<std::string, Profile, std::less<>> profiles_;
};

// "4GiB", "512MiB", "1000" -> bytes; "2h", "30m", "10s", "500ms" -> time.
Result<std::uint64_t> parse_size(const std::string& text);
Result<Millis> parse_duration(const std::string& text);

}  // namespace sallyport::policy
