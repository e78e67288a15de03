// pod.create list attach resize role signal stop log wait
#include <algorithm>

#include "containers/launch_spec.h"
#include "handlers/method.h"
#include "pod/methods.h"

namespace sallyport::handlers {
namespace {

using ipc::Call;
using ipc::Reply;
using wire::Field;
using wire::JsonWriter;
using wire::Type;

constexpr std::size_t kMaxVariables = 256;

constexpr Field kSize[] = {
    {.name = "rows", .type = Type::integer, .required = true, .least = 1, .most = pod::kMaxRows},
    {.name = "columns", .type = Type::integer, .required = true, .least = 1, .most = pod::kMaxColumns}};
constexpr Field kOverrides[] = {{.name = "limits", .type = Type::object},
                                {.name = "deny", .type = Type::string_array},
                                {.name = "read_only", .type = Type::boolean}};
constexpr Field kCreate[] = {
    {.name = "name", .type = Type::string, .least = 1, .most = pod::kMaxNameBytes},
    {.name = "template", .type = Type::string, .least = 1, .most = 64},
    {.name = "profile", .type = Type::object, .fields = kOverrides},
    {.name = "workspace", .type = Type::string, .least = 1, .most = 4096},
    {.name = "directory", .type = Type::string, .least = 1, .most = 4096},
    {.name = "command", .type = Type::string_array, .required = true, .least = 1, .most = 4096},
    {.name = "env", .type = Type::object},
    {.name = "size", .type = Type::object, .fields = kSize},
    {.name = "tcp", .type = Type::boolean},
    {.name = "keep_ms", .type = Type::integer, .least = 0, .most = std::int64_t{7} * 24 * 60 * 60 * 1000},
    {.name = "ring_bytes", .type = Type::integer, .least = pod::kMinRingBytes, .most = pod::kMaxRingBytes}};

Status add_environment(sandbox::Spec& spec, wire::Value given) {
  if (given.size() > kMaxVariables) return Error::invalid_param("params.env", "has too many variables");
  for (const auto& [name, value] : given.members()) {
    const auto content = value.as_string();
    if (name.empty() || name.find_first_of(std::string_view("=\0", 2)) != std::string_view::npos || !content ||
        content->find('\0') != std::string_view::npos) {
      return Error::invalid_param("params.env", "must map names to strings");
    }
    const std::string start = std::string(name) + "=";
    std::erase_if(spec.environment, [&](const std::string& variable) { return variable.starts_with(start); });
    spec.environment.push_back(start + std::string(*content));
  }
  return ok();
}

Result<pod::Startup> read_startup(Host& host, wire::Value params) {
  pod::Startup startup;
  startup.pods_dir = host.pods.pods_dir();
  startup.name = params.get("name") ? text(params.get("name")) : "pod-" + random_hex(4);
  TRY(pod::check_name(startup.name));
  startup.profile = params.get("template") ? text(params.get("template")) : "default";
  const policy::Profile* found = host.profiles.find(startup.profile);
  if (found == nullptr) return Error::invalid_param("params.template", "names no profile");
  policy::Profile profile = *found;
  TRY(narrow_profile(profile, params.get("profile")));
  const std::string workspace = text(params.get("workspace"));
  if (!workspace.empty() && workspace[0] != '/') return Error::invalid_param("params.workspace", "must be absolute");
  TRY(startup.spec, containers::make_spec(profile, {workspace, containers::host_home(),
                                                    [](const std::string&) { return std::nullopt; }}));
  startup.spec.name = "pod-" + startup.name;
  startup.spec.command = strings(params.get("command"));
  startup.spec.directory = text(params.get("directory"));
  // Its own token must stay out of its sight, wherever the state directory is.
  startup.spec.deny.push_back(startup.pods_dir);
  TRY(add_environment(startup.spec, params.get("env")));
  if (const auto size = pod::read_size(params.get("size"))) startup.size = *size;
  startup.with_tcp = params.get("tcp").as_bool().value_or(false);
  startup.keep = Millis(params.get("keep_ms").as_int().value_or(pod::kKeepExited.count()));
  startup.ring_bytes = params.get("ring_bytes").as_uint().value_or(pod::kDefaultRingBytes);
  return startup;
}

Task<Reply> create(const Permit&, Call& call, RequestContext&, Host& host) {
  auto startup = read_startup(host, call.params());
  if (!startup) co_return std::move(startup).error();
  auto record = co_await host.pods.create(std::move(*startup));
  if (!record) co_return std::move(record).error();
  host.events.publish("pod.started", wire::to_json([&](JsonWriter& json) {
                        json.begin_object().member("pod", record->name).end_object();
                      }));
  co_return call.result([&](JsonWriter& json) {
    json.begin_object().member("pod", record->name).member("state", "running");
    json.member("address", record->address).member("pid", record->binding.pid).end_object();
  });
}

Task<Reply> list(const Permit&, Call& call, RequestContext&, Host& host) {
  return now(call.result([&](JsonWriter& json) {
    json.begin_object().key("pods").begin_array();
    for (const auto& [name, seen] : pod::look_at_all(host.pods.pods_dir())) pod::describe(json, name, seen);
    json.end_array().end_object();
  }));
}

// What a pod that is gone left behind answers for it.
std::optional<Reply> wait_after_the_fact(Call& call, Host& host) {
  const pod::Place place(host.pods.pods_dir(), text(call.params().get("pod")));
  if (!pod::check_name(text(call.params().get("pod")))) return std::nullopt;
  const pod::Sighting seen = pod::look(place);
  if (seen.life != pod::Life::collectable) return std::nullopt;
  if (call.params().get("collect").as_bool().value_or(false)) {
    if (const auto lock = place.lock()) place.remove();
  }
  return call.result([&](JsonWriter& json) {
    json.begin_object().member("pod", seen.record->name);
    pod::write_exit(json, *seen.record);
    json.end_object();
  });
}

// Everything else is the pod's own to answer.
Task<Reply> forward(const Permit&, Call& call, RequestContext&, Host& host) {
  if (!call.params().get("pod")) co_return Error::invalid_param("params.pod", "is missing");
  const std::string_view method = call.message().method;
  if (method == "pod.wait") {
    if (auto reply = wait_after_the_fact(call, host)) co_return std::move(*reply);
  }
  auto link = co_await host.pods.link(call.session(), text(call.params().get("pod")));
  if (!link) co_return std::move(link).error();
  if (method == "pod.attach" || method == "pod.log") co_return co_await (*link)->pass_streams(call);
  co_return co_await (*link)->pass(call);
}

Method forwarded(std::string_view name, Millis timeout, Audit audit) {
  return {.name = name, .handle = forward, .params = *pod::find_schema(name), .timeout = timeout, .audit = audit};
}

}  // namespace

std::span<const Method> pod_methods() {
  static const std::array kMethods = {
      Method{.name = "pod.create",
             .handle = create,
             .params = kCreate,
             .timeout = Millis(60'000),
             .audit = Audit::durable},
      Method{.name = "pod.list", .handle = list},
      forwarded("pod.attach", Millis(30'000), Audit::durable),
      forwarded("pod.log", Millis(30'000), Audit::durable),
      forwarded("pod.resize", Millis(30'000), Audit::buffered),
      forwarded("pod.role", Millis(30'000), Audit::durable),
      forwarded("pod.signal", Millis(30'000), Audit::durable),
      forwarded("pod.stop", Millis(30'000), Audit::durable),
      forwarded("pod.status", Millis(30'000), Audit::none),
      forwarded("pod.wait", Millis(0), Audit::durable),
  };
  return kMethods;
}

}  // namespace sallyport::handlers
