// Whether rules speak of things that exist. A rule about a name that is misspelt demands and denies nothing, and nobody
// would notice.
#pragma once

#include <functional>
#include <string_view>
#include <vector>

#include "policy/policy.h"

namespace sallyport::warden {

// `is_known` says whether a pattern ("fs.read", "fs.*") is the name of any method or signal. The fault names file and
// line.
Status check_names(const std::vector<policy::Rule>& rules, const policy::Profiles& profiles,
                   const std::function<bool(std::string_view)>& is_known);

}  // namespace sallyport::warden
