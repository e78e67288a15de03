// The journal: requests that must be handled exactly once, and how far each has come.
//
// A row per (container, request id). These functions run inside a Work; every edge is a compare-and-swap
// in the same transaction as its audit record, so that no edge is taken twice and none is unrecorded. What
// the states are called and which edges there are is the business of whoever keeps the journal.
//
// A row is open while something is still to be done about it, closed with an answer afterwards, and at last
// a tombstone: without content, there only so that its id is never accepted again.
//
// accept(), advance() and forget() change nothing when they fail: a Submission of one of them fails_clean.
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
  auto operator<=>(const JournalKey&) const = default;
};

struct JournalRow {
  JournalKey key;
  std::string subject;  // a signal's name
  std::string state;
  bool is_open = true;
  Digest sha256{};                      // of what came: says whether it is the same again
  std::string payload;                  // what is acted on
  std::optional<std::string> original;  // what came, if a review changed it
  std::string rule;                     // why it is reviewed or was refused
  std::string deputy, human;            // who approved; empty: nobody yet
  std::optional<std::string> answer;
  std::int64_t number = 0;  // in the order of acceptance
  std::int64_t accepted_ms = 0;
  std::int64_t changed_ms = 0;
};

// Accepts a request as `row` describes it (number and times are given here) and records `entry`. Seen before
// with the same hash: returns the row as it stands, and changes and records nothing. Seen before with another
// one: CONFLICT.
struct Accepted {
  bool is_new = false;
  JournalRow row;
};
Result<Accepted> accept(Transaction& transaction, JournalRow row, Entry entry);

// Takes an edge and records `entry`; what else is given is stored with it. CONFLICT, and nothing is
// recorded, unless the row is in `from` now. NOT_FOUND if there is no such row.
struct Edge {
  std::string_view from, to;
  bool is_open = true;
  std::optional<std::string_view> payload = {}, original = {}, rule = {}, deputy = {}, human = {}, answer = {};
};
Status advance(Transaction& transaction, const JournalKey& key, const Edge& edge, Entry entry);

// Forgets a row that is in `from`. A request with its id would be new again.
Status forget(Transaction& transaction, const JournalKey& key, std::string_view from, Entry entry);
// Everything about a container that is no more, but what is in state `except`; no id of its will come again.
Status forget_container(Transaction& transaction, std::string_view container, std::string_view except);

// Turns a row that is closed into a tombstone in `state`; one that is open stays as it is.
Status entomb(Transaction& transaction, const JournalKey& key, std::string_view state);

Result<std::optional<JournalRow>> find_row(Database& database, const JournalKey& key);
// At most `limit` rows after `number`, in the order of acceptance: those that are open, or those that hold an
// answer (without their payloads).
Result<std::vector<JournalRow>> open_rows(Database& database, std::int64_t number, std::int64_t limit);
Result<std::vector<JournalRow>> answered_rows(Database& database, std::int64_t number, std::int64_t limit);
// How many requests of a container there ever were, as far as they are remembered.
Result<std::int64_t> count_rows(Database& database, std::string_view container);

}  // namespace sallyport::ledger
