// group.list inspect
#include "containers/record.h"
#include "handlers/method.h"

namespace sallyport::handlers {
namespace {

using ipc::Call;
using ipc::Reply;
using wire::JsonWriter;

Task<Reply> list(const Permit&, Call& call, RequestContext& context, Host& host) {
  if (Status status = require_host(context); !status) return now(std::move(status).error());
  return now(call.result([&](JsonWriter& json) {
    json.begin_object();
    containers::describe_page(json, host.groups, text(call.params().get("after")));
    json.end_object();
  }));
}

constexpr wire::Field kInspect[] = {{.name = "group", .type = wire::Type::string, .required = true}};

// With what belongs to it on the host, and the containers that are in it.
Task<Reply> inspect(const Permit&, Call& call, RequestContext& context, Host& host) {
  if (Status status = require_host(context); !status) return now(std::move(status).error());
  const containers::Group* group = host.groups.find(text(call.params().get("group")));
  if (group == nullptr) return now(Error::make(Code::not_found, "no such group"));
  auto session = host.groups.session_dir(group->name), workspace = host.groups.workspace_dir(group->name);
  if (!session) return now(std::move(session).error());
  if (!workspace) return now(std::move(workspace).error());
  return now(call.result([&](JsonWriter& json) {
    json.begin_object();
    containers::describe(json, *group);
    json.member("session", *session).member("workspace", *workspace).key("containers").begin_array();
    for (const auto& [id, container] : host.containers.all()) {
      if (container->config.group != group->name) continue;
      json.begin_object().member("container", id).member("state", containers::to_string(container->state));
      json.member("mailbox", container->mailbox_dir).end_object();
    }
    json.end_array().end_object();
  }));
}

constexpr Method kMethods[] = {
    {.name = "group.list", .handle = list, .params = wire::kPageFields},
    {.name = "group.inspect", .handle = inspect, .params = kInspect},
};

}  // namespace

std::span<const Method> group_methods() { return kMethods; }

}  // namespace sallyport::handlers
