#include "scheduler/signals.h"

#include "containers/empty_directory.h"
#include "policy/within.h"

namespace sallyport::scheduler {

using containers::Container;
using mailbox::Raised;
using mailbox::Signal;
using wire::Field;
using wire::JsonWriter;
using wire::Type;

namespace {

std::string text(wire::Value value) { return std::string(value.as_string().value_or("")); }

std::string object(const std::function<void(JsonWriter&)>& fill) {
  return wire::to_json([&](JsonWriter& json) {
    json.begin_object();
    fill(json);
    json.end_object();
  });
}

// ---- tier 1 ----

Task<Result<std::string>> take_output(SignalHost& host, Raised raised) {
  CO_TRY(const std::shared_ptr<Container> container, sender_of(host, raised));
  const std::string no_task;
  CO_TRY(const OutputRouter::Routed routed, co_await host.output.route(container, no_task));
  co_return object([&](JsonWriter& json) { describe(json, routed); });
}

Task<Result<std::string>> reset_context(SignalHost& host, Raised raised) {
  CO_TRY(const std::shared_ptr<Container> container, sender_of(host, raised));
  std::string session = container->session_dir;
  if (!container->config.group.empty()) {
    CO_TRY(session, host.groups.session_dir(container->config.group));
  }
  if (session.empty()) co_return Error::make(Code::not_found, "the container's session is gone");
  CO_TRY(const containers::Emptied emptied, co_await containers::empty_directory(host.loop, session));
  if (!emptied.is_complete) {
    Error error = Error::make(Code::conflict, "the session could not be emptied while something keeps filling it");
    error.retryable = true;
    co_return error;
  }
  host.publish("container.context_reset", object([&](JsonWriter& json) {
                 json.member("container", container->id).member("group", container->config.group);
                 json.member("removed", emptied.removed);
               }));
  co_return object([&](JsonWriter& json) { json.member("removed", emptied.removed); });
}

// How many there are; what they are `group.list` tells, page by page.
Task<Result<std::string>> refresh_groups(SignalHost& host, Raised) {
  CO_TRY(host.groups.refresh());
  for (const std::string& fault : host.groups.faults()) host.log.warn("unreadable group", {{"error", fault}});
  std::string counts = object([&](JsonWriter& json) {
    json.member("groups", host.groups.all().size()).member("faults", host.groups.faults().size());
  });
  host.publish("group.refreshed", counts);
  co_return counts;
}

// ---- tier 2 ----

constexpr std::int64_t kPrompt = kMaxPromptBytes, kSchedule = calendar::kMaxScheduleBytes;

constexpr Field kScheduleTask[] = {
    {.name = "prompt", .type = Type::string, .required = true, .least = 1, .most = kPrompt},
    {.name = "schedule", .type = Type::string, .required = true, .least = 1, .most = kSchedule}};

constexpr Field kPeriodicAgent[] = {
    {.name = "name", .type = Type::string, .required = true, .least = 1, .most = 48},
    {.name = "schedule", .type = Type::string, .required = true, .least = 1, .most = kSchedule},
    {.name = "instructions", .type = Type::string, .required = true, .least = 1, .most = kPrompt}};

constexpr Field kDeploy[] = {{.name = "commit", .type = Type::string, .required = true, .least = 40, .most = 64},
                             {.name = "repository", .type = Type::string, .least = 1, .most = 64},
                             {.name = "resume_prompt", .type = Type::string, .least = 1, .most = kPrompt}};

constexpr Field kGroupConfig[] = {{.name = "profile", .type = Type::string, .least = 1, .most = 64},
                                  {.name = "settings", .type = Type::object}};
constexpr Field kRegisterGroup[] = {{.name = "name", .type = Type::string, .required = true, .least = 1, .most = 48},
                                    {.name = "folder", .type = Type::string, .required = true, .least = 1, .most = 64},
                                    {.name = "trigger", .type = Type::string, .most = 256},
                                    {.name = "config", .type = Type::object, .fields = kGroupConfig}};

Result<NewTask> new_task(const Raised& raised) {
  TRY(const wire::Document document, payload_of(raised));
  const wire::Value payload = document.root();
  NewTask wanted{.key = raised.key,
                 .name = text(payload.get("name")),
                 .schedule = text(payload.get("schedule")),
                 .prompt = text(payload.get(payload.get("prompt") ? "prompt" : "instructions"))};
  // A periodic agent is named as a group is: the name is shown, logged and compared.
  if (!wanted.name.empty()) TRY(containers::check_name("a periodic agent's", wanted.name));
  return wanted;
}

Status check_schedule(SignalHost& host, const Raised& raised) {
  TRY(const std::shared_ptr<Container> container, sender_of(host, raised));
  TRY(const NewTask wanted, new_task(raised));
  return host.scheduler.check(*container, wanted);
}

Task<Result<std::string>> schedule(SignalHost& host, Raised raised) {
  CO_TRY(const std::shared_ptr<Container> container, sender_of(host, raised));
  CO_TRY(NewTask wanted, new_task(raised));
  CO_TRY(const ScheduledTask task, co_await host.scheduler.add(*container, std::move(wanted)));
  co_return object([&](JsonWriter& json) {
    json.member("task", task.id).key("next_run");
    task.next_ms != 0 ? json.value(calendar::format_rfc3339(task.next_ms)) : json.null();
  });
}

Result<std::map<std::string, std::string>> read_settings(wire::Value given) {
  constexpr std::size_t kMostSettings = 32, kMostBytes = 1024;
  std::map<std::string, std::string> settings;
  for (const auto& [key, value] : given.members()) {
    const auto content = value.as_string();
    if (!Principal::is_container_id(key) || !content || content->size() > kMostBytes ||
        settings.size() == kMostSettings) {
      return Error::invalid_param("payload.config.settings", "must map up to 32 plain names to short strings");
    }
    settings.emplace(key, *content);
  }
  return settings;
}

Result<containers::Group> new_group(SignalHost& host, const Raised& raised) {
  TRY(const auto container, sender_of(host, raised));
  TRY(const wire::Document document, payload_of(raised));
  const wire::Value payload = document.root(), config = payload.get("config");
  containers::Group group;
  group.name = text(payload.get("name"));
  group.folder = text(payload.get("folder"));
  group.trigger = text(payload.get("trigger"));
  group.created_by = container->id;
  group.created_unix_ms = host.clock.unix_millis();
  group.key = raised.key;
  TRY(group.settings, read_settings(config.get("settings")));
  TRY(const policy::Profile own, host.profile_of(container->config));
  group.profile = config.get("profile") ? text(config.get("profile")) : own.name;
  if (group.profile == own.name) {
    group.overrides = container->config.overrides;
    return group;
  }
  const policy::Profile* wanted = host.profiles.find(group.profile);
  if (wanted == nullptr) return Error::invalid_param("payload.config.profile", "names no profile");
  TRY(policy::check_within(*wanted, own, host.engine.rules()));
  return group;
}

Task<Result<std::string>> register_group(SignalHost& host, Raised raised) {
  CO_TRY(containers::Group wanted, new_group(host, raised));
  CO_TRY(const containers::Group group, host.groups.add(std::move(wanted)));
  host.publish("group.registered", object([&](JsonWriter& json) { containers::describe(json, group); }));
  co_return object([&](JsonWriter& json) { json.member("group", group.name).member("profile", group.profile); });
}

Status check_group(SignalHost& host, const Raised& raised) {
  TRY(const containers::Group wanted, new_group(host, raised));
  return host.groups.check(wanted);
}

using Check = Status (*)(SignalHost&, const Raised&);
using Act = Task<Result<std::string>> (*)(SignalHost&, Raised);

struct Row {
  const char* name;
  int tier;
  wire::Schema payload;
  bool is_idempotent;
  Act act;
  Check check = nullptr;
};
const Row kRows[] = {
    {"message_ready", 1, {}, true, take_output},
    {"progress_ready", 1, {}, true, take_output},
    {"context_reset", 1, {}, true, reset_context},
    {"refresh_groups", 1, {}, true, refresh_groups},
    {"schedule_task", 2, kScheduleTask, true, schedule, check_schedule},
    {"create_periodic_agent", 2, kPeriodicAgent, true, schedule, check_schedule},
    {"register_group", 2, kRegisterGroup, true, register_group, check_group},
    {"deploy", 2, kDeploy, false, deploy, check_deploy},
};

}  // namespace

Result<std::shared_ptr<Container>> sender_of(SignalHost& host, const Raised& raised) {
  auto container = host.registry.find(raised.container);
  if (!container) return Error::make(Code::not_found, "the container that asked is gone");
  return container;
}

Result<wire::Document> payload_of(const Raised& raised) {
  wire::Decoder decoder;
  return decoder.parse(raised.payload);
}

bool is_builtin_signal(std::string_view name) {
  for (const Row& row : kRows) {
    if (row.name == name) return true;
  }
  return false;
}

std::vector<Signal> builtin_signals(SignalHost& host) {
  std::vector<Signal> signals;
  for (const Row& row : kRows) {
    signals.push_back(
        {.name = row.name,
         .tier = row.tier,
         .payload = row.payload,
         .is_idempotent = row.is_idempotent,
         .action = [&host, act = row.act](const Permit&, const Raised& raised) { return act(host, raised); }});
    if (row.check != nullptr) {
      signals.back().check = [&host, check = row.check](const Raised& raised) { return check(host, raised); };
    }
    if (row.act == deploy) {
      signals.back().command = [&host](const Raised& raised) { return deploy_command(host, raised); };
    }
  }
  return signals;
}

}  // namespace sallyport::scheduler
