#include "ledger/ledger.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <climits>
#include <csignal>

#include "ledger/layout.h"
#include "os/files.h"

namespace sallyport::ledger {
namespace {

// What every submission runs is compiled once.
Status run_prepared(Database& database, const char* sql) {
  TRY(Statement statement, database.prepare(sql));
  return statement.run();
}

Result<SigningKey> open_key(const std::string& path, Database& database) {
  TRY(const auto known, read_meta(database, kMetaKey));
  auto key = SigningKey::load(path);
  if (!key && key.error().code == Code::not_found && !known) {
    key = SigningKey::generate();
    TRY(key->save(path));
  }
  if (!key && key.error().code == Code::not_found) {
    return Error::make(Code::conflict, path + " is missing; restore it, or move ledger.db and audit/ away with it");
  }
  if (!key) return key;
  const std::string name = to_hex(key->public_key());
  if (!known) TRY(write_meta(database, kMetaKey, name));
  if (known && *known != name) return Error::make(Code::conflict, path + " is not the key of this ledger");
  return key;
}

Error not_written(const Error& why) {
  Error error = Error::make(Code::unavailable, "the audit log cannot be written; nothing was done", why.detail);
  error.retryable = true;
  return error;
}

}  // namespace

Status Transaction::record(Entry entry) {
  if (entry.time_ms == 0) entry.time_ms = now_ms_;
  normalise(entry);
  TRY(Record record, chain_.append(std::move(entry)));
  records_.push_back(std::move(record));
  return ok();
}

// ---- opening and closing ----

Result<std::unique_ptr<Ledger>> Ledger::open(const Options& options) {
  TRY(const UniqueFd directory, os::open_private_directory(options.state_dir));
  auto lock = os::lock_file(directory.get(), kLockName);
  if (!lock && lock.error().code == Code::conflict) {
    const auto place = os::read_private_file(options.state_dir + "/" + kLockName, PATH_MAX);
    return Error::make(
        Code::conflict,
        "another warden works with " + options.state_dir +
            (place && !place->empty() ? "; its sockets are in " + *place + " (set SALLYPORT_RUNTIME_DIR to reach it)"
                                      : ""),
        place ? *place : "");
  }
  TRY(UniqueFd held, std::move(lock));
  // For who comes second; the lock itself needs no words, and a full disk is told by what needs room.
  [[maybe_unused]] const bool is_told =
      ::ftruncate(held.get(), 0) == 0 && ::pwrite(held.get(), options.place.data(), options.place.size(), 0) >= 0;
  TRY(auto database, Database::open(database_path(options.state_dir), Database::Access::write, options.vfs));
  TRY(create_tables(*database));
  TRY(SigningKey key, open_key(key_path(options.state_dir), *database));
  std::unique_ptr<Ledger> ledger(new Ledger(options, std::move(held), std::move(database), key));
  TRY(ledger->chain_.load());
  TRY(ledger->rates_.load(*ledger->database_));
  TRY(ledger->quotas_.load(*ledger->database_));
  TRY(ledger->exporter_,
      Exporter::open(audit_directory(options.state_dir), *ledger->database_, options.export_file_bytes));
  if (const std::uint64_t known = ledger->exporter_->ahead_of_ledger(); known != 0) {
    return Error::make(
        Code::conflict,
        "the audit files hold record " + std::to_string(known) + ", but the ledger ends at record " +
            std::to_string(ledger->chain_.tip().seq) +
            ": it was emptied or put back; restore ledger.db with its -wal, or move ledger.db, audit/ and "
            "audit.key away together, keep them, and start anew");
  }
  ledger->exported_on_disk_ = ledger->exporter_->synced();
  ledger->health_.last_seq = ledger->chain_.tip().seq;
  ledger->health_.exported_seq = ledger->exporter_->exported();
  ledger->health_.error = ledger->exporter_->tampering();
  return ledger;
}

Ledger::Ledger(const Options& options, UniqueFd lock, std::unique_ptr<Database> database, const SigningKey& key)
    : state_dir_(options.state_dir),
      clock_(options.clock),
      lock_(std::move(lock)),
      database_(std::move(database)),
      key_(key),
      chain_(*database_, key_),
      reserve_(reserve_path(options.state_dir)),
      rates_(*this, clock_),
      quotas_(*this, clock_) {}

Ledger::~Ledger() { [[maybe_unused]] const Status closed = close(); }

void Ledger::start(Post post) {
  post_ = std::move(post);
  // An opening without a closing before it is a crash that everybody can see.
  queue_->push({.durability = Durability::buffered, .entries = {note("ledger.open", "")}});
  // Signals belong to the loop's thread: this one would hold up whatever is delivered to it.
  sigset_t all, before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  thread_ = std::thread([this] { run(); });
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

Status Ledger::close() {
  if (!thread_.joinable()) return ok();
  queue_->push({.durability = Durability::buffered, .entries = {note("ledger.close", "")}});
  queue_->close();
  thread_.join();
  is_over_ = true;
  const Health last = health();
  if (!last.is_writable) return Error::make(Code::unavailable, "the end of the audit log was lost", last.error);
  return ok();
}

Entry Ledger::note(std::string method, std::string rule) const {
  Entry entry;
  entry.time_ms = clock_.unix_millis();
  entry.principal = "warden";
  entry.method = std::move(method);
  entry.rule = std::move(rule);
  return entry;
}

// ---- from any thread ----

Status Ledger::append(EntryView entry) {
  if (entry.time_ms == 0) entry.time_ms = clock_.unix_millis();
  if (queue_->push(entry)) return ok();
  const std::lock_guard lock(mutex_);
  ++health_.dropped;
  return not_written(Error::make(Code::unavailable, "", "the backlog is full"));
}

void Ledger::submit(Submission submission) {
  if (is_over_) {
    if (submission.done) submission.done(not_written(Error::make(Code::unavailable, "", "the ledger is closed")));
    return;
  }
  for (Entry& entry : submission.entries) {
    if (entry.time_ms == 0) entry.time_ms = clock_.unix_millis();
    entry.durability = submission.durability;
  }
  const Done done = submission.durability == Durability::buffered ? submission.done : nullptr;
  if (queue_->push(std::move(submission))) return;
  {
    const std::lock_guard lock(mutex_);
    ++health_.dropped;
  }
  if (done) post_([done] { done(not_written(Error::make(Code::unavailable, "", "the backlog is full"))); });
}

void Ledger::read(Reading reading) {
  if (!is_over_) return queue_->push(std::move(reading));
  if (reading.done) reading.done(Error::make(Code::unavailable, "the warden is stopping", "the ledger is closed"));
}

Health Ledger::health() const {
  const std::size_t backlog = queue_->size();
  const std::lock_guard lock(mutex_);
  Health health = health_;
  health.backlog = backlog;
  if (health.error.empty()) health.error = damage_;
  return health;
}

void Ledger::note_damage(std::string what) {
  const std::lock_guard lock(mutex_);
  damage_ = std::move(what);
}

// ---- the writer thread ----

void Ledger::run() {
  for (;;) {
    Queue::Batch batch = queue_->take(sync_at_);
    is_closing_ = batch.is_closing;
    may_use_reserve_ = batch.is_closing || batch.may_use_reserve;
    if (!batch.submissions.empty()) commit(std::move(batch.submissions));
    for (Reading& reading : batch.readings) {
      reading.work(*database_);
      database_->take_fault();  // of what was read; no transaction is in doubt for it
      if (reading.done) post_([done = std::move(reading.done)] { done(ok()); });
    }
    if (batch.is_last) return finish();
    if (sync_at_ && *sync_at_ <= std::chrono::steady_clock::now()) {
      sync_export(false);
      if (!health().is_writable) try_again();
    }
    if (database_->log_pages() > kFoldAfterPages) database_->fold_log();
  }
}

void Ledger::commit(std::vector<Submission> group) {
  std::uint64_t dropped = 0;
  {
    const std::lock_guard lock(mutex_);
    dropped = health_.dropped;
  }
  if (dropped != dropped_noted_) {
    const std::string count = std::to_string(dropped - std::exchange(dropped_noted_, dropped));
    group.push_back({.durability = Durability::buffered, .entries = {note("ledger.dropped", "count=" + count)}});
  }
  if (may_use_reserve_) reserve_.give_up_if_short();
  std::vector<Status> results(group.size());
  std::vector<Record> records;
  records.reserve(group.size());
  const Tip before = chain_.tip();
  const Status written = write(group, results, records);
  if (written) {
    export_records(records);
    if (!may_use_reserve_) reserve_.refill();
  } else {
    if (database_->is_in_transaction()) {
      [[maybe_unused]] const Status undone = database_->execute("ROLLBACK");
    }
    // The database knows best where the chain ends now.
    const auto tip = read_tip(*database_);
    chain_.restore(tip ? *tip : before);
    database_->take_fault();
  }
  {
    const std::lock_guard lock(mutex_);
    health_.is_writable = written.has_value();
    health_.last_seq = chain_.tip().seq;
    if (!written) {
      ++health_.failures;
      health_.error = written.error().describe();
    } else if (exporter_->exported() == chain_.tip().seq) {
      health_.error = exporter_->tampering();
    }
  }
  if (!written && !sync_at_) sync_at_ = std::chrono::steady_clock::now() + kExportSyncDelay;
  settle(std::move(group), std::move(results), written);
}

// Whether the disk works again, if nobody else writes anything: health() must not say otherwise for ever.
void Ledger::try_again() {
  std::vector<Submission> nothing;
  nothing.push_back({.work = [synced = exporter_->synced()](Transaction& transaction) {
    return write_meta(transaction.database(), kMetaExported, std::to_string(synced));
  }});
  commit(std::move(nothing));
}

Status Ledger::write(std::vector<Submission>& group, std::vector<Status>& results, std::vector<Record>& records) {
  TRY(run_prepared(*database_, "BEGIN IMMEDIATE"));
  if (exporter_->synced() != exported_on_disk_) {
    TRY(write_meta(*database_, kMetaExported, std::to_string(exporter_->synced())));
  }
  for (std::size_t i = 0; i < group.size(); ++i) {
    TRY(results[i], write_one(group[i], records));
  }
  TRY(run_prepared(*database_, "COMMIT"));
  exported_on_disk_ = exporter_->synced();
  return ok();
}

// The inner status is the submission's own affair; an error is the whole transaction's.
Result<Status> Ledger::write_one(Submission& submission, std::vector<Record>& records) {
  Transaction transaction(*database_, chain_, records, clock_.unix_millis());
  if (submission.work) {
    const Tip before = chain_.tip();
    const std::size_t recorded = records.size();
    const std::int64_t changes = database_->all_changes();
    if (!submission.fails_clean) TRY(run_prepared(*database_, "SAVEPOINT one"));
    Status worked = submission.work(transaction);
    if (database_->take_fault() || !database_->is_in_transaction()) {
      return worked ? Error::make(Code::unavailable, "the ledger failed") : std::move(worked).error();
    }
    if (!worked && submission.fails_clean) {
      if (database_->all_changes() == changes) return Result<Status>(std::move(worked));
      return Error::make(Code::internal_error, "the ledger failed", "a work that failed had changed something");
    }
    if (!worked) {
      TRY(database_->execute("ROLLBACK TO one; RELEASE one"));
      chain_.restore(before);
      records.resize(recorded);
      return Result<Status>(std::move(worked));
    }
    if (!submission.fails_clean) TRY(run_prepared(*database_, "RELEASE one"));
  }
  for (Entry& entry : submission.entries) {
    normalise(entry);
    // What is buffered is written again if this transaction fails.
    const bool is_kept = submission.durability == Durability::buffered;
    TRY(Record record, chain_.append(is_kept ? entry : std::move(entry)));
    records.push_back(std::move(record));
  }
  TRY(submission.packed.for_each([&](EntryView packed) -> Status {
    hash_payload(packed);
    return transaction.record(to_entry(packed));
  }));
  return Result<Status>(ok());
}

void Ledger::settle(std::vector<Submission> group, std::vector<Status> results, const Status& written) {
  std::vector<Completion> completions;
  std::vector<Submission> kept;
  std::vector<std::size_t> later;
  for (std::size_t i = 0; i < group.size(); ++i) {
    const bool is_kept = !written && group[i].durability == Durability::buffered && !is_closing_;
    if (is_kept) {
      kept.push_back(std::move(group[i]));
    } else if (group[i].on_disk && written && results[i]) {
      later.push_back(i);
    } else if (group[i].done) {
      completions.push_back({std::move(group[i].done), written ? std::move(results[i]) : not_written(written.error())});
    }
  }
  if (!kept.empty()) queue_->put_back(std::move(kept));
  if (!written) {
    for (Submission& submission : queue_->take_durable()) {
      if (submission.done) completions.push_back({std::move(submission.done), not_written(written.error())});
    }
  }
  // Those first that nothing more is to be done about: they need not wait for the others.
  complete(std::move(completions));
  completions.clear();
  for (const std::size_t i : later) {
    group[i].on_disk();
    if (group[i].done) completions.push_back({std::move(group[i].done), ok()});
  }
  complete(std::move(completions));
}

void Ledger::complete(std::vector<Completion> completions) {
  if (completions.empty()) return;
  post_([shared = std::make_shared<std::vector<Completion>>(std::move(completions)), queue = queue_] {
    // What they lead to goes into few commits again, but the writer is not kept waiting for all of it.
    std::optional<Hold> together;
    for (std::size_t i = 0; i < shared->size(); ++i) {
      if (i % kTogether == 0) together.reset();
      if (!together) together.emplace(queue);
      Completion& completion = shared->at(i);
      completion.done(std::move(completion.status));
    }
  });
}

void Ledger::export_records(const std::vector<Record>& records) {
  const Status exported = exporter_->follow(*database_, records);
  if (exporter_->exported() != exporter_->synced() && !sync_at_) {
    sync_at_ = std::chrono::steady_clock::now() + kExportSyncDelay;
  }
  const std::lock_guard lock(mutex_);
  health_.exported_seq = exporter_->exported();
  if (!exported) health_.error = exported.error().describe();
}

// The files reach the disk a little later than the ledger. What is known to be there is noted with the
// next commit, or by one of its own if none comes.
void Ledger::sync_export(bool is_last) {
  sync_at_.reset();
  const Status synced = exporter_->sync();
  if (!synced) {
    sync_at_ = std::chrono::steady_clock::now() + kExportSyncDelay;
  } else if (exporter_->synced() != exported_on_disk_ && (is_last || queue_->size() == 0)) {
    commit({});
  }
}

void Ledger::finish() {
  if (chain_.tip().seq != 0) {
    const auto sign_end = [](Transaction& transaction) -> Status {
      TRY(transaction.checkpoint());
      return ok();
    };
    std::vector<Submission> last;
    last.push_back({.durability = Durability::durable, .work = sign_end});
    commit(std::move(last));
  }
  sync_export(true);
  database_->fold_log();
}

}  // namespace sallyport::ledger
