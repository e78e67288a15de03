#include "platform/config.h"

#include <algorithm>
#include <charconv>

#include "platform/address.h"
#include "platform/limits.h"
#include "platform/secrets.h"
#include "policy/net.h"
#include "policy/profile.h"
#include "wire/crypto.h"
#include "wire/json.h"

namespace sallyport::platform {
namespace {

struct BuiltIn {
  Role role;
  std::string_view name;
  bool runs_in_worker = false;
};

constexpr BuiltIn kBuiltIn[] = {
    {Role::storage, "files", true}, {Role::cache, "memory", true},
    {Role::cache, "sqlite"},        {Role::cache, "redis"},
    {Role::vector, "sqlite"},       {Role::llm, "echo", true},
    {Role::llm, "openai"},          {Role::embeddings, "hashing", true},
    {Role::embeddings, "openai"},   {Role::events, "memory"},
    {Role::events, "redis"},
};

const BuiltIn* find_built_in(Role role, std::string_view name) {
  for (const BuiltIn& row : kBuiltIn) {
    if (row.role == role && row.name == name) return &row;
  }
  return nullptr;
}

bool is_any_built_in(std::string_view name) {
  return std::any_of(std::begin(kBuiltIn), std::end(kBuiltIn), [&](const BuiltIn& row) { return row.name == name; });
}

bool is_plain_name(std::string_view name) {
  return !name.empty() && name.size() <= std::size_t{kMaxNameBytes} &&
         std::all_of(name.begin(), name.end(),
                     [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_'; });
}

bool is_loopback(const Address& address) {
  return address.scheme == "unix" || address.host == "127.0.0.1" || address.host == "localhost" ||
         address.host == "::1";
}

// Which options each implementation understands.
struct OptionRow {
  std::string_view implementation;
  std::vector<std::string_view> names;
};
const std::vector<OptionRow>& option_rows() {
  static const std::vector<OptionRow> kRows = {
      {"files", {"directory"}},
      {"memory", {"max_bytes"}},
      {"sqlite", {"directory"}},
      {"redis", {"url", "credential"}},
      {"echo", {}},
      {"hashing", {"dimensions"}},
      {"openai", {"url", "credential", "models", "embedding_models", "dimensions"}},
  };
  return kRows;
}

// One pass over the section: what is read is checked, and what refers to something else is checked when all
// of it is there.
class Parser {
 public:
  explicit Parser(const std::string& path) : path_(path) {}

  Result<Config> parse(const Node& root) {
    if (root.kind != Node::Kind::object) return fault(path_, root.where, "platform must be a table");
    TRY(refuse_secrets(path_, root));
    for (const Node::Member& member : root.members) {
      const Node& value = member.value;
      if (member.name == "adapters") {
        TRY(parse_adapters(value));
      } else if (member.name == "adapter_options") {
        TRY(each(value, "platform.adapter_options", [&](const auto& entry) { return parse_options(entry); }));
      } else if (member.name == "credentials") {
        TRY(each(value, "platform.credentials", [&](const auto& entry) { return parse_credential(entry); }));
      } else if (member.name == "third_party") {
        TRY(each(value, "platform.third_party", [&](const auto& entry) { return parse_third_party(entry); }));
      } else if (member.name == "placement") {
        TRY(each(value, "platform.placement", [&](const auto& entry) { return parse_placement(entry); }));
      } else if (member.name == "quotas") {
        TRY(parse_quotas(value));
      } else if (member.name == "on_init_failure") {
        if (value.text != "noop" && value.text != "error") {
          return fault(path_, value.where, "'on_init_failure' must be \"noop\" or \"error\"");
        }
        config_.is_init_failure_an_error = value.text == "error";
      } else if (member.name == "allow_adapters") {
        if (const auto problem = read_texts(allowed_.emplace())(value)) {
          return fault(path_, value.where, "'allow_adapters' " + *problem);
        }
      } else {
        return fault(path_, member.where, "unknown key '" + escape_for_display(member.name) + "' in platform");
      }
    }
    TRY(check(root));
    return std::move(config_);
  }

 private:
  template <typename Work>
  Status each(const Node& node, const std::string& name, Work&& work) {
    if (node.kind != Node::Kind::object) return fault(path_, node.where, name + " must be a table");
    for (const Node::Member& member : node.members) {
      if (!is_plain_name(member.name)) {
        return fault(path_, member.where, "'" + escape_for_display(member.name) + "' is no name (a-z 0-9 - _)");
      }
      TRY(work(member));
    }
    return ok();
  }

  Result<Role> role_of(const std::string& name, const Where& where) {
    const auto role = role_from_string(name);
    if (role) return *role;
    return fault(path_, where,
                 "there is no role '" + escape_for_display(name) +
                     "'; there are storage, cache, vector, llm, embeddings, events");
  }

  Status parse_adapters(const Node& node) {
    return each(node, "platform.adapters", [&](const Node::Member& member) -> Status {
      TRY(const Role role, role_of(member.name, member.where));
      std::vector<std::string>& names = config_.adapters[role];
      if (const auto problem = read_texts(names)(member.value)) {
        return fault(path_, member.value.where, "'" + member.name + "' " + *problem);
      }
      if (names.empty()) return fault(path_, member.value.where, "'" + member.name + "' names no implementation");
      chosen_at_[role] = member.value.where;
      return ok();
    });
  }

  Status parse_placement(const Node::Member& member) {
    TRY(const Role role, role_of(member.name, member.where));
    if (member.value.text != "host" && member.value.text != "worker") {
      return fault(path_, member.value.where, "'" + member.name + "' must be \"host\" or \"worker\"");
    }
    config_.placement[role] = member.value.text == "worker" ? Placement::worker : Placement::host;
    placed_at_[role] = member.value.where;
    return ok();
  }

  Status parse_options(const Node::Member& member) {
    const auto& rows = option_rows();
    const auto row = std::find_if(rows.begin(), rows.end(),
                                  [&](const OptionRow& each) { return each.implementation == member.name; });
    if (row == rows.end()) return fault(path_, member.where, "there is no implementation '" + member.name + "'");
    Options& options = config_.options[member.name];
    const Readers all = {
        {"url", read_text(options.url)},
        {"credential", read_text(options.credential)},
        {"directory", read_text(options.directory)},
        {"models", read_text_map(options.models)},
        {"embedding_models", read_text_map(options.embedding_models)},
        {"dimensions", read_integer(8, kMaxDimensions, [&](std::int64_t value) { options.dimensions = value; })},
        {"max_bytes",
         read_integer(1 << 16, std::int64_t{1} << 40, [&](std::int64_t value) { options.max_bytes = value; })},
    };
    Readers known;
    for (const std::string_view name : row->names) known.insert(*all.find(name));
    TRY(read_object(path_, "platform.adapter_options." + member.name, member.value, known));
    options_at_[member.name] = member.where;
    if (!options.directory.empty() && options.directory[0] != '/') {
      return fault(path_, member.value.find("directory")->where, "'directory' must be absolute");
    }
    if (options.url.empty()) return ok();
    const Where where = member.value.find("url")->where;
    const auto address = parse_address(options.url);
    if (!address) return fault(path_, where, "'url' " + address.error().message);
    const bool is_redis = member.name == "redis";
    const bool is_fitting = is_redis ? address->scheme == "redis" || address->scheme == "unix"
                                     : address->scheme == "https" || address->scheme == "http";
    if (!is_fitting) {
      return fault(path_, where,
                   is_redis ? "'url' must be redis://HOST:PORT or unix:///PATH"
                            : "'url' must be https://HOST/PATH, or http:// on loopback");
    }
    if (address->scheme == "http" && !is_loopback(*address)) {
      return fault(path_, where, "'url' must be https: what is sent there could be read on the way");
    }
    return ok();
  }

  Status parse_credential(const Node::Member& member) {
    Credential& credential = config_.credentials[member.name];
    TRY(read_object(path_, "platform.credentials." + member.name, member.value,
                    {{"from_env", read_text(credential.from_env)},
                     {"from_file", read_text(credential.from_file)},
                     {"inject", read_text(credential.inject)},
                     {"hosts", read_texts(credential.hosts)},
                     {"paths", read_texts(credential.paths)}}));
    if (credential.from_env.empty() == credential.from_file.empty()) {
      return fault(path_, member.where, "credential '" + member.name + "' needs either from_env or from_file");
    }
    if (!credential.from_file.empty() && credential.from_file[0] != '/') {
      return fault(path_, member.value.find("from_file")->where, "'from_file' must be absolute");
    }
    const auto is_name_char = [](char c) {
      return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
    };
    if (!std::all_of(credential.from_env.begin(), credential.from_env.end(), is_name_char)) {
      return fault(path_, member.value.find("from_env")->where, "'from_env' must be the name of a variable");
    }
    for (const std::string& path : credential.paths) {
      const std::size_t star = path.find('*');
      if (path[0] != '/' || (star != std::string::npos && star != path.size() - 1)) {
        return fault(path_, member.value.find("paths")->where, "'paths' must begin with / and may end with *");
      }
    }
    const std::string_view inject = credential.inject;
    const bool is_header =
        inject.starts_with("header:") && inject.size() > 7 &&
        std::all_of(inject.begin() + 7, inject.end(), [&](char c) { return is_name_char(c) || c == '-'; });
    if (inject != "bearer" && inject != "password" && !is_header) {
      return fault(path_, member.value.find("inject")->where,
                   "'inject' must be \"bearer\", \"password\" or \"header:NAME\"");
    }
    return ok();
  }

  Status parse_third_party(const Node::Member& member) {
    if (is_any_built_in(member.name)) {
      return fault(path_, member.where, "'" + member.name + "' is the name of a built-in implementation");
    }
    ThirdParty& party = config_.third_party[member.name];
    TRY(read_object(path_, "platform.third_party." + member.name, member.value,
                    {{"path", read_text(party.path)},
                     {"sha256", read_text(party.sha256)},
                     {"roles", read_texts(party.roles)},
                     {"credential", read_text(party.credential)},
                     {"hosts", read_texts(party.hosts)}}));
    if (party.path.empty() || party.path[0] != '/') {
      return fault(path_, member.where, "third_party." + member.name + " needs an absolute 'path'");
    }
    std::transform(party.sha256.begin(), party.sha256.end(), party.sha256.begin(),
                   [](char c) { return c >= 'A' && c <= 'F' ? static_cast<char>(c - 'A' + 'a') : c; });
    const auto digest = from_hex(party.sha256);
    if (!digest || digest->size() != 32) {
      return fault(path_, member.where, "third_party." + member.name + " needs 'sha256', 64 hexadecimal digits");
    }
    for (const std::string& role : party.roles) TRY(role_of(role, member.where));
    for (const std::string& rule : party.hosts) {
      if (const auto parsed = policy::NetRule::parse(rule); !parsed) {
        return fault(path_, member.value.find("hosts")->where, "'hosts': " + parsed.error().message);
      }
    }
    third_party_at_[member.name] = member.where;
    return ok();
  }

  Status parse_quotas(const Node& node) {
    const auto amount = [](std::optional<std::int64_t>& target) {
      return read_integer(0, std::int64_t{1} << 50, [&target](std::int64_t value) { target = value; });
    };
    // As in a profile: a number, or "64MiB".
    const Reader bytes = [&, number = amount(config_.quotas.storage_bytes)](const Node& value) {
      Node plain = value;
      if (const auto size = policy::parse_size(value.text); value.kind == Node::Kind::text && size) {
        plain.kind = Node::Kind::integer;
        plain.integer = static_cast<std::int64_t>(std::min<std::uint64_t>(*size, INT64_MAX));
      }
      return number(plain);
    };
    return read_object(path_, "platform.quotas", node,
                       {{"storage_bytes", bytes},
                        {"tokens_per_day", amount(config_.quotas.tokens_per_day)},
                        {"requests_per_minute", amount(config_.quotas.requests_per_minute)}});
  }

  // ---- what refers to something else ----

  Status check(const Node& root) {
    for (const auto& [role, names] : config_.adapters) {
      for (const std::string& name : names) TRY(check_choice(role, name));
    }
    for (const auto& [role, placement] : config_.placement) {
      if (placement != Placement::worker) continue;
      const auto chosen = config_.adapters.find(role);
      const bool may =
          chosen != config_.adapters.end() && chosen->second.size() == 1 && may_run_in_worker(role, chosen->second[0]);
      if (!may) {
        return fault(
            path_, placed_at_[role],
            "placement \"worker\" is for what needs neither secret nor network: storage files, cache memory, llm "
            "echo, embeddings hashing");
      }
    }
    for (const auto& [name, options] : config_.options) TRY(check_credential_use(name, options));
    for (const auto& [name, party] : config_.third_party) {
      if (!party.credential.empty())
        TRY(check_credential_hosts(third_party_at_[name], party.credential, config_.hosts_of(name)));
    }
    if (allowed_) {
      for (const std::string& name : *allowed_) {
        if (is_any_built_in(name) || config_.third_party.contains(name)) continue;
        return fault(path_, root.find("allow_adapters")->where, "there is no implementation '" + name + "'");
      }
    }
    return ok();
  }

  Status check_choice(Role role, const std::string& name) {
    const Where where = chosen_at_[role];
    const auto party = config_.third_party.find(name);
    if (party != config_.third_party.end()) {
      const auto& roles = party->second.roles;
      if (std::find(roles.begin(), roles.end(), to_string(role)) == roles.end()) {
        return fault(path_, where, "'" + name + "' does not have the role " + std::string(to_string(role)));
      }
      if (!allowed_) {
        return fault(path_, where,
                     "'" + name + "' is not on allow_adapters: what did not come with us must be named there");
      }
    } else if (!is_built_in(role, name)) {
      return fault(path_, where,
                   "there is no implementation '" + escape_for_display(name) + "' of " + std::string(to_string(role)));
    }
    if (allowed_ && std::find(allowed_->begin(), allowed_->end(), name) == allowed_->end()) {
      return fault(path_, where, "'" + name + "' is not on allow_adapters");
    }
    const bool needs_url = name == "redis" || name == "openai";
    if (needs_url && config_.options_of(name).url.empty()) {
      return fault(path_, where, "'" + name + "' needs platform.adapter_options." + name + ".url");
    }
    return ok();
  }

  Status check_credential_use(const std::string& name, const Options& options) {
    if (options.credential.empty()) return ok();
    return check_credential_hosts(options_at_[name], options.credential, config_.hosts_of(name));
  }

  // Whoever holds a credential may reach only hosts that it may be sent to.
  Status check_credential_hosts(const Where& where, const std::string& name, const std::vector<std::string>& reached) {
    const auto found = config_.credentials.find(name);
    if (found == config_.credentials.end()) return fault(path_, where, "there is no credential '" + name + "'");
    const auto& hosts = found->second.hosts;
    for (const std::string& host : reached) {
      if (std::find(hosts.begin(), hosts.end(), host) != hosts.end()) continue;
      return fault(path_, where,
                   "credential '" + name + "' may not be sent to " + host + ": it is not among its hosts");
    }
    return ok();
  }

  const std::string& path_;
  Config config_;
  std::optional<std::vector<std::string>> allowed_;
  std::map<Role, Where> chosen_at_, placed_at_;
  std::map<std::string, Where> options_at_, third_party_at_;
};

void write_texts(wire::JsonWriter& json, std::string_view name, const std::vector<std::string>& texts) {
  json.key(name).begin_array();
  for (const std::string& text : texts) json.value(text);
  json.end_array();
}

void write_map(wire::JsonWriter& json, std::string_view name, const std::map<std::string, std::string>& map) {
  if (map.empty()) return;
  json.key(name).begin_object();
  for (const auto& [key, value] : map) json.member(key, value);
  json.end_object();
}

void write_text(wire::JsonWriter& json, std::string_view name, const std::string& text) {
  if (!text.empty()) json.member(name, text);
}

}  // namespace

bool is_built_in(Role role, std::string_view implementation) { return find_built_in(role, implementation) != nullptr; }

bool may_run_in_worker(Role role, std::string_view implementation) {
  const BuiltIn* row = find_built_in(role, implementation);
  return row != nullptr && row->runs_in_worker;
}

const Options& Config::options_of(const std::string& implementation) const {
  static const Options kNone;
  const auto found = options.find(implementation);
  return found == options.end() ? kNone : found->second;
}

std::vector<std::string> Config::hosts_of(const std::string& implementation) const {
  std::vector<std::string> hosts;
  if (const auto party = third_party.find(implementation); party != third_party.end()) {
    for (const std::string& text : party->second.hosts) {
      const auto rule = policy::NetRule::parse(text);
      if (rule) hosts.push_back((rule->is_suffix ? "*." : "") + rule->host.to_string());
    }
    return hosts;
  }
  const auto address = parse_address(options_of(implementation).url);
  if (address && !address->host.empty()) hosts.push_back(address->host);
  return hosts;
}

Result<Config> parse_config(const Node& platform, const std::string& path) { return Parser(path).parse(platform); }

std::string to_json(const Config& config) {
  return wire::to_json([&](wire::JsonWriter& json) {
    json.begin_object().member("on_init_failure", config.is_init_failure_an_error ? "error" : "noop");
    json.key("adapters").begin_object();
    for (const auto& [role, names] : config.adapters) write_texts(json, to_string(role), names);
    json.end_object().key("placement").begin_object();
    for (const auto& [role, placement] : config.placement) {
      json.member(to_string(role), placement == Placement::worker ? "worker" : "host");
    }
    json.end_object().key("adapter_options").begin_object();
    for (const auto& [name, options] : config.options) {
      json.key(name).begin_object();
      write_text(json, "url", options.url);
      write_text(json, "credential", options.credential);
      write_text(json, "directory", options.directory);
      write_map(json, "models", options.models);
      write_map(json, "embedding_models", options.embedding_models);
      if (options.dimensions != 0) json.member("dimensions", options.dimensions);
      if (options.max_bytes != 0) json.member("max_bytes", options.max_bytes);
      json.end_object();
    }
    json.end_object().key("credentials").begin_object();
    for (const auto& [name, credential] : config.credentials) {
      json.key(name).begin_object();
      write_text(json, "from_env", credential.from_env);
      write_text(json, "from_file", credential.from_file);
      json.member("inject", credential.inject);
      write_texts(json, "hosts", credential.hosts);
      write_texts(json, "paths", credential.paths);
      json.end_object();
    }
    json.end_object().key("third_party").begin_object();
    std::vector<std::string> allowed;
    for (const auto& [name, party] : config.third_party) {
      json.key(name).begin_object().member("path", party.path).member("sha256", party.sha256);
      write_text(json, "credential", party.credential);
      write_texts(json, "roles", party.roles);
      write_texts(json, "hosts", party.hosts);
      json.end_object();
    }
    for (const auto& [role, names] : config.adapters) allowed.insert(allowed.end(), names.begin(), names.end());
    json.end_object();
    // What is chosen was on the list, or it would not be here.
    write_texts(json, "allow_adapters", allowed);
    json.end_object();
  });
}

std::string hash_of(const Config& config) { return to_hex(wire::sha256(as_bytes(to_json(config)))).substr(0, 32); }

}  // namespace sallyport::platform
