#include "ledger/chain.h"

#include <algorithm>

#include "ledger/limits.h"

namespace sallyport::ledger {
namespace {

constexpr std::int64_t kVersion = 3;

constexpr const char* kTables =
    "CREATE TABLE IF NOT EXISTS meta(name TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT, WITHOUT ROWID;"
    "CREATE TABLE IF NOT EXISTS audit(seq INTEGER PRIMARY KEY, time_ms INTEGER NOT NULL, class INTEGER NOT NULL,"
    " stage INTEGER NOT NULL, principal TEXT NOT NULL, peer INTEGER NOT NULL, session TEXT NOT NULL,"
    " request TEXT NOT NULL, method TEXT NOT NULL, code TEXT NOT NULL, rule TEXT NOT NULL,"
    " payload_bytes INTEGER NOT NULL, payload_sha256 BLOB, prev BLOB NOT NULL, hash BLOB NOT NULL) STRICT;"
    "CREATE TABLE IF NOT EXISTS checkpoints(seq INTEGER PRIMARY KEY, time_ms INTEGER NOT NULL, hash BLOB NOT NULL,"
    " signature BLOB NOT NULL) STRICT;"
    "CREATE TABLE IF NOT EXISTS rates(key TEXT, rule TEXT, until_ms INTEGER NOT NULL, PRIMARY KEY(key, rule))"
    " STRICT, WITHOUT ROWID;"
    "CREATE TABLE IF NOT EXISTS quotas(key TEXT, name TEXT, window INTEGER NOT NULL, used INTEGER NOT NULL,"
    " reserved INTEGER NOT NULL, PRIMARY KEY(key, name)) STRICT, WITHOUT ROWID;"
    "CREATE TABLE IF NOT EXISTS journal(number INTEGER PRIMARY KEY, container TEXT NOT NULL, request TEXT NOT NULL,"
    " subject TEXT NOT NULL, state TEXT NOT NULL, is_open INTEGER NOT NULL, sha256 BLOB NOT NULL,"
    " payload BLOB NOT NULL, original BLOB, rule TEXT NOT NULL DEFAULT '', deputy TEXT NOT NULL DEFAULT '',"
    " human TEXT NOT NULL DEFAULT '', answer BLOB, accepted_ms INTEGER NOT NULL, changed_ms INTEGER NOT NULL) STRICT;"
    "CREATE UNIQUE INDEX IF NOT EXISTS journal_by_request ON journal(container, request);"
    // Apart from the journal, which stays as small as what is open or answered: it is read through at a start.
    "CREATE TABLE IF NOT EXISTS tombstones(container TEXT, request TEXT, state TEXT NOT NULL, sha256 BLOB NOT NULL,"
    " PRIMARY KEY(container, request)) STRICT, WITHOUT ROWID;"
    "PRAGMA user_version = 3;";

// Version 1 had a journal that nothing was ever written to; version 2 kept its tombstones there, and two indices that
// told what is open and what is answered from them.
constexpr const char* kDropFirstJournal = "DROP TABLE IF EXISTS journal;";
constexpr const char* kMoveTombstones =
    "INSERT INTO tombstones SELECT container, request, state, sha256 FROM journal WHERE is_open = 0 AND answer IS NULL;"
    "DELETE FROM journal WHERE is_open = 0 AND answer IS NULL;"
    "DROP INDEX IF EXISTS journal_open; DROP INDEX IF EXISTS journal_answered;";

template <typename Array>
void copy_blob(ByteView from, Array& to) {
  // A blob of another length is a changed one: it becomes zeros, and no hash fits those.
  if (from.size() == to.size()) std::copy(from.begin(), from.end(), to.begin());
}

Result<std::int64_t> read_version(Database& database) {
  TRY(Statement version, database.prepare("PRAGMA user_version"));
  TRY(const bool has_row, version.step());
  return has_row ? version.integer(0) : 0;
}

}  // namespace

Status create_tables(Database& database) {
  TRY(const std::int64_t found, read_version(database));
  if (found == kVersion) return ok();
  if (found > kVersion) return Error::make(Code::conflict, "the ledger was made by another version of Sallyport");
  TRY(database.execute("BEGIN IMMEDIATE"));
  Status status;
  if (found == 1) status = database.execute(kDropFirstJournal);
  if (status) status = database.execute(kTables);
  if (status && found == 2) status = database.execute(kMoveTombstones);
  if (status) status = database.execute("COMMIT");
  if (!status && database.is_in_transaction()) {
    [[maybe_unused]] const Status undone = database.execute("ROLLBACK");
  }
  return status;
}

// ---- writing ----

Status Chain::load() {
  TRY(tip_, read_tip(database_));
  if (tip_.seq == 0) return ok();
  TRY(const auto last, read_records(database_, tip_.seq - 1, 1));
  if (last.size() != 1 || hash_of(last[0]) != tip_.hash) {
    return Error::make(Code::conflict,
                       "the last record of the ledger was changed; see sallyport audit verify, and move "
                       "ledger.db and audit/ away to begin a new one",
                       "record " + std::to_string(tip_.seq));
  }
  return ok();
}

Result<Record> Chain::append(Entry entry) {
  Record record;
  record.seq = tip_.seq + 1;
  record.entry = std::move(entry);
  record.prev = tip_.hash;
  record.hash = hash_of(record);
  const Entry& facts = record.entry;
  {
    TRY(Statement insert,
        database_.prepare("INSERT INTO audit(" SALLYPORT_RECORD_COLUMNS ") VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)"));
    insert.bind(static_cast<std::int64_t>(record.seq))
        .bind(facts.time_ms)
        .bind(static_cast<std::int64_t>(facts.durability))
        .bind(static_cast<std::int64_t>(facts.stage))
        .bind(facts.principal)
        .bind(facts.peer_pid)
        .bind(facts.session)
        .bind(facts.request_id)
        .bind(facts.method)
        .bind(facts.code)
        .bind(facts.rule)
        .bind(static_cast<std::int64_t>(facts.payload_bytes));
    if (facts.payload_sha256) {
      insert.bind(ByteView(*facts.payload_sha256));
    } else {
      insert.bind_null();
    }
    insert.bind(ByteView(record.prev)).bind(ByteView(record.hash));
    TRY(insert.run());
  }
  tip_ = {record.seq, record.hash};
  if (record.seq % kCheckpointEvery == 0) TRY(checkpoint(facts.time_ms));
  return record;
}

Result<Checkpoint> Chain::checkpoint(std::int64_t now_ms) {
  const Checkpoint signed_now = sign_checkpoint(key_, tip_.seq, tip_.hash, now_ms);
  if (tip_.seq == 0) return signed_now;  // nothing to keep, but a true statement
  TRY(Statement insert,
      database_.prepare("INSERT OR REPLACE INTO checkpoints(seq, time_ms, hash, signature) VALUES(?,?,?,?)"));
  insert.bind(static_cast<std::int64_t>(signed_now.seq))
      .bind(signed_now.time_ms)
      .bind(ByteView(signed_now.hash))
      .bind(ByteView(signed_now.signature));
  TRY(insert.run());
  return signed_now;
}

// ---- reading ----

Record read_record(const Statement& row) {
  Record record;
  Entry& entry = record.entry;
  record.seq = static_cast<std::uint64_t>(row.integer(0));
  entry.time_ms = row.integer(1);
  entry.durability = static_cast<Durability>(row.integer(2));
  entry.stage = static_cast<Stage>(row.integer(3));
  entry.principal = row.text(4);
  entry.peer_pid = row.integer(5);
  entry.session = row.text(6);
  entry.request_id = row.text(7);
  entry.method = row.text(8);
  entry.code = row.text(9);
  entry.rule = row.text(10);
  entry.payload_bytes = static_cast<std::uint64_t>(row.integer(11));
  if (!row.is_null(12)) copy_blob(row.blob(12), entry.payload_sha256.emplace());
  copy_blob(row.blob(13), record.prev);
  copy_blob(row.blob(14), record.hash);
  return record;
}

Result<Tip> read_tip(Database& database) {
  TRY(Statement select, database.prepare("SELECT seq, hash FROM audit ORDER BY seq DESC LIMIT 1"));
  Tip tip;
  TRY(const bool has_row, select.step());
  if (has_row) {
    tip.seq = static_cast<std::uint64_t>(select.integer(0));
    copy_blob(select.blob(1), tip.hash);
  }
  return tip;
}

Result<std::vector<Record>> read_records(Database& database, std::uint64_t after, std::int64_t limit) {
  TRY(Statement select,
      database.prepare("SELECT " SALLYPORT_RECORD_COLUMNS " FROM audit WHERE seq > ? ORDER BY seq LIMIT ?"));
  select.bind(static_cast<std::int64_t>(after)).bind(limit);
  std::vector<Record> records;
  for (;;) {
    TRY(const bool has_row, select.step());
    if (!has_row) return records;
    records.push_back(read_record(select));
  }
}

Result<std::optional<Digest>> read_hash(Database& database, std::uint64_t seq) {
  TRY(Statement select, database.prepare("SELECT hash FROM audit WHERE seq = ?"));
  select.bind(static_cast<std::int64_t>(seq));
  std::optional<Digest> hash;
  TRY(const bool has_row, select.step());
  if (has_row) copy_blob(select.blob(0), hash.emplace());
  return hash;
}

Result<std::vector<Checkpoint>> read_checkpoints(Database& database, std::uint64_t after, std::int64_t limit) {
  TRY(Statement select, database.prepare("SELECT seq, time_ms, hash, signature FROM checkpoints"
                                         " WHERE seq > ? ORDER BY seq LIMIT ?"));
  select.bind(static_cast<std::int64_t>(after)).bind(limit);
  std::vector<Checkpoint> checkpoints;
  for (;;) {
    TRY(const bool has_row, select.step());
    if (!has_row) return checkpoints;
    Checkpoint& checkpoint = checkpoints.emplace_back();
    checkpoint.seq = static_cast<std::uint64_t>(select.integer(0));
    checkpoint.time_ms = select.integer(1);
    copy_blob(select.blob(2), checkpoint.hash);
    copy_blob(select.blob(3), checkpoint.signature);
  }
}

Result<std::optional<std::string>> read_meta(Database& database, std::string_view name) {
  TRY(Statement select, database.prepare("SELECT value FROM meta WHERE name = ?"));
  select.bind(name);
  std::optional<std::string> value;
  TRY(const bool has_row, select.step());
  if (has_row) value = select.text(0);
  return value;
}

Status write_meta(Database& database, std::string_view name, std::string_view value) {
  TRY(Statement insert, database.prepare("INSERT OR REPLACE INTO meta(name, value) VALUES(?,?)"));
  return insert.bind(name).bind(value).run();
}

}  // namespace sallyport::ledger
