// platform check, status
#include <CLI/CLI.hpp>

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
    for (const char* name : {"reason", "detail"}) {
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

Status report_state(const Context& context, Client& client, bool probes) {
  CallOptions options;
  options.deadline = Millis(60'000);
  TRY(const Answer answer, client.call("platform.status", probes ? R"({"probe":true})" : "{}", options));
  if (context.wants_json) {
    print(answer.json());
    return ok();
  }
  show_adapters(answer.value().get("adapters"));
  show_quotas(answer.value().get("quotas"));
  return ok();
}

// The file first, by itself: a fault in it is worth more than what an older configuration still does.
Status check(const Context& context) {
  TRY(const platform::Config config, platform::load_config(context.paths.config_file));
  const auto client = connect_warden(context.paths);
  if (!client) {
    if (context.wants_json) {
      print(platform::to_json(config));
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
    print(yellow("note") + "       the warden runs with another configuration; sallyport call warden.reload");
  }
  return report_state(context, **client, true);
}

}  // namespace

void add_platform_commands(CLI::App& app, Context& context) {
  CLI::App* platform = app.add_subcommand("platform", "Adapters for workers: storage, cache, vectors, models, events");
  platform->require_subcommand(1);
  on_run(platform->add_subcommand("check", "Check the configuration, and ask every backend whether it is there"),
         context, [&context] { return check(context); });
  on_run(platform->add_subcommand("status", "Show each adapter's state and latency, and what quotas are used"), context,
         [&context]() -> Status {
           TRY(const auto client, connect_warden(context.paths));
           return report_state(context, *client, false);
         });
}

}  // namespace sallyport::cli
