// A profile: what a container may do, as the host wrote it down in TOML. See docs/profiles.md.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/base.h"
#include "policy/adapter_grants.h"
#include "policy/net.h"
#include "policy/rule.h"

namespace sallyport::policy {

// What the built-in deputy accepts, and how long any deputy may take. See docs/approvals.md.
struct DeputyLimits {
  std::size_t prompt_length = 8192;  // bytes of a prompt or of instructions
  // Words and phrases that no text may contain: letters of either case, * for anything between.
  std::vector<std::string> forbidden = {
      "ignore * previous instructions", "ignore previous instructions", "disregard * instructions",
      "reveal * system prompt",         "do not tell the user",         "PRIVATE KEY-----",
  };
  Millis interval{5 * 60 * 1000};  // the least time between two runs of a schedule
  // Paths that no deployed commit may touch: globs, relative to the repository.
  std::vector<std::string> protected_paths = {".github/*", ".gitlab-ci.yml", ".git*", "*.pem", "*.key", ".env*"};
  Millis timeout{60'000};

  bool operator==(const DeputyLimits&) const = default;
};

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
  // Rules as in net.h. parse_profiles() leaves "@list" as it is; Profiles::load() puts the list's rules there.
  std::vector<std::string> net_allow, net_deny;
  NetLimits net_limits;
  std::vector<std::string> methods;        // what its door answers
  std::vector<std::string> token_methods;  // of these, what also needs a capability token
  std::vector<std::string> signals;        // what its mailbox takes
  std::vector<Rule> rules;                 // from `review`, `rates` and its own [[profile.NAME.rule]]
  std::vector<std::string> agent;          // what runs a scheduled prompt, which it gets on stdin; empty: none
  std::vector<std::string> deputy;         // an executable deputy's argv; empty: the built-in rules
  DeputyLimits deputy_limits;
  std::vector<std::string> command;  // a template's command; empty: none
  std::map<std::string, std::string> env;
  std::vector<std::string> env_pass;  // names passed on from the caller's environment
  ProfileLimits limits;
  AdapterPermissions adapters;
  bool refuse_hard_links = false;  // fs.* opens no file that has more than one name
  bool all_landlock_rights = false;
  bool allow_weak = false;  // accept Landlock and seccomp alone where user namespaces are forbidden
  std::string text;         // all of it in one spelling, for the policy's hash
};

// Why an entry of fs.deny could not hide what it seems to; nothing if it can.
std::optional<std::string> deny_problem(const std::string& path);

// The profiles in one file: its [profile.NAME] tables. Unknown keys and wrong types are faults.
Result<std::vector<Profile>> parse_profiles(std::string_view text, const std::string& path);

class Profiles {
 public:
  // The built-in ones, and those in `directory`/*.toml, which may not redefine each other. One faulty
  // file is an error for all: nothing starts on a guess.
  static Result<Profiles> load(const std::string& directory);
  // One of them; of the built-in ones only this is read, which is faster.
  static Result<Profile> load_one(const std::string& directory, std::string_view name);

  const Profile* find(std::string_view name) const;
  const std::map<std::string, Profile, std::less<>>& all() const { return profiles_; }

 private:
  Status add_builtin(std::string_view text);
  Status add_files(const std::string& directory);
  Status expand_lists(const std::string& directory);

  std::map<std::string, Profile, std::less<>> profiles_;
};

// "4GiB", "512MiB", "1000" -> bytes; "2h", "30m", "10s", "500ms" -> time.
Result<std::uint64_t> parse_size(const std::string& text);
Result<Millis> parse_duration(const std::string& text);

}  // namespace sallyport::policy
