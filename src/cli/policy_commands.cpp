// sallyport policy check | show | explain
#include <cstdlib>
#include <filesystem>

#include "cli/cli11.h"
#include "cli/command.h"
#include "cli/warden_link.h"
#include "containers/launch_spec.h"
#include "os/files.h"
#include "policy/net_lists.h"
#include "policy/policy_file.h"
#include "policy/profile.h"

namespace sallyport::cli {
namespace {

using policy::Profile;

constexpr std::size_t kMaxFileBytes = 1U << 20;

// The lists that they name exist, and what they come to is not too much.
Status check_net(const Context& context, const policy::PolicyFile& found, const std::string& file) {
  for (const Profile& profile : found.profiles) {
    const std::string lists = policy::net_lists_dir(context.paths.profiles_dir());
    const auto allow = policy::expand_net_lists(profile.net_allow, lists);
    const auto deny = policy::expand_net_lists(profile.net_deny, lists);
    const auto made = !allow  ? Result<policy::NetPolicy>(allow.error())
                      : !deny ? Result<policy::NetPolicy>(deny.error())
                              : policy::NetPolicy::make(*allow, *deny, profile.net_limits);
    if (!made) {
      return Error::make(made.error().code, file + ": profile '" + profile.name + "': " + made.error().message);
    }
  }
  return ok();
}

Status check(const Context& context, const std::string& file) {
  std::error_code fault;
  const std::string real = std::filesystem::canonical(file, fault);
  const auto text = fault ? Result<std::string>(Error::make(Code::not_found, fault.message()))
                          : os::read_small_file(real, kMaxFileBytes);
  if (!text) return Error::make(text.error().code, "cannot read " + file + ": " + text.error().message);
  TRY(const policy::PolicyFile found, policy::parse_policy_file(*text, file));
  TRY(check_net(context, found, file));
  if (context.wants_json) {
    const auto names = [](wire::JsonWriter& json, const char* key, const auto& list, const auto& name) {
      json.key(key).begin_array();
      for (const auto& item : list) json.value(name(item));
      json.end_array();
    };
    print(wire::to_json([&](wire::JsonWriter& json) {
      json.begin_object().member("ok", true);
      names(json, "profiles", found.profiles, [](const Profile& profile) { return profile.name; });
      names(json, "rules", found.rules, [](const policy::Rule& rule) { return rule.name; });
      names(json, "not_checked", found.others, [](const std::string& key) { return key; });
      json.end_object();
    }));
    return ok();
  }
  print(escape_for_display(file) + ": " + green("ok") + ", " + std::to_string(found.profiles.size()) + " profiles, " +
        std::to_string(found.rules.size()) + " rules");
  for (const std::string& key : found.others) {
    print(dim("  not checked here, because it is not policy: " + escape_for_display(key)));
  }
  return ok();
}

std::string join(const std::vector<std::string>& list) {
  std::string text;
  for (const std::string& item : list) text += (text.empty() ? "" : " ") + escape_for_display(item);
  return text.empty() ? dim("none") : text;
}

std::string size_text(std::uint64_t bytes) {
  if (bytes >= 1ULL << 30 && bytes % (1ULL << 30) == 0) return std::to_string(bytes >> 30) + "GiB";
  if (bytes >= 1ULL << 20 && bytes % (1ULL << 20) == 0) return std::to_string(bytes >> 20) + "MiB";
  return std::to_string(bytes);
}

std::string effect_text(const policy::Rule& rule) {
  std::string text;
  const auto add = [&](bool is_set, const char* word) {
    if (is_set) text += (text.empty() ? "" : " and ") + std::string(word);
  };
  add(rule.denies, "deny");
  add(rule.needs_deputy, "deputy");
  add(rule.needs_human, "human");
  add(rule.allows, "allow");
  if (rule.rate) {
    text += (text.empty() ? "" : ", ") + std::to_string(rule.rate->count) + " per " +
            std::to_string(rule.rate->period.count() / 1000) + " s";
  }
  return text;
}

void write_rule(wire::JsonWriter& json, const policy::Rule& rule) {
  json.begin_object().member("name", rule.name).member("source", rule.source).key("match").begin_array();
  for (const std::string& pattern : rule.match) json.value(pattern);
  json.end_array().member("effect", effect_text(rule)).member("tests", rule.when.size() + rule.unless.size());
  json.end_object();
}

void print_rule(const policy::Rule& rule) {
  std::string names;
  for (const std::string& pattern : rule.match) names += (names.empty() ? "" : " ") + pattern;
  print("rule       " + escape_for_display(rule.name) + ": " + effect_text(rule) + " for " + names +
        (rule.when.empty() && rule.unless.empty() ? "" : ", if its payload fits") +
        dim("  (" + escape_for_display(rule.source) + ")"));
}

// The quotas that there are, by the names that a profile has for them.
template <typename Each>
void for_each_quota(const policy::AdapterQuotas& quotas, const Each& each) {
  if (quotas.storage_bytes) each("storage_bytes", *quotas.storage_bytes);
  if (quotas.tokens_per_day) each("tokens_per_day", *quotas.tokens_per_day);
  if (quotas.requests_per_minute) each("requests_per_minute", *quotas.requests_per_minute);
}

void write_adapters(wire::JsonWriter& json, const policy::AdapterPermissions& permissions) {
  json.key("adapters").begin_object();
  for (const auto& [role, grant] : permissions.adapters) {
    json.key(role).begin_object().key("names").begin_array();
    for (const std::string& name : grant.names) json.value(name);
    json.end_array().member("max_bytes", grant.max_bytes).member("max_tokens", grant.max_tokens);
    json.member("may_write", grant.may_write).end_object();
  }
  json.end_object();
  if (permissions.allowed_hosts) {
    json.key("allowed_hosts").begin_array();
    for (const std::string& host : *permissions.allowed_hosts) json.value(host);
    json.end_array();
  }
  json.key("quotas").begin_object();
  for_each_quota(permissions.quotas, [&](const char* name, std::int64_t most) { json.member(name, most); });
  json.end_object().member("tenant", permissions.tenant == policy::Tenant::container ? "container" : "profile");
}

void print_adapters(const policy::AdapterPermissions& permissions) {
  for (const auto& [role, grant] : permissions.adapters) {
    std::string line = "adapter    " + role + " " + join(grant.names) + ", up to " + size_text(grant.max_bytes);
    if (role == "llm") line += " and " + std::to_string(grant.max_tokens) + " tokens";
    print(line + (grant.may_write ? "" : ", read only"));
  }
  if (permissions.allowed_hosts) print("           their hosts: " + join(*permissions.allowed_hosts));
  std::string quotas;
  for_each_quota(permissions.quotas, [&](const char* name, std::int64_t most) {
    quotas += (quotas.empty() ? "" : ", ") + std::string(name) + " " + std::to_string(most);
  });
  if (!quotas.empty()) print("quotas     " + quotas);
  if (permissions.tenant == policy::Tenant::container) print("tenant     each container by itself");
}

void write_json(wire::JsonWriter& json, const Profile& profile, const sandbox::Spec* spec) {
  const auto strings = [&](const char* name, const std::vector<std::string>& list) {
    json.key(name).begin_array();
    for (const std::string& item : list) json.value(item);
    json.end_array();
  };
  json.begin_object().member("name", profile.name).member("source", profile.source);
  strings("read", spec != nullptr ? spec->read : profile.fs_read);
  strings("write", spec != nullptr ? spec->write : profile.fs_write);
  strings("deny", spec != nullptr ? spec->deny : profile.fs_deny);
  if (spec != nullptr) strings("deny_in_workspace", spec->deny_patterns);
  strings("exec", spec != nullptr ? spec->exec : profile.exec);
  strings("net_allow", profile.net_allow);
  strings("net_deny", profile.net_deny);
  strings("methods", profile.methods);
  strings("token_methods", profile.token_methods);
  strings("signals", profile.signals);
  strings("agent", profile.agent);
  strings("command", profile.command);
  json.member("refuse_hard_links", profile.refuse_hard_links).member("allow_weak", profile.allow_weak);
  json.member("all_landlock_rights", profile.all_landlock_rights);
  write_adapters(json, profile.adapters);
  strings("deputy", profile.deputy.empty() ? std::vector<std::string>{"rules"} : profile.deputy);
  json.key("rules").begin_array();
  for (const policy::Rule& rule : profile.rules) write_rule(json, rule);
  json.end_array();
  strings("env_pass", profile.env_pass);
  json.key("env").begin_object();
  for (const auto& [name, value] : profile.env) json.member(name, value);
  json.end_object().key("limits").begin_object();
  json.member("memory", profile.limits.memory).member("pids", profile.limits.pids).member("cpu", profile.limits.cpu);
  json.member("open_files", profile.limits.open_files).member("file_size", profile.limits.file_size);
  json.member("scratch", profile.limits.scratch).member("duration_ms", profile.limits.duration.count());
  json.member("idle_ms", profile.limits.idle.count()).end_object().key("net_limits").begin_object();
  const policy::NetLimits& net = profile.net_limits;
  json.member("bytes", net.bytes).member("requests", net.requests).member("tunnels", net.tunnels);
  json.member("idle_ms", net.idle.count()).member("duration_ms", net.duration.count()).end_object().end_object();
}

std::string net_limits_text(const policy::NetLimits& limits) {
  const auto seconds = [](Millis time) { return std::to_string(time.count() / 1000) + " s"; };
  std::string text = std::to_string(limits.tunnels) + " connections at once, idle for " + seconds(limits.idle);
  if (limits.duration.count() != 0) text += ", each for " + seconds(limits.duration);
  if (limits.requests != 0) text += ", " + std::to_string(limits.requests) + " in all";
  if (limits.bytes != 0) text += ", " + size_text(limits.bytes) + " both ways";
  return text;
}

std::string limits_text(const policy::ProfileLimits& limits) {
  std::string text = "memory " + size_text(limits.memory) + ", " + std::to_string(limits.pids) +
                     " processes, files up to " + size_text(limits.file_size) + ", " +
                     std::to_string(limits.open_files) + " open files, scratch " + size_text(limits.scratch);
  if (limits.cpu > 0) text += ", " + std::to_string(limits.cpu).substr(0, 4) + " CPUs";
  if (limits.duration.count() != 0) text += ", for " + std::to_string(limits.duration.count() / 1000) + " s";
  if (limits.idle.count() != 0) text += ", idle for " + std::to_string(limits.idle.count() / 1000) + " s";
  return text;
}

void print_text(const Profile& profile, const sandbox::Spec& spec) {
  print("profile    " + profile.name + dim("  (" + escape_for_display(profile.source) + ")"));
  if (!spec.workspace.empty()) {
    print("workspace  " + escape_for_display(spec.workspace) +
          (spec.is_workspace_writable ? "  read-write" : "  read-only"));
  }
  print("read       " + join(spec.read));
  print("write      " + join(spec.write));
  print("deny       " + join(spec.deny) +
        (spec.deny_patterns.empty() ? "" : "  and in the workspace: " + join(spec.deny_patterns)));
  print("exec       " + join(spec.exec));
  print("network    " + join(profile.net_allow) +
        (profile.net_deny.empty() ? "" : "  but not: " + join(profile.net_deny)));
  if (!profile.net_allow.empty()) print("           at most " + net_limits_text(profile.net_limits));
  print("methods    " + join(profile.methods));
  if (!profile.token_methods.empty()) print("           with a token: " + join(profile.token_methods));
  print("signals    " + join(profile.signals));
  print("agent      " + join(profile.agent));
  print("deputy     " + (profile.deputy.empty() ? "rules" : join(profile.deputy)));
  for (const policy::Rule& rule : profile.rules) print_rule(rule);
  print("env        " + join(spec.environment));
  if (!profile.command.empty()) print("command    " + join(profile.command));
  print_adapters(profile.adapters);
  print("limits     " + limits_text(profile.limits));
  if (profile.refuse_hard_links) print("           no file with more than one name");
  if (profile.all_landlock_rights) print("           all of Landlock's rights, also those that mounts cover");
  if (profile.allow_weak) print(yellow("weak       ") + "accepts Landlock and seccomp alone");
}

struct ShowArguments {
  std::string profile, workspace;
};

// Without a name: the list. With one: what it comes to on this machine, links and wildcards resolved.
Status show(const Context& context, const ShowArguments& arguments) {
  TRY(const auto profiles, policy::Profiles::load(context.paths.profiles_dir()));
  std::vector<policy::Rule> rules;
  if (const auto text = os::read_small_file(context.paths.config_file, kMaxFileBytes)) {
    TRY(rules, policy::parse_rules(*text, context.paths.config_file));
  }
  if (arguments.profile.empty()) {
    if (context.wants_json) {
      print(wire::to_json([&](wire::JsonWriter& json) {
        json.begin_object().key("profiles").begin_array();
        for (const auto& [name, profile] : profiles.all()) write_json(json, profile, nullptr);
        json.end_array().key("rules").begin_array();
        for (const policy::Rule& rule : rules) write_rule(json, rule);
        json.end_array().end_object();
      }));
      return ok();
    }
    for (const auto& [name, profile] : profiles.all())
      print(name + dim("  (" + escape_for_display(profile.source) + ")"));
    for (const policy::Rule& rule : rules) print_rule(rule);
    return ok();
  }
  const Profile* profile = profiles.find(arguments.profile);
  if (profile == nullptr) return Error::make(Code::not_found, "no profile '" + arguments.profile + "'");
  const std::string workspace = absolute(arguments.workspace.empty() ? "." : arguments.workspace);
  TRY(const sandbox::Spec spec,
      containers::show_spec(*profile, {workspace, containers::host_home(), [](const auto& name) {
                                         const char* value = std::getenv(name.c_str());
                                         return value != nullptr ? std::optional<std::string>(value) : std::nullopt;
                                       }}));
  if (context.wants_json) {
    print(wire::to_json([&](wire::JsonWriter& json) { write_json(json, *profile, &spec); }));
  } else {
    print_text(*profile, spec);
  }
  return ok();
}

struct ExplainArguments {
  std::string container, method, params;
};

// Which rule decides, why, and what else matched.
Status explain(Context& context, const ExplainArguments& arguments) {
  if (!arguments.params.empty()) {
    wire::Decoder decoder;
    const auto parsed = decoder.parse(arguments.params);
    if (!parsed || !parsed->root().is_object()) return wrong_usage(context, "the payload must be a JSON object");
  }
  TRY(const Started warden, ensure_warden(context.paths));
  const std::string params = wire::to_json([&](wire::JsonWriter& json) {
    json.begin_object().member("principal", arguments.container.empty() ? "host" : "container/" + arguments.container);
    json.member("method", arguments.method);
    if (!arguments.params.empty()) json.key("params").raw(arguments.params);
    json.end_object();
  });
  TRY(const Answer answer, warden.client->call("policy.explain", params));
  if (context.wants_json) {
    print(answer.json());
    return ok();
  }
  const wire::Value result = answer.value();
  const auto text = [&](const char* key) { return escape_for_display(result.get(key).as_string().value_or("")); };
  const std::string decision = text("decision");
  print((decision == "allow"  ? green(decision)
         : decision == "deny" ? red(decision)
                              : yellow(decision)) +
        "  " + text("method") + " for " + text("principal"));
  print("why       " + text("why"));
  for (const wire::Value rule : result.get("also_matched").items()) {
    print("matched   " + escape_for_display(rule.as_string().value_or("")));
  }
  for (const wire::Value rate : result.get("rates").items()) {
    print("rate      " + std::to_string(rate.get("count").as_int().value_or(0)) + " per " +
          std::to_string(rate.get("period_ms").as_int().value_or(0) / 1000) + " s, by " +
          escape_for_display(rate.get("rule").as_string().value_or("")));
  }
  return ok();
}

}  // namespace

void add_policy_commands(CLI::App& app, Context& context) {
  auto* group = app.add_subcommand("policy", "Check, show and explain profiles and rules");
  group->require_subcommand(1);
  auto* check_command =
      group->add_subcommand("check", "Check a file of profiles or rules; a fault names line and word");
  const auto file = std::make_shared<std::string>();
  check_command->add_option("FILE", *file, "A TOML file with [profile.NAME] or [[rule]] tables")->required();
  on_run(check_command, context, [&context, file] { return check(context, *file); });
  auto* show_command = group->add_subcommand("show", "Show the profiles, or what one comes to here");
  const auto arguments = std::make_shared<ShowArguments>();
  show_command->add_option("--profile", arguments->profile, "The profile")->type_name("NAME");
  show_command->add_option("--workspace", arguments->workspace, "The workspace (default: this directory)")
      ->type_name("DIR");
  on_run(show_command, context, [&context, arguments] { return show(context, *arguments); });
  auto* explain_command = group->add_subcommand("explain", "Say which rule decides about a method or signal, and why");
  const auto asked = std::make_shared<ExplainArguments>();
  explain_command->add_option("--container", asked->container, "Who would ask (default: the host)")->type_name("ID");
  explain_command->add_option("METHOD", asked->method, "A method's or signal's name")->required();
  explain_command->add_option("JSON", asked->params, "Its parameters or payload");
  on_run(explain_command, context, [&context, asked] { return explain(context, *asked); });
}

}  // namespace sallyport::cli
