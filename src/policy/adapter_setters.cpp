#include "policy/adapter_setters.h"

#include "policy/profile.h"

namespace sallyport::policy {
namespace {

namespace table = toml_table;

struct GrantRow {
  const char* role;
  std::string_view names;  // what its names are called; empty: it has none
  bool has_bytes, has_tokens, has_access;
};

constexpr GrantRow kGrants[] = {
    {"storage", "buckets", true, false, true},
    {"cache", "namespaces", true, false, true},
    {"vector", "namespaces", true, false, true},
    {"llm", "models", true, true, false},
    {"embeddings", "models", true, false, false},
    {"events", "namespaces", true, false, true},
    {"log", {}, true, false, false},
};

std::optional<std::string> set_size(std::uint64_t& target, const std::string& text) {
  const auto size = parse_size(text);
  if (!size) return size.error().message;
  target = *size;
  return std::nullopt;
}

table::Setter access(bool& may_write) {
  return [&may_write](const toml::node& node) -> std::optional<std::string> {
    const auto text = node.value_exact<std::string>();
    if (text != "read" && text != "read-write") return "must be \"read\" or \"read-write\"";
    may_write = text == "read-write";
    return std::nullopt;
  };
}

// A whole grant is one inline table: naming a role is what grants it, so an empty one counts too.
table::Setter grant(const GrantRow& row, AdapterPermissions& permissions) {
  return [&row, &permissions](const toml::node& node) -> std::optional<std::string> {
    AdapterGrant grant;
    table::Setters setters;
    if (!row.names.empty()) setters.emplace(row.names, table::strings(grant.names));
    if (row.has_bytes) {
      setters.emplace("max_bytes",
                      table::parsed([&](const std::string& text) { return set_size(grant.max_bytes, text); }));
    }
    if (row.has_tokens) {
      setters.emplace("max_tokens",
                      table::integer(1, 1'000'000, [&](std::int64_t value) { grant.max_tokens = value; }));
    }
    if (row.has_access) setters.emplace("access", access(grant.may_write));
    const toml::table* given = node.as_table();
    if (given == nullptr) return "must be a table";
    for (const auto& [key, value] : *given) {
      const auto setter = setters.find(std::string(key.str()));
      if (setter == setters.end()) return "has the unknown key '" + std::string(key.str()) + "'";
      if (const auto problem = setter->second(value)) return "." + std::string(key.str()) + ": " + *problem;
    }
    for (const std::string& name : grant.names) {
      // "a*" would match nothing: that is not what was meant.
      const std::size_t star = name.find('*');
      const bool is_pattern = name == "*" || (name.ends_with(".*") && star == name.size() - 1 && name.size() > 2);
      if (star != std::string::npos && !is_pattern) {
        return "." + std::string(row.names) + ": '" + escape_for_display(name) + "' must be *, GROUP.* or a whole name";
      }
    }
    permissions.adapters[row.role] = std::move(grant);
    return std::nullopt;
  };
}

}  // namespace

void add_adapter_setters(table::Setters& setters, AdapterPermissions& permissions) {
  for (const GrantRow& row : kGrants) {
    setters.emplace(std::string("permissions.adapters.") + row.role, grant(row, permissions));
  }
  setters.emplace("allowed_hosts", [&permissions](const toml::node& node) -> std::optional<std::string> {
    std::vector<std::string>& hosts = permissions.allowed_hosts.emplace();
    if (const auto problem = table::strings(hosts)(node)) return problem;
    for (const std::string& host : hosts) {
      const std::string_view name = std::string_view(host).substr(host.starts_with("*.") ? 2 : 0);
      if (name.empty() || name.find_first_of("/*@?# ") != std::string_view::npos) {
        return "must hold names or addresses of hosts: '" + escape_for_display(host) + "' is none";
      }
    }
    return std::nullopt;
  });
  setters.emplace("tenant", [&permissions](const toml::node& node) -> std::optional<std::string> {
    const auto text = node.value_exact<std::string>();
    if (text != "profile" && text != "container") return "must be \"profile\" or \"container\"";
    permissions.tenant = text == "profile" ? Tenant::profile : Tenant::container;
    return std::nullopt;
  });
  AdapterQuotas& quotas = permissions.quotas;
  setters.emplace("quotas.storage_bytes", table::parsed([&quotas](const std::string& text) {
                    std::uint64_t bytes = 0;
                    auto problem = set_size(bytes, text);
                    if (!problem) quotas.storage_bytes = static_cast<std::int64_t>(bytes);
                    return problem;
                  }));
  const auto count = [](std::optional<std::int64_t>& target) {
    return table::integer(0, 1'000'000'000'000, [&target](std::int64_t value) { target = value; });
  };
  setters.emplace("quotas.tokens_per_day", count(quotas.tokens_per_day));
  setters.emplace("quotas.requests_per_minute", count(quotas.requests_per_minute));
}

}  // namespace sallyport::policy
