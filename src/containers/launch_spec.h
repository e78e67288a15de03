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

// Where a system has its programs.
inline constexpr const char* kSystemPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

struct LaunchContext {
  std::string workspace;  // an existing directory, or empty for none
  std::string home;       // the host user's; inside, a private and empty one takes its place
  // The caller's environment, asked only for what the profile passes on and for PATH.
  std::function<std::optional<std::string>(const std::string&)> variable;
};

// For who launches. INVALID_PARAMS names what is wrong: a workspace that is no directory, is not for this user to read,
// is the root or a whole home, or belongs to Sallyport itself; a link to our own directories that the sandbox could
// exchange. Paths that do not exist are left out, as the sandbox does, and so are our own directories, wherever they
// lie: those that are missing where the sandbox could make them are made first, and if that fails, its error. With
// net.allow the sandbox has a proxy.
Result<sandbox::Spec> make_spec(const policy::Profile& profile, const LaunchContext& context);
// The same for who only looks: makes nothing.
Result<sandbox::Spec> show_spec(const policy::Profile& profile, const LaunchContext& context);

// What every built-in profile denies of the system, as it lies here.
std::vector<std::string> system_secrets();

// Gives a sandbox the listener of a proxy and the variables by which programs find it; see docs/egress.md.
// `names_loopback`: its rules name a loopback address of the host, so that what is asked of one is asked of the proxy.
Status add_proxy(sandbox::Spec& spec, bool names_loopback);

// The home directory of the user this process runs as.
std::string host_home();

}  // namespace sallyport::containers
