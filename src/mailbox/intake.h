// Which files of which mailboxes are to be looked at now.
//
// The kernel's notices are hints; what makes it complete is reading the directories: at the start, when
// notices were lost, and on a timer. Every turn of the loop looks at a bounded number of files, and at a
// bounded number of one mailbox while others wait.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "base/base.h"
#include "ipc/loop.h"
#include "ledger/ledger.h"
#include "mailbox/box.h"

namespace sallyport::mailbox {

class Intake {
 public:
  struct Hooks {
    // Looks at one file. False: this mailbox takes no more until wake(); the file is shown again.
    std::function<bool(const std::string& container, const std::string& name)> look;
    // The directories are no longer what they were, or are again (an empty reason).
    std::function<void(const std::string& container, const std::string& why)> on_fault;
  };
  Intake(ipc::Loop& loop, ledger::Ledger& ledger, const Log& log, Hooks hooks)
      : loop_(loop), ledger_(ledger), log_(log), hooks_(std::move(hooks)) {}
  ~Intake();
  Intake(const Intake&) = delete;
  Intake& operator=(const Intake&) = delete;

  // Before it, mailboxes only gather. Without notices from the kernel the timer does all the work.
  void start();
  void close();

  void add(Box& box);
  void remove(const std::string& container);
  void wake(const std::string& container);
  void wake_all();
  void sweep(const std::string& container);  // is_idle() only after it was
  bool is_watched(const std::string& container) const;
  // Since it was added all of it was read once, and nothing is left to look at.
  bool is_idle(const std::string& container) const;

 private:
  struct Slot {
    Box* box = nullptr;
    int watch = -1;
    std::deque<std::string> names;  // to be looked at
    bool needs_sweep = true;
    bool is_sweeping = false;
    bool was_swept = false;
    bool is_paused = false;
    std::string fault;

    bool has_work() const { return fault.empty() && !is_paused && (!names.empty() || needs_sweep || is_sweeping); }
  };
  Fire listen(std::shared_ptr<ipc::Watch> watch);
  void read_notices(int fd);
  void hint(Slot& slot, const char* name);
  void watch(Slot& slot);
  void rescan(bool only_unwatched);
  void set_timer(bool for_unwatched);
  void schedule();
  void pump();
  bool look_at_one(Slot& slot);

  ipc::Loop& loop_;
  ledger::Ledger& ledger_;
  const Log& log_;
  Hooks hooks_;
  std::shared_ptr<ipc::Watch> notices_;
  std::map<std::string, Slot, std::less<>> slots_;
  std::map<int, std::string> watches_;  // of the kernel -> container
  std::string last_;                    // whose turn it was
  ipc::Loop::TimerId timer_ = 0, fast_timer_ = 0;
  bool is_started_ = false, is_closed_ = false, is_scheduled_ = false;
  // Outlives this, for what was posted.
  std::shared_ptr<Intake*> self_ = std::make_shared<Intake*>(this);
};

}  // namespace sallyport::mailbox
