// sallyport mcp: for MCP clients, which start it and speak with it on stdin and stdout.
#include <unistd.h>

#include <cstdio>
#include <filesystem>

#include "cli/cli11.h"
#include "cli/command.h"
#include "cli/warden_link.h"
#include "mcp/mcp.h"
#include "policy/policy.h"

namespace sallyport::cli {
namespace {

struct McpArguments {
  std::string profile = "mcp", workspace = ".";
  bool is_read_only = false;
};

Status serve_mcp(const Context& context, const McpArguments& arguments) {
  std::error_code failed;
  const auto workspace = std::filesystem::canonical(arguments.workspace, failed);
  if (failed || !std::filesystem::is_directory(workspace, failed)) {
    return Error::make(Code::not_found, "the workspace '" + arguments.workspace +
                                            (failed ? "' is not there" : "' is no directory") +
                                            "; name one with --workspace");
  }
  TRY(const policy::Profile profile, policy::Profiles::load_one(context.paths.profiles_dir(), arguments.profile));
  mcp::BridgeOptions options;
  options.place = {arguments.profile, workspace.string(), arguments.is_read_only, !profile.net_allow.empty()};
  options.version = context.version;
  // A tool that policy would refuse every time is better not offered.
  options.with_exec = policy::matches_any(profile.methods, "container.exec");
  const auto connect = [&](mcp::Place::Warden wanted) -> Result<std::unique_ptr<Client>> {
    if (wanted == mcp::Place::Warden::running) return connect_warden(context.paths);
    TRY(Started warden, ensure_warden(context.paths));
    return std::move(warden.client);
  };
  if (::isatty(STDIN_FILENO) != 0) {
    std::fputs("sallyport: this speaks MCP on its standard streams and is started by a client; see sallyport-mcp(1)\n",
               stderr);
  }
  mcp::Bridge bridge(connect, options);
  TRY(bridge.run());
  for (const std::string& finding : bridge.findings()) {
    std::fprintf(stderr, "sallyport: %s\n", escape_for_display(finding).c_str());
  }
  return ok();
}

}  // namespace

void add_mcp_command(CLI::App& app, Context& context) {
  auto* command = app.add_subcommand("mcp", "Serve an MCP client: tools for files and commands, in a sandbox");
  const auto arguments = std::make_shared<McpArguments>();
  command->add_option("--profile", arguments->profile, "What the sandbox may do")
      ->type_name("NAME")
      ->capture_default_str();
  command->add_option("--workspace", arguments->workspace, "The directory it works in (default: this one)")
      ->type_name("DIR");
  command->add_flag("--read-only", arguments->is_read_only, "Only tools that change nothing; the workspace too");
  on_run(command, context, [&context, arguments] { return serve_mcp(context, *arguments); });
}

}  // namespace sallyport::cli
