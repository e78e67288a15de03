// The keys of adapter_grants.h, for whoever reads a profile's table. For .cpp files only, as toml_table.h is.
#pragma once

#include "policy/adapter_grants.h"
#include "policy/toml_table.h"

namespace sallyport::policy {

void add_adapter_setters(toml_table::Setters& setters, AdapterPermissions& permissions);

}  // namespace sallyport::policy
