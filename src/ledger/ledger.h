// The ledger: audit chain, journal, rates and quotas in one database with one writer.
//
// Everything that is written goes through one queue to one thread, which commits what has gathered in one
// transaction with one fsync (group commit). Promises:
//  - the order of submission is the order in the chain;
//  - a submission is written whole or not at all, its audit entries with it;
//  - `done` with success means: it is on the disk, and its lines are in the exported files unless
//    health() says that those are behind;
//  - an error means that it was not acknowledged; nothing may be done on the strength of it. (After a
//    failed fsync followed by a crash it may still be found written.)
//  - some room on the disk is kept back for submissions that may use it and for the end: see ledger/reserve.h;
//  - what is buffered waits at most kBufferedDelay for its commit; while the disk cannot be written it
//    is kept, in order, up to kMaxBacklog.
// Everything but rates() and quotas() may be called from any thread; those two belong to one.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/base.h"
#include "ledger/chain.h"
#include "ledger/database.h"
#include "ledger/exporter.h"
#include "ledger/limits.h"
#include "ledger/queue.h"
#include "ledger/quotas.h"
#include "ledger/rates.h"
#include "ledger/reserve.h"
#include "ledger/signing.h"

namespace sallyport::ledger {

// An open transaction, as a Work sees it.
class Transaction {
 public:
  Transaction(Database& database, Chain& chain, std::vector<Record>& records, std::int64_t now_ms)
      : database_(database), chain_(chain), records_(records), now_ms_(now_ms) {}

  Database& database() { return database_; }
  std::int64_t now_ms() const { return now_ms_; }
  Status record(Entry entry);
  // Of everything recorded so far, this transaction included.
  Result<Checkpoint> checkpoint() { return chain_.checkpoint(now_ms_); }

 private:
  Database& database_;
  Chain& chain_;
  std::vector<Record>& records_;
  std::int64_t now_ms_;
};

struct Health {
  bool is_writable = true;
  std::uint64_t last_seq = 0;      // on the disk
  std::uint64_t exported_seq = 0;  // in the files
  std::size_t backlog = 0;         // submitted, not yet written
  std::uint64_t failures = 0;      // commits that failed
  std::uint64_t dropped = 0;       // buffered entries that found no room
  std::string error;               // what is wrong now; empty when all is well

  bool is_good() const { return error.empty(); }
};

class Ledger {
 public:
  struct Options {
    std::string state_dir;
    const Clock& clock;
    std::uint64_t export_file_bytes = kExportFileBytes;
    std::string vfs = {};    // another SQLite VFS, for tests
    std::string place = {};  // where its owner is reached, for who finds it taken
  };

  // Opens or creates the ledger of a state directory (0700; all files 0600). CONFLICT if another process
  // has it open, if its signing key is missing, or if the end of the chain was changed.
  static Result<std::unique_ptr<Ledger>> open(const Options& options);
  ~Ledger();
  Ledger(const Ledger&) = delete;
  Ledger& operator=(const Ledger&) = delete;

  // Starts the writer. `post` takes the completions to the thread that wants them; it is called on the
  // writer thread. Before this, submissions only gather.
  using Post = std::function<void(std::function<void()>)>;
  void start(Post post);
  // Writes what has gathered, signs the end, stops; what is submitted or read later is refused at once, on the
  // caller's thread. The destructor does it too, and cannot tell.
  Status close();

  // A buffered entry. UNAVAILABLE if there is no room for it, because the disk has been failing for long.
  Status append(EntryView entry);
  void submit(Submission submission);
  void read(Reading reading);
  // What is submitted while this lives is written together. It must not live longer than it takes to submit it.
  class Hold {
   public:
    explicit Hold(std::shared_ptr<Queue> queue) : queue_(std::move(queue)) { queue_->hold(); }
    ~Hold() { queue_->release(); }
    Hold(const Hold&) = delete;
    Hold& operator=(const Hold&) = delete;

   private:
    std::shared_ptr<Queue> queue_;
  };
  Hold hold() { return Hold(queue_); }

  Rates& rates() { return rates_; }
  Quotas& quotas() { return quotas_; }

  Health health() const;
  // Somebody has looked and found that what was written is not what is there: health() says so from now on.
  void note_damage(std::string what);
  const PublicKey& public_key() const { return key_.public_key(); }
  const std::string& state_dir() const { return state_dir_; }

 private:
  Ledger(const Options& options, UniqueFd lock, std::unique_ptr<Database> database, const SigningKey& key);

  void run();
  void commit(std::vector<Submission> group);
  Status write(std::vector<Submission>& group, std::vector<Status>& results, std::vector<Record>& records);
  Result<Status> write_one(Submission& submission, std::vector<Record>& records);
  void settle(std::vector<Submission> group, std::vector<Status> results, const Status& written);
  struct Completion {
    Done done;
    Status status;
  };
  void complete(std::vector<Completion> completions);
  void export_records(const std::vector<Record>& records);
  void sync_export(bool is_last);
  void try_again();
  void finish();
  Entry note(std::string method, std::string rule) const;

  std::string state_dir_;
  const Clock& clock_;
  UniqueFd lock_;
  std::unique_ptr<Database> database_;
  SigningKey key_;
  Chain chain_;
  std::optional<Exporter> exporter_;
  Reserve reserve_;
  Rates rates_;
  Quotas quotas_;
  std::shared_ptr<Queue> queue_ = std::make_shared<Queue>();  // completions outlive the ledger
  Post post_;
  std::thread thread_;
  std::atomic<bool> is_over_{false};

  // Of the writer thread.
  std::uint64_t exported_on_disk_ = 0;  // what the database says about it
  std::optional<SteadyTime> sync_at_;
  std::uint64_t dropped_noted_ = 0;  // of health_.dropped, those that the chain knows of
  bool is_closing_ = false;
  bool may_use_reserve_ = false;  // this commit

  mutable std::mutex mutex_;  // guards health_ and damage_
  Health health_;
  std::string damage_;
};

}  // namespace sallyport::ledger
