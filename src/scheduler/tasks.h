// What is to run later, as it is kept in the ledger's database. These functions run inside a Work: every
// change is in the same transaction as its audit record.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/base.h"
#include "ledger/ledger.h"
#include "wire/json.h"

namespace sallyport::scheduler {

struct ScheduledTask {
  std::string id;
  std::string key;     // of the request that made it: the same key never makes a second one
  std::string sender;  // the container that asked
  std::string owner;   // to whom it counts: see containers::owner_of()
  std::string name;    // of a periodic agent: one per owner; else empty
  // Where it runs: as the sender ran.
  std::string profile, overrides, workspace, group;
  std::string schedule;  // as it was written
  std::string prompt;
  std::int64_t created_ms = 0;
  std::int64_t next_ms = 0;     // 0: not again
  std::int64_t started_ms = 0;  // of the run under way; 0: none
  std::int64_t last_ms = 0;     // end of the last run
  std::string last_outcome;     // "done", "failed", "timeout", "lost"; empty before the first
  std::string last_container;
  std::int64_t runs = 0, skipped = 0;
};

// All members but the prompt, of which the size is told.
void describe(wire::JsonWriter& json, const ScheduledTask& task);

Status create_task_table(ledger::Database& database);
Result<std::vector<ScheduledTask>> read_tasks(ledger::Database& database);
Result<std::optional<ScheduledTask>> find_task_by_key(ledger::Database& database, const std::string& key);
// Inserts or replaces, and records `entry`.
Status write_task(ledger::Transaction& transaction, const ScheduledTask& task, ledger::Entry entry);
// Removes and records `entry`; nothing if there is no such task.
Status erase_task(ledger::Transaction& transaction, const std::string& id, ledger::Entry entry);

}  // namespace sallyport::scheduler
