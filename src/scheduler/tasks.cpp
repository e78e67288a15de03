#include "scheduler/tasks.h"

#include "calendar/schedule.h"

namespace sallyport::scheduler {
namespace {

using ledger::Database;
using ledger::Statement;

ScheduledTask read_row(const Statement& row) {
  const auto text = [&](int column) { return std::string(row.text(column)); };
  return {.id = text(0),
          .key = text(1),
          .sender = text(2),
          .owner = text(3),
          .name = text(4),
          .profile = text(5),
          .overrides = text(6),
          .workspace = text(7),
          .group = text(8),
          .schedule = text(9),
          .prompt = text(10),
          .created_ms = row.integer(11),
          .next_ms = row.integer(12),
          .started_ms = row.integer(13),
          .last_ms = row.integer(14),
          .last_outcome = text(15),
          .last_container = text(16),
          .runs = row.integer(17),
          .skipped = row.integer(18)};
}

}  // namespace

void describe(wire::JsonWriter& json, const ScheduledTask& task) {
  json.member("task", task.id).member("name", task.name).member("schedule", task.schedule);
  json.member("owner", task.owner).member("sender", task.sender).member("group", task.group);
  json.member("profile", task.profile).member("prompt_bytes", task.prompt.size());
  json.member("created", calendar::format_rfc3339(task.created_ms));
  json.member("state", task.started_ms != 0 ? "running" : task.next_ms != 0 ? "waiting" : "finished");
  json.key("next_run");
  task.next_ms != 0 ? json.value(calendar::format_rfc3339(task.next_ms)) : json.null();
  if (task.last_ms != 0) {
    json.member("last_run", calendar::format_rfc3339(task.last_ms)).member("last_outcome", task.last_outcome);
    json.member("last_container", task.last_container);
  }
  json.member("runs", task.runs).member("skipped", task.skipped);
}

Status create_task_table(Database& database) {
  return database.execute(
      "CREATE TABLE IF NOT EXISTS tasks(id TEXT PRIMARY KEY, key TEXT NOT NULL UNIQUE, sender TEXT NOT NULL,"
      " owner TEXT NOT NULL, name TEXT NOT NULL, profile TEXT NOT NULL, overrides TEXT NOT NULL,"
      " workspace TEXT NOT NULL, in_group TEXT NOT NULL, schedule TEXT NOT NULL, prompt TEXT NOT NULL,"
      " created_ms INTEGER NOT NULL, next_ms INTEGER NOT NULL, started_ms INTEGER NOT NULL,"
      " last_ms INTEGER NOT NULL, last_outcome TEXT NOT NULL, last_container TEXT NOT NULL,"
      " runs INTEGER NOT NULL, skipped INTEGER NOT NULL) STRICT, WITHOUT ROWID;");
}

Result<std::vector<ScheduledTask>> read_tasks(Database& database) {
  TRY(Statement select, database.prepare("SELECT id, key, sender, owner, name, profile, overrides, workspace, in_group,"
                                         " schedule, prompt, created_ms, next_ms, started_ms, last_ms, last_outcome,"
                                         " last_container, runs, skipped FROM tasks"));
  std::vector<ScheduledTask> tasks;
  for (;;) {
    TRY(const bool has_row, select.step());
    if (!has_row) return tasks;
    tasks.push_back(read_row(select));
  }
}

Result<std::optional<ScheduledTask>> find_task_by_key(Database& database, const std::string& key) {
  TRY(Statement select, database.prepare("SELECT id, key, sender, owner, name, profile, overrides, workspace, in_group,"
                                         " schedule, prompt, created_ms, next_ms, started_ms, last_ms, last_outcome,"
                                         " last_container, runs, skipped FROM tasks WHERE key = ?"));
  select.bind(key);
  TRY(const bool has_row, select.step());
  if (!has_row) return std::optional<ScheduledTask>();
  return std::optional(read_row(select));
}

Status write_task(ledger::Transaction& transaction, const ScheduledTask& task, ledger::Entry entry) {
  TRY(Statement insert,
      transaction.database().prepare("INSERT OR REPLACE INTO tasks VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)"));
  for (const std::string* text : {&task.id, &task.key, &task.sender, &task.owner, &task.name, &task.profile,
                                  &task.overrides, &task.workspace, &task.group, &task.schedule, &task.prompt}) {
    insert.bind(*text);
  }
  insert.bind(task.created_ms).bind(task.next_ms).bind(task.started_ms).bind(task.last_ms);
  insert.bind(task.last_outcome).bind(task.last_container).bind(task.runs).bind(task.skipped);
  TRY(insert.run());
  return transaction.record(std::move(entry));
}

Status erase_task(ledger::Transaction& transaction, const std::string& id, ledger::Entry entry) {
  TRY(Statement erase, transaction.database().prepare("DELETE FROM tasks WHERE id = ?"));
  TRY(erase.bind(id).run());
  return transaction.database().changes() == 0 ? ok() : transaction.record(std::move(entry));
}

}  // namespace sallyport::scheduler
