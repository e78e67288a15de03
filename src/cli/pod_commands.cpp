// sallyport pod new | ls | attach | log | kill | stop | wait
#include <sys/ioctl.h>
#include <unistd.h>

#include <array>
#include <cctype>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <thread>

#include "cli/allow_net.h"
#include "cli/cli11.h"
#include "cli/command.h"
#include "cli/warden_link.h"
#include "pod/attach.h"
#include "pod/limits.h"
#include "pod/methods.h"
#include "policy/profile.h"

namespace sallyport::cli {
namespace {

constexpr Millis kAsLongAsItTakes{24 * 60 * 60 * 1000};

pod::Place place_of(const Context& context, const std::string& name) {
  return {context.paths.state_dir + "/pods", name};
}

std::string text(wire::Value value) { return std::string(value.as_string().value_or("")); }

Status check_name(Context& context, const std::string& name) {
  const Status checked = pod::check_name(name);
  return checked ? ok() : Status(wrong_usage(context, checked.error().message));
}

// ---- new ----

struct NewArguments {
  std::string name, profile = "default", workspace = ".";
  std::vector<std::string> command, env, allow_net;
  bool with_tcp = false, attaches = false;
};

// Variables that the profile passes on are this caller's, as they are for `sallyport run`.
Result<std::vector<std::string>> passed_variables(const Context& context, const std::string& profile) {
  TRY(policy::Profile found, policy::Profiles::load_one(context.paths.profiles_dir(), profile));
  return std::move(found.env_pass);
}

// As many whole ones as a pod takes.
std::string first_places(std::string path) {
  if (path.size() <= pod::kMaxSearchPathBytes) return path;
  const std::size_t end = path.rfind(':', pod::kMaxSearchPathBytes);
  path.resize(end == std::string::npos ? 0 : end);
  return path;
}

Result<std::string> create_params(Context& context, const NewArguments& arguments) {
  if (!arguments.name.empty()) TRY(check_name(context, arguments.name));
  TRY(check_command(context, arguments.command));
  TRY(check_variables(context, arguments.env));
  TRY(const auto hosts, allowed_hosts(context, arguments.allow_net));
  TRY(const auto passed, passed_variables(context, arguments.profile));
  const std::string workspace = absolute(arguments.workspace), here = absolute(".");
  return wire::to_json([&](wire::JsonWriter& json) {
    json.begin_object().member("template", arguments.profile).member("workspace", workspace);
    if (!arguments.name.empty()) json.member("name", arguments.name);
    if (here == workspace || here.starts_with(workspace + "/")) json.member("directory", here);
    json.member("tcp", arguments.with_tcp).key("command").begin_array();
    for (const std::string& word : arguments.command) json.value(word);
    json.end_array().key("env").begin_object();
    std::map<std::string, std::string> variables;
    const auto pass = [&](const std::string& name) {
      if (const char* value = std::getenv(name.c_str())) variables[name] = value;
    };
    for (const std::string& name : passed) pass(name);
    // The terminal is this one's kind.
    pass("TERM");
    if (variables["TERM"].empty()) variables["TERM"] = "xterm-256color";
    for (const std::string& item : arguments.env) {
      const std::size_t equals = item.find('=');
      if (equals == std::string::npos) {
        pass(item);
      } else {
        variables[item.substr(0, equals)] = item.substr(equals + 1);
      }
    }
    for (const auto& [name, value] : variables) json.member(name, value);
    json.end_object();
    if (const char* path = std::getenv("PATH")) json.member("search_path", first_places(path));
    if (!hosts.empty()) {
      json.key("allow_net").begin_array();
      for (const std::string& host : hosts) json.value(host);
      json.end_array();
    }
    winsize window{};
    const bool is_known = ::ioctl(STDIN_FILENO, TIOCGWINSZ, &window) == 0;
    const pod::Size size{window.ws_row, window.ws_col};
    if (is_known && size.is_sane()) pod::write_size(json, size);
    json.end_object();
  });
}

struct AttachArguments {
  std::string name, escape = "~";
  bool is_view = false, takes = false;
};
Status attach(Context& context, const AttachArguments& arguments);

Status create(Context& context, const NewArguments& arguments) {
  TRY(const std::string params, create_params(context, arguments));
  TRY(const Started warden, ensure_warden(context.paths));
  TRY(const Answer answer, warden.client->call("pod.create", params, {.deadline = Millis(60'000), .token = {}}));
  const std::string name = text(answer.value().get("pod"));
  if (arguments.attaches) return attach(context, {.name = name});
  print(context.wants_json ? answer.json() : name);
  return ok();
}

// ---- ls ----

std::string age(std::int64_t since_unix_ms) {
  const std::int64_t seconds = std::max<std::int64_t>(0, (SystemClock().unix_millis() - since_unix_ms) / 1000);
  if (seconds < 120) return std::to_string(seconds) + "s";
  if (seconds < 7200) return std::to_string(seconds / 60) + "m";
  return std::to_string(seconds / 3600) + "h";
}

// From the state directory itself: true without a warden, too.
Status list(const Context& context) {
  const std::string pods_dir = context.paths.state_dir + "/pods";
  if (::access(pods_dir.c_str(), R_OK | X_OK) != 0 && errno != ENOENT) {
    return Error::from_errno("cannot look at the pods in " + pods_dir, errno);
  }
  const auto all = pod::look_at_all(pods_dir);
  if (context.wants_json) {
    print(wire::to_json([&](wire::JsonWriter& json) {
      json.begin_object().key("pods").begin_array();
      for (const auto& [name, seen] : all) pod::describe(json, name, seen);
      json.end_array().end_object();
    }));
    return ok();
  }
  for (const auto& [name, seen] : all) {
    std::string state(pod::to_string(seen.life)), command;
    if (seen.record && seen.record->wait_status) {
      state += " " + std::to_string(pod::exit_code(*seen.record->wait_status));
    }
    if (seen.record) {
      for (const std::string& word : seen.record->command) command += " " + escape_for_display(word);
    }
    std::array<char, 160> line{};
    std::snprintf(line.data(), line.size(), "%-24s %-12s %-6s %-6s", name.c_str(), state.c_str(),
                  seen.record ? age(seen.record->created_unix_ms).c_str() : "-",
                  !seen.record            ? "-"
                  : seen.record->is_tcp() ? "tcp"
                                          : "unix");
    print(std::string(line.data()) + dim(command) +
          (seen.problem.empty() ? "" : " " + red(escape_for_display(seen.problem))));
  }
  return ok();
}

// ---- attach, log, wait: straight to the pod, whether a warden runs or not ----

Error explain_silence(const Context& context, const std::string& name, const Error& error) {
  if (error.code != Code::timeout) return error;
  const auto record = place_of(context, name).read();
  const std::string pid = record ? std::to_string(record->binding.pid) : "?";
  return Error::make(Code::unavailable, "the pod's daemon (pid " + pid +
                                            ") does not answer; if it is stopped: kill -CONT " + pid +
                                            "; to end it and its agent: kill -9 " + pid);
}

Result<std::unique_ptr<Client>> reach(Context& context, const std::string& name) {
  TRY(check_name(context, name));
  TRY(const pod::Record record, pod::find(place_of(context, name)));
  auto client = pod::connect(record);
  if (!client) return explain_silence(context, name, client.error());
  return client;
}

// A terminal shows the newest screen in any case; a file that lacks something must not pass for whole.
void tell_skipped(std::uint64_t bytes) {
  if (bytes == 0 || ::isatty(STDOUT_FILENO) != 0) return;
  std::fprintf(stderr, "sallyport: %llu bytes are missing: they were read more slowly than they came\n",
               static_cast<unsigned long long>(bytes));
}

// After a connection was lost: a daemon that was killed closes its sockets a moment before it is gone.
pod::Sighting look_again(const pod::Place& place) {
  pod::Sighting seen = pod::look(place);
  for (int i = 0; i < 20 && (seen.life == pod::Life::running || seen.life == pod::Life::exited); ++i) {
    std::this_thread::sleep_for(Millis(25));
    seen = pod::look(place);
  }
  return seen;
}

// What became of a conversation: its pod may have died of what ended it.
Error explain(const Context& context, const std::string& name, const Client& client, const Error& error) {
  const pod::Place place = place_of(context, name);
  if (!client.is_open() && look_again(place).life == pod::Life::lost) return pod::lost(place);
  return explain_silence(context, name, error);
}

Status attach(Context& context, const AttachArguments& arguments) {
  if (arguments.escape.size() > 1 && arguments.escape != "none") {
    return wrong_usage(context, "--escape takes one character, or none");
  }
  TRY(const auto client, reach(context, arguments.name));
  pod::AttachOptions options;
  options.role = arguments.is_view ? pod::Role::view : pod::Role::control;
  options.takes = arguments.takes;
  options.escape = arguments.escape.size() == 1 ? arguments.escape[0] : '\0';
  const auto attached = pod::attach_terminal(*client, options);
  if (!attached) return explain(context, arguments.name, *client, attached.error());
  const pod::AttachEnd& end = *attached;
  tell_skipped(end.skipped);
  switch (end.why) {
    case pod::AttachEnd::Why::detached:
      if (is_terminal() && !end.is_deaf) print("[detached from " + arguments.name + "]");
      return ok();
    case pod::AttachEnd::Why::exited:
      // Who controls it has the status in hand now.
      if (end.role == pod::Role::control) {
        [[maybe_unused]] const auto collected = client->call("pod.wait", R"({"collect":true})");
      }
      context.exit_code = end.exit_code;
      return ok();
    case pod::AttachEnd::Why::lost:
      break;
  }
  const pod::Place place = place_of(context, arguments.name);
  if (look_again(place).life == pod::Life::lost) return pod::lost(place);
  return Error::make(Code::unavailable,
                     "the connection is lost; the pod is still there: sallyport pod attach " + arguments.name);
}

Status log(Context& context, const std::string& name, bool follows) {
  TRY(const auto client, reach(context, name));
  const auto skipped = pod::copy_log(*client, follows, STDOUT_FILENO);
  if (!skipped) return explain(context, name, *client, skipped.error());
  tell_skipped(*skipped);
  return ok();
}

Status report_exit(Context& context, const std::string& json, std::int64_t code, std::optional<std::int64_t> signal) {
  if (context.wants_json) {
    print(json);
  } else if (signal) {
    print("killed by signal " + std::to_string(*signal) + " (" + ::strsignal(static_cast<int>(*signal)) + ")");
  } else {
    print("exited " + std::to_string(code));
  }
  context.exit_code = static_cast<int>(code);
  return ok();
}

bool is_dead(pod::Life life) { return life == pod::Life::collectable || life == pod::Life::lost; }

// Who was told of it knows: nothing of the pod is kept any longer.
Status report_dead(Context& context, const std::string& name, const pod::Sighting& seen) {
  const pod::Place place = place_of(context, name);
  const Error lost = pod::lost(place);
  if (const auto lock = place.lock()) place.remove();
  if (seen.life == pod::Life::lost) return lost;
  const std::string json = wire::to_json([&](wire::JsonWriter& writer) { pod::describe(writer, name, seen); });
  const int status = *seen.record->wait_status;
  return report_exit(context, json, pod::exit_code(status), pod::exit_signal(status));
}

Status wait(Context& context, const std::string& name) {
  TRY(check_name(context, name));
  const pod::Place place = place_of(context, name);
  pod::Sighting seen = pod::look(place);
  if (!is_dead(seen.life) || !place.exists()) {
    TRY(const auto client, reach(context, name));
    const auto ask = [&] { return client->call("pod.wait", "{}", {.deadline = kAsLongAsItTakes, .token = {}}); };
    auto answer = ask();
    // No call lasts longer than a day; a pod may.
    while (!answer && answer.error().code == Code::timeout && client->is_open()) answer = ask();
    if (answer) {
      TRY(report_exit(context, answer->json(), answer->value().get("exit_code").as_int().value_or(1),
                      answer->value().get("signal").as_int()));
      // Said only now: had we died before, the status would still be there.
      [[maybe_unused]] const auto collected = client->call("pod.wait", R"({"collect":true})");
      return ok();
    }
    seen = look_again(place);
    // Gone altogether: somebody else waited, too.
    if (!is_dead(seen.life) || !place.exists()) return answer.error();
  }
  return report_dead(context, name, seen);
}

// ---- kill, stop: through the warden, which records them ----

Result<int> signal_number(Context& context, std::string name) {
  const std::string given = name;
  for (char& letter : name) letter = static_cast<char>(std::toupper(static_cast<unsigned char>(letter)));
  if (name.starts_with("SIG")) name.erase(0, 3);
  for (int number = 1; number < 32; ++number) {
    const char* abbreviation = ::sigabbrev_np(number);
    if ((abbreviation != nullptr && name == abbreviation) || name == std::to_string(number)) return number;
  }
  return wrong_usage(context, "no such signal: " + escape_for_display(given) + "; for example TERM, INT, KILL or 15");
}

Status call_pod(Context& context, const char* method, const std::string& name, const char* key, std::int64_t value) {
  TRY(check_name(context, name));
  TRY(const Started warden, ensure_warden(context.paths));
  TRY(const Answer answer,
      warden.client->call(method, wire::to_json([&](wire::JsonWriter& json) {
                            json.begin_object().member("pod", name).member(key, value).end_object();
                          })));
  if (context.wants_json) print(answer.json());
  return ok();
}

}  // namespace

void add_pod_commands(CLI::App& app, Context& context) {
  auto* group = app.add_subcommand("pod", "Agents that outlive terminals, clients and the warden");
  group->require_subcommand(1);

  auto* command =
      group->add_subcommand("new", "Start a command in a sandbox with a terminal of its own; prints its name");
  const auto wanted = std::make_shared<NewArguments>();
  command->add_option("--name", wanted->name, "Its name (default: a new one)")->type_name("NAME");
  command->add_option("--profile", wanted->profile, "What it may do")->type_name("NAME")->capture_default_str();
  command->add_option("--workspace", wanted->workspace, "The directory it works in (default: this one)")
      ->type_name("DIR");
  command->add_option("--env", wanted->env, "A variable to set, or to pass on")
      ->type_name("K[=V]")
      ->expected(1)
      ->take_all();
  add_allow_net(*command, wanted->allow_net);
  command->add_flag("--tcp", wanted->with_tcp, "Loopback TCP with mutual proof instead of a Unix socket");
  command->add_flag("--attach", wanted->attaches, "Attach to it at once");
  command->add_option("CMD", wanted->command, "The command and its arguments, behind --")->required();
  command->positionals_at_end();
  on_run(command, context, [&context, wanted] { return create(context, *wanted); });

  on_run(group->add_subcommand("ls", "List the pods"), context, [&context] { return list(context); });

  auto* attaching = group->add_subcommand("attach", "Lend it this terminal; exits with its status, or detached by ~.");
  const auto attached = std::make_shared<AttachArguments>();
  attaching->add_option("POD", attached->name, "Its name")->required();
  auto* view = attaching->add_flag("--view", attached->is_view, "Only watch");
  attaching->add_flag("--take", attached->takes, "Take control from whoever has it")->excludes(view);
  attaching->add_option("--escape", attached->escape, "The character that begins ~. ~t ~r ~?, or none")
      ->type_name("CHAR")
      ->capture_default_str();
  on_run(attaching, context, [&context, attached] { return attach(context, *attached); });

  auto* logging = group->add_subcommand("log", "Print what it has said, as far as it is remembered");
  const auto logged = std::make_shared<std::string>();
  const auto follows = std::make_shared<bool>(false);
  logging->add_option("POD", *logged, "Its name")->required();
  logging->add_flag("--follow,-f", *follows, "Go on until it exits");
  on_run(logging, context, [&context, logged, follows] { return log(context, *logged, *follows); });

  auto* killing = group->add_subcommand("kill", "Send it a signal");
  const auto killed = std::make_shared<std::string>();
  const auto signal = std::make_shared<std::string>("KILL");
  killing->add_option("POD", *killed, "Its name")->required();
  killing->add_option("--signal,-s", *signal, "By name or number")->type_name("SIGNAL")->capture_default_str();
  on_run(killing, context, [&context, killed, signal]() -> Status {
    TRY(const int number, signal_number(context, *signal));
    return call_pod(context, "pod.signal", *killed, "signal", number);
  });

  auto* stopping = group->add_subcommand("stop", "Ask it to end (TERM, then HUP); kill it after a while");
  const auto stopped = std::make_shared<std::string>();
  const auto grace = std::make_shared<double>(static_cast<double>(pod::kDefaultGrace.count()) / 1000);
  stopping->add_option("POD", *stopped, "Its name")->required();
  stopping->add_option("--grace", *grace, "Seconds until it is killed")
      ->type_name("SECONDS")
      ->capture_default_str()
      ->check(
          [](const std::string& text) {
            char* end = nullptr;
            const double seconds = std::strtod(text.c_str(), &end);
            const bool is_right = *end == '\0' && seconds >= 0 && seconds <= 600;
            return is_right ? "" : "takes seconds, from 0 to 600, not '" + escape_for_display(text) + "'";
          },
          "");
  on_run(stopping, context, [&context, stopped, grace]() -> Status {
    return call_pod(context, "pod.stop", *stopped, "grace_ms", static_cast<std::int64_t>(*grace * 1000));
  });

  auto* waiting = group->add_subcommand("wait", "Wait for its end; exits with its status, also after the fact");
  const auto awaited = std::make_shared<std::string>();
  waiting->add_option("POD", *awaited, "Its name")->required();
  on_run(waiting, context, [&context, awaited] { return wait(context, *awaited); });
}

}  // namespace sallyport::cli
