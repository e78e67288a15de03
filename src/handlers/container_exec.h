// container.exec: a further command in a container.
#pragma once

#include "handlers/method.h"

namespace sallyport::handlers {

// One request from start to exit. The event `container.started` names the streams of its output; the
// response carries its exit. Cancelling the request, or missing its deadline, kills the command. The host
// names a container; a container that may call this at all gets its own and no other.
inline constexpr wire::Field kExec[] = {
    {.name = "container", .type = wire::Type::string},
    {.name = "command", .type = wire::Type::string_array, .required = true, .least = 1, .most = 4096},
    {.name = "env", .type = wire::Type::object},
    {.name = "directory", .type = wire::Type::string, .most = 4096},
    {.name = "stdin", .type = wire::Type::object}};
Task<ipc::Reply> container_exec(const Permit& permit, ipc::Call& call, RequestContext& context, Host& host);

// What it shares with the other methods of its group: the container that the parameters name, and a map of
// environment variables or labels.
Result<std::shared_ptr<containers::Container>> find_container(Host& host, wire::Value params);
Result<std::map<std::string, std::string>> text_map(wire::Value object, std::string_view field, bool are_variables);

}  // namespace sallyport::handlers
