// Whether rules speak of things that exist. A rule about a name that is misspelt demands and denies nothing, and nobody
// would notice.
#pragma once

#include <vector>

#include "mailbox/signal.h"
#include "policy/policy.h"
#include "warden/config.h"

namespace sallyport::warden {

// The rules of the configuration and of the profiles against all methods, profiles and signals: the built-in ones, the
// declared ones, and `more`. The fault names file and line.
Status check_names(const Config& config, const policy::Profiles& profiles,
                   const std::vector<mailbox::Signal>& more = {});

}  // namespace sallyport::warden
