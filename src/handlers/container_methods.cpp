// container.create adopt list inspect exec signal stop remove wait
#include <csignal>

#include "containers/launch_spec.h"
#include "containers/record.h"
#include "handlers/container_exec.h"
#include "handlers/method.h"
#include "handlers/net_reports.h"
#include "handlers/pod_containers.h"
#include "os/paths.h"

namespace sallyport::handlers {

using containers::Container;

namespace {

// A workspace was asked for by a name, once, and is started in again, by schedules and after a restart of the warden.
// A sandbox of a directory above may have put a link in its place by then.
Status check_still_there(const std::string& workspace) {
  const auto now = os::real_path(workspace);
  if (workspace.empty() || !now || *now == workspace) return ok();
  return Error::make(Code::policy_denied,
                     "a link that a sandbox may have made leads elsewhere now: " + workspace + " is no workspace",
                     "to " + *now);
}

}  // namespace

// Profile, overrides, specification, policy, launch: the whole way from a configuration to a container.
Task<Result<std::shared_ptr<Container>>> start_container(Host& host, containers::Config config) {
  CO_TRY(const policy::Profile profile, profile_of(host.profiles, config));
  CO_TRY(check_still_there(config.workspace));
  CO_TRY(sandbox::Spec spec, containers::make_spec(profile, {config.workspace, containers::host_home(),
                                                             [](const std::string&) { return std::nullopt; }}));
  CO_TRY(policy::NetPolicy net, policy::NetPolicy::make(profile.net_allow, profile.net_deny, profile.net_limits));
  const bool has_proxy = spec.has_proxy;
  if (config.command.empty()) config.command = profile.command;
  CO_TRY(const auto container, host.containers.prepare(std::move(config)));
  container->denied = spec.deny;
  container->denied_patterns = spec.deny_patterns;
  set_policy(host, *container);
  container->when_over([&host, weak = std::weak_ptr(container)] {
    const auto over = weak.lock();
    if (!over) return;
    set_policy(host, *over);
    // Not while it is ending: others are still to be told.
    if (over->config.is_temporary) host.sessions.loop().post([&host, id = over->id] { remove_when_idle(host, id); });
  });
  CO_TRY(co_await host.containers.launch(container, std::move(spec)));
  if (has_proxy) {
    container->when_over([&host, id = container->id] { host.egress.stop(id); });
    // What it has asked for meanwhile waits in the listener's queue.
    const Status served = host.egress.serve(container->id, std::move(container->proxy_listener), std::move(net));
    if (!served) {
      host.containers.stop(container, Millis(0));
      co_return served.error();
    }
  }
  co_return container;
}

void remove_when_idle(Host& host, const std::string& id) {
  host.mailbox.when_idle(id, [&host, id] { [[maybe_unused]] const Status removed = host.containers.remove(id); });
}

Result<std::map<std::string, std::string>> text_map(wire::Value object, std::string_view field, bool are_variables) {
  std::map<std::string, std::string> all;
  for (const auto& [key, value] : object.members()) {
    const bool is_name =
        !key.empty() && key.find('=') == std::string_view::npos && key.find('\0') == std::string_view::npos;
    const auto content = value.as_string();
    if (!is_name || !content || (are_variables && content->find('\0') != std::string_view::npos)) {
      return Error::invalid_param(field, "must map names to strings");
    }
    all.emplace(key, *content);
  }
  return all;
}

Result<std::shared_ptr<Container>> find_container(Host& host, wire::Value params) {
  auto container = host.containers.find(text(params.get("container")));
  if (!container) return Error::make(Code::not_found, "no such container");
  return container;
}

namespace {

using ipc::Call;
using ipc::Reply;
using wire::Field;
using wire::JsonWriter;
using wire::Type;

constexpr std::int64_t kLongestGraceMs = 10 * 60 * 1000;
constexpr std::size_t kLogBytes = 192U << 10;  // of each stream, in an answer that has room for all else

// ---- create, adopt ----

constexpr Field kConfig[] = {{.name = "name", .type = Type::string, .least = 1, .most = 48},
                             {.name = "workspace", .type = Type::string, .least = 1, .most = 4096},
                             {.name = "command", .type = Type::string_array, .most = 4096},
                             {.name = "env", .type = Type::object},
                             {.name = "labels", .type = Type::object},
                             {.name = "profile", .type = Type::object, .fields = kProfileOverrides},
                             {.name = "group", .type = Type::string, .least = 1, .most = 48},
                             {.name = "restart", .type = Type::boolean},
                             {.name = "ends_with_session", .type = Type::boolean}};
constexpr Field kCreate[] = {{.name = "template", .type = Type::string, .least = 1, .most = 64},
                             {.name = "config", .type = Type::object, .fields = kConfig}};

// A group says itself what its containers may do and where they work.
Status join_group(const Host& host, containers::Config& config, const std::string& name) {
  if (config.profile != containers::Config().profile || !config.workspace.empty() || !config.overrides.empty()) {
    return Error::invalid_param("params.config.group", "already says template, workspace and profile");
  }
  const containers::Group* group = host.groups.find(name);
  if (group == nullptr) return Error::make(Code::not_found, "no group '" + name + "'");
  config.group = group->name;
  config.profile = group->profile;
  config.overrides = group->overrides;
  TRY(config.workspace, host.groups.workspace_dir(name));
  return ok();
}

Result<containers::Config> read_config(const Host& host, wire::Value params) {
  containers::Config config;
  if (const wire::Value name = params.get("template")) config.profile = text(name);
  const wire::Value given = params.get("config");
  config.name = text(given.get("name"));
  config.workspace = text(given.get("workspace"));
  if (!config.workspace.empty() && config.workspace[0] != '/') {
    return Error::invalid_param("params.config.workspace", "must be absolute");
  }
  config.command = strings(given.get("command"));
  TRY(config.environment, text_map(given.get("env"), "params.config.env", true));
  TRY(config.labels, text_map(given.get("labels"), "params.config.labels", false));
  config.should_restart = given.get("restart").as_bool().value_or(false);
  if (const wire::Value overrides = given.get("profile")) config.overrides = overrides.to_json();
  if (const wire::Value group = given.get("group")) TRY(join_group(host, config, text(group)));
  // Where it is meant to be from now on: see check_still_there().
  if (!config.workspace.empty()) config.workspace = os::real_path(config.workspace).value_or(config.workspace);
  return config;
}

Reply describe(Call& call, Host& host, const Container& container, bool with_log = false) {
  return call.result([&](JsonWriter& json) {
    json.begin_object();
    containers::describe(json, container);
    if (with_log) {
      json.key("log").begin_object().member("stdout", container.out.tail(kLogBytes));
      json.member("stderr", container.err.tail(kLogBytes));
      json.member("stdout_bytes", container.out.total()).member("stderr_bytes", container.err.total()).end_object();
    }
    if (const egress::Tally* tally = host.egress.tally(container.id)) tally->describe(json);
    json.end_object();
  });
}

// Nothing of it is left.
void discard(Host& host, const std::string& id) {
  const auto container = host.containers.find(id);
  if (!container) return;
  const auto forget = [&host, id] { [[maybe_unused]] const Status removed = host.containers.remove(id); };
  if (containers::is_over(container->state)) return forget();
  // Not in the middle of its end.
  container->when_over([&host, forget] { host.sessions.loop().post(forget); });
  host.containers.stop(container, Millis(0));
}

void end_with_session(Call& call, Host& host, const std::string& id) {
  const auto end = [&host, id] { discard(host, id); };
  call.session().set_never_idle(true);
  if (call.session().is_closed()) return end();
  call.session().on_close(end);
}

Task<Reply> create(const Permit&, Call& call, RequestContext& context, Host& host) {
  auto config = read_config(host, call.params());
  if (!config) co_return std::move(config).error();
  if (const auto maker = host.containers.find(context.container_id)) config->origin = containers::owner_of(*maker);
  auto container = co_await start_container(host, std::move(*config));
  if (!container) co_return std::move(container).error();
  // Whoever was told that there is none, or nothing, does not know its name.
  if (call.is_given_up()) {
    discard(host, (*container)->id);
    co_return Error::make(Code::cancelled, "given up while the container started");
  }
  if (call.params().get("config").get("ends_with_session").as_bool().value_or(false)) {
    end_with_session(call, host, (*container)->id);
  }
  co_return describe(call, host, **container);
}

// For a sandbox that its maker builds itself. First {template, config}: a door and a mailbox to put into it;
// then {container, pid, pid_namespace}: it runs; {container, net}: what its proxy reported, as it comes. It ends with
// the session that adopted it, which hears `container.net` when the net rules of its profile change.
constexpr Field kNamespace[] = {{.name = "device", .type = Type::integer, .required = true, .least = 0},
                                {.name = "inode", .type = Type::integer, .required = true, .least = 1}};
constexpr std::int64_t kMaxReportsAtOnce = 1024;
constexpr std::int64_t kMaxViolations{sandbox::ViolationLog::kMaxEntries};
constexpr Field kAdopt[] = {{.name = "template", .type = Type::string, .least = 1, .most = 64},
                            {.name = "config", .type = Type::object, .fields = kConfig},
                            {.name = "container", .type = Type::string},
                            {.name = "pid", .type = Type::integer, .least = 1},
                            {.name = "pid_namespace", .type = Type::object, .fields = kNamespace},
                            {.name = "wait_status", .type = Type::integer},
                            {.name = "net", .type = Type::array, .most = kMaxReportsAtOnce},
                            {.name = "violations", .type = Type::array, .most = kMaxViolations},
                            {.name = "findings", .type = Type::string_array, .most = kMaxReportsAtOnce}};

void report_violations(Host& host, containers::Container& container, wire::Value violations) {
  for (const wire::Value each : violations.items()) {
    host.containers.report(container, {.operation = text(each.get("operation")),
                                       .target = text(each.get("target")),
                                       .rule = text(each.get("rule")),
                                       .count = std::max<std::uint64_t>(each.get("count").as_uint().value_or(1), 1)});
  }
}

Reply adopt_new(Call& call, Host& host) {
  auto config = read_config(host, call.params());
  if (!config) return std::move(config).error();
  if (auto profile = profile_of(host.profiles, *config); !profile) return std::move(profile).error();
  config->is_temporary = true;
  auto container = host.containers.prepare(std::move(*config));
  if (!container) return std::move(container).error();
  const std::string id = (*container)->id;
  set_policy(host, **container);
  host.egress.follow(id, net_policy_of(host, id), [session = call.session().weak_from_this(), id](const auto& policy) {
    const auto maker = session.lock();
    if (!maker) return;
    maker->send_event("", "container.net", wire::to_json([&](JsonWriter& json) {
                        json.begin_object().member("container", id);
                        egress::write_policy(json.key("policy"), policy);
                        json.end_object();
                      }));
  });
  call.session().on_close([&host, id] {
    host.egress.stop(id);
    if (const auto adopted = host.containers.find(id)) {
      host.containers.release(*adopted, adopted->wait_status.value_or(SIGKILL));
    }
    remove_when_idle(host, id);
  });
  call.session().set_never_idle(true);
  return call.result([&](JsonWriter& json) {
    json.begin_object().member("container", id).member("door", (*container)->door_dir);
    json.member("mailbox", (*container)->mailbox_dir).member("session", (*container)->session_dir).end_object();
  });
}

Task<Reply> adopt(const Permit&, Call& call, RequestContext& context, Host& host) {
  // Its process is named by a number of the host's, and is signalled later.
  if (Status status = require_host(context); !status) return now(std::move(status).error());
  if (!call.params().get("container")) return now(adopt_new(call, host));
  auto container = find_container(host, call.params());
  if (!container) return now(std::move(container).error());
  const bool is_adopted = (*container)->handle == 0 && (*container)->config.pod.empty();
  if (!is_adopted || containers::is_over((*container)->state)) {
    return now(Error::make(Code::conflict, "the container was not adopted, or is over"));
  }
  if (const wire::Value net = call.params().get("net")) {
    if (Status taken = take_reports(host, (*container)->id, net); !taken) return now(std::move(taken).error());
  } else if (const wire::Value violations = call.params().get("violations")) {
    report_violations(host, **container, violations);
  } else if (const wire::Value findings = call.params().get("findings")) {
    host.containers.report((*container)->id, strings(findings));
  } else if (const auto status = call.params().get("wait_status").as_int()) {
    (*container)->wait_status = static_cast<int>(*status);
  } else if (const auto pid = call.params().get("pid").as_int()) {
    const wire::Value place = call.params().get("pid_namespace");
    if (!place) return now(Error::invalid_param("params.pid_namespace", "is missing"));
    const containers::Registry::Adopted made{
        .pid = static_cast<pid_t>(*pid),
        .maker = context.peer.pid,
        .pid_namespace = {place.get("device").as_uint().value_or(0), place.get("inode").as_uint().value_or(0)}};
    if (Status adopted = host.containers.adopt(**container, made); !adopted) return now(std::move(adopted).error());
  } else {
    return now(Error::invalid_param("params.pid", "is missing"));
  }
  return now(describe(call, host, **container));
}

// ---- list, inspect, signal, stop, remove, wait ----

Task<Reply> list(const Permit&, Call& call, RequestContext&, Host& host) {
  return now(call.result([&](JsonWriter& json) {
    json.begin_object();
    wire::write_page(json, "containers", host.containers.all(), text(call.params().get("after")),
                     [&](const auto& each) {
                       json.begin_object();
                       containers::describe(json, *each.second);
                       json.end_object();
                     });
    json.end_object();
  }));
}

// A pod's is steered through the pod, which passes signals on and records the exit.
Result<std::shared_ptr<Container>> find_own(Host& host, wire::Value params) {
  TRY(auto container, find_container(host, params));
  if (container->config.pod.empty()) return container;
  return Error::make(Code::conflict, "the container is the sandbox of pod '" + container->config.pod +
                                         "': use pod.signal and pod.stop");
}

constexpr Field kNamed[] = {{.name = "container", .type = Type::string, .required = true}};
constexpr Field kInspect[] = {{.name = "container", .type = Type::string, .required = true},
                              {.name = "log", .type = Type::boolean}};

Task<Reply> inspect(const Permit&, Call& call, RequestContext&, Host& host) {
  auto container = find_container(host, call.params());
  if (!container) return now(std::move(container).error());
  return now(describe(call, host, **container, call.params().get("log").as_bool().value_or(false)));
}

constexpr Field kSignal[] = {{.name = "container", .type = Type::string, .required = true},
                             {.name = "signal", .type = Type::integer, .required = true, .least = 1, .most = 64},
                             {.name = "job", .type = Type::integer, .least = 0, .most = UINT32_MAX}};

Task<Reply> signal(const Permit&, Call& call, RequestContext&, Host& host) {
  auto container = find_own(host, call.params());
  if (!container) return now(std::move(container).error());
  const auto job = static_cast<std::uint32_t>(call.params().get("job").as_int().value_or(0));
  Status sent = host.containers.signal(**container, job, static_cast<int>(*call.params().get("signal").as_int()));
  if (!sent) return now(std::move(sent).error());
  return now(call.result([](JsonWriter& json) { json.raw(R"({"sent":true})"); }));
}

// Resolves when the container is over; the call's own end takes it off the list.
Task<Status> until_over(Call& call, const std::shared_ptr<Container>& container) {
  const auto over = std::make_shared<ipc::OneShot<Status>>();
  if (!containers::is_over(container->state)) {
    const std::uint64_t number = container->when_over([over] { over->resolve(ok()); });
    call.on_cancel([over] { over->resolve(Error::make(Code::cancelled, "not waited for any more")); });
    Status status = co_await *over;
    call.on_cancel(nullptr);
    container->on_end.erase(number);
    co_return status;
  }
  co_return ok();
}

constexpr Field kStop[] = {{.name = "container", .type = Type::string, .required = true},
                           {.name = "grace_ms", .type = Type::integer, .least = 0, .most = kLongestGraceMs}};

Task<Reply> stop(const Permit&, Call& call, RequestContext&, Host& host) {
  auto container = find_own(host, call.params());
  if (!container) co_return std::move(container).error();
  host.containers.stop(*container, Millis(call.params().get("grace_ms").as_int().value_or(5'000)));
  if (Status over = co_await until_over(call, *container); !over) co_return std::move(over).error();
  co_return describe(call, host, **container);
}

Task<Reply> wait(const Permit&, Call& call, RequestContext&, Host& host) {
  auto container = find_container(host, call.params());
  if (!container) co_return std::move(container).error();
  if (Status over = co_await until_over(call, *container); !over) co_return std::move(over).error();
  co_return describe(call, host, **container);
}

Task<Reply> remove(const Permit&, Call& call, RequestContext&, Host& host) {
  const std::string id = text(call.params().get("container"));
  if (Status removed = host.containers.remove(id); !removed) return now(std::move(removed).error());
  host.engine.remove_container(id);
  return now(call.result([](JsonWriter& json) { json.raw(R"({"removed":true})"); }));
}

constexpr Millis kNoTimeout{0};

constexpr Method kMethods[] = {
    {.name = "container.create", .handle = create, .params = kCreate, .audit = Audit::durable},
    {.name = "container.adopt", .handle = adopt, .params = kAdopt, .audit = Audit::durable},
    {.name = "container.list", .handle = list, .params = wire::kPageFields},
    {.name = "container.inspect", .handle = inspect, .params = kInspect},
    {.name = "container.exec",
     .handle = container_exec,
     .params = kExec,
     .timeout = kNoTimeout,
     .audit = Audit::durable},
    {.name = "container.signal", .handle = signal, .params = kSignal, .audit = Audit::durable, .is_brake = true},
    {.name = "container.stop",
     .handle = stop,
     .params = kStop,
     .timeout = kNoTimeout,
     .audit = Audit::durable,
     .is_brake = true},
    {.name = "container.remove", .handle = remove, .params = kNamed, .audit = Audit::durable, .is_brake = true},
    {.name = "container.wait", .handle = wait, .params = kNamed, .timeout = kNoTimeout},
};

}  // namespace

std::span<const Method> container_methods() { return kMethods; }

}  // namespace sallyport::handlers
