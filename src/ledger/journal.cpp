#include "ledger/journal.h"

#include <algorithm>

namespace sallyport::ledger {
namespace {

// What a row says about itself in the record of its edge.
void describe(Entry& entry, const JournalKey& key, const JournalRow& row) {
  entry.request_id = key.request_id;
  entry.payload_sha256 = row.payload_sha256;
  entry.payload_bytes = row.payload.size();
}

// The compare-and-swap failed: say why.
Error refusal(const std::optional<JournalRow>& row, std::string_view from) {
  if (!row) return Error::make(Code::not_found, "there is no such request");
  return Error::make(Code::conflict, "the request is no longer where it was",
                     "expected " + std::string(from) + ", found " + row->state);
}

}  // namespace

Result<Accepted> accept(Transaction& transaction, const JournalKey& key, std::string_view state,
                        std::string_view payload, Entry entry) {
  const Digest digest = wire::sha256(as_bytes(payload));
  TRY(auto known, find_row(transaction.database(), key));
  if (known && known->payload_sha256 != digest) {
    return Error::make(Code::conflict, "this request id was used before, with other content");
  }
  if (known) return Accepted{.is_new = false, .row = std::move(*known)};
  const std::int64_t now = transaction.now_ms();
  {
    TRY(Statement insert, transaction.database().prepare(
                              "INSERT INTO journal(container, request, state, payload_sha256, payload, accepted_ms, "
                              "changed_ms) VALUES(?,?,?,?,?,?,?)"));
    insert.bind(key.container).bind(key.request_id).bind(state).bind(ByteView(digest)).bind(as_bytes(payload));
    TRY(insert.bind(now).bind(now).run());
  }
  JournalRow row{.key = key,
                 .state = std::string(state),
                 .payload_sha256 = digest,
                 .payload = std::string(payload),
                 .answer = std::nullopt,
                 .accepted_ms = now,
                 .changed_ms = now};
  describe(entry, key, row);
  TRY(transaction.record(std::move(entry)));
  return Accepted{.is_new = true, .row = std::move(row)};
}

Status advance(Transaction& transaction, const JournalKey& key, std::string_view from, std::string_view to, Entry entry,
               std::optional<std::string_view> answer) {
  Database& database = transaction.database();
  {
    TRY(Statement update, database.prepare("UPDATE journal SET state = ?, changed_ms = ?, answer = coalesce(?, answer)"
                                           " WHERE container = ? AND request = ? AND state = ?"));
    update.bind(to).bind(transaction.now_ms());
    if (answer) {
      update.bind(as_bytes(*answer));
    } else {
      update.bind_null();
    }
    TRY(update.bind(key.container).bind(key.request_id).bind(from).run());
  }
  const bool is_taken = database.changes() == 1;
  TRY(const auto row, find_row(database, key));
  if (!is_taken || !row) return refusal(row, from);
  describe(entry, key, *row);
  return transaction.record(std::move(entry));
}

Status forget(Transaction& transaction, const JournalKey& key, std::string_view from, Entry entry) {
  Database& database = transaction.database();
  TRY(const auto row, find_row(database, key));
  if (!row || row->state != from) return refusal(row, from);
  {
    TRY(Statement remove, database.prepare("DELETE FROM journal WHERE container = ? AND request = ?"));
    TRY(remove.bind(key.container).bind(key.request_id).run());
  }
  describe(entry, key, *row);
  return transaction.record(std::move(entry));
}

Result<std::optional<JournalRow>> find_row(Database& database, const JournalKey& key) {
  TRY(Statement select, database.prepare("SELECT state, payload_sha256, payload, answer, accepted_ms, changed_ms"
                                         " FROM journal WHERE container = ? AND request = ?"));
  select.bind(key.container).bind(key.request_id);
  TRY(const bool has_row, select.step());
  if (!has_row) return std::optional<JournalRow>();
  JournalRow row;
  row.key = key;
  row.state = select.text(0);
  const ByteView digest = select.blob(1);
  if (digest.size() == row.payload_sha256.size()) {
    std::copy(digest.begin(), digest.end(), row.payload_sha256.begin());
  }
  row.payload = as_text(select.blob(2));
  if (!select.is_null(3)) row.answer = as_text(select.blob(3));
  row.accepted_ms = select.integer(4);
  row.changed_ms = select.integer(5);
  return std::optional<JournalRow>(std::move(row));
}

Result<std::vector<JournalRow>> rows_in_state(Database& database, std::string_view state, std::int64_t limit) {
  TRY(Statement select, database.prepare("SELECT container, request, accepted_ms, changed_ms FROM journal"
                                         " WHERE state = ? ORDER BY changed_ms LIMIT ?"));
  select.bind(state).bind(limit);
  std::vector<JournalRow> rows;
  for (;;) {
    TRY(const bool has_row, select.step());
    if (!has_row) return rows;
    JournalRow& row = rows.emplace_back();
    row.key = {std::string(select.text(0)), std::string(select.text(1))};
    row.state = state;
    row.accepted_ms = select.integer(2);
    row.changed_ms = select.integer(3);
  }
}

}  // namespace sallyport::ledger
