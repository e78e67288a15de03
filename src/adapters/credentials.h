// Secrets, by name, from this process's environment or a private file. Read when they are used, kept nowhere.
#pragma once

#include <string>

#include "base/base.h"
#include "platform/address.h"
#include "platform/config.h"

namespace sallyport::adapters {

// The error says which credential is missing, never what any holds.
Result<std::string> read_credential(const platform::Config& config, const std::string& name);
// POLICY_DENIED unless the credential may be sent there.
Status check_destination(const platform::Credential& credential, const platform::Address& address,
                         std::string_view path);

}  // namespace sallyport::adapters
