#include "warden/config.h"

#include <filesystem>

#include "calendar/zone.h"
#include "os/files.h"
#include "platform/load.h"
#include "policy/profile.h"
#include "policy/rule_toml.h"
#include "warden/signal_config.h"

namespace sallyport::warden {
namespace {

namespace table = policy::toml_table;

constexpr std::size_t kMaxConfigBytes = 1U << 20;

table::Setter zone(calendar::Zone& target) {
  return [&target](const toml::node& node) -> std::optional<std::string> {
    const auto name = node.value_exact<std::string>();
    if (!name) return "must be the name of a time zone";
    auto loaded = calendar::Zone::load(*name);
    if (!loaded) return "is wrong: " + loaded.error().message;
    target = std::move(*loaded);
    return std::nullopt;
  };
}

}  // namespace

Result<Config> parse_config(std::string_view text, const std::string& path) {
  TRY(const toml::table root, table::parse(text, path));
  Config config;
  const std::map<std::string, table::Setters> tables = {
      {"warden",
       {{"idle_timeout_ms", table::milliseconds(config.session.idle_timeout)},
        {"frame_timeout_ms", table::milliseconds(config.session.frame_timeout)},
        {"drain_timeout_ms", table::milliseconds(config.drain_timeout)},
        {"max_connections", table::count(config.max_connections)},
        {"max_in_flight", table::count(config.max_in_flight)},
        {"require_pidfd", table::boolean(config.require_pidfd)}}},
      {"host",
       {{"methods", table::strings(config.host.methods)},
        {"token_methods", table::strings(config.host.token_methods)}}},
      {"schedule",
       {{"zone", zone(config.schedule.zone)},
        {"max_tasks", table::count(config.schedule.max_tasks)},
        {"max_tasks_per_owner", table::count(config.schedule.max_tasks_per_owner)},
        {"max_running", table::count(config.schedule.max_running)},
        {"max_run_ms", table::milliseconds(config.schedule.max_run)}}},
      {"approvals", {{"expiry", table::parsed([&](const std::string& given) -> std::optional<std::string> {
                        const auto time = policy::parse_duration(given);
                        if (!time) return time.error().message;
                        if (time->count() == 0) return "must be a time such as 30m or 24h";
                        config.approval_expiry = *time;
                        return std::nullopt;
                      })}}},
  };
  for (const auto& [key, value] : root) {
    if (key.str() == "signal") {
      TRY(config.signals, read_signals(path, value));
      continue;
    }
    if (key.str() == "deploy") {
      TRY(config.deployments, read_deployments(path, value));
      continue;
    }
    if (key.str() == "platform") continue;  // read by platform::load_config()
    if (key.str() == "rule") {
      TRY(config.rules, policy::read_rules(path, value, "rule."));
      continue;
    }
    const auto known = tables.find(std::string(key.str()));
    if (known == tables.end()) {
      return table::fault(path, key.source(), "unknown table [" + std::string(key.str()) + "]");
    }
    TRY(table::read(path, key.str(), value, known->second));
  }
  return config;
}

namespace {

Result<Config> load_warden_config(const std::string& path) {
  // A link to the file is fine, as dotfile managers make them; a link to nothing is a fault, not a default.
  std::error_code fault;
  if (std::filesystem::symlink_status(path, fault).type() == std::filesystem::file_type::not_found) return Config();
  const std::string real = std::filesystem::canonical(path, fault).string();
  if (fault) return Error::make(Code::io_error, "cannot read " + path + ": " + fault.message());
  const auto text = os::read_small_file(real, kMaxConfigBytes);
  if (text) return parse_config(*text, path);
  return Error::make(text.error().code, "cannot read " + path + ": " + text.error().message);
}

}  // namespace

Result<Config> load_config(const std::string& path) {
  TRY(Config config, load_warden_config(path));
  TRY(config.platform, platform::load_config(path));
  return config;
}

}  // namespace sallyport::warden
