// Whether one profile allows no more than another.
#pragma once

#include "policy/profile.h"

namespace sallyport::policy {

// POLICY_DENIED names the first key by which `wanted` is wider than `own`. Careful rather than clever: what
// cannot be seen to be narrower counts as wider.
Status check_within(const Profile& wanted, const Profile& own);

}  // namespace sallyport::policy
