#include "scheduler/scheduler.h"

#include <sys/wait.h>

#include <algorithm>
#include <utility>

#include "base/fault_point.h"
#include "base/random.h"
#include "scheduler/commit.h"

namespace sallyport::scheduler {
namespace {

constexpr Millis kLongestSleep{30'000};  // the wall clock may be set at any time; nobody tells us
constexpr Millis kStopGrace{5'000};
constexpr Millis kRetryAfter{500};  // before what the ledger could not take is tried again
// A finished task is remembered, so that a request that is tried again after a crash finds it.
constexpr std::int64_t kRememberMs = 24LL * 60 * 60 * 1000;
constexpr std::int64_t kLatestStartMs = kRememberMs;  // as long as a human has to answer
constexpr std::size_t kKeptContainers = 32;  // of runs that ended: for their logs and what is in their mailboxes
constexpr const char* kTaskLabel = "sallyport.task";

ledger::Entry entry_of(const ScheduledTask& task, const char* method, std::string rule) {
  ledger::Entry entry;
  entry.durability = ledger::Durability::durable;
  entry.stage = ledger::Stage::event;
  entry.principal = "container/" + task.sender;
  entry.request_id = task.id;
  entry.method = method;
  entry.rule = std::move(rule);
  return entry;
}

std::string describe_json(const ScheduledTask& task) {
  return wire::to_json([&](wire::JsonWriter& json) {
    json.begin_object();
    describe(json, task);
    json.end_object();
  });
}

bool is_active(const ScheduledTask& task) { return task.next_ms != 0 || task.started_ms != 0; }

// What the clock says, or what it said before it was set back a little.
std::int64_t not_before(std::int64_t earlier_ms, std::int64_t now_ms) {
  return earlier_ms - now_ms < kClockPatience.count() ? std::max(earlier_ms, now_ms) : now_ms;
}

constexpr const char* kInThePast = "the schedule lies in the past";

Status check_room(const std::vector<const ScheduledTask*>& others, const std::string& owner, const std::string& name,
                  const Limits& limits) {
  std::size_t active = 0, of_owner = 0;
  for (const ScheduledTask* other : others) {
    if (!is_active(*other)) continue;
    ++active;
    if (other->owner != owner) continue;
    ++of_owner;
    if (!name.empty() && other->name == name) {
      return Error::make(Code::conflict, "a periodic agent of this name is there already");
    }
  }
  if (active < limits.max_tasks && of_owner < limits.max_tasks_per_owner) return ok();
  return Error::make(Code::quota_exceeded, "too many tasks are scheduled",
                     std::to_string(active) + " in all, " + std::to_string(of_owner) + " of " + owner);
}

// Runs inside the transaction that adds a task: `task` becomes the one that is there already.
Status insert_once(ledger::Transaction& transaction, ScheduledTask& task, bool& is_new, const Limits& limits) {
  TRY(auto existing, find_task_by_key(transaction.database(), task.key));
  is_new = !existing;
  if (existing) {
    task = std::move(*existing);
    return ok();
  }
  if (task.next_ms == 0) return Error::make(Code::invalid_params, kInThePast);
  TRY(const auto tasks, read_tasks(transaction.database()));
  std::vector<const ScheduledTask*> others;
  for (const ScheduledTask& other : tasks) others.push_back(&other);
  TRY(check_room(others, task.owner, task.name, limits));
  return write_task(transaction, task, entry_of(task, "schedule.add", "schedule=" + task.schedule));
}

// What the last warden left.
Status take_over(ledger::Transaction& transaction, std::vector<ScheduledTask>& tasks, std::int64_t now) {
  TRY(create_task_table(transaction.database()));
  TRY(tasks, read_tasks(transaction.database()));
  for (ScheduledTask& task : tasks) {
    if (task.started_ms == 0) continue;
    // It ended with the warden. Whether it had done its work nobody knows: it is not repeated.
    task.last_ms = not_before(std::exchange(task.started_ms, 0), now);
    task.last_outcome = "lost";
    ledger::Entry entry = entry_of(task, "schedule.finished", "outcome=lost");
    entry.code = to_string(Code::unavailable);
    TRY(write_task(transaction, task, std::move(entry)));
  }
  return ok();
}

}  // namespace

// ---- life ----

Task<Status> Scheduler::open() {
  const auto tasks = std::make_shared<std::vector<ScheduledTask>>();
  for (bool was_told = false;; was_told = true) {
    ledger::Submission submission;
    submission.work = [tasks, now = parts_.clock.unix_millis()](ledger::Transaction& transaction) {
      return take_over(transaction, *tasks, now);
    };
    const Status taken_over = co_await commit(parts_.ledger, std::move(submission));
    if (taken_over) break;
    if (!was_told) parts_.log.error("cannot take over what was scheduled", {{"error", taken_over.error().describe()}});
    const bool is_tried_again = co_await may_try_again(taken_over.error().code);
    if (!is_tried_again) co_return taken_over;
  }
  // One that was added meanwhile has its slot already.
  for (ScheduledTask& task : *tasks) {
    const auto slot = std::make_shared<Slot>();
    slot->task = std::move(task);
    slots_.emplace(slot->task.id, slot);
  }
  for (const auto& [id, container] : parts_.registry.all()) {
    if (container->config.labels.contains(kTaskLabel)) ended_containers_.push_back(id);
  }
  std::sort(ended_containers_.begin(), ended_containers_.end(), [this](const std::string& a, const std::string& b) {
    return parts_.registry.find(a)->created_unix_ms < parts_.registry.find(b)->created_unix_ms;
  });
  is_open_ = true;
  look_anew(parts_.clock.unix_millis());  // the zone may be another one now
  tick();
  co_return ok();
}

void Scheduler::close() {
  is_closed_ = true;
  if (timer_ != 0) parts_.loop.cancel(timer_);
  for (const auto& [id, slot] : std::map(slots_)) {
    if (const auto over = slot->over) over->resolve(false);
  }
}

std::vector<const ScheduledTask*> Scheduler::all() const {
  std::vector<const ScheduledTask*> tasks;
  tasks.reserve(slots_.size());
  for (const auto& [id, slot] : slots_) tasks.push_back(slot->recorded ? &*slot->recorded : &slot->task);
  std::sort(tasks.begin(), tasks.end(), [](const ScheduledTask* a, const ScheduledTask* b) {
    return std::tie(a->created_ms, a->id) < std::tie(b->created_ms, b->id);
  });
  return tasks;
}

// ---- adding and removing ----

Status Scheduler::check_agent(const std::string& name) const {
  const policy::Profile* profile = parts_.profiles.find(name);
  if (profile != nullptr && !profile->agent.empty()) return ok();
  return Error::make(Code::conflict, "profile '" + name + "' has no agent command, so nothing could run a prompt");
}

std::optional<std::int64_t> Scheduler::next_run(const ScheduledTask& task, std::int64_t after_ms) const {
  const auto schedule = calendar::Schedule::parse(task.schedule);
  return schedule ? schedule->next_ms(after_ms, limits_.zone) : std::nullopt;
}

// 0: never.
Result<std::int64_t> Scheduler::first_run(const NewTask& wanted) const {
  const std::int64_t now = parts_.clock.unix_millis();
  if (wanted.runs_now) return now;
  TRY(const calendar::Schedule schedule, calendar::Schedule::parse(wanted.schedule));
  if (!wanted.name.empty() && !schedule.is_periodic()) {
    return Error::make(Code::invalid_params, "a periodic agent needs a cron expression, not one time");
  }
  // What a review took its time over is not lost: a time that has just passed runs at once, late.
  const std::int64_t after = schedule.is_periodic() ? now : now - kLatestStartMs;
  return schedule.next_ms(after, limits_.zone).value_or(0);
}

Status Scheduler::check(const Container& sender, const NewTask& wanted) const {
  TRY(check_agent(sender.config.profile));
  TRY(const std::int64_t first, first_run(wanted));
  std::vector<const ScheduledTask*> others;
  for (const auto& [id, slot] : slots_) {
    if (slot->task.key == wanted.key) return ok();  // it was added before a crash
    others.push_back(&slot->task);
  }
  if (first == 0) return Error::make(Code::invalid_params, kInThePast);
  return check_room(others, containers::owner_of(sender), wanted.name, limits_);
}

Task<Result<ScheduledTask>> Scheduler::add(const Container& sender, NewTask wanted) {
  // Before the ledger has the last word: it reads all that is scheduled, and everybody's commits wait for that.
  CO_TRY(check(sender, wanted));
  const std::int64_t now = parts_.clock.unix_millis();
  const auto task = std::make_shared<ScheduledTask>();
  CO_TRY(task->next_ms, first_run(wanted));
  task->id = "t-" + random_hex(8);
  task->key = std::move(wanted.key);
  task->sender = sender.id;
  task->owner = containers::owner_of(sender);
  task->name = std::move(wanted.name);
  task->profile = sender.config.profile;
  task->overrides = sender.config.overrides;
  task->workspace = sender.config.workspace;
  task->group = sender.config.group;
  task->schedule = std::move(wanted.schedule);
  task->prompt = std::move(wanted.prompt);
  task->created_ms = now;
  const auto is_new = std::make_shared<bool>(false);
  ledger::Submission submission;
  submission.work = [task, is_new, limits = limits_](ledger::Transaction& transaction) -> Status {
    TRY(create_task_table(transaction.database()));
    return insert_once(transaction, *task, *is_new, limits);
  };
  CO_TRY(co_await commit(parts_.ledger, std::move(submission)));
  fault_point("task_added");
  if (*is_new) {
    const auto slot = std::make_shared<Slot>();
    slot->task = *task;
    slots_.emplace(task->id, slot);
    parts_.publish("schedule.added", describe_json(*task));
    tick();
  }
  co_return *task;
}

Task<Status> Scheduler::remove(std::string id, std::string principal) {
  const auto found = slots_.find(id);
  if (found == slots_.end()) co_return Error::make(Code::not_found, "no such task");
  const std::shared_ptr<Slot> slot = found->second;
  slot->is_removed = true;
  ledger::Submission submission;
  ledger::Entry entry = entry_of(slot->task, "schedule.remove", "sender=" + slot->task.sender);
  entry.principal = std::move(principal);
  submission.work = [id, entry](ledger::Transaction& transaction) { return erase_task(transaction, id, entry); };
  const Status erased = co_await commit(parts_.ledger, std::move(submission));
  if (!erased) {
    slot->is_removed = false;
    co_return erased;
  }
  slots_.erase(id);
  if (slot->container) parts_.registry.stop(slot->container, kStopGrace);
  parts_.publish("schedule.removed", describe_json(slot->task));
  co_return ok();
}

// A finished task that nobody can ask for again.
Fire Scheduler::forget_old() {
  const std::int64_t before = parts_.clock.unix_millis() - kRememberMs;
  for (const auto& [id, slot] : std::map(slots_)) {
    if (slot->is_busy || is_active(slot->task) || slot->task.last_ms > before || slot->task.created_ms > before)
      continue;
    slot->is_busy = true;
    ledger::Submission submission;
    submission.work = [gone = id, entry = entry_of(slot->task, "schedule.forget", "")](
                          ledger::Transaction& transaction) { return erase_task(transaction, gone, entry); };
    const Status erased = co_await commit(parts_.ledger, std::move(submission));
    slot->is_busy = false;
    if (erased) slots_.erase(id);
  }
}

Task<Status> Scheduler::save(const ScheduledTask& task, ledger::Entry entry) {
  ledger::Submission submission;
  submission.work = [task, entry = std::move(entry)](ledger::Transaction& transaction) {
    return write_task(transaction, task, entry);
  };
  return commit(parts_.ledger, std::move(submission));
}

// ---- time ----

void Scheduler::notice_jumps() {
  const Clocks now = read_clocks();
  const auto passed = std::chrono::duration_cast<Millis>(now.steady - reference_.steady).count();
  const std::int64_t jump = now.wall_ms - reference_.wall_ms - passed;
  reference_ = now;
  if (jump > -kClockPatience.count()) return;
  parts_.log.warn("the clock was set back; periodic tasks look for their next time anew", {{"ms", -jump}});
  look_anew(now.wall_ms);
}

void Scheduler::set_limits(Limits limits) {
  const bool is_other_zone = limits.zone.name() != limits_.zone.name();
  limits_ = std::move(limits);
  if (!is_other_zone || !is_open_) return;
  look_anew(parts_.clock.unix_millis());
  tick();
}

// What is due already stays so.
void Scheduler::look_anew(std::int64_t now_ms) {
  for (const auto& [id, slot] : slots_) {
    if (slot->task.next_ms <= now_ms || slot->is_busy) continue;
    const auto schedule = calendar::Schedule::parse(slot->task.schedule);
    if (!schedule || !schedule->is_periodic()) continue;
    // What ran already does not run again.
    slot->task.next_ms = next_run(slot->task, not_before(slot->task.last_ms, now_ms)).value_or(slot->task.next_ms);
  }
}

void Scheduler::tick() {
  if (!is_open_ || is_closed_) return;
  notice_jumps();
  const std::int64_t now = parts_.clock.unix_millis();
  std::vector<std::shared_ptr<Slot>> due;
  for (const auto& [id, slot] : slots_) {
    if (slot->task.next_ms != 0 && slot->task.next_ms <= now && !slot->is_removed) due.push_back(slot);
  }
  std::sort(due.begin(), due.end(), [](const auto& a, const auto& b) { return a->task.next_ms < b->task.next_ms; });
  for (const auto& slot : due) {
    if (slot->task.started_ms != 0) {
      skip(slot, now);
    } else if (!slot->is_busy && running_ < limits_.max_running) {
      run(slot, now);
    }
  }
  forget_old();
  arm();
}

void Scheduler::arm() {
  if (timer_ != 0) parts_.loop.cancel(timer_);
  const std::int64_t now = parts_.clock.unix_millis();
  std::int64_t delay = kLongestSleep.count();
  for (const auto& [id, slot] : slots_) {
    // What is due already waits for a slot, and whoever leaves one looks again.
    if (slot->task.next_ms > now) delay = std::min(delay, slot->task.next_ms - now);
  }
  timer_ = parts_.loop.after(Millis(delay), [this] {
    timer_ = 0;
    tick();
  });
}

// ---- running ----

Fire Scheduler::skip(std::shared_ptr<Slot> slot, std::int64_t now) {
  // At once, so that it is not skipped twice; what a failed write forgets is a number.
  ++slot->task.skipped;
  slot->task.next_ms = next_run(slot->task, now).value_or(0);
  const Status saved =
      co_await save(slot->task, entry_of(slot->task, "schedule.skipped", "the run before is still going"));
  if (!saved)
    parts_.log.error("cannot record a skipped run", {{"task", slot->task.id}, {"error", saved.error().describe()}});
  parts_.publish("schedule.skipped", describe_json(slot->task));
}

Fire Scheduler::run(std::shared_ptr<Slot> slot, std::int64_t now) {
  fault_point("run_due");
  slot->is_busy = true;
  ++running_;
  const std::int64_t late_ms = now - slot->task.next_ms;
  ScheduledTask begun = slot->task;
  begun.started_ms = now;
  begun.next_ms = next_run(begun, std::max(now, begun.next_ms)).value_or(0);
  const Status saved = co_await save(begun, entry_of(begun, "schedule.run", "late_ms=" + std::to_string(late_ms)));
  if (!saved || is_closed_) {
    // Nothing was begun; the next look at the clock tries again.
    if (!saved) parts_.log.error("cannot begin a task", {{"task", begun.id}, {"error", saved.error().describe()}});
    slot->is_busy = false;
    --running_;
    co_return;
  }
  fault_point("run_begun");
  slot->task = begun;
  slot->over = std::make_shared<ipc::OneShot<bool>>();
  parts_.publish("schedule.started", describe_json(slot->task));
  const Outcome outcome = co_await execute(slot);
  fault_point("run_over");
  slot->over.reset();
  slot->container.reset();
  --running_;
  if (is_closed_) co_return;  // the next warden records it as lost
  slot->recorded = slot->task;
  slot->task.last_ms = not_before(std::exchange(slot->task.started_ms, 0), parts_.clock.unix_millis());
  slot->task.last_outcome = outcome.word;
  slot->task.last_container = outcome.container ? outcome.container->id : "";
  ++slot->task.runs;
  ledger::Entry entry =
      entry_of(slot->task, "schedule.finished", "outcome=" + outcome.word + " container=" + slot->task.last_container);
  entry.stage = ledger::Stage::outcome;
  if (outcome.word != "done") entry.code = to_string(outcome.word == "timeout" ? Code::timeout : Code::io_error);
  const Status recorded = co_await record_outcome(slot, std::move(entry));
  if (!recorded) {
    parts_.log.error("cannot record a task's outcome",
                     {{"task", slot->task.id}, {"error", recorded.error().describe()}});
    if (is_closed_) co_return;  // as lost, by the next warden
  }
  slot->recorded.reset();
  fault_point("run_recorded");
  slot->is_busy = false;
  finish(slot, outcome, late_ms);
  tick();
}

Task<Scheduler::Outcome> Scheduler::execute(std::shared_ptr<Slot> slot) {
  const ScheduledTask task = slot->task;
  if (const Status status = check_agent(task.profile); !status)
    co_return Outcome{"failed", status.error().message, {}, {}};
  containers::Config config;
  config.profile = task.profile;
  config.overrides = task.overrides;
  config.workspace = task.workspace;
  config.group = task.group;
  config.origin = task.owner;
  config.command = parts_.profiles.find(task.profile)->agent;
  config.labels.emplace(kTaskLabel, task.id);
  config.input = task.prompt;
  auto launched = co_await parts_.launch(std::move(config));
  if (!launched) co_return Outcome{"failed", launched.error().message, {}, {}};
  Outcome outcome{"done", {}, *launched, {}};
  fault_point("run_launched");
  const std::shared_ptr<Container> container = *launched;
  slot->container = container;
  const auto over = slot->over;
  if (is_closed_ || slot->is_removed) parts_.registry.stop(container, Millis(0));
  const auto timed_out = std::make_shared<bool>(false);
  const auto timer = parts_.loop.after(limits_.max_run, [this, container, timed_out] {
    *timed_out = true;
    parts_.registry.stop(container, kStopGrace);
  });
  if (!containers::is_over(container->state)) {
    container->when_over([over] { over->resolve(true); });
    const bool has_ended = co_await *over;
    if (!has_ended) co_return outcome;
  }
  parts_.loop.cancel(timer);
  const bool is_clean =
      container->wait_status && WIFEXITED(*container->wait_status) && WEXITSTATUS(*container->wait_status) == 0;
  if (*timed_out || container->was_over_time) {
    outcome.word = "timeout";
    outcome.error = "it took longer than it may";
  } else if (container->state != containers::State::exited || !is_clean) {
    outcome.word = "failed";
    outcome.error = container->was_over_memory ? "it used more memory than it may" : "the agent did not end well";
  }
  for (;;) {
    const auto routed = co_await parts_.output.route(container, task.id);
    if (routed) {
      outcome.routed = *routed;
      break;
    }
    const bool is_tried_again = co_await may_try_again(routed.error().code);
    if (!is_tried_again) break;
  }
  co_return outcome;
}

// A ledger that cannot be written makes what came of a run wait, until it can be or the warden ends.
Task<bool> Scheduler::may_try_again(Code code) {
  if (code != Code::unavailable || is_closed_) co_return false;
  co_await parts_.loop.sleep(kRetryAfter);
  co_return !is_closed_;
}

Task<Status> Scheduler::record_outcome(std::shared_ptr<Slot> slot, ledger::Entry entry) {
  for (;;) {
    ledger::Submission submission;
    submission.work = [task = slot->task, entry](ledger::Transaction& transaction) -> Status {
      TRY(const auto known, find_task_by_key(transaction.database(), task.key));
      // Removed meanwhile: it does not come back, and is recorded even so.
      return known ? write_task(transaction, task, entry) : transaction.record(entry);
    };
    const Status recorded = co_await commit(parts_.ledger, std::move(submission));
    if (recorded) co_return recorded;
    const bool is_tried_again = co_await may_try_again(recorded.error().code);
    if (!is_tried_again) co_return recorded;
  }
}

void Scheduler::finish(const std::shared_ptr<Slot>& slot, const Outcome& outcome, std::int64_t late_ms) {
  parts_.publish("schedule.finished", wire::to_json([&](wire::JsonWriter& json) {
                   json.begin_object();
                   describe(json, slot->task);
                   json.member("outcome", outcome.word).member("container", slot->task.last_container);
                   if (!outcome.error.empty()) json.member("error", outcome.error);
                   if (late_ms >= kLateAfter.count()) json.member("late_ms", late_ms);
                   if (outcome.container && outcome.container->wait_status) {
                     const int status = *outcome.container->wait_status;
                     if (WIFEXITED(status)) json.member("exit_code", WEXITSTATUS(status));
                     if (WIFSIGNALED(status)) json.member("signal", WTERMSIG(status));
                   }
                   describe(json, outcome.routed);
                   json.end_object();
                 }));
  if (outcome.container) forget_containers(outcome.container->id);
}

void Scheduler::forget_containers(const std::string& newest) {
  ended_containers_.push_back(newest);
  while (ended_containers_.size() > kKeptContainers) {
    parts_.forget(ended_containers_.front());
    ended_containers_.erase(ended_containers_.begin());
  }
}

}  // namespace sallyport::scheduler
