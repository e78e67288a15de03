// The `platform` section: which adapters there are, with which options, under which credentials. Data only:
// names, numbers, addresses. A secret in it is refused when it is read.
//
//   [platform]
//   on_init_failure = "noop"                  # or "error"
//   allow_adapters  = ["files", "redis", "openai"]   # implementations that may be used; default: all built in
//   [platform.adapters]
//   storage = "files"                         # role = implementation, or a list: the first that can be had
//   cache   = ["redis", "memory"]
//   llm     = "openai"
//   [platform.placement]
//   cache   = "host"                          # or "worker": files, memory, echo and hashing need nothing of the host
//   [platform.adapter_options.openai]
//   url = "https://api.example.com/v1"
//   credential = "llm"
//   models = { small = "model-name-at-the-provider" }
//   [platform.credentials.llm]
//   from_env = "LLM_API_KEY"                  # or from_file = "/path"
//   inject = "bearer"                         # or "password", or "header:NAME"
//   hosts = ["api.example.com"]
//   paths = ["/v1/*"]
//   [platform.quotas]
//   requests_per_minute = 600                 # for tenants whose profile says nothing else
//   [platform.third_party.mine]
//   path = "/opt/adapters/mine"
//   sha256 = "..."
//   roles = ["cache"]
//   hosts = ["api.example.com"]               # as in net.allow of a profile; without: no network
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/base.h"
#include "platform/operations.h"
#include "platform/tree.h"
#include "policy/adapter_grants.h"

namespace sallyport::platform {

struct Credential {
  std::string from_env, from_file;  // exactly one of them
  std::string inject = "bearer";    // or "password", "header:NAME"
  std::vector<std::string> hosts;   // it is sent to no other
  std::vector<std::string> paths;   // nor to other paths; empty: any
};

// Of one implementation; what it does not know is refused when it is read.
struct Options {
  std::string url, credential, directory;
  std::map<std::string, std::string> models, embedding_models;  // our name -> the backend's
  std::int64_t dimensions = 0;
  std::int64_t max_bytes = 0;
};

struct ThirdParty {
  std::string path, sha256, credential;
  std::vector<std::string> roles;
  std::vector<std::string> hosts;  // rules of policy/net.h
};

enum class Placement : std::uint8_t { host, worker };

struct Config {
  std::map<Role, std::vector<std::string>> adapters;
  std::map<Role, Placement> placement;
  std::map<std::string, Options, std::less<>> options;  // by implementation
  std::map<std::string, Credential, std::less<>> credentials;
  std::map<std::string, ThirdParty, std::less<>> third_party;
  policy::AdapterQuotas quotas;
  bool is_init_failure_an_error = false;

  const Options& options_of(const std::string& implementation) const;
  // The hosts that an implementation talks to, or may; none if it stays on this machine.
  std::vector<std::string> hosts_of(const std::string& implementation) const;
};

// INVALID_PARAMS names file, line, column and reason.
Result<Config> parse_config(const Node& platform, const std::string& path);
// What parse_config() reads back to the same.
std::string to_json(const Config& config);
// Names this configuration: a worker that knows another one must start anew.
std::string hash_of(const Config& config);

// Implementations that come with the adapters, per role.
bool is_built_in(Role role, std::string_view implementation);
// What a worker can do by itself. Files are then in its workspace, below kWorkerStorage.
inline constexpr std::string_view kWorkerStorage = "/.sallyport/storage";
bool may_run_in_worker(Role role, std::string_view implementation);

}  // namespace sallyport::platform
