// Finds what should not be in a configuration: secrets, places for them, and text to be interpolated.
#pragma once

#include <string>

#include "base/base.h"
#include "platform/tree.h"

namespace sallyport::platform {

Status refuse_secrets(const std::string& path, const Node& node);

}  // namespace sallyport::platform
