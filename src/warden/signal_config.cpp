#include "warden/signal_config.h"

#include <algorithm>

#include "mailbox/message.h"
#include "scheduler/template.h"

namespace sallyport::warden {
namespace {

namespace table = policy::toml_table;
using scheduler::DeclaredSignal;
using scheduler::Deployment;

struct NamedType {
  const char* name;
  wire::Type type;
};
constexpr NamedType kTypes[] = {{"boolean", wire::Type::boolean}, {"integer", wire::Type::integer},
                                {"number", wire::Type::number},   {"string", wire::Type::string},
                                {"object", wire::Type::object},   {"strings", wire::Type::string_array}};

bool is_name(std::string_view name) {
  return !name.empty() && name.size() <= 64 && name[0] >= 'a' && name[0] <= 'z' &&
         std::all_of(name.begin(), name.end(),
                     [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '-'; });
}

table::Setter text(std::string& target) {
  return [&target](const toml::node& node) -> std::optional<std::string> {
    const auto value = node.value_exact<std::string>();
    if (!value || value->empty()) return "must be text";
    target = *value;
    return std::nullopt;
  };
}

table::Setter command(std::vector<std::string>& target, const std::vector<std::string_view>& placeholders) {
  return [&target, &placeholders, list = table::strings(target)](const toml::node& node) -> std::optional<std::string> {
    if (auto problem = list(node)) return problem;
    return scheduler::check_template(target, placeholders);
  };
}

// A program, or the word "event".
table::Setter action(DeclaredSignal& signal, bool& is_given) {
  return [&signal, &is_given](const toml::node& node) -> std::optional<std::string> {
    is_given = true;
    if (node.value_exact<std::string>() == "event") return std::nullopt;
    if (!node.is_array()) return "must be a program's command line or \"event\"";
    return command(signal.command, scheduler::kSignalPlaceholders)(node);
  };
}

Status read_field(const std::string& path, DeclaredSignal& signal, const toml::key& key, const toml::node& node) {
  const std::string where = "signal." + signal.name + ".payload." + std::string(key.str());
  wire::Field field;
  std::string type;
  const table::Setters setters = {
      {"type", text(type)},
      {"required", table::boolean(field.required)},
      {"min", table::integer(INT64_MIN, INT64_MAX, [&](std::int64_t value) { field.least = value; })},
      {"max", table::integer(INT64_MIN, INT64_MAX, [&](std::int64_t value) { field.most = value; })},
  };
  TRY(table::read(path, where, node, setters));
  const auto known =
      std::find_if(std::begin(kTypes), std::end(kTypes), [&](const auto& each) { return each.name == type; });
  if (known == std::end(kTypes)) {
    return table::fault(
        path, node.source(),
        "'" + type + "' in [" + where + "] is no type; there are boolean integer number string strings object");
  }
  if (field.least > field.most) return table::fault(path, node.source(), "min is above max in [" + where + "]");
  field.type = known->type;
  field.name = signal.names.emplace_back(key.str());
  signal.fields.push_back(field);
  return ok();
}

Result<DeclaredSignal> read_signal(const std::string& path, const toml::key& key, const toml::node& node) {
  DeclaredSignal signal;
  signal.name = key.str();
  if (!mailbox::is_signal_name(signal.name)) {
    return table::fault(path, key.source(), "'" + signal.name + "' is no signal's name (a-z 0-9 _)");
  }
  if (scheduler::is_builtin_signal(signal.name)) {
    return table::fault(path, key.source(), "'" + signal.name + "' is built in and cannot be declared");
  }
  bool has_action = false;
  const toml::node* payload = nullptr;
  const table::Setters setters = {
      {"tier", table::integer(1, 2, [&](std::int64_t value) { signal.tier = static_cast<int>(value); })},
      {"action", action(signal, has_action)},
      {"idempotent", table::boolean(signal.is_idempotent)},
      {"timeout_ms", table::milliseconds(signal.timeout)},
      {"payload",
       [&](const toml::node& fields) -> std::optional<std::string> {
         payload = &fields;
         return fields.is_table() ? std::nullopt : std::optional<std::string>("must be a table of fields");
       }},
  };
  TRY(table::read(path, "signal." + signal.name, node, setters));
  if (!has_action) return table::fault(path, key.source(), "'action' is missing in [signal." + signal.name + "]");
  if (payload != nullptr && signal.tier == 1) {
    return table::fault(path, payload->source(), "a signal of tier 1 carries no payload; say tier = 2");
  }
  if (payload == nullptr) return signal;
  for (const auto& [name, field] : *payload->as_table()) TRY(read_field(path, signal, name, field));
  return signal;
}

Result<Deployment> read_deployment(const std::string& path, const toml::key& key, const toml::node& node) {
  Deployment deployment;
  deployment.name = key.str();
  if (!is_name(deployment.name)) {
    return table::fault(path, key.source(), "'" + deployment.name + "' is no name (a-z 0-9 _ -)");
  }
  const table::Setters setters = {
      {"repository", text(deployment.repository)},
      {"command", command(deployment.command, scheduler::kDeployPlaceholders)},
      {"timeout_ms", table::milliseconds(deployment.timeout)},
  };
  TRY(table::read(path, "deploy." + deployment.name, node, setters));
  if (deployment.repository.empty() || deployment.repository[0] != '/') {
    return table::fault(path, key.source(), "[deploy." + deployment.name + "] needs 'repository', an absolute path");
  }
  if (deployment.command.empty()) {
    return table::fault(path, key.source(), "[deploy." + deployment.name + "] needs a 'command'");
  }
  return deployment;
}

Result<const toml::table*> named_tables(const std::string& path, const char* name, const toml::node& node) {
  if (const toml::table* tables = node.as_table()) return tables;
  return table::fault(path, node.source(), "expected [" + std::string(name) + ".NAME]");
}

}  // namespace

Result<std::vector<DeclaredSignal>> read_signals(const std::string& path, const toml::node& node) {
  TRY(const toml::table* tables, named_tables(path, "signal", node));
  std::vector<DeclaredSignal> signals;
  for (const auto& [key, value] : *tables) {
    TRY(DeclaredSignal signal, read_signal(path, key, value));
    signals.push_back(std::move(signal));
  }
  return signals;
}

Result<scheduler::Deployments> read_deployments(const std::string& path, const toml::node& node) {
  TRY(const toml::table* tables, named_tables(path, "deploy", node));
  scheduler::Deployments deployments;
  for (const auto& [key, value] : *tables) {
    TRY(Deployment deployment, read_deployment(path, key, value));
    std::string name = deployment.name;
    deployments.emplace(std::move(name), std::move(deployment));
  }
  return deployments;
}

}  // namespace sallyport::warden
