#include "scheduler/declared.h"

#include "scheduler/program.h"
#include "scheduler/signals.h"
#include "scheduler/template.h"

namespace sallyport::scheduler {
namespace {

using mailbox::Raised;
using mailbox::Signal;
using Declared = std::shared_ptr<const DeclaredSignal>;

// What an action's program reads, and what subscribers get.
std::string told(const DeclaredSignal& signal, const Raised& raised, const std::string& group) {
  return wire::to_json([&](wire::JsonWriter& json) {
    json.begin_object().member("signal", signal.name).member("container", raised.container).member("group", group);
    json.member("request_id", raised.request_id).member("key", raised.key).key("payload");
    raised.payload.empty() ? json.null() : json.raw(raised.payload);
    json.end_object();
  });
}

Program program_of(const DeclaredSignal& signal, const Raised& raised, const std::string& group) {
  const Placeholders values = {{"signal", signal.name},
                               {"container", raised.container},
                               {"group", group},
                               {"request_id", raised.request_id},
                               {"key", raised.key}};
  return {.arguments = fill_template(signal.command, values),
          .environment = plain_environment(),
          .input = told(signal, raised, group),
          .timeout = signal.timeout};
}

Task<Result<std::string>> publish(SignalHost& host, Declared signal, Raised raised) {
  CO_TRY(const auto container, sender_of(host, raised));
  host.publish("signal." + signal->name, told(*signal, raised, container->config.group));
  co_return R"({"published":true})";
}

// Its answer is the program's stdout, where that is JSON. What it says on stderr is for the host's log.
Task<Result<std::string>> execute(SignalHost& host, Declared signal, Raised raised) {
  CO_TRY(const auto container, sender_of(host, raised));
  Program program = program_of(*signal, raised, container->config.group);
  CO_TRY(const ProgramEnd end, co_await run_program(host.loop, std::move(program), host.programs_dir));
  if (!end.is_good()) {
    host.log.warn("a signal's program failed",
                  {{"signal", signal->name}, {"exit", end.exit_code()}, {"stderr", end.last_words()}});
    Error error = end.was_over_time ? Error::make(Code::timeout, "the signal's program took too long")
                                    : Error::make(Code::io_error, "the signal's program failed");
    error.details_json = wire::to_json(
        [&](wire::JsonWriter& json) { json.begin_object().member("exit_code", end.exit_code()).end_object(); });
    co_return error;
  }
  wire::Decoder decoder;
  const auto output = decoder.parse(end.out.tail());
  co_return wire::to_json([&](wire::JsonWriter& json) {
    json.begin_object().member("exit_code", 0).key("output");
    output ? json.value(output->root()) : json.null();
    json.end_object();
  });
}

}  // namespace

std::string commands_json(const std::vector<DeclaredSignal>& signals, const Deployments& deployments) {
  return wire::to_json([&](wire::JsonWriter& json) {
    const auto write = [&](const std::string& name, const std::vector<std::string>& command) {
      json.key(name).begin_array();
      for (const std::string& word : command) json.value(word);
      json.end_array();
    };
    json.begin_object();
    for (const DeclaredSignal& signal : signals) write("signal." + signal.name, signal.command);
    for (const auto& [name, deployment] : deployments) {
      write("deploy." + name, deployment.command);
      json.member("repository." + name, deployment.repository);
    }
    json.end_object();
  });
}

std::vector<Signal> declared_signals(SignalHost& host, const std::vector<DeclaredSignal>& declared) {
  std::vector<Signal> signals;
  for (const DeclaredSignal& each : declared) {
    const auto copy = std::make_shared<DeclaredSignal>(each);
    // The copy's fields must name the copy's own words.
    for (std::size_t i = 0; i < copy->fields.size(); ++i) copy->fields[i].name = copy->names[i];
    const Declared kept = copy;
    signals.push_back({.name = kept->name,
                       .tier = kept->tier,
                       .payload = kept->fields,
                       .is_idempotent = kept->is_idempotent,
                       .action = [&host, kept](const Permit&, const Raised& raised) {
                         return kept->command.empty() ? publish(host, kept, raised) : execute(host, kept, raised);
                       }});
    if (kept->command.empty()) continue;
    signals.back().command = [&host, kept](const Raised& raised) -> std::vector<std::string> {
      const auto container = sender_of(host, raised);
      if (!container) return {};
      return program_of(*kept, raised, (*container)->config.group).arguments;
    };
  }
  return signals;
}

}  // namespace sallyport::scheduler
