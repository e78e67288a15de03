#include "warden/config.h"

#include <functional>
#include <map>
#define TOML_EXCEPTIONS 0
#include <toml++/toml.h>

#include "os/files.h"

namespace sallyport::warden {
namespace {

constexpr std::size_t kMaxConfigBytes = 1U << 20;

Error fault(const std::string& path, const toml::source_region& where, const std::string& what) {
  return Error::make(Code::invalid_params, path + ":" + std::to_string(where.begin.line) + ":" +
                                               std::to_string(where.begin.column) + ": " + what);
}

// How one key is read; an error is the sentence behind the key's name.
using Setter = std::function<std::optional<std::string>(const toml::node&)>;

Setter integer(std::int64_t least, std::int64_t most, const std::function<void(std::int64_t)>& set) {
  return [=](const toml::node& node) -> std::optional<std::string> {
    const auto value = node.value_exact<std::int64_t>();
    if (!value || *value < least || *value > most) {
      return "must be an integer from " + std::to_string(least) + " to " + std::to_string(most);
    }
    set(*value);
    return std::nullopt;
  };
}

Setter boolean(bool& target) {
  return [&target](const toml::node& node) -> std::optional<std::string> {
    const auto value = node.value_exact<bool>();
    if (!value) return "must be true or false";
    target = *value;
    return std::nullopt;
  };
}

Setter milliseconds(Millis& target) {
  return integer(1, 24 * 60 * 60 * 1000, [&target](std::int64_t value) { target = Millis(value); });
}

Setter count(std::size_t& target) {
  return integer(1, 1'000'000, [&target](std::int64_t value) { target = static_cast<std::size_t>(value); });
}

Setter patterns(std::vector<std::string>& target) {
  return [&target](const toml::node& node) -> std::optional<std::string> {
    const toml::array* array = node.as_array();
    if (array == nullptr) return "must be an array of method names";
    std::vector<std::string> all;
    for (const toml::node& item : *array) {
      const auto text = item.value_exact<std::string>();
      if (!text || text->empty()) return "must be an array of method names";
      all.push_back(*text);
    }
    target = std::move(all);
    return std::nullopt;
  };
}

Status read_table(const std::string& path, std::string_view name, const toml::node& node,
                  const std::map<std::string, Setter>& setters) {
  const toml::table* table = node.as_table();
  if (table == nullptr) return fault(path, node.source(), std::string(name) + " must be a table");
  for (const auto& [key, value] : *table) {
    const auto setter = setters.find(std::string(key.str()));
    if (setter == setters.end()) {
      return fault(path, key.source(), "unknown key '" + std::string(key.str()) + "' in [" + std::string(name) + "]");
    }
    if (const auto problem = setter->second(value)) {
      return fault(path, value.source(), "'" + std::string(key.str()) + "' " + *problem);
    }
  }
  return ok();
}

}  // namespace

Result<Config> parse_config(std::string_view text, const std::string& path) {
  const toml::parse_result parsed = toml::parse(text, path);
  if (!parsed) return fault(path, parsed.error().source(), std::string(parsed.error().description()));

  Config config;
  const std::map<std::string, std::map<std::string, Setter>> tables = {
      {"warden",
       {{"idle_timeout_ms", milliseconds(config.session.idle_timeout)},
        {"frame_timeout_ms", milliseconds(config.session.frame_timeout)},
        {"drain_timeout_ms", milliseconds(config.drain_timeout)},
        {"max_connections", count(config.max_connections)},
        {"max_in_flight", count(config.max_in_flight)},
        {"require_pidfd", boolean(config.require_pidfd)}}},
      {"host", {{"methods", patterns(config.host.methods)}, {"token_methods", patterns(config.host.token_methods)}}},
  };
  for (const auto& [key, value] : parsed.table()) {
    const auto table = tables.find(std::string(key.str()));
    if (table == tables.end()) return fault(path, key.source(), "unknown table [" + std::string(key.str()) + "]");
    TRY(read_table(path, key.str(), value, table->second));
  }
  return config;
}

Result<Config> load_config(const std::string& path) {
  const auto text = os::read_small_file(path, kMaxConfigBytes);
  if (text) return parse_config(*text, path);
  if (text.error().details_json.find("ENOENT") != std::string::npos) return Config();
  return Error::make(text.error().code, "cannot read " + path + ": " + text.error().message);
}

}  // namespace sallyport::warden
