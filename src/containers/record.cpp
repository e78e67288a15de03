#include "containers/record.h"

#include <dirent.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>

#include "os/files.h"
#include "os/packets.h"
#include "permit/permit.h"

namespace sallyport::containers {
namespace {

// What was asked for, what is in force and what was found at the end, each bounded by itself.
constexpr std::size_t kMaxRecordBytes = 1U << 20;
constexpr std::string_view kSuffix = ".json";

void write_strings(wire::JsonWriter& json, std::string_view name, const std::vector<std::string>& list) {
  json.key(name).begin_array();
  for (const std::string& item : list) json.value(item);
  json.end_array();
}

void write_map(wire::JsonWriter& json, std::string_view name, const std::map<std::string, std::string>& map) {
  json.key(name).begin_object();
  for (const auto& [key, value] : map) json.member(key, value);
  json.end_object();
}

std::string text(wire::Value value) { return std::string(value.as_string().value_or("")); }

std::optional<State> state_from(std::string_view name) {
  for (const State state : {State::starting, State::running, State::exited, State::failed, State::lost}) {
    if (to_string(state) == name) return state;
  }
  return std::nullopt;
}

Result<std::shared_ptr<Container>> parse_record(const std::string& id, const std::string& json) {
  wire::Decoder decoder;
  TRY(const wire::Document document, decoder.parse(json));
  const wire::Value root = document.root();
  const auto state = state_from(root.get("state").as_string().value_or(""));
  if (text(root.get("container")) != id || !state) return Error::make(Code::protocol_error, "not a container's record");
  auto container = std::make_shared<Container>();
  container->id = id;
  container->state = is_over(*state) ? *state : State::lost;
  container->config.profile = text(root.get("profile"));
  container->config.name = text(root.get("name"));
  container->config.workspace = text(root.get("workspace"));
  if (const wire::Value overrides = root.get("overrides")) container->config.overrides = overrides.to_json();
  container->config.should_restart = root.get("restart").as_bool().value_or(false);
  container->config.replaces = text(root.get("replaces"));
  container->config.origin = text(root.get("origin"));
  container->config.group = text(root.get("group"));
  container->config.pod = text(root.get("pod"));
  for (const wire::Value rule : root.get("net_allow").items()) container->config.net_allow.push_back(text(rule));
  container->config.is_temporary = root.get("temporary").as_bool().value_or(false);
  for (const wire::Value item : root.get("command").items()) container->config.command.push_back(text(item));
  for (const auto& [key, value] : root.get("env").members()) {
    container->config.environment.emplace(key, text(value));
  }
  for (const auto& [key, value] : root.get("labels").members()) container->config.labels.emplace(key, text(value));
  container->created_unix_ms = root.get("created").as_int().value_or(0);
  container->ended_unix_ms = root.get("ended").as_int().value_or(0);
  container->protections_json = root.get("protections").to_json();
  container->failure = text(root.get("failure"));
  container->was_over_memory = root.get("over_memory").as_bool().value_or(false);
  container->was_over_time = root.get("over_time").as_bool().value_or(false);
  container->was_idle = root.get("was_idle").as_bool().value_or(false);
  container->violations = root.get("violations").as_uint().value_or(0);
  for (const wire::Value report : root.get("reports").items()) container->reports.push_back(text(report));
  if (const auto status = root.get("wait_status").as_int()) container->wait_status = static_cast<int>(*status);
  return container;
}

}  // namespace

Status check_config(const Config& config) {
  const auto has_nul = [](const std::string& text) { return text.find('\0') != std::string::npos; };
  if (has_nul(config.workspace) || std::any_of(config.command.begin(), config.command.end(), has_nul)) {
    return Error::make(Code::invalid_params, "command and workspace must not hold a NUL");
  }
  // As much as a launcher and a proxy take in one packet, beside a profile's paths and our own variables.
  constexpr std::size_t kMaxConfigBytes = os::kMaxPacketBytes - (24U << 10);
  const std::size_t bytes = wire::to_json([&](wire::JsonWriter& json) {
                              json.begin_object();
                              write_strings(json, "command", config.command);
                              write_map(json, "labels", config.labels);
                              write_map(json, "env", config.environment);
                              write_strings(json, "net_allow", config.net_allow);
                              json.end_object();
                            }).size();
  if (bytes + config.overrides.size() <= kMaxConfigBytes) return ok();
  return Error::make(Code::payload_too_large,
                     "command, labels, environment, hosts and profile of a container are together at "
                     "most " +
                         std::to_string(kMaxConfigBytes) + " bytes");
}

std::string_view to_string(State state) {
  switch (state) {
    case State::starting:
      return "starting";
    case State::running:
      return "running";
    case State::exited:
      return "exited";
    case State::failed:
      return "failed";
    case State::lost:
      return "lost";
  }
  return "lost";
}

void describe(wire::JsonWriter& json, const Container& container) {
  json.member("container", container.id)
      .member("state", to_string(container.state))
      .member("profile", container.config.profile)
      .member("name", container.config.name)
      .member("workspace", container.config.workspace)
      .member("group", container.config.group)
      .member("restart", container.config.should_restart)
      .member("created", container.created_unix_ms);
  if (!container.config.pod.empty()) json.member("pod", container.config.pod);
  if (!container.config.net_allow.empty()) write_strings(json, "net_allow", container.config.net_allow);
  if (container.config.is_temporary) json.member("temporary", true);
  write_strings(json, "command", container.config.command);
  write_map(json, "labels", container.config.labels);
  json.key("protections").raw(container.protections_json);
  if (!container.door_dir.empty()) json.member("door", container.door_dir + "/door.sock");
  if (!container.mailbox_dir.empty()) json.member("mailbox", container.mailbox_dir);
  if (container.pid != 0 && !is_over(container.state)) json.member("pid", container.pid);
  if (container.ended_unix_ms != 0) json.member("ended", container.ended_unix_ms);
  if (!container.failure.empty()) json.member("failure", container.failure);
  if (container.wait_status) {
    json.member("wait_status", *container.wait_status);
    if (WIFEXITED(*container.wait_status)) json.member("exit_code", WEXITSTATUS(*container.wait_status));
    if (WIFSIGNALED(*container.wait_status)) json.member("signal", WTERMSIG(*container.wait_status));
  }
  if (container.was_over_memory) json.member("over_memory", true);
  if (container.was_over_time) json.member("over_time", true);
  if (container.was_idle) json.member("was_idle", true);
  json.member("violations", container.violations);
  write_strings(json, "reports", container.reports);
}

Status write_record(const std::string& directory, const Container& container) {
  return os::write_private_file(directory + "/" + container.id + std::string(kSuffix),
                                wire::to_json([&](wire::JsonWriter& json) {
                                  json.begin_object();
                                  describe(json, container);
                                  write_map(json, "env", container.config.environment);
                                  if (!container.config.overrides.empty()) {
                                    json.key("overrides").raw(container.config.overrides);
                                  }
                                  json.member("replaces", container.config.replaces);
                                  json.member("origin", container.config.origin);
                                  json.end_object();
                                }),
                                os::Durability::unsynced);  // containers do not outlive the machine
}

void remove_record(const std::string& directory, const std::string& id) {
  ::unlink((directory + "/" + id + std::string(kSuffix)).c_str());
}

std::vector<std::shared_ptr<Container>> read_records(const std::string& directory, std::vector<std::string>& faults) {
  std::vector<std::shared_ptr<Container>> containers;
  DIR* listing = ::opendir(directory.c_str());
  if (listing == nullptr) return containers;
  while (const dirent* entry = ::readdir(listing)) {
    const std::string_view name = entry->d_name;
    if (!name.ends_with(kSuffix) || name.starts_with(".")) continue;
    const std::string id(name.substr(0, name.size() - kSuffix.size()));
    if (!Principal::is_container_id(id)) continue;
    const auto json = os::read_private_file(directory + "/" + std::string(name), kMaxRecordBytes);
    auto container = json ? parse_record(id, *json) : Result<std::shared_ptr<Container>>(json.error());
    if (container) {
      containers.push_back(std::move(*container));
    } else {
      faults.push_back(id + ": " + container.error().message);
    }
  }
  ::closedir(listing);
  return containers;
}

}  // namespace sallyport::containers
