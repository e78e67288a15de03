// up, down, status, ping, call
#include <poll.h>
#include <unistd.h>

#include <chrono>
#include <iostream>
#include <iterator>

#include "cli/cli11.h"
#include "cli/command.h"
#include "cli/warden_link.h"
#include "os/peer.h"

namespace sallyport::cli {
namespace {

constexpr Millis kDownTimeout{15'000};
constexpr Millis kTokenLife{60'000};

void print_json_or(const Context& context, const std::string& json, std::string_view text) {
  print(context.wants_json ? std::string_view(json) : text);
}

Status up(Context& context) {
  TRY(const Started started, ensure_warden(context.paths));
  TRY(const os::Peer warden, os::identify_peer(started.client->fd()));
  const pid_t pid = warden.identity.pid;
  const std::string json = wire::to_json([&](wire::JsonWriter& writer) {
    writer.begin_object().member("pid", pid).member("was_running", started.was_running);
    writer.member("socket", context.paths.control_socket()).end_object();
  });
  print_json_or(context, json,
                (started.was_running ? "warden is already running, pid " : "warden is up, pid ") + std::to_string(pid));
  return ok();
}

Status down(Context& context) {
  auto client = connect_warden(context.paths);
  if (!client && client.error().code == Code::unavailable) {
    print_json_or(context, R"({"was_running":false})", "no warden is running");
    return ok();
  }
  if (!client) return std::move(client).error();
  TRY(const os::Peer warden, os::identify_peer((*client)->fd()));
  // Hung up without a word, which we ourselves give a detail: it is stopping already.
  const auto told = (*client)->call("warden.shutdown");
  const bool has_hung_up = !told && told.error().code == Code::unavailable && !told.error().detail.empty();
  if (!told && !has_hung_up) return explain_silence(told.error(), **client, context.paths);
  // It hangs up after everything in flight was answered, and is down when its ledger is closed too.
  pollfd event{(*client)->fd(), POLLIN | POLLRDHUP, 0};
  if (::poll(&event, 1, static_cast<int>(kDownTimeout.count())) == 0) {
    return Error::make(Code::timeout, "the warden is still busy; it will stop when its requests are done");
  }
  pollfd end{warden.process_fd.get(), POLLIN, 0};
  if (::poll(&end, 1, static_cast<int>(kDownTimeout.count())) == 0) {
    return Error::make(Code::timeout, "the warden does not end");
  }
  print_json_or(context, R"({"was_running":true})", "warden is down");
  return ok();
}

Status status(Context& context) {
  TRY(const auto client, connect_warden(context.paths));
  const auto answer = client->call("warden.status", {}, {.deadline = kQuickAnswer, .token = {}});
  if (!answer) return explain_silence(answer.error(), *client, context.paths);
  if (context.wants_json) {
    print(answer->json());
    return ok();
  }
  const wire::Value root = answer->value();
  const auto number = [&](wire::Value from, const char* name) {
    return std::to_string(from.get(name).as_int().value_or(0));
  };
  const wire::Value counters = root.get("counters");
  print(green("running") + "   pid " + number(root, "pid") + ", version " +
        std::string(root.get("version").as_string().value_or("?")) + ", up " +
        std::to_string(root.get("uptime_ms").as_int().value_or(0) / 1000) + " s, " + number(root, "memory_kib") +
        " KiB");
  print("door      " + context.paths.control_socket());
  print("sessions  " + number(root, "sessions") + " open, " + number(counters, "accepted") + " accepted, " +
        number(counters, "refused") + " refused");
  print("requests  " + number(counters, "requests") + " handled, " + number(root, "in_flight") + " in flight, " +
        number(counters, "malformed") + " malformed, " + number(counters, "timeouts") + " timed out");
  const wire::Value config = root.get("config");
  print("config    " + (config.get("ok").as_bool().value_or(false)
                            ? green("ok")
                            : red("faulty") +
                                  (config.get("network_denied").as_bool().value_or(false)
                                       ? ", the network is denied to all containers, and of the rest "
                                       : ", ") +
                                  "the last good one is in force: " +
                                  escape_text_for_display(config.get("error").as_string().value_or(""))));
  const wire::Value ledger = root.get("ledger");
  print("ledger    " + number(ledger, "last_seq") + " records, " +
        (ledger.get("ok").as_bool().value_or(false)
             ? green("ok")
             : red("faulty") + ": " + escape_for_display(ledger.get("error").as_string().value_or(""))));
  return ok();
}

Status ping(Context& context) {
  TRY(const Started started, ensure_warden(context.paths));
  const auto before = std::chrono::steady_clock::now();
  TRY(const Answer answer, started.client->call("test.ping"));
  const auto micros =
      std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::steady_clock::now() - before).count();
  if (answer.value().get("pong").as_bool() != true) return Error::make(Code::protocol_error, "no pong came back");
  print_json_or(context, R"({"pong":true,"micros":)" + std::to_string(micros) + "}",
                "pong in " + std::to_string(micros) + " us");
  return ok();
}

struct CallArguments {
  std::string method, params;
  bool wants_token = false;
  std::int64_t deadline_ms = 30'000;
};

// Bytes beside the messages have no place here. (Inside a string the quotes would have a backslash.)
Status check_no_stream(std::string_view json) {
  if (json.find(R"({"$stream":)") == std::string_view::npos) return ok();
  return Error::make(Code::invalid_params,
                     "this command sends and shows JSON, and no stream of bytes beside it: do without the stream, or "
                     "use a client library");
}

// Prints the result as JSON, and before it, line by line, what comes while it is worked on; an error goes to stderr as
// JSON whatever the output format.
Status call(Context& context, const CallArguments& arguments) {
  std::string params = arguments.params;
  context.wants_json = true;
  if (params == "-") {
    params.resize(wire::kMaxFrameBytes);
    std::cin.read(params.data(), static_cast<std::streamsize>(params.size()));
    params.resize(static_cast<std::size_t>(std::cin.gcount()));
    if (params.size() == wire::kMaxFrameBytes) {
      return wrong_usage(context, "the parameters are larger than a message can be: 1 MiB");
    }
  }
  if (!params.empty()) {
    wire::Decoder decoder;
    const auto parsed = decoder.parse(params);
    if (!parsed || !parsed->root().is_object()) {
      return wrong_usage(context, parsed ? "the parameters must be a JSON object" : parsed.error().message);
    }
  }
  TRY(check_no_stream(params));
  TRY(const Started started, ensure_warden(context.paths));
  std::string token;
  // Bound to this process, so that none from elsewhere would do.
  if (arguments.wants_token) {
    TRY(const Answer made, started.client->call("token.create", wire::to_json([&](wire::JsonWriter& json) {
                                                  json.begin_object().key("methods").begin_array();
                                                  json.value(arguments.method).end_array();
                                                  json.member("ttl_ms", kTokenLife.count()).end_object();
                                                })));
    token = made.value().get("token").as_string().value_or("");
  }
  started.client->on_event([](const wire::Message& event) {
    if (event.method != "progress") return tell_of(event);
    print(event.params.to_json());
    std::fflush(stdout);
  });
  TRY(const Answer answer,
      started.client->call(arguments.method, params, {.deadline = Millis(arguments.deadline_ms), .token = token}));
  const std::string json = answer.json();
  print(json);
  return check_no_stream(json);
}

}  // namespace

void add_warden_commands(CLI::App& app, Context& context) {
  on_run(app.add_subcommand("up", "Start the warden, if it is not running, and wait until it answers"), context,
         [&context] { return up(context); });
  on_run(app.add_subcommand("down", "Stop the warden after the requests in flight"), context,
         [&context] { return down(context); });
  on_run(app.add_subcommand("status", "Show the warden's state and counters"), context,
         [&context] { return status(context); });
  on_run(app.add_subcommand("ping", "Send a ping through the control door"), context,
         [&context] { return ping(context); });

  auto* command = app.add_subcommand("call", "Call a method and print its result as JSON");
  const auto arguments = std::make_shared<CallArguments>();
  command->add_option("METHOD", arguments->method, "For example warden.hello")->required();
  command->add_option("JSON", arguments->params, "Parameters, an object; - reads them from stdin");
  command->add_option("--deadline-ms", arguments->deadline_ms, "How long the call may take")
      ->type_name("MS")
      ->check(CLI::Range(1, 24 * 60 * 60 * 1000).description(""))
      ->capture_default_str();
  command->add_flag("--token", arguments->wants_token,
                    "Make a capability token for the call first: where it needs one");
  on_run(command, context, [&context, arguments] { return call(context, *arguments); });
}

}  // namespace sallyport::cli
