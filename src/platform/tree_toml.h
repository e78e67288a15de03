// A TOML table as a tree. For .cpp files only: toml++ is a heavy header.
#pragma once

#include "platform/tree.h"
#include "policy/toml_table.h"

namespace sallyport::platform {

Node tree_from_toml(const toml::node& node);

}  // namespace sallyport::platform
