#include "cli/allow_net.h"
#include "cli/cli11.h"

#include "policy/net.h"
#include "policy/net_lists.h"

namespace sallyport::cli {

void add_allow_net(CLI::App& command, std::vector<std::string>& hosts) {
  command.add_option("--allow-net", hosts, "A host it may reach, or a list such as @github")
      ->type_name("HOST[:PORT]")
      ->expected(1)
      ->take_all();
}

Result<std::vector<std::string>> allowed_hosts(Context& context, const std::vector<std::string>& hosts) {
  context.exit_code = static_cast<int>(Exit::usage);
  auto expanded = policy::expand_net_lists(hosts, policy::net_lists_dir(context.paths.profiles_dir()));
  if (!expanded) return Error::make(expanded.error().code, "--allow-net: " + expanded.error().message);
  for (const std::string& host : *expanded) {
    if (const auto rule = policy::NetRule::parse(host); !rule) {
      return Error::make(Code::invalid_params, "--allow-net " + rule.error().message);
    }
  }
  context.exit_code = 0;
  return expanded;
}

}  // namespace sallyport::cli
