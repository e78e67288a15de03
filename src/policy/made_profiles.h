// The built-in profiles as the parser read them at build time (tools/make_profiles.cpp): who starts a sandbox does not
// wait for one. Parsing the text of builtin_profiles.h gives the very same; the build and a test compare them.
#pragma once

#include <span>
#include <string_view>

#include "policy/profile.h"

namespace sallyport::policy {

struct MadeProfile {
  std::string_view name;
  Profile (*make)();
};

std::span<const MadeProfile> made_profiles();

}  // namespace sallyport::policy
