// What is submitted to the ledger, in order, until the writer thread takes it.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <vector>

#include "base/base.h"
#include "ledger/database.h"
#include "ledger/packed.h"
#include "ledger/record.h"

namespace sallyport::ledger {

class Transaction;

// Runs on the writer thread, inside the transaction. An error undoes what it did, and nothing else.
using Work = std::function<Status(Transaction&)>;
// Runs where Ledger::start() said, after the commit or its failure.
using Done = std::function<void(Status)>;

// What is written together or not at all: the work first, then the entries.
struct Submission {
  Durability durability = Durability::durable;
  Work work = {};
  std::vector<Entry> entries = {};
  PackedEntries packed = {};  // by the queue: of what was pushed entry by entry; then there is nothing else
  Done done = {};
  // Runs on the writer thread once it is on the disk, before `done`: for what only waits for that. Keep it short.
  std::function<void()> on_disk = {};
  // It may have the room that is kept back: see ledger/reserve.h.
  bool may_use_reserve = false;
  // The work has changed nothing when it fails: nothing need be kept to undo it with.
  bool fails_clean = false;
};

// Looks at the database on the writer thread, between two commits: keep it short. Done with UNAVAILABLE: nobody
// looked, for the ledger is closed.
struct Reading {
  std::function<void(Database&)> work;
  Done done;
};

// Decides when the writer has something to do. Thread-safe.
class Queue {
 public:
  // False: it is full (see kMaxBacklog), and only for what is buffered.
  bool push(Submission&& submission);
  bool push(EntryView entry);  // buffered
  void push(Reading reading);

  struct Batch {
    std::vector<Submission> submissions;  // in order; kMaxGroup items at most, each a submission or an entry
    std::vector<Reading> readings;
    bool is_closing = false;       // close() was called
    bool is_last = false;          // and nothing else is queued
    bool may_use_reserve = false;  // something may, that is here or still queued
  };
  // Waits until something durable or a reading is there, something buffered has waited kBufferedDelay,
  // or `until` has come.
  Batch take(std::optional<SteadyTime> until);
  // Puts what could not be written back in front. It is due again after kRetryDelay, or with whatever
  // durable comes.
  void put_back(std::vector<Submission> submissions);
  // All that is durable and was there when the last batch was taken: who waits for it must not wait behind what could
  // not be written.
  std::vector<Submission> take_durable();
  void close();  // take() hands out what is left without waiting

  // While it is held nothing is taken: what comes meanwhile is taken together, with one wake-up. Only for a moment.
  void hold();
  void release();

  std::size_t size() const;

 private:
  static std::size_t items_of(const Submission& submission);
  bool is_urgent() const;
  bool wake_later();
  bool has_much_payload() const;
  void add(const Submission& submission);     // to what is counted of submissions_
  void remove(const Submission& submission);  // from it

  mutable std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<Submission> submissions_;
  std::deque<Reading> readings_;
  std::size_t items_ = 0, durable_ = 0;  // of submissions_
  std::size_t payload_bytes_ = 0;        // still to be hashed
  std::size_t waiting_ = 0;              // of submissions_, those that are no newer than the last batch
  SteadyTime due_;                       // when submissions_ is not empty
  bool is_stuck_ = false;                // the last attempt failed: do not hurry for what is buffered
  bool is_closed_ = false;
  std::size_t holds_ = 0;
  bool must_wake_ = false;  // when nobody holds it any more
};

}  // namespace sallyport::ledger
