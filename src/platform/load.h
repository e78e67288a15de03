// The platform section of the host's configuration, from where it is kept: [platform] of sallyport.toml, or the
// same as JSON in platform.json beside it.
#pragma once

#include <string>

#include "base/base.h"
#include "platform/config.h"

namespace sallyport::platform {

// Neither is there: a platform without adapters. Both are there: a fault.
Result<Config> load_config(const std::string& sallyport_toml);

}  // namespace sallyport::platform
