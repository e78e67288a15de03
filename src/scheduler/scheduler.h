// Runs what was scheduled, each at its time, in a fresh container of the profile of whoever asked for it: the
// profile's `agent` command with the prompt on its stdin.
//
// Promises:
//  - a task is on the disk before anybody is told of it, and that a run begins before it begins;
//  - a run is begun at most once: one that the warden's end cut short is recorded as lost, not repeated;
//  - what was due while no warden ran, or while others had the slots, runs once, late, and says how late;
//  - a run that is still going when the next is due makes that one skipped, which is recorded;
//  - a clock set forward makes what is due then due now, once; one set back by more than kClockPatience makes
//    periodic tasks look for their next time anew.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "base/base.h"
#include "base/task.h"
#include "calendar/schedule.h"
#include "containers/registry.h"
#include "ipc/loop.h"
#include "ledger/ledger.h"
#include "policy/profile.h"
#include "scheduler/output_router.h"
#include "scheduler/tasks.h"

namespace sallyport::scheduler {

inline constexpr Millis kClockPatience{60 * 60 * 1000};
inline constexpr Millis kLateAfter{60 * 1000};  // the granularity of cron: less is not worth a word
inline constexpr std::size_t kMaxPromptBytes = 32U << 10;

struct Limits {
  calendar::Zone zone;
  std::size_t max_tasks = 256;           // waiting or running
  std::size_t max_tasks_per_owner = 32;  // of these
  std::size_t max_running = 4;
  Millis max_run{60 * 60 * 1000};
};

struct NewTask {
  std::string key, name, schedule, prompt;
  bool runs_now = false;  // once, as soon as there is room; the schedule is left empty
};

class Scheduler {
 public:
  using Container = containers::Container;
  struct Parts {
    ipc::Loop& loop;
    ledger::Ledger& ledger;
    containers::Registry& registry;
    const policy::Profiles& profiles;
    OutputRouter& output;
    const Clock& clock;
    const Log& log;
    // Makes a container, as container.create does.
    std::function<Task<Result<std::shared_ptr<Container>>>(containers::Config)> launch;
    // Of a run that ended long ago: removes it, once nothing of it is left to answer.
    std::function<void(const std::string& container)> forget;
    Publish publish;
  };
  explicit Scheduler(Parts parts) : parts_(std::move(parts)), reference_(read_clocks()) {}
  Scheduler(const Scheduler&) = delete;
  Scheduler& operator=(const Scheduler&) = delete;

  // Reads what earlier wardens left, again and again while the ledger cannot be written and nobody closes; from then on
  // tasks run. add() may be called before: the ledger keeps the order.
  Task<Status> open();
  // No run begins any more, and nobody waits for those under way.
  void close();
  // In another zone periodic tasks look for their next time anew.
  void set_limits(Limits limits);

  // The same key again: the task as it is. INVALID_PARAMS for a schedule that is none or lies more than a day in
  // the past (one that passed while the request was reviewed runs at once);
  // CONFLICT for a profile without an agent and for a name that its owner has used; QUOTA_EXCEEDED.
  Task<Result<ScheduledTask>> add(const Container& sender, NewTask wanted);
  // Whether add() would take it now, as far as that can be known without trying: the same errors.
  Status check(const Container& sender, const NewTask& wanted) const;
  // A run under way is stopped.
  Task<Status> remove(std::string id, std::string principal);

  // The oldest first; until something is added or removed.
  std::vector<const ScheduledTask*> all() const;
  // Looks at the clock and begins what is due. Called by a timer of its own, and by tests.
  void tick();

 private:
  struct Slot {
    ScheduledTask task;
    std::optional<ScheduledTask> recorded;  // what is told of it while its outcome is being written
    bool is_busy = false;                   // a run, or a write about it, is under way
    bool is_removed = false;                // meanwhile
    std::shared_ptr<Container> container;
    std::shared_ptr<ipc::OneShot<bool>> over;  // true: it ended; false: nobody waits any more
  };
  struct Clocks {
    std::int64_t wall_ms = 0;
    SteadyTime steady;
  };
  struct Outcome {
    std::string word;  // "done", "failed", "timeout"
    std::string error;
    std::shared_ptr<Container> container;
    OutputRouter::Routed routed;
  };

  Clocks read_clocks() const { return {parts_.clock.unix_millis(), parts_.clock.steady()}; }
  Status check_agent(const std::string& profile) const;
  Result<std::int64_t> first_run(const NewTask& wanted) const;
  void notice_jumps();
  void look_anew(std::int64_t now_ms);
  void arm();
  Fire forget_old();
  Fire skip(std::shared_ptr<Slot> slot, std::int64_t now);
  Fire run(std::shared_ptr<Slot> slot, std::int64_t now);
  Task<Outcome> execute(std::shared_ptr<Slot> slot);
  Task<bool> may_try_again(Code code);
  Task<Status> record_outcome(std::shared_ptr<Slot> slot, ledger::Entry entry);
  Task<Status> save(const ScheduledTask& task, ledger::Entry entry);
  void finish(const std::shared_ptr<Slot>& slot, const Outcome& outcome, std::int64_t late_ms);
  std::optional<std::int64_t> next_run(const ScheduledTask& task, std::int64_t after_ms) const;
  void forget_containers(const std::string& newest);

  Parts parts_;
  Limits limits_;
  std::map<std::string, std::shared_ptr<Slot>> slots_;
  std::size_t running_ = 0;
  std::vector<std::string> ended_containers_;  // of runs, oldest first
  Clocks reference_;
  ipc::Loop::TimerId timer_ = 0;
  bool is_open_ = false, is_closed_ = false;
};

}  // namespace sallyport::scheduler
