#include "ledger/journal.h"

#include <algorithm>

namespace sallyport::ledger {
namespace {

#define SALLYPORT_JOURNAL_COLUMNS                                                                        \
  "number, container, request, subject, state, is_open, sha256, payload, original, rule, deputy, human," \
  " answer, accepted_ms, changed_ms"

// The compare-and-swap failed: say why.
Error refusal(const std::optional<JournalRow>& row, std::string_view from) {
  if (!row) return Error::make(Code::not_found, "there is no such request");
  return Error::make(Code::conflict, "the request is no longer where it was",
                     "expected " + std::string(from) + ", found " + row->state);
}

void bind_optional(Statement& statement, const std::optional<std::string_view>& text, bool is_blob) {
  if (!text) {
    statement.bind_null();
  } else if (is_blob) {
    statement.bind(as_bytes(*text));
  } else {
    statement.bind(*text);
  }
}

// A blob of another length is a changed one: it stays zeros, and nothing has that hash.
void copy_digest(ByteView from, Digest& to) {
  if (from.size() == to.size()) std::copy(from.begin(), from.end(), to.begin());
}

JournalRow read_row(const Statement& select) {
  JournalRow row;
  row.number = select.integer(0);
  row.key = {std::string(select.text(1)), std::string(select.text(2))};
  row.subject = select.text(3);
  row.state = select.text(4);
  row.is_open = select.integer(5) != 0;
  copy_digest(select.blob(6), row.sha256);
  row.payload = as_text(select.blob(7));
  if (!select.is_null(8)) row.original = as_text(select.blob(8));
  row.rule = select.text(9);
  row.deputy = select.text(10);
  row.human = select.text(11);
  if (!select.is_null(12)) row.answer = as_text(select.blob(12));
  row.accepted_ms = select.integer(13);
  row.changed_ms = select.integer(14);
  return row;
}

Result<std::vector<JournalRow>> read_rows(Statement& select) {
  std::vector<JournalRow> rows;
  for (;;) {
    TRY(const bool has_row, select.step());
    if (!has_row) return rows;
    rows.push_back(read_row(select));
  }
}

Result<std::optional<JournalRow>> find_tombstone(Database& database, const JournalKey& key) {
  TRY(Statement select, database.prepare("SELECT state, sha256 FROM tombstones WHERE container = ? AND request = ?"));
  select.bind(key.container).bind(key.request_id);
  TRY(const bool has_row, select.step());
  if (!has_row) return std::optional<JournalRow>();
  JournalRow row;
  row.key = key;
  row.state = select.text(0);
  row.is_open = false;
  copy_digest(select.blob(1), row.sha256);
  return std::optional<JournalRow>(std::move(row));
}

Result<Accepted> accept_again(JournalRow known, const Digest& sha256) {
  if (known.sha256 != sha256) {
    return Error::make(Code::conflict, "this request id was used before, with other content");
  }
  return Accepted{.is_new = false, .row = std::move(known)};
}

}  // namespace

Result<Accepted> accept(Transaction& transaction, JournalRow row, Entry entry) {
  row.accepted_ms = row.changed_ms = transaction.now_ms();
  Database& database = transaction.database();
  {
    // Most are new: one statement for them, and a second look only at those that are not.
    TRY(Statement insert,
        database.prepare("INSERT OR IGNORE INTO journal(container, request, subject, state, is_open, sha256, payload,"
                         " rule, answer, accepted_ms, changed_ms) SELECT ?1,?2,?3,?4,?5,?6,?7,?8,?9,?10,?11"
                         " WHERE NOT EXISTS(SELECT 1 FROM tombstones WHERE container = ?1 AND request = ?2)"));
    insert.bind(row.key.container).bind(row.key.request_id).bind(row.subject).bind(row.state);
    insert.bind(std::int64_t{row.is_open}).bind(ByteView(row.sha256)).bind(as_bytes(row.payload)).bind(row.rule);
    bind_optional(insert, row.answer, true);
    TRY(insert.bind(row.accepted_ms).bind(row.changed_ms).run());
  }
  if (database.changes() == 0) {
    TRY(auto known, find_row(database, row.key));
    if (!known) return Error::make(Code::internal_error, "the journal cannot make up its mind");
    return accept_again(std::move(*known), row.sha256);
  }
  row.number = database.last_row();
  TRY(transaction.record(std::move(entry)));
  return Accepted{.is_new = true, .row = std::move(row)};
}

Status advance(Transaction& transaction, const JournalKey& key, const Edge& edge, Entry entry) {
  Database& database = transaction.database();
  {
    TRY(Statement update,
        database.prepare("UPDATE journal SET state = ?, is_open = ?, changed_ms = ?, payload = coalesce(?, payload),"
                         " original = coalesce(?, original), rule = coalesce(?, rule), deputy = coalesce(?, deputy),"
                         " human = coalesce(?, human), answer = coalesce(?, answer)"
                         " WHERE container = ? AND request = ? AND state = ?"));
    update.bind(edge.to).bind(std::int64_t{edge.is_open}).bind(transaction.now_ms());
    bind_optional(update, edge.payload, true);
    bind_optional(update, edge.original, true);
    bind_optional(update, edge.rule, false);
    bind_optional(update, edge.deputy, false);
    bind_optional(update, edge.human, false);
    bind_optional(update, edge.answer, true);
    TRY(update.bind(key.container).bind(key.request_id).bind(edge.from).run());
  }
  if (database.changes() != 1) {
    TRY(const auto row, find_row(database, key));
    return refusal(row, edge.from);
  }
  return transaction.record(std::move(entry));
}

Status forget(Transaction& transaction, const JournalKey& key, std::string_view from, Entry entry) {
  Database& database = transaction.database();
  {
    TRY(Statement remove, database.prepare("DELETE FROM journal WHERE container = ? AND request = ? AND state = ?"));
    TRY(remove.bind(key.container).bind(key.request_id).bind(from).run());
  }
  if (database.changes() != 1) {
    TRY(const auto row, find_row(database, key));
    return refusal(row, from);
  }
  return transaction.record(std::move(entry));
}

Status forget_container(Transaction& transaction, std::string_view container, std::string_view except) {
  Database& database = transaction.database();
  TRY(Statement remove, database.prepare("DELETE FROM journal WHERE container = ? AND state <> ?"));
  TRY(remove.bind(container).bind(except).run());
  TRY(Statement unbury, database.prepare("DELETE FROM tombstones WHERE container = ?"));
  return unbury.bind(container).run();
}

Status entomb(Transaction& transaction, const JournalKey& key, std::string_view state) {
  Database& database = transaction.database();
  TRY(Statement bury, database.prepare("INSERT INTO tombstones SELECT container, request, ?, sha256 FROM journal"
                                       " WHERE container = ? AND request = ? AND is_open = 0"));
  TRY(bury.bind(state).bind(key.container).bind(key.request_id).run());
  TRY(Statement remove, database.prepare("DELETE FROM journal WHERE container = ? AND request = ? AND is_open = 0"));
  return remove.bind(key.container).bind(key.request_id).run();
}

Result<std::optional<JournalRow>> find_row(Database& database, const JournalKey& key) {
  TRY(Statement select,
      database.prepare("SELECT " SALLYPORT_JOURNAL_COLUMNS " FROM journal WHERE container = ? AND request = ?"));
  select.bind(key.container).bind(key.request_id);
  TRY(const bool has_row, select.step());
  if (!has_row) return find_tombstone(database, key);
  return std::optional<JournalRow>(read_row(select));
}

Result<std::vector<JournalRow>> open_rows(Database& database, std::int64_t number, std::int64_t limit) {
  TRY(Statement select, database.prepare("SELECT " SALLYPORT_JOURNAL_COLUMNS
                                         " FROM journal WHERE is_open = 1 AND number > ? ORDER BY number LIMIT ?"));
  select.bind(number).bind(limit);
  return read_rows(select);
}

Result<std::vector<JournalRow>> answered_rows(Database& database, std::int64_t number, std::int64_t limit) {
  TRY(Statement select,
      database.prepare("SELECT number, container, request, subject, state, is_open, sha256, x'', NULL, rule, deputy,"
                       " human, answer, accepted_ms, changed_ms"
                       " FROM journal WHERE answer IS NOT NULL AND number > ? ORDER BY number LIMIT ?"));
  select.bind(number).bind(limit);
  return read_rows(select);
}

Result<std::int64_t> count_rows(Database& database, std::string_view container) {
  TRY(Statement select, database.prepare("SELECT (SELECT count(*) FROM journal WHERE container = ?1)"
                                         " + (SELECT count(*) FROM tombstones WHERE container = ?1)"));
  select.bind(container);
  TRY(const bool has_row, select.step());
  return has_row ? select.integer(0) : 0;
}

}  // namespace sallyport::ledger
