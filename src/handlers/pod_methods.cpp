// pod.create list attach resize role signal stop log wait
#include <algorithm>
#include <csignal>

#include "containers/launch_spec.h"
#include "handlers/container_exec.h"
#include "handlers/method.h"
#include "handlers/pod_containers.h"
#include "os/paths.h"
#include "pod/methods.h"
#include "wire/page.h"

namespace sallyport::handlers {
namespace {

using ipc::Call;
using ipc::Reply;
using wire::Field;
using wire::JsonWriter;
using wire::Type;

constexpr std::size_t kMaxVariables = 256;
constexpr std::int64_t kMaxRules = 1024;

constexpr Field kSize[] = {
    {.name = "rows", .type = Type::integer, .required = true, .least = 1, .most = pod::kMaxRows},
    {.name = "columns", .type = Type::integer, .required = true, .least = 1, .most = pod::kMaxColumns}};
constexpr Field kCreate[] = {
    {.name = "name", .type = Type::string, .least = 1, .most = pod::kMaxNameBytes},
    {.name = "template", .type = Type::string, .least = 1, .most = 64},
    {.name = "profile", .type = Type::object, .fields = kProfileOverrides},
    {.name = "workspace", .type = Type::string, .least = 1, .most = 4096},
    {.name = "directory", .type = Type::string, .least = 1, .most = 4096},
    {.name = "command", .type = Type::string_array, .required = true, .least = 1, .most = 4096},
    {.name = "env", .type = Type::object},
    {.name = "allow_net", .type = Type::string_array, .most = kMaxRules},
    {.name = "search_path", .type = Type::string, .most = pod::kMaxSearchPathBytes},  // the caller's PATH
    {.name = "size", .type = Type::object, .fields = kSize},
    {.name = "tcp", .type = Type::boolean},
    {.name = "keep_ms", .type = Type::integer, .least = 0, .most = std::int64_t{7} * 24 * 60 * 60 * 1000},
    {.name = "ring_bytes", .type = Type::integer, .least = pod::kMinRingBytes, .most = pod::kMaxRingBytes}};

Status add_environment(sandbox::Spec& spec, wire::Value given) {
  if (given.size() > kMaxVariables) return Error::invalid_param("params.env", "has too many variables");
  TRY(const auto variables, text_map(given, "params.env", true));
  containers::set_pairs(spec.environment, variables);
  return ok();
}

// What the warden keeps of the pod's sandbox: a container with a door and a mailbox, for as long as the pod lives.
Result<containers::Config> read_config(const RequestContext& context, const std::string& name, wire::Value params) {
  containers::Config config;
  config.pod = name;
  config.is_temporary = true;
  if (params.get("template")) config.profile = text(params.get("template"));
  if (const wire::Value overrides = params.get("profile")) config.overrides = overrides.to_json();
  config.workspace = text(params.get("workspace"));
  if (!config.workspace.empty() && config.workspace[0] != '/') {
    return Error::invalid_param("params.workspace", "must be absolute");
  }
  // What it schedules is started there: see start_container().
  if (!config.workspace.empty()) config.workspace = os::real_path(config.workspace).value_or(config.workspace);
  config.command = strings(params.get("command"));
  if (const wire::Value rules = params.get("allow_net")) {
    // More than the profile has: for the host alone to give.
    TRY(require_host(context));
    config.net_allow = strings(rules);
  }
  return config;
}

Result<pod::Startup> read_startup(Host& host, const containers::Config& config, wire::Value params) {
  pod::Startup startup;
  startup.pods_dir = host.pods.pods_dir();
  startup.name = config.pod;
  startup.profile = config.profile;
  if (host.profiles.find(config.profile) == nullptr) return Error::invalid_param("params.template", "names no profile");
  TRY(const policy::Profile profile, profile_of(host.profiles, config));
  auto net = policy::NetPolicy::make(profile.net_allow, profile.net_deny, profile.net_limits);
  if (!net) return Error::invalid_param("params.allow_net", net.error().message);
  // All that it gets of its caller's environment is in the request.
  const auto variable = [&](const std::string& name) {
    return name == "PATH" ? std::optional(text(params.get("search_path"))) : std::nullopt;
  };
  TRY(startup.spec, containers::make_spec(profile, {config.workspace, containers::host_home(), variable}));
  if (startup.spec.has_proxy) {
    net->is_faulty = host.is_net_faulty;
    startup.net = std::move(*net);
    startup.hosts_file = host.egress.hosts_file();
  }
  startup.spec.name = "pod-" + startup.name;
  startup.spec.scan_records = host.containers.scan_records();
  startup.spec.command = config.command;
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

Task<Result<pod::Record>> start_pod(const Call& call, Host& host, containers::Config config, pod::Startup startup) {
  CO_TRY(const auto container, host.containers.prepare(std::move(config)));
  containers::Registry::add_door(*container, startup.spec);
  startup.container = container->id;
  set_policy(host, *container);
  std::function<bool()> is_wanted = [&call] { return !call.is_given_up(); };
  auto record = co_await host.pods.create(std::move(startup), std::move(is_wanted));
  if (!record) {
    end_pod(host, container->id, SIGKILL);
    co_return std::move(record).error();
  }
  adopt_pod(host, *record);
  co_return record;
}

Task<Reply> create(const Permit&, Call& call, RequestContext& context, Host& host) {
  const std::string name = call.params().get("name") ? text(call.params().get("name")) : "pod-" + random_hex(4);
  if (Status checked = pod::check_name(name); !checked) co_return std::move(checked).error();
  auto config = read_config(context, name, call.params());
  if (!config) co_return std::move(config).error();
  auto startup = read_startup(host, *config, call.params());
  if (!startup) co_return std::move(startup).error();
  auto record = co_await start_pod(call, host, std::move(*config), std::move(*startup));
  if (!record) co_return std::move(record).error();
  host.events.publish("pod.started", wire::to_json([&](JsonWriter& json) {
                        json.begin_object().member("pod", record->name).end_object();
                      }));
  co_return call.result([&](JsonWriter& json) {
    json.begin_object().member("pod", record->name).member("state", "running").member("container", record->container);
    json.member("address", record->address).member("pid", record->binding.pid).end_object();
  });
}

Task<Reply> list(const Permit&, Call& call, RequestContext&, Host& host) {
  return now(call.result([&](JsonWriter& json) {
    json.begin_object();
    const std::string after = text(call.params().get("after"));
    const auto all = pod::look_at_all(host.pods.pods_dir());
    const auto next = std::find_if(all.begin(), all.end(), [&](const auto& each) { return each.first > after; });
    wire::write_page(json, "pods", next, all.end(),
                     [&](const auto& each) { pod::describe(json, each.first, each.second); });
    json.end_object();
  }));
}

// What a pod that is gone left behind answers for it.
std::optional<Reply> wait_after_the_fact(Call& call, Host& host) {
  const pod::Place place(host.pods.pods_dir(), text(call.params().get("pod")));
  if (!pod::check_name(text(call.params().get("pod")))) return std::nullopt;
  const pod::Sighting seen = pod::look(place);
  const bool is_lost = seen.life == pod::Life::lost && place.exists();
  if (seen.life != pod::Life::collectable && !is_lost) return std::nullopt;
  Error lost = pod::lost(place);
  if (call.params().get("collect").as_bool().value_or(false)) {
    if (const auto lock = place.lock()) place.remove();
  }
  if (is_lost) return lost;
  return call.result([&](JsonWriter& json) {
    json.begin_object().member("pod", seen.record->name);
    pod::write_exit(json, *seen.record->wait_status);
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

Method forwarded(std::string_view name, Millis timeout, Audit audit, bool is_brake = false) {
  return {.name = name,
          .handle = forward,
          .params = *pod::find_schema(name),
          .timeout = timeout,
          .audit = audit,
          .is_brake = is_brake};
}

}  // namespace

std::span<const Method> pod_methods() {
  static const std::array kMethods = {
      Method{.name = "pod.create",
             .handle = create,
             .params = kCreate,
             .timeout = Millis(60'000),
             .audit = Audit::durable},
      Method{.name = "pod.list", .handle = list, .params = wire::kPageFields},
      forwarded("pod.attach", Millis(30'000), Audit::durable),
      forwarded("pod.log", Millis(30'000), Audit::durable),
      forwarded("pod.resize", Millis(30'000), Audit::buffered),
      forwarded("pod.role", Millis(30'000), Audit::durable),
      forwarded("pod.signal", Millis(30'000), Audit::durable, true),
      forwarded("pod.stop", Millis(30'000), Audit::durable, true),
      forwarded("pod.status", Millis(30'000), Audit::none),
      forwarded("pod.wait", Millis(0), Audit::durable),
  };
  return kMethods;
}

}  // namespace sallyport::handlers
