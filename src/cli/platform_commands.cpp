// platform check, status, recount, forget
#include <cstdio>

#include "cli/cli11.h"
#include "cli/command.h"
#include "cli/warden_link.h"
#include "platform/load.h"

namespace sallyport::cli {
namespace {

std::string padded(std::string text, std::size_t width) {
  if (text.size() < width) text.resize(width, ' ');
  return text;
}

std::string shown(wire::Value value) { return escape_for_display(value.as_string().value_or("")); }

void show_adapters(wire::Value adapters) {
  for (const auto& [role, adapter] : adapters.members()) {
    const std::string state = padded(shown(adapter.get("state")), 7);
    const bool is_ready = adapter.get("state").as_string() == "ready";
    std::string line = padded(std::string(role), 11) + (is_ready ? green(state) : yellow(state)) + " " +
                       padded(shown(adapter.get("implementation")), 10);
    if (const auto micros = adapter.get("latency_us").as_int()) line += padded(std::to_string(*micros) + " us", 12);
    line += dim(std::to_string(adapter.get("calls").as_int().value_or(0)) + " calls, " +
                std::to_string(adapter.get("failures").as_int().value_or(0)) + " failed");
    if (adapter.get("is_model").as_bool() == false) line += dim("  (no model)");
    print(line);
    for (const char* name : {"reason", "detail", "passed_over"}) {
      if (adapter.get(name)) print("           " + shown(adapter.get(name)));
    }
  }
}

void show_quotas(wire::Value quotas) {
  for (const wire::Value tenant : quotas.items()) {
    for (const auto& [name, quota] : tenant.members()) {
      if (!quota.is_object()) continue;
      print(padded(shown(tenant.get("tenant")), 30) + " " + padded(std::string(name), 20) + " " +
            std::to_string(quota.get("used").as_int().value_or(0)) + " of " +
            std::to_string(quota.get("limit").as_int().value_or(0)) +
            dim("  reserved " + std::to_string(quota.get("reserved").as_int().value_or(0))));
    }
  }
}

Result<Answer> report_state(const Context& context, Client& client, bool probes) {
  CallOptions options;
  options.deadline = Millis(60'000);
  TRY(Answer answer, client.call("platform.status", probes ? R"({"probe":true})" : "{}", options));
  if (context.wants_json) {
    print(answer.json());
    return answer;
  }
  show_adapters(answer.value().get("adapters"));
  show_quotas(answer.value().get("quotas"));
  return answer;
}

// UNAVAILABLE names the roles that have adapters, and none that can be had.
Status all_are_there(wire::Value adapters) {
  std::string missing;
  for (const auto& [role, adapter] : adapters.members()) {
    const bool is_missing = adapter.get("state").as_string() != "ready" && adapter.get("detail");
    if (is_missing) missing += (missing.empty() ? "" : ", ") + std::string(role);
  }
  if (missing.empty()) return ok();
  return Error::make(Code::unavailable, "not there: " + missing + "; each says why above");
}

// The file first, by itself: a fault in it is worth more than what an older configuration still does.
Status check(Context& context) {
  TRY(const platform::Config config, platform::load_config(context.paths.config_file));
  const auto client = connect_warden(context.paths);
  if (!client) {
    if (context.wants_json) {
      print(wire::to_json([&](wire::JsonWriter& json) {
        json.begin_object().member("asked", false).key("config").raw(platform::to_json(config)).end_object();
      }));
      return ok();
    }
    for (const auto& [role, names] : config.adapters) {
      std::string line = padded(std::string(platform::to_string(role)), 11);
      for (const std::string& name : names) line += " " + name;
      print(line);
    }
    print(green("valid") + dim("  no warden runs; whether the backends answer is seen when one does"));
    return ok();
  }
  TRY(const Answer status, (*client)->call("platform.status", "{}"));
  if (status.value().get("config_hash").as_string() != platform::hash_of(config)) {
    std::fputs("note: the warden runs with another configuration; sallyport call warden.reload\n", stderr);
  }
  TRY(const Answer answer, report_state(context, **client, true));
  const Status all = all_are_there(answer.value().get("adapters"));
  if (!all) context.exit_code = static_cast<int>(Exit::failed);
  return all;
}

}  // namespace

void add_platform_commands(CLI::App& app, Context& context) {
  CLI::App* platform = app.add_subcommand("platform", "Adapters for workers: storage, cache, vectors, models, events");
  platform->require_subcommand(1);
  on_run(platform->add_subcommand("check",
                                  "Check the configuration; if a warden runs, also whether every backend is there"),
         context, [&context] { return check(context); });
  CLI::App* recount = platform->add_subcommand("recount", "Count anew what a tenant has stored");
  const auto tenant = std::make_shared<std::string>();
  recount->add_option("TENANT", *tenant, "As platform status names it: profile.NAME")->required();
  on_run(recount, context, [&context, tenant]() -> Status {
    TRY(const Started warden, ensure_warden(context.paths));
    TRY(const Answer answer, warden.client->call("platform.recount", wire::to_json([&](wire::JsonWriter& json) {
                                                   json.begin_object().member("tenant", *tenant).end_object();
                                                 })));
    if (context.wants_json) {
      print(answer.json());
      return ok();
    }
    const auto number = [&](const char* name) { return std::to_string(answer.value().get(name).as_int().value_or(0)); };
    print(*tenant + " has " + number("used") + " bytes stored; " + number("was") + " were counted");
    return ok();
  });
  CLI::App* forget = platform->add_subcommand("forget", "Remove what a container that is gone has stored");
  forget->add_option("TENANT", *tenant, "container.ID, where a profile says tenant = \"container\"")->required();
  on_run(forget, context, [&context, tenant]() -> Status {
    TRY(const Started warden, ensure_warden(context.paths));
    TRY(const Answer answer, warden.client->call("platform.forget", wire::to_json([&](wire::JsonWriter& json) {
                                                   json.begin_object().member("tenant", *tenant).end_object();
                                                 })));
    print(context.wants_json ? answer.json() : "nothing of " + *tenant + " is kept any more");
    return ok();
  });
  on_run(platform->add_subcommand("status", "Show each adapter's state and latency, and what quotas are used"), context,
         [&context]() -> Status {
           TRY(const Started warden, ensure_warden(context.paths));
           TRY(report_state(context, *warden.client, false));
           return ok();
         });
}

}  // namespace sallyport::cli
