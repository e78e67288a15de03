// sallyport schedule ls | rm, sallyport group ls | inspect
#include <array>
#include <cstdio>

#include "cli/cli11.h"
#include "cli/command.h"
#include "cli/warden_link.h"

namespace sallyport::cli {
namespace {

std::string text(wire::Value value) { return escape_for_display(value.as_string().value_or("-")); }

// One line per item: the members that are named, in columns, then one dimmed.
void print_rows(wire::Value items, const std::vector<std::pair<const char*, int>>& columns, const char* last) {
  for (const wire::Value item : items.items()) {
    std::string line;
    for (const auto& [name, width] : columns) {
      std::array<char, 512> cell{};
      std::snprintf(cell.data(), cell.size(), "%-*s ", width, text(item.get(name)).c_str());
      line += cell.data();
    }
    print(line + dim(text(item.get(last))));
  }
}

Result<Answer> ask(const Context& context, const char* method, const std::string& params) {
  TRY(const Started warden, ensure_warden(context.paths));
  return warden.client->call(method, params);
}

Status list_tasks(const Context& context) {
  TRY(const Started warden, ensure_warden(context.paths));
  TRY(const wire::Document all, call_for_all(*warden.client, "schedule.list", "tasks", "task"));
  if (context.wants_json) {
    print(all.root().to_json());
  } else {
    print_rows(all.root().get("tasks"), {{"task", 20}, {"state", 9}, {"next_run", 21}, {"owner", 24}, {"schedule", 20}},
               "name");
  }
  return ok();
}

Status remove_task(const Context& context, const std::string& task) {
  TRY(const Answer answer, ask(context, "schedule.remove", wire::to_json([&](wire::JsonWriter& json) {
                                 json.begin_object().member("task", task).end_object();
                               })));
  print(context.wants_json ? answer.json() : "removed");
  return ok();
}

Status list_groups(const Context& context) {
  TRY(const Started warden, ensure_warden(context.paths));
  TRY(const wire::Document all, call_for_all(*warden.client, "group.list", "groups", "group"));
  if (context.wants_json) {
    print(all.root().to_json());
    return ok();
  }
  print_rows(all.root().get("groups"), {{"group", 24}, {"profile", 16}, {"folder", 24}}, "trigger");
  for (const wire::Value fault : all.root().get("faults").items()) print(red("unreadable: ") + text(fault));
  return ok();
}

Status inspect_group(const Context& context, const std::string& group) {
  TRY(const Answer answer, ask(context, "group.inspect", wire::to_json([&](wire::JsonWriter& json) {
                                 json.begin_object().member("group", group).end_object();
                               })));
  print(answer.json());
  return ok();
}

}  // namespace

void add_schedule_commands(CLI::App& app, Context& context) {
  auto* schedule = app.add_subcommand("schedule", "List and remove what runs later");
  schedule->require_subcommand(1);
  on_run(schedule->add_subcommand("ls", "List the tasks"), context, [&context] { return list_tasks(context); });
  auto* remove = schedule->add_subcommand("rm", "Remove a task; a run under way is stopped");
  const auto task = std::make_shared<std::string>();
  remove->add_option("TASK", *task, "Its id")->required();
  on_run(remove, context, [&context, task] { return remove_task(context, *task); });

  auto* groups = app.add_subcommand("group", "List and show groups");
  groups->require_subcommand(1);
  on_run(groups->add_subcommand("ls", "List the groups"), context, [&context] { return list_groups(context); });
  auto* inspect = groups->add_subcommand("inspect", "Show all that is known of one");
  const auto group = std::make_shared<std::string>();
  inspect->add_option("GROUP", *group, "Its name")->required();
  on_run(inspect, context, [&context, group] { return inspect_group(context, *group); });
}

}  // namespace sallyport::cli
