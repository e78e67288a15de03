// The journal: requests that must be handled exactly once, and how far each has come.
//
// A row per (container, request id). These functions run inside a Work; every edge is a compare-and-swap
// in the same transaction as its audit record, so that no edge is taken twice and none is unrecorded. What
// the states are called and which edges there are is the business of whoever keeps the journal.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/base.h"
#include "ledger/ledger.h"

namespace sallyport::ledger {

struct JournalKey {
  std::string container;
  std::string request_id;
};

struct JournalRow {
  JournalKey key;
  std::string state;
  Digest payload_sha256{};
  std::string payload;
  std::optional<std::string> answer;
  std::int64_t accepted_ms = 0;
  std::int64_t changed_ms = 0;
};

// Accepts a request into `state` and records `entry`. Seen before with the same bytes: returns the row as
// it stands, and changes and records nothing. Seen before with other bytes: CONFLICT.
struct Accepted {
  bool is_new = false;
  JournalRow row;
};
Result<Accepted> accept(Transaction& transaction, const JournalKey& key, std::string_view state,
                        std::string_view payload, Entry entry);

// Takes an edge and records `entry`; an answer, if given, is stored with it. CONFLICT, and nothing is
// recorded, unless the row is in `from` now. NOT_FOUND if there is no such row.
Status advance(Transaction& transaction, const JournalKey& key, std::string_view from, std::string_view to, Entry entry,
               std::optional<std::string_view> answer = std::nullopt);

// Forgets a row that is in `from`. A request with its id would be new again.
Status forget(Transaction& transaction, const JournalKey& key, std::string_view from, Entry entry);

Result<std::optional<JournalRow>> find_row(Database& database, const JournalKey& key);
// The rows in a state, those that were changed longest ago first. Without payloads.
Result<std::vector<JournalRow>> rows_in_state(Database& database, std::string_view state, std::int64_t limit);

}  // namespace sallyport::ledger
