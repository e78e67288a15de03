// schedule.list remove
#include "handlers/method.h"

namespace sallyport::handlers {
namespace {

using ipc::Call;
using ipc::Reply;
using wire::JsonWriter;

Task<Reply> list(const Permit&, Call& call, RequestContext& context, Host& host) {
  if (Status status = require_host(context); !status) return now(std::move(status).error());
  return now(call.result([&](JsonWriter& json) {
    json.begin_object().key("tasks").begin_array();
    for (const scheduler::ScheduledTask& task : host.scheduler.all()) {
      json.begin_object();
      scheduler::describe(json, task);
      json.end_object();
    }
    json.end_array().end_object();
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
    {.name = "schedule.list", .handle = list},
    {.name = "schedule.remove", .handle = remove, .params = kRemove, .audit = Audit::durable},
};

}  // namespace

std::span<const Method> schedule_methods() { return kMethods; }

}  // namespace sallyport::handlers
