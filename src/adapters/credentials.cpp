#include "adapters/credentials.h"

#include <algorithm>
#include <cstdlib>

#include "os/files.h"

namespace sallyport::adapters {
namespace {

constexpr std::size_t kMaxSecretBytes = 16U << 10;

}  // namespace

Result<std::string> read_credential(const platform::Config& config, const std::string& name) {
  const auto found = config.credentials.find(name);
  const auto missing = [&](const std::string& why) {
    Error error =
        Error::make(Code::unavailable, "a credential of the host is missing", "credential " + name + ": " + why);
    error.retryable = true;
    return error;
  };
  if (found == config.credentials.end()) return missing("not configured");
  std::string secret;
  if (!found->second.from_env.empty()) {
    const char* value = std::getenv(found->second.from_env.c_str());
    if (value == nullptr || *value == '\0') {
      return missing("the variable " + found->second.from_env +
                     " is not set where the warden was started; set it and "
                     "start the warden again");
    }
    secret = value;
  } else {
    auto content = os::read_private_file(found->second.from_file, kMaxSecretBytes);
    if (!content) return missing(content.error().describe());
    secret = std::move(*content);
  }
  while (!secret.empty() && (secret.back() == '\n' || secret.back() == '\r')) secret.pop_back();
  // A line break would start another header.
  if (secret.empty() || secret.find_first_of(std::string_view("\r\n\0", 3)) != std::string::npos) {
    return missing("is no single line of text");
  }
  return secret;
}

Status check_destination(const platform::Credential& credential, const platform::Address& address,
                         std::string_view path) {
  const bool is_host =
      std::find(credential.hosts.begin(), credential.hosts.end(), address.host) != credential.hosts.end();
  const bool is_path =
      credential.paths.empty() ||
      std::any_of(credential.paths.begin(), credential.paths.end(), [&](const std::string& each) {
        return each.ends_with('*') ? path.starts_with(std::string_view(each).substr(0, each.size() - 1)) : path == each;
      });
  if (is_host && is_path) return ok();
  return Error::make(Code::policy_denied, "a credential may not be sent there", address.host + std::string(path));
}

}  // namespace sallyport::adapters
