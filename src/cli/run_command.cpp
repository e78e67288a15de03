// sallyport run: a command in a sandbox of its own, on the caller's terminal.
#include <unistd.h>

#include <cerrno>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "cli/allow_net.h"
#include "cli/command.h"
#include "cli/run_egress.h"
#include "client/client.h"
#include "containers/launch_spec.h"
#include "containers/registry.h"
#include "os/peer.h"
#include "policy/profile.h"
#include "sandbox/foreground.h"

namespace sallyport::cli {
namespace {

struct RunArguments {
  std::string profile = "default", workspace;
  std::vector<std::string> command, read, write, env, limits, allow_net;
  bool allow_weak = false, no_warden = false, explain = false;
};

std::optional<std::string> variable(const std::string& name) {
  const char* value = std::getenv(name.c_str());
  if (value == nullptr) return std::nullopt;
  return std::string(value);
}

std::string absolute(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::absolute(path, ignored).lexically_normal().string();
}

Status apply_limits(policy::Profile& profile, const std::vector<std::string>& limits) {
  for (const std::string& limit : limits) {
    const std::size_t equals = limit.find('=');
    if (equals == std::string::npos) return Error::make(Code::invalid_params, "--limit takes NAME=VALUE: " + limit);
    const Status set = profile.limits.set(limit.substr(0, equals), limit.substr(equals + 1));
    if (!set) return Error::make(Code::invalid_params, "--limit " + limit + " " + set.error().message);
  }
  return ok();
}

void apply_environment(policy::Profile& profile, const std::vector<std::string>& env) {
  for (const std::string& item : env) {
    const std::size_t equals = item.find('=');
    if (equals == std::string::npos) {
      profile.env_pass.push_back(item);
    } else {
      profile.env[item.substr(0, equals)] = item.substr(equals + 1);
    }
  }
}

// A profile may name what only some machines have; who names a path here means it.
Status add_paths(std::vector<std::string>& to, const std::vector<std::string>& paths) {
  for (const std::string& path : paths) {
    to.push_back(absolute(path));
    const bool is_pattern = path.find_first_of("*?[") != std::string::npos;
    if (!is_pattern && ::access(to.back().c_str(), F_OK) != 0) return Error::from_errno("cannot allow", errno, path);
  }
  return ok();
}

struct Prepared {
  sandbox::Spec spec;
  policy::NetPolicy net;
};

Result<Prepared> prepare(const Context& context, const RunArguments& arguments) {
  TRY(policy::Profile profile, policy::Profiles::load_one(context.paths.profiles_dir(), arguments.profile));
  TRY(apply_limits(profile, arguments.limits));
  apply_environment(profile, arguments.env);
  TRY(add_paths(profile.fs_read, arguments.read));
  TRY(add_paths(profile.fs_write, arguments.write));
  profile.allow_weak |= arguments.allow_weak;
  TRY(const auto hosts, allowed_hosts(context, arguments.allow_net));
  profile.net_allow.insert(profile.net_allow.end(), hosts.begin(), hosts.end());
  Prepared prepared;
  TRY(prepared.net, policy::NetPolicy::make(profile.net_allow, profile.net_deny, profile.net_limits));
  const std::string here = absolute(".");
  sandbox::Spec& spec = prepared.spec;
  TRY(spec, containers::make_spec(profile, {arguments.workspace.empty() ? here : absolute(arguments.workspace),
                                            containers::host_home(), variable}));
  spec.command = arguments.command;
  spec.explain = arguments.explain;
  spec.scan_records = context.paths.scan_records();
  if (here == spec.workspace || here.starts_with(spec.workspace + "/")) spec.directory = here;
  // Also where nothing may be reached: whoever tries is told, and the user hears of it at the end. The proxy itself is
  // only started when somebody does.
  if (!profile.allow_weak && !spec.has_proxy) TRY(containers::add_proxy(spec));
  return prepared;
}

// Hosts that were refused, each with the option that would allow it.
void summarize(const RunEgress& egress) {
  const auto say = [](const std::string& line) { std::fprintf(stderr, "sallyport: %s\n", line.c_str()); };
  if (!egress.fault().empty()) say("the egress proxy could not be started: " + egress.fault());
  if (egress.tally().refused() != 0) say("refused connections:");
  constexpr std::size_t kMost = 20;
  std::size_t shown = 0;
  for (const auto& [target, entry] : egress.tally().entries()) {
    if (entry.refused == 0 || ++shown > kMost) continue;
    std::string line = "  " + target.first + ":" + std::to_string(target.second);
    if (entry.refused > 1) line += " (" + std::to_string(entry.refused) + " times)";
    line += ": " + entry.reason;
    if (!entry.remedy.empty()) line += "; allow it with --allow-net " + entry.remedy;
    say(line);
  }
  if (shown > kMost) say("  and " + std::to_string(shown - kMost) + " more hosts");
}

std::string describe(const sandbox::Violation& violation) {
  std::string text = violation.operation;
  if (!violation.target.empty()) text += " " + escape_for_display(violation.target);
  if (violation.count > 1) text += " (" + std::to_string(violation.count) + " times)";
  return text;
}

// A few lines on stderr, and only when there is something to say.
void summarize(const sandbox::ExitReport& report) {
  const auto say = [](const std::string& line) { std::fprintf(stderr, "sallyport: %s\n", line.c_str()); };
  if (report.was_over_memory) say("killed: it used more memory than its limit (raise with --limit memory=8GiB)");
  if (report.was_over_time) say("killed: it ran longer than its limit");
  if (!report.violations.empty()) {
    say("refused " + std::to_string(report.violation_count) + " calls by seccomp:");
    for (std::size_t i = 0; i < report.violations.size() && i < 8; ++i) say("  " + describe(report.violations[i]));
  }
  if (!report.refusals.empty()) say("refused paths and addresses:");
  for (const sandbox::Violation& refusal : report.refusals) {
    say("  " + describe(refusal) + ": " + errno_name(refusal.error));
  }
  for (const std::string& path : report.lost_mounts) {
    say("the host replaced " + escape_for_display(path) + " while it ran; its protection was put back");
  }
  for (const std::string& path : report.removed) say("the host removed " + escape_for_display(path) + " while it ran");
  for (const std::string& sentence : report.missed) say(escape_for_display(sentence));
  for (const std::string& path : report.scan.quarantined) say("quarantined " + escape_for_display(path));
  for (const std::string& path : report.scan.suspicious) say("look at " + escape_for_display(path));
  for (const std::string& sentence : report.scan.notes) say(escape_for_display(sentence));
  for (const std::string& what : report.restored) say("put back " + what);
  for (const std::string& path : report.findings.tracked_secrets) {
    say(escape_for_display(path) + " looks like a secret and is tracked by git: it was readable");
  }
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

void print_report(const sandbox::ExitReport& report, const RunEgress& egress) {
  const std::string json = wire::to_json([&](wire::JsonWriter& writer) {
    const auto strings = [&](const char* name, const std::vector<std::string>& list) {
      writer.key(name).begin_array();
      for (const std::string& item : list) writer.value(item);
      writer.end_array();
    };
    writer.begin_object().member("exit_code", report.exit_code()).key("protections");
    write_violations(writer.raw(report.protections.to_json()).key("violations"), report.violations);
    writer.key("refusals").begin_array();
    for (const sandbox::Violation& refusal : report.refusals) {
      writer.begin_object().member("operation", refusal.operation).member("target", refusal.target);
      writer.member("errno", errno_name(refusal.error)).member("count", refusal.count).end_object();
    }
    writer.end_array().member("over_memory", report.was_over_memory).member("over_time", report.was_over_time);
    strings("lost_mounts", report.lost_mounts);
    strings("removed", report.removed);
    strings("quarantined", report.scan.quarantined);
    strings("suspicious", report.scan.suspicious);
    strings("not_searched", report.scan.notes);
    strings("missed", report.missed);
    strings("restored", report.restored);
    strings("tracked_secrets", report.findings.tracked_secrets);
    egress.tally().write(writer.key("net"));
    writer.end_object();
  });
  std::fprintf(stderr, "%s\n", json.c_str());
}

// The sandbox's place with a warden that runs: a door and a mailbox inside, a line in its lists. Without a
// warden the sandbox is the same, without a door.
class Adoption {
 public:
  Adoption(const Context& context, const RunArguments& arguments, sandbox::Spec& spec) {
    if (arguments.no_warden) return;
    auto client = Client::connect_unix(context.paths.control_socket());
    if (!client) return;
    const auto answer = (*client)->call("container.adopt", wire::to_json([&](wire::JsonWriter& json) {
                                          json.begin_object().member("template", arguments.profile).key("config");
                                          json.begin_object().member("workspace", spec.workspace).key("command");
                                          json.begin_array();
                                          for (const std::string& word : spec.command) json.value(word);
                                          json.end_array().end_object().end_object();
                                        }));
    if (!answer) {
      std::fprintf(stderr, "sallyport: the warden gives no door: %s\n", answer.error().message.c_str());
      return;
    }
    containers::Container place;
    place.id = answer->value().get("container").as_string().value_or("");
    place.door_dir = answer->value().get("door").as_string().value_or("");
    place.mailbox_dir = answer->value().get("mailbox").as_string().value_or("");
    place.session_dir = answer->value().get("session").as_string().value_or("");
    containers::Registry::add_door(place, spec);
    id_ = spec.name = place.id;
    client_ = std::move(*client);
  }

  bool is_wanted() const { return client_ != nullptr; }
  void started(const sandbox::Running& running) {
    if (!client_) return;
    const auto place = os::namespace_id(running.pid_namespace());
    if (!place) {
      std::fputs("sallyport: the warden cannot be told where this runs, and gives it no door\n", stderr);
      return;
    }
    tell([&](wire::JsonWriter& json) {
      json.member("pid", running.pid()).key("pid_namespace").begin_object();
      json.member("device", place->device).member("inode", place->inode).end_object();
    });
  }
  void talked(const egress::Tally& tally) {
    if (!tally.entries().empty()) tell([&](wire::JsonWriter& json) { tally.write(json.key("net")); });
  }
  void refused(const std::vector<sandbox::Violation>& violations) {
    if (violations.empty()) return;
    tell([&](wire::JsonWriter& json) { write_violations(json.key("violations"), violations); });
  }
  void ended(int wait_status) {
    tell([&](wire::JsonWriter& json) { json.member("wait_status", wait_status); });
  }

 private:
  void tell(const std::function<void(wire::JsonWriter&)>& what) {
    if (!client_) return;
    // A warden that is gone meanwhile takes the door along, and nothing else.
    const auto told = client_->call("container.adopt", wire::to_json([&](wire::JsonWriter& json) {
                                      json.begin_object().member("container", id_);
                                      what(json);
                                      json.end_object();
                                    }));
    if (!told && told.error().code != Code::unavailable) {
      std::fprintf(stderr, "sallyport: the warden does not take this run: %s\n", told.error().message.c_str());
    }
  }

  std::unique_ptr<Client> client_;
  std::string id_;
};

void run(Context& context, const RunArguments& arguments) {
  auto prepared = prepare(context, arguments);
  if (!prepared) {
    report(context, prepared.error());
    context.exit_code = static_cast<int>(Exit::usage);
    return;
  }
  sandbox::Spec& spec = prepared->spec;
  Adoption adoption(context, arguments, spec);
  RunEgress egress(std::move(prepared->net), context.paths.egress_hosts);
  sandbox::ForegroundOptions options;
  options.launch.wants_pid_namespace = adoption.is_wanted();
  options.on_started = [&](const sandbox::Running& running) {
    egress.take(running.proxy_listener());
    adoption.started(running);
  };
  options.other_fd = [&] { return egress.poll_fd(); };
  options.on_other = [&] { egress.on_readable(); };
  const auto outcome = sandbox::run_foreground(spec, options);
  egress.finish();
  if (!outcome) {
    context.exit_code = static_cast<int>(report(context, outcome.error()));
    return;
  }
  if (context.wants_json) {
    print_report(*outcome, egress);
  } else {
    summarize(*outcome);
    summarize(egress);
  }
  adoption.talked(egress.tally());
  adoption.refused(outcome->violations);
  adoption.ended(outcome->wait_status);
  context.exit_code = outcome->exit_code();
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
