#include "policy/toml_table.h"

namespace sallyport::policy::toml_table {

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

Setter strings(std::vector<std::string>& target) {
  return [&target](const toml::node& node) -> std::optional<std::string> {
    const toml::array* array = node.as_array();
    if (array == nullptr) return "must be an array of strings";
    std::vector<std::string> all;
    for (const toml::node& item : *array) {
      const auto text = item.value_exact<std::string>();
      if (!text || text->empty()) return "must be an array of strings";
      all.push_back(*text);
    }
    target = std::move(all);
    return std::nullopt;
  };
}

Setter string_map(std::map<std::string, std::string>& target) {
  return [&target](const toml::node& node) -> std::optional<std::string> {
    const toml::table* table = node.as_table();
    if (table == nullptr) return "must be a table of strings";
    std::map<std::string, std::string> all;
    for (const auto& [key, value] : *table) {
      const auto text = value.value_exact<std::string>();
      if (!text) return "must be a table of strings";
      all.emplace(key.str(), *text);
    }
    target = std::move(all);
    return std::nullopt;
  };
}

Setter parsed(const std::function<std::optional<std::string>(const std::string&)>& parse_text) {
  return [=](const toml::node& node) -> std::optional<std::string> {
    if (const auto text = node.value_exact<std::string>()) return parse_text(*text);
    if (const auto number = node.value_exact<std::int64_t>()) return parse_text(std::to_string(*number));
    if (const auto number = node.value_exact<double>()) return parse_text(std::to_string(*number));
    return "must be text or a number";
  };
}

Result<toml::table> parse(std::string_view text, const std::string& path) {
  toml::parse_result parsed = toml::parse(text, path);
  if (!parsed) return fault(path, parsed.error().source(), std::string(parsed.error().description()));
  return std::move(parsed).table();
}

Status read(const std::string& path, std::string_view name, const toml::node& node, const Setters& setters) {
  const toml::table* table = node.as_table();
  if (table == nullptr) return fault(path, node.source(), std::string(name) + " must be a table");
  for (const auto& [key, value] : *table) {
    const std::string word(key.str());
    if (const auto setter = setters.find(word); setter != setters.end()) {
      if (const auto problem = setter->second(value)) return fault(path, value.source(), "'" + word + "' " + *problem);
      continue;
    }
    Setters below;
    for (const auto& [full, setter] : setters) {
      if (full.starts_with(word + ".")) below.emplace(full.substr(word.size() + 1), setter);
    }
    if (below.empty() || !value.is_table()) {
      return fault(path, key.source(), "unknown key '" + word + "' in [" + std::string(name) + "]");
    }
    TRY(read(path, std::string(name) + "." + word, value, below));
  }
  return ok();
}

}  // namespace sallyport::policy::toml_table
