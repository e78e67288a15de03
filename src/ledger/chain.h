// The audit chain as rows of the database: appending, reading, checkpoints.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/base.h"
#include "ledger/checkpoint.h"
#include "ledger/database.h"
#include "ledger/record.h"
#include "ledger/signing.h"

namespace sallyport::ledger {

// Where the chain ends.
struct Tip {
  std::uint64_t seq = 0;  // 0: it is empty
  Digest hash{};
};

// Writes the chain. Every call must be inside a transaction of the database.
class Chain {
 public:
  Chain(Database& database, const SigningKey& key) : database_(database), key_(key) {}

  // Reads the end of the chain. CONFLICT if the last record does not match its own hash.
  Status load();

  // Adds a record of an entry that is normalised; after every kCheckpointEvery-th a checkpoint too.
  Result<Record> append(Entry entry);
  // Signs the present end, and keeps it.
  Result<Checkpoint> checkpoint(std::int64_t now_ms);

  const Tip& tip() const { return tip_; }
  void restore(const Tip& tip) { tip_ = tip; }  // after a rollback

 private:
  Database& database_;
  const SigningKey& key_;
  Tip tip_;
};

// Creates what is absent; CONFLICT if the database was made by a newer version.
Status create_tables(Database& database);

// ---- reading; any connection will do ----

// The columns of a record, for a SELECT whose rows read_record() takes.
#define SALLYPORT_RECORD_COLUMNS                                                        \
  "seq, time_ms, class, stage, principal, peer, session, request, method, code, rule, " \
  "payload_bytes, payload_sha256, prev, hash"
Record read_record(const Statement& row);

Result<Tip> read_tip(Database& database);
// At most `limit` records behind `after`, in order.
Result<std::vector<Record>> read_records(Database& database, std::uint64_t after, std::int64_t limit);
Result<std::optional<Digest>> read_hash(Database& database, std::uint64_t seq);
// At most `limit` checkpoints behind `after`, in order. Their key is the ledger's.
Result<std::vector<Checkpoint>> read_checkpoints(Database& database, std::uint64_t after, std::int64_t limit);

// Small facts about the ledger itself.
Result<std::optional<std::string>> read_meta(Database& database, std::string_view name);
Status write_meta(Database& database, std::string_view name, std::string_view value);
inline constexpr std::string_view kMetaKey = "public_key";     // hexadecimal
inline constexpr std::string_view kMetaExported = "exported";  // files are on the disk up to this record

}  // namespace sallyport::ledger
