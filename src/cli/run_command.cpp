// sallyport run: a command in a sandbox of its own, on the caller's terminal.
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <iterator>

#include "cli/allow_net.h"
#include "cli/cli11.h"
#include "cli/command.h"
#include "cli/run_adoption.h"
#include "cli/run_egress.h"
#include "containers/launch_spec.h"
#include "os/paths.h"
#include "policy/profile.h"
#include "sandbox/foreground.h"
#include "sandbox/scan_record.h"

namespace sallyport::cli {
namespace {

struct RunArguments {
  std::string profile = "default", workspace;
  std::vector<std::string> command, read, write, exec, env, limits, allow_net;

  // What is named here is meant, wherever links on the way lead. What a wildcard finds was not named.
  std::vector<std::string> named_paths() const;
  bool allow_weak = false, no_warden = false, explain = false;
};

std::optional<std::string> variable(const std::string& name) {
  const char* value = std::getenv(name.c_str());
  if (value == nullptr) return std::nullopt;
  return std::string(value);
}

Status apply_limits(policy::Profile& profile, const std::vector<std::string>& limits) {
  for (const std::string& limit : limits) {
    const std::size_t equals = limit.find('=');
    if (equals == std::string::npos) return Error::make(Code::invalid_params, "--limit takes NAME=VALUE: " + limit);
    const std::string name = limit.substr(0, equals);
    if (name == "idle") {
      return Error::make(Code::invalid_params,
                         "--limit idle is for containers and pods; what runs in the foreground is ended by duration");
    }
    const Status set = profile.limits.set(name, limit.substr(equals + 1));
    if (!set) return Error::make(Code::invalid_params, "--limit " + limit + " " + set.error().message);
  }
  return ok();
}

void apply_environment(policy::Profile& profile, const std::vector<std::string>& env) {
  for (const std::string& item : env) {
    const std::size_t equals = item.find('=');
    if (equals == std::string::npos) {
      if (variable(item)) profile.env.erase(item);
      profile.env_pass.push_back(item);
    } else {
      profile.env[item.substr(0, equals)] = item.substr(equals + 1);
    }
  }
}

std::vector<std::string> RunArguments::named_paths() const {
  std::vector<std::string> paths;
  for (const auto* option : {&read, &write, &exec}) {
    std::transform(option->begin(), option->end(), std::back_inserter(paths), absolute);
  }
  return paths;
}

// A profile may name what only some machines have; who names a path here means it, and where a link there leads.
Status add_paths(std::vector<std::string>& to, const std::vector<std::string>& paths) {
  for (const std::string& path : paths) {
    to.push_back(absolute(path));
    if (path.find_first_of("*?[") != std::string::npos) continue;
    const auto real = os::real_path(to.back());
    if (!real) return Error::from_errno("cannot allow " + escape_for_display(path), errno);
    if (*real != to.back()) to.push_back(*real);
  }
  return ok();
}

struct Prepared {
  sandbox::Spec spec;
  policy::NetPolicy net;
  std::vector<policy::NetRule> added;  // by --allow-net, to whatever the profile says
};

Result<Prepared> prepare(Context& context, const RunArguments& arguments) {
  TRY(check_command(context, arguments.command));
  TRY(policy::Profile profile, policy::Profiles::load_one(context.paths.profiles_dir(), arguments.profile));
  TRY(apply_limits(profile, arguments.limits));
  TRY(check_variables(context, arguments.env));
  apply_environment(profile, arguments.env);
  TRY(add_paths(profile.fs_read, arguments.read));
  TRY(add_paths(profile.fs_write, arguments.write));
  TRY(add_paths(profile.fs_read, arguments.exec));
  TRY(add_paths(profile.exec, arguments.exec));
  profile.allow_weak |= arguments.allow_weak;
  TRY(const auto hosts, allowed_hosts(context, arguments.allow_net));
  profile.net_allow.insert(profile.net_allow.end(), hosts.begin(), hosts.end());
  Prepared prepared;
  TRY(prepared.net, policy::NetPolicy::make(profile.net_allow, profile.net_deny, profile.net_limits));
  prepared.added.assign(prepared.net.allow.end() - static_cast<std::ptrdiff_t>(hosts.size()), prepared.net.allow.end());
  const std::string here = absolute(".");
  sandbox::Spec& spec = prepared.spec;
  TRY(spec, containers::make_spec(profile, {arguments.workspace.empty() ? here : absolute(arguments.workspace),
                                            containers::host_home(), variable}));
  spec.command = arguments.command;
  spec.meant = arguments.named_paths();
  spec.explain = arguments.explain;
  spec.scan_records = context.paths.scan_records();
  // A profile that does not name the workspace has none, and then this directory is not there either.
  const bool has_workspace = !spec.workspace.empty();
  if (has_workspace && (here == spec.workspace || here.starts_with(spec.workspace + "/"))) spec.directory = here;
  // Also where nothing may be reached: whoever tries is told, and the user hears of it at the end. The proxy itself is
  // only started when somebody does.
  if (!profile.allow_weak && !spec.has_proxy) TRY(containers::add_proxy(spec, false));
  return prepared;
}

enum class Trouble : std::uint8_t { none, refused, cut, failed };

Trouble worst_of(const egress::Tally::Entry& entry) {
  if (entry.refused != 0) return Trouble::refused;
  if (entry.cut != 0) return Trouble::cut;
  return entry.failed != 0 ? Trouble::failed : Trouble::none;
}

// One line for each reason of each such host, with the option that would allow it.
void list_hosts(const egress::Tally& tally, Trouble trouble, const char* title) {
  const auto say = [](const std::string& line) { std::fprintf(stderr, "sallyport: %s\n", line.c_str()); };
  constexpr std::size_t kMost = 20;
  std::size_t shown = 0;
  for (const auto& [target, entry] : tally.entries()) {
    if (worst_of(entry) != trouble || ++shown > kMost) continue;
    if (shown == 1) say(title);
    for (const egress::Tally::Reason& reason : entry.reasons) {
      std::string line = "  " + target.first + (target.second == 0 ? "" : ":" + std::to_string(target.second));
      if (reason.count > 1) line += " (" + std::to_string(reason.count) + " times)";
      if (!reason.reason.empty()) line += ": " + reason.reason;
      if (!reason.remedy.empty()) line += "; allow it with --allow-net " + reason.remedy;
      say(line);
    }
  }
  if (shown > kMost) say("  and " + std::to_string(shown - kMost) + " more hosts");
}

void summarize(const RunEgress& egress, const Adoption& adoption) {
  list_hosts(egress.tally(), Trouble::refused, "refused connections:");
  list_hosts(egress.tally(), Trouble::cut, "connections that were cut:");
  list_hosts(egress.tally(), Trouble::failed, "connections that failed:");
  if (adoption.unrecorded() != 0) {
    std::fprintf(stderr, "sallyport: the warden is gone: %llu reports of connections are not in its audit\n",
                 static_cast<unsigned long long>(adoption.unrecorded()));
  }
}

std::string describe(const sandbox::Violation& violation) {
  std::string text = violation.operation;
  if (!violation.target.empty()) text += " " + escape_for_display(violation.target);
  if (violation.count > 1) text += " (" + std::to_string(violation.count) + " times)";
  return text;
}

// The error that the caller got, and what it means here.
std::string explain(const sandbox::Violation& refusal) {
  std::string text = describe(refusal) + ": " + errno_name(refusal.error);
  if (refusal.error == ENOENT) return text + ", the host has it and this sandbox does not (--read shows it)";
  if (refusal.error == EROFS) return text + ", it is not for this sandbox to change (--write allows it)";
  return text;
}

// A few lines on stderr, and only when there is something to say.
void summarize(const sandbox::ExitReport& report, bool is_explained) {
  const auto say = [](const std::string& line) { std::fprintf(stderr, "sallyport: %s\n", line.c_str()); };
  if (report.was_over_memory) say("killed: it used more memory than its limit (raise with --limit memory=8GiB)");
  if (report.was_over_time) say("killed: it ran longer than its limit");
  if (report.went_on) say("killed: it went on while it was stopped, and could have read what was typed here");
  if (!report.violations.empty()) {
    say("refused " + std::to_string(report.violation_count) + " calls by seccomp:");
    for (std::size_t i = 0; i < report.violations.size() && i < 8; ++i) say("  " + describe(report.violations[i]));
    if (!is_explained) say("(which paths and addresses were refused is not seen without --explain)");
  }
  if (!report.refusals.empty()) say("refused paths and addresses:");
  for (const sandbox::Violation& refusal : report.refusals) say("  " + explain(refusal));
  if (report.refusals_dropped != 0) say("  and " + std::to_string(report.refusals_dropped) + " more");
  for (const std::string& path : report.lost_mounts) {
    say("the host replaced " + escape_for_display(path) + " while it ran; its protection was put back");
  }
  for (const std::string& path : report.uncovered) {
    say("the host replaced " + escape_for_display(path) + " while it ran; its protection could not be put back");
  }
  for (const std::string& path : report.removed) say("the host removed " + escape_for_display(path) + " while it ran");
  for (const std::string& sentence : report.missed) say(escape_for_display(sentence));
  for (const std::string& path : report.scan.quarantined) say("quarantined " + escape_for_display(path));
  for (const std::string& path : report.scan.suspicious) say("look at " + escape_for_display(path));
  for (const std::string& sentence : report.scan.notes) say(escape_for_display(sentence));
  for (const std::string& what : report.restored) say("put back " + what);
  for (const std::string& what : report.unrestored) say("it changed, and could not be put back: " + what);
  for (const std::string& remark : sandbox::remarks(report.findings)) say(escape_for_display(remark));
  for (const std::string& loss : report.protections.lost) say("weaker than usual: " + loss);
}

void write_violations(wire::JsonWriter& json, const std::vector<sandbox::Violation>& violations) {
  json.begin_array();
  for (const sandbox::Violation& violation : violations) {
    json.begin_object().member("operation", violation.operation).member("target", violation.target);
    json.member("rule", violation.rule).member("count", violation.count).end_object();
  }
  json.end_array();
}

void print_report(const sandbox::ExitReport& report, const RunEgress& egress, const Adoption& adoption) {
  const std::string json = wire::to_json([&](wire::JsonWriter& writer) {
    const auto strings = [&](const char* name, const std::vector<std::string>& list) {
      writer.key(name).begin_array();
      for (const std::string& item : list) writer.value(item);
      writer.end_array();
    };
    writer.begin_object().member("exit_code", report.exit_code());
    if (report.was_signalled()) writer.member("signal", report.exit_code() - 128);
    if (adoption.is_wanted()) writer.member("container", adoption.id());
    writer.key("protections").raw(report.protections.to_json()).member("violation_count", report.violation_count);
    write_violations(writer.key("violations"), report.violations);
    writer.key("refusals").begin_array();
    for (const sandbox::Violation& refusal : report.refusals) {
      writer.begin_object().member("operation", refusal.operation).member("target", refusal.target);
      writer.member("errno", errno_name(refusal.error)).member("count", refusal.count).end_object();
    }
    writer.end_array().member("refusals_dropped", report.refusals_dropped);
    writer.member("over_memory", report.was_over_memory).member("over_time", report.was_over_time);
    writer.member("went_on", report.went_on);
    strings("lost_mounts", report.lost_mounts);
    strings("uncovered", report.uncovered);
    strings("removed", report.removed);
    strings("quarantined", report.scan.quarantined);
    strings("suspicious", report.scan.suspicious);
    strings("not_searched", report.scan.notes);
    strings("missed", report.missed);
    strings("restored", report.restored);
    strings("unrestored", report.unrestored);
    strings("tracked_secrets", report.findings.tracked_secrets);
    strings("changed_secrets", report.findings.changed_secrets);
    strings("unread_indexes", report.findings.unread_indexes);
    writer.key("hard_links").begin_array();  // pinned files that have another name
    for (const auto& [path, pin] : report.findings.doubtful_pins) {
      if (pin.has_other_names) writer.value(path);
    }
    writer.end_array();
    writer.key("left_out").begin_array();
    for (const auto& [path, real] : report.findings.left_out) {
      writer.begin_object().member("path", path).member("leads_to", real).end_object();
    }
    writer.end_array();
    egress.tally().write(writer.key("net"));
    writer.member("net_fault", egress.fault()).member("unrecorded", adoption.unrecorded()).end_object();
  });
  std::fprintf(stderr, "%s\n", for_terminal(json, STDERR_FILENO).c_str());
}

std::vector<std::string> findings_of(const sandbox::ExitReport& report) {
  std::vector<std::string> all = report.missed;
  for (std::string& found : report.scan.sentences()) all.push_back(std::move(found));
  sandbox::shorten(all);
  return all;
}

bool is_program(const std::string& path) {
  struct stat info{};
  return ::stat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode) && ::access(path.c_str(), X_OK) == 0;
}

// The first directory of a PATH that has such a program.
std::string find_in(const std::string& path, const std::string& name) {
  for (std::size_t at = 0; at < path.size();) {
    const std::size_t end = std::min(path.find(':', at), path.size());
    std::string place = absolute(path.substr(at, end - at)) + "/" + name;
    if (end > at && is_program(place)) return place;
    at = end + 1;
  }
  return {};
}

std::string path_inside(const sandbox::Spec& spec) {
  for (const std::string& item : spec.environment) {
    if (item.starts_with("PATH=")) return item.substr(5);
  }
  return {};
}

// What --exec must name so that a program may run: by its mere name it is found where all of a directory may be
// executed. That is not to be a directory with all that the user has.
std::string to_allow(const std::string& program, bool is_sought) {
  std::string directory = std::filesystem::path(program).parent_path();
  return is_sought && !os::is_within(containers::host_home(), directory) ? directory : program;
}

// The sandbox could not execute what the host has: where it is, and what would let it run.
Error with_remedy(Error error, const sandbox::Spec& spec) {
  const std::string& name = spec.command.front();
  const bool is_sought = name.find('/') == std::string::npos;
  const bool is_about_command =
      error.message.starts_with(sandbox::kNoSuchCommand) || error.message.starts_with(sandbox::kNotExecutable);
  if (!is_about_command) return error;
  if (std::error_code ignored; !is_sought && std::filesystem::is_directory(name, ignored)) {
    error.message += "; it is a directory";
    return error;
  }
  const std::string place = is_sought ? find_in(variable("PATH").value_or(""), name) : absolute(name);
  if (!is_program(place)) return error;
  std::string options;
  for (const std::string& path : {place, os::real_path(place).value_or(place)}) {
    const std::string wanted = to_allow(path, is_sought);
    const bool is_allowed = std::any_of(spec.exec.begin(), spec.exec.end(),
                                        [&](const std::string& root) { return os::is_within(wanted, root); });
    const std::string option = " --exec " + wanted;
    if (!is_allowed && !options.ends_with(option)) options += option;
  }
  if (!options.empty()) {
    const bool is_by_path = is_sought && to_allow(place, true) == place;
    error.message += "; the host has it as " + place + ", which this sandbox does not run (allow it with" + options +
                     (is_by_path ? ", and name it by its path" : "") +
                     "; profile agent runs what is installed in a home)";
  } else if (is_sought && find_in(path_inside(spec), name).empty()) {
    error.message += "; it is " + place + ", and PATH in the sandbox does not lead there";
  } else if (error.code == Code::not_found) {
    error.message += "; " + place + " is there, but the interpreter that it names is not";
  }
  return error;
}

void run(Context& context, const RunArguments& arguments) {
  auto prepared = context.paths_fault ? Result<Prepared>(*context.paths_fault) : prepare(context, arguments);
  if (!prepared) {
    report(context, prepared.error());
    context.exit_code = static_cast<int>(Exit::usage);
    return;
  }
  sandbox::Spec& spec = prepared->spec;
  Adoption adoption(arguments.no_warden ? nullptr : &context.paths, arguments.profile, spec);
  RunEgress egress(std::move(prepared->net), context.paths.egress_hosts,
                   [&](const egress::Report& report) { adoption.report(report); });
  const auto follow_policy = [&] {
    auto policy = adoption.take_policy();
    if (!policy) return;
    policy->allow.insert(policy->allow.end(), prepared->added.begin(), prepared->added.end());
    egress.update(std::move(*policy));
  };
  sandbox::ForegroundOptions options;
  options.launch.wants_pid_namespace = adoption.is_wanted();
  options.on_started = [&](const sandbox::Running& running) {
    egress.take(running.proxy_listener());
    adoption.started(running);
    follow_policy();
  };
  options.others = {{[&] { return egress.poll_fd(); }, [&] { egress.on_readable(); }},
                    {[&] { return adoption.poll_fd(); },
                     [&] {
                       adoption.on_readable();
                       follow_policy();
                     }}};
  const auto outcome = sandbox::run_foreground(spec, options);
  egress.finish();
  adoption.finish();
  if (!outcome) {
    context.exit_code = static_cast<int>(report(context, with_remedy(outcome.error(), spec)));
    return;
  }
  if (context.wants_json) {
    print_report(*outcome, egress, adoption);
  } else {
    summarize(*outcome, arguments.explain);
    summarize(egress, adoption);
  }
  if (!outcome->violations.empty()) {
    adoption.refused([&](wire::JsonWriter& json) { write_violations(json, outcome->violations); });
  }
  if (const auto findings = findings_of(*outcome); !findings.empty()) adoption.found(findings);
  adoption.ended(outcome->wait_status);
  context.exit_code = outcome->exit_code();
  if (WIFSIGNALED(outcome->wait_status) && WTERMSIG(outcome->wait_status) == SIGINT) context.death = SIGINT;
}

}  // namespace

void add_run_command(CLI::App& app, Context& context) {
  auto* command = app.add_subcommand("run", "Run a command in a sandbox; this directory is its workspace");
  const auto arguments = std::make_shared<RunArguments>();
  command->add_option("--profile", arguments->profile, "What it may do")->type_name("NAME")->capture_default_str();
  command->add_option("--workspace", arguments->workspace, "The directory it works in (default: this one)")
      ->type_name("DIR");
  command->add_option("--read", arguments->read, "Also readable")->type_name("PATH");
  command->add_option("--write", arguments->write, "Also writable")->type_name("PATH");
  command->add_option("--exec", arguments->exec, "Also readable, and its programs may run")->type_name("PATH");
  command->add_option("--env", arguments->env, "A variable to set, or to pass on")->type_name("K[=V]");
  command->add_option("--limit", arguments->limits, "memory=2GiB, pids=100, duration=10m, ...")
      ->type_name("NAME=VALUE");
  add_allow_net(*command, arguments->allow_net);
  command->add_flag("--explain", arguments->explain, "Also say which paths and addresses were refused (slower)");
  command->add_flag("--allow-weak", arguments->allow_weak,
                    "Without user namespaces, accept Landlock and seccomp alone");
  command->add_flag("--no-warden", arguments->no_warden, "Without a door to the warden");
  command->add_option("CMD", arguments->command, "The command and its arguments, behind --")->required();
  for (CLI::Option* option : command->get_options()) {
    if (option->get_name() != "CMD" && option->get_expected_max() > 1) option->expected(1)->take_all();
  }
  command->positionals_at_end();
  command->callback([&context, arguments] { run(context, *arguments); });
}

}  // namespace sallyport::cli
