// From a profile, which speaks of ~ and ${workspace}, to a sandbox's specification, which speaks of this
// machine's paths.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "base/base.h"
#include "policy/profile.h"
#include "sandbox/spec.h"

namespace sallyport::containers {

struct LaunchContext {
  std::string workspace;  // an existing directory, or empty for none
  std::string home;       // the host user's; inside, a private and empty one takes its place
  // The caller's environment, asked only for what the profile passes on.
  std::function<std::optional<std::string>(const std::string&)> variable;
};

// INVALID_PARAMS names what is wrong: a workspace that is no directory, is the root or a whole home;
// net.allow, while there is no egress. Paths that do not exist are left out, as the sandbox does.
Result<sandbox::Spec> make_spec(const policy::Profile& profile, const LaunchContext& context);

// The home directory of the user this process runs as.
std::string host_home();

}  // namespace sallyport::containers
