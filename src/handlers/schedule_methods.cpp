// schedule.list remove
#include <algorithm>

#include "handlers/method.h"
#include "wire/page.h"

namespace sallyport::handlers {
namespace {

using ipc::Call;
using ipc::Reply;
using wire::JsonWriter;

Task<Reply> list(const Permit&, Call& call, RequestContext& context, Host& host) {
  if (Status status = require_host(context); !status) return now(std::move(status).error());
  const std::string after = text(call.params().get("after"));
  const auto tasks = host.scheduler.all();
  auto next = tasks.begin();
  if (!after.empty()) {
    next = std::find_if(tasks.begin(), tasks.end(), [&](const auto* task) { return task->id == after; });
    if (next == tasks.end()) return now(Error::make(Code::not_found, "the task to go on after is gone"));
    ++next;
  }
  return now(call.result([&](JsonWriter& json) {
    json.begin_object();
    wire::write_page(json, "tasks", next, tasks.end(), [&](const scheduler::ScheduledTask* task) {
      json.begin_object();
      scheduler::describe(json, *task);
      json.end_object();
    });
    json.end_object();
  }));
}

constexpr wire::Field kRemove[] = {{.name = "task", .type = wire::Type::string, .required = true}};

Task<Reply> remove(const Permit&, Call& call, RequestContext& context, Host& host) {
  if (Status status = require_host(context); !status) co_return std::move(status).error();
  Status removed = co_await host.scheduler.remove(text(call.params().get("task")), context.principal.to_string());
  if (!removed) co_return std::move(removed).error();
  co_return call.result([](JsonWriter& json) { json.raw(R"({"removed":true})"); });
}

constexpr Method kMethods[] = {
    {.name = "schedule.list", .handle = list, .params = wire::kPageFields},
    {.name = "schedule.remove", .handle = remove, .params = kRemove, .audit = Audit::durable},
};

}  // namespace

std::span<const Method> schedule_methods() { return kMethods; }

}  // namespace sallyport::handlers
