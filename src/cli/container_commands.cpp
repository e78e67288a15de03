// sallyport container create | ls | inspect | exec | stop | rm
#include <poll.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <tuple>

#include "cli/cli11.h"
#include "cli/command.h"
#include "cli/warden_link.h"
#include "pod/display.h"

namespace sallyport::cli {
namespace {

constexpr int kLookAgain = 1000;  // ms; something may have come already
constexpr Millis kAsLongAsItTakes{24 * 60 * 60 * 1000};

std::string named(const std::string& container) {
  return wire::to_json(
      [&](wire::JsonWriter& json) { json.begin_object().member("container", container).end_object(); });
}

void write_words(wire::JsonWriter& json, const char* name, const std::vector<std::string>& words) {
  json.key(name).begin_array();
  for (const std::string& word : words) json.value(word);
  json.end_array();
}

std::string text(wire::Value value) { return std::string(value.as_string().value_or("")); }

struct CreateArguments {
  std::string profile = "default", name, workspace = ".", group;
  std::vector<std::string> command;
  bool restart = false;
};

Status create(Context& context, const CreateArguments& arguments) {
  TRY(check_command(context, arguments.command));
  TRY(const Started warden, ensure_warden(context.paths));
  const std::string params = wire::to_json([&](wire::JsonWriter& json) {
    json.begin_object();
    if (arguments.group.empty()) json.member("template", arguments.profile);
    json.key("config").begin_object().member("restart", arguments.restart);
    arguments.group.empty() ? json.member("workspace", absolute(arguments.workspace))
                            : json.member("group", arguments.group);
    if (!arguments.name.empty()) json.member("name", arguments.name);
    write_words(json, "command", arguments.command);
    json.end_object().end_object();
  });
  TRY(const Answer answer, warden.client->call("container.create", params));
  print(context.wants_json ? answer.json() : text(answer.value().get("container")));
  return ok();
}

Status list(const Context& context) {
  TRY(const Started warden, ensure_warden(context.paths));
  TRY(const wire::Document all, call_for_all(*warden.client, "container.list", "containers", "container"));
  if (context.wants_json) {
    print(all.root().to_json());
    return ok();
  }
  for (const wire::Value container : all.root().get("containers").items()) {
    const std::string state = text(container.get("state"));
    std::string command;
    for (const wire::Value word : container.get("command").items()) command += " " + escape_for_display(text(word));
    std::array<char, 160> line{};
    std::snprintf(line.data(), line.size(), "%-32s %-9s %-10s ", text(container.get("container")).c_str(),
                  state.c_str(), text(container.get("profile")).c_str());
    print(line.data() + escape_for_display(text(container.get("workspace"))) + dim(command));
  }
  return ok();
}

// Calls a method that takes a container.
Result<Answer> call_named(const Context& context, const char* method, const std::string& container) {
  TRY(const Started warden, ensure_warden(context.paths));
  return warden.client->call(method, named(container), {.deadline = kAsLongAsItTakes, .token = {}});
}

Status inspect(const Context& context, const std::string& container) {
  TRY(const Started warden, ensure_warden(context.paths));
  TRY(const Answer answer,
      warden.client->call("container.inspect", wire::to_json([&](wire::JsonWriter& json) {
                            json.begin_object().member("container", container).member("log", true).end_object();
                          })));
  print(answer.json());
  return ok();
}

Status stop(const Context& context, const std::string& container) {
  TRY(const Answer answer, call_named(context, "container.stop", container));
  const auto code = answer.value().get("exit_code").as_int();
  print(context.wants_json ? answer.json()
                           : text(answer.value().get("state")) +
                                 (code ? ", its command's exit code is " + std::to_string(*code) : ""));
  if (context.wants_json) return ok();
  for (const wire::Value report : answer.value().get("reports").items()) print(escape_for_display(text(report)));
  return ok();
}

Status remove(const Context& context, const std::string& container) {
  TRY(const Answer answer, call_named(context, "container.remove", container));
  print(context.wants_json ? answer.json() : "forgotten");
  return ok();
}

struct ExecArguments {
  std::string container;
  std::vector<std::string> command;
  bool with_input = false;
};

// Our standard input on its way to the command. Never waits: its output may have to be taken first.
class Input {
 public:
  explicit Input(Client& client) : client_(client) {}

  Status open() {
    TRY(stream_, client_.open_stream());
    is_open_ = true;
    return ok();
  }
  std::uint32_t stream() const { return stream_; }
  // Waits for input, where somebody reads it and there is room for it, or for the warden.
  void wait(bool has_reader) const {
    const bool is_wanted = has_reader && is_open_ && client_.writable(stream_) > 0;
    std::array<pollfd, 2> events = {{{client_.fd(), POLLIN, 0}, {is_wanted ? STDIN_FILENO : -1, POLLIN, 0}}};
    ::poll(events.data(), events.size(), kLookAgain);
  }
  Status pass_on() {
    pollfd event{STDIN_FILENO, POLLIN, 0};
    std::array<std::uint8_t, 64 << 10> bytes;
    const std::size_t room = std::min(bytes.size(), client_.writable(stream_));
    if (!is_open_ || room == 0 || ::poll(&event, 1, 0) <= 0) return ok();
    const ssize_t count = ::read(STDIN_FILENO, bytes.data(), room);
    if (count < 0 && (errno == EINTR || errno == EAGAIN)) return ok();
    if (count > 0) {
      TRY(client_.write_stream(stream_, {bytes.data(), static_cast<std::size_t>(count)}));
      return ok();
    }
    is_open_ = false;
    return client_.finish_stream(stream_);
  }

 private:
  Client& client_;
  std::uint32_t stream_ = 0;
  bool is_open_ = false;
};

// A stream of the command's on its way to one of ours.
class Output {
 public:
  explicit Output(int to) : display_(to) {}

  void begin(wire::Value named) { stream_ = static_cast<std::uint32_t>(named.get("$stream").as_int().value_or(0)); }
  // Copies what came so far.
  Status pass_on(Client& client) {
    while (stream_ != 0) {
      auto bytes = client.read_stream(stream_, Millis(0));
      if (!bytes && bytes.error().code == Code::timeout) return ok();
      if (!bytes && bytes.error().code != Code::not_found) return std::move(bytes).error();
      if (!bytes || bytes->empty()) {
        stream_ = 0;
        return ok();
      }
      TRY(display_.write(bytes->view()));
    }
    return ok();
  }

 private:
  pod::Display display_;
  std::uint32_t stream_ = 0;  // 0: not there yet, or at its end
};

Status exec(Context& context, ExecArguments arguments) {
  // With two positionals the library leaves the separator in the second, and whatever stands before it.
  if (arguments.command.front() == "--") {
    arguments.command.erase(arguments.command.begin());
  } else if (arguments.command.front().starts_with('-')) {
    return wrong_usage(context, "options stand before the container's id, not behind it: " +
                                    escape_for_display(arguments.command.front()));
  }
  if (arguments.command.empty()) return wrong_usage(context, "no command behind --");
  TRY(check_command(context, arguments.command));
  TRY(const Started warden, ensure_warden(context.paths));
  Client& client = *warden.client;
  Output out(STDOUT_FILENO), err(STDERR_FILENO);
  bool has_started = false;
  client.on_event([&](const wire::Message& event) {
    if (event.method != "container.started") return tell_of(event);
    has_started = true;
    out.begin(event.params.get("stdout"));
    err.begin(event.params.get("stderr"));
  });
  std::optional<Result<Answer>> answer;
  Input input(client);
  if (arguments.with_input) TRY(input.open());
  const std::string params = wire::to_json([&](wire::JsonWriter& json) {
    json.begin_object().member("container", arguments.container);
    write_words(json, "command", arguments.command);
    if (arguments.with_input) json.key("stdin").begin_object().member("$stream", input.stream()).end_object();
    json.end_object();
  });
  TRY(client.start("container.exec", params, [&](Result<Answer> came) { answer.emplace(std::move(came)); },
                   {.deadline = kAsLongAsItTakes, .token = {}}));
  while (!answer) {
    input.wait(has_started);
    TRY(client.dispatch(Millis(0)));
    // What a command does not want to read is not missed.
    if (has_started && !answer) std::ignore = input.pass_on();
    TRY(out.pass_on(client));
    TRY(err.pass_on(client));
  }
  if (!*answer) return answer->error();
  // Standard output is the command's own, as it is with `run`.
  if (context.wants_json) std::fprintf(stderr, "%s\n", for_terminal((*answer)->json(), STDERR_FILENO).c_str());
  context.exit_code = static_cast<int>((*answer)->value().get("exit_code").as_int().value_or(1));
  return ok();
}

}  // namespace

void add_container_commands(CLI::App& app, Context& context) {
  auto* group = app.add_subcommand("container", "Make, list, use and stop containers");
  group->require_subcommand(1);

  auto* command = group->add_subcommand("create", "Make a container; with CMD it runs that, else it waits for exec");
  const auto wanted = std::make_shared<CreateArguments>();
  auto* profile =
      command->add_option("--profile", wanted->profile, "What it may do")->type_name("NAME")->capture_default_str();
  command->add_option("--name", wanted->name, "A name, from which its id is made")->type_name("NAME");
  auto* workspace =
      command->add_option("--workspace", wanted->workspace, "The directory it works in (default: this one)")
          ->type_name("DIR");
  auto* group_name =
      command->add_option("--group", wanted->group, "The group it belongs to, which says profile and workspace")
          ->type_name("NAME");
  group_name->excludes(profile)->excludes(workspace);
  command->add_flag("--restart", wanted->restart, "Start it again when a warden finds it lost");
  command->add_option("CMD", wanted->command, "The command and its arguments, behind --");
  command->positionals_at_end();
  on_run(command, context, [&context, wanted] { return create(context, *wanted); });

  on_run(group->add_subcommand("ls", "List the containers"), context, [&context] { return list(context); });

  struct Named {
    const char* name;
    Status (*work)(const Context&, const std::string&);
    const char* help;
  };
  for (const Named& each :
       {Named{"inspect", inspect, "Show all that is known of one, and the end of its output, as JSON"},
        Named{"stop", stop, "Ask its command to end, then kill what is left"},
        Named{"rm", remove, "Forget one that has ended"}}) {
    auto* simple = group->add_subcommand(each.name, each.help);
    const auto id = std::make_shared<std::string>();
    simple->add_option("CONTAINER", *id, "Its id")->required();
    on_run(simple, context, [&context, id, work = each.work] { return work(context, *id); });
  }

  auto* run = group->add_subcommand("exec", "Run a command in a container; exits with its status");
  const auto arguments = std::make_shared<ExecArguments>();
  run->add_option("CONTAINER", arguments->container, "Its id")->required();
  run->add_flag("-i,--stdin", arguments->with_input, "Pass standard input on; without it the command has none");
  run->add_option("CMD", arguments->command, "The command and its arguments, behind --")->required();
  run->positionals_at_end();
  on_run(run, context, [&context, arguments] { return exec(context, *arguments); });
}

}  // namespace sallyport::cli
