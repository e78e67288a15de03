// What every command shares: where things live, how to print, how errors become exit codes.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "base/base.h"
#include "os/paths.h"
#include "wire/json.h"

namespace CLI {  // NOLINT(readability-identifier-naming): the library's own name
class App;
}

namespace sallyport::cli {

enum class Exit : int { done = 0, failed = 1, usage = 2, denied = 3, unreachable = 4, lost = 5 };

struct Context {
  os::Paths paths;
  std::optional<Error> paths_fault;  // why there are none: told by the commands that need them
  std::string version;
  bool wants_json = false;
  int exit_code = 0;  // set by the command that ran
  int death = 0;      // the signal by which to end in its stead
};

// Each adds its subcommands to the program.
void add_warden_commands(CLI::App& app, Context& context);
void add_doctor_command(CLI::App& app, Context& context);
void add_run_command(CLI::App& app, Context& context);
void add_container_commands(CLI::App& app, Context& context);
void add_pod_commands(CLI::App& app, Context& context);
void add_schedule_commands(CLI::App& app, Context& context);
void add_policy_commands(CLI::App& app, Context& context);
void add_audit_commands(CLI::App& app, Context& context);
void add_mailbox_commands(CLI::App& app, Context& context);
void add_mcp_command(CLI::App& app, Context& context);
void add_platform_commands(CLI::App& app, Context& context);
void add_approval_commands(CLI::App& app, Context& context);

// Runs a command when it was named, and turns its error into an exit code.
void on_run(CLI::App* command, Context& context, std::function<Status()> work);

// An error of whoever typed the command: exit code 2.
Error wrong_usage(Context& context, std::string message);
// Of --env, which takes NAME=VALUE, or NAME to pass it on.
Status check_variables(Context& context, const std::vector<std::string>& items);

// Of what is to run: its name is not empty.
Status check_command(Context& context, const std::vector<std::string>& words);

// As it is named from here: nothing of it is looked up, and no slash is at its end.
std::string absolute(const std::string& path);

// Prints an error (as JSON with --json) and returns the exit code that fits it.
Exit report(const Context& context, const Error& error);

// ---- printing ----
bool is_terminal();
// Wraps text in a colour, on a terminal only, unless that is a dumb one or NO_COLOR is set.
std::string green(std::string_view text);
std::string red(std::string_view text);
std::string yellow(std::string_view text);
std::string dim(std::string_view text);
// What a terminal may be sent: of all that it would not show as it is only our own colours stay. Text for anything else
// is not touched.
std::string for_terminal(std::string_view text, int fd);
void print(std::string_view line);  // to stdout, with a newline

}  // namespace sallyport::cli
