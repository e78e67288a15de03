// --allow-net, of every command that starts something which may then reach a host.
#pragma once

#include <string>
#include <vector>

#include "base/base.h"
#include "cli/command.h"

namespace sallyport::cli {

void add_allow_net(CLI::App& command, std::vector<std::string>& hosts);
// The rules that were asked for, lists expanded. INVALID_PARAMS or NOT_FOUND, which is wrong usage, names a wrong one.
Result<std::vector<std::string>> allowed_hosts(Context& context, const std::vector<std::string>& hosts);

}  // namespace sallyport::cli
