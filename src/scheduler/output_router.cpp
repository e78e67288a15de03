#include "scheduler/output_router.h"

#include "containers/output.h"
#include "scheduler/commit.h"

namespace sallyport::scheduler {

using containers::Container;
using containers::OutputLine;

namespace {

ledger::Submission record_of(const Container& container, const std::string& task,
                             const containers::TakenOutput& taken) {
  ledger::Entry entry;
  entry.durability = ledger::Durability::durable;
  entry.stage = ledger::Stage::event;
  entry.principal = "container/" + container.id;
  entry.request_id = task;
  entry.method = "container.output";
  entry.rule = "cursor=" + std::to_string(taken.cursor) + " lines=" + std::to_string(taken.lines.size()) +
               " malformed=" + std::to_string(taken.malformed) + " lost_bytes=" + std::to_string(taken.lost_bytes);
  ledger::Submission submission;
  submission.entries.push_back(std::move(entry));
  return submission;
}

}  // namespace

Task<Result<OutputRouter::Routed>> OutputRouter::route(std::shared_ptr<Container> container, std::string task) {
  if (!container->is_output_captured) {
    co_return Error::make(Code::conflict, "the container's output is not captured: it goes to its own terminal");
  }
  registry_.drain_output(*container);
  const std::uint64_t before = container->output_taken;
  const containers::TakenOutput taken =
      containers::take_output(container->out, before, containers::is_over(container->state));
  if (taken.cursor == before) co_return Routed();
  // Taken before it is written, so that a second signal does not find it again.
  container->output_taken = taken.cursor;
  const Status written = co_await commit(ledger_, record_of(*container, task, taken));
  if (!written) {
    if (container->output_taken == taken.cursor) container->output_taken = before;
    co_return written.error();
  }
  Routed routed{.malformed = taken.malformed, .lost_bytes = taken.lost_bytes};
  for (const OutputLine& line : taken.lines) {
    const bool is_message = line.kind == OutputLine::Kind::message;
    ++(is_message ? routed.messages : routed.progress);
    publish_(is_message ? "container.message" : "container.progress", wire::to_json([&](wire::JsonWriter& json) {
               json.begin_object().member("container", container->id).member("group", container->config.group);
               if (!task.empty()) json.member("task", task);
               json.member("text", line.text).end_object();
             }));
  }
  co_return routed;
}

void describe(wire::JsonWriter& json, const OutputRouter::Routed& routed) {
  json.member("messages", routed.messages).member("progress", routed.progress);
  json.member("malformed", routed.malformed).member("lost_bytes", routed.lost_bytes);
}

}  // namespace sallyport::scheduler
