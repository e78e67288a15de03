// Whether rules speak of things that exist. A rule about a name that is misspelt demands and denies nothing, and nobody
// would notice.
#pragma once

#include <string_view>
#include <vector>

#include "mailbox/signal.h"
#include "policy/policy.h"
#include "warden/config.h"

namespace sallyport::warden {

// Whether a method or signal has this name; `more` are signals beside the built-in and the declared ones.
bool is_name(std::string_view name, const Config& config, const std::vector<mailbox::Signal>& more);

// The rules of the configuration and of the profiles against all methods, profiles and signals: the built-in ones, the
// declared ones, and `more`. The fault names file and line.
Status check_names(const Config& config, const policy::Profiles& profiles,
                   const std::vector<mailbox::Signal>& more = {});

}  // namespace sallyport::warden
