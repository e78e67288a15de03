// Whether one profile allows no more than another.
#pragma once

#include <span>

#include "policy/profile.h"

namespace sallyport::policy {

// POLICY_DENIED names the first key by which `wanted` is wider than `own`, under these rules for all. Careful rather
// than clever: what cannot be seen to be narrower counts as wider.
Status check_within(const Profile& wanted, const Profile& own, std::span<const Rule> rules);

}  // namespace sallyport::policy
