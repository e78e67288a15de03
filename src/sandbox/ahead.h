// What every sandbox has, whatever its plan says: its namespaces, a root with its /dev, no capability to gain. Made by
// a helper on another core while launch() searches the workspace and makes the plan; and then the helper forks pid 1.
// Internal to the module.
//
// The helper runs on its maker's memory, which is how the plan reaches pid 1; so it neither allocates nor locks nor
// touches errno.
#pragma once

#include <sched.h>
#include <sys/types.h>

#include <atomic>
#include <cstdint>

#include "base/result.h"
#include "base/unique_fd.h"
#include "sandbox/child.h"
#include "sandbox/steps.h"

namespace sallyport::sandbox {

class Ahead {
 public:
  Ahead() = default;
  Ahead(const Ahead&) = delete;
  Ahead& operator=(const Ahead&) = delete;
  ~Ahead() { give_up(); }

  // Does nothing where the memory cannot be shared: a process that is not dumpable holds what others must not see, even
  // for a moment.
  void begin(bool has_proxy, const Faults& faults = {});
  bool has_begun() const { return helper_ > 0; }
  void give_up();  // takes back what was begun and is not used

  struct Made {
    pid_t pid = -1;  // -1: `failed` says why, or if that is none, a notice on the control socket
    UniqueFd control;
    Failure failed;
  };
  // Has the helper, which is started now if nothing was begun, fork pid 1. What the helper does not have, because it
  // was opened since it began, pid 1 does not have either. Nothing is done meanwhile: pid 1's file workers allocate
  // from the copy of this memory that it is forked with.
  Made make(ChildContext& context);
  void release();  // waits for the end of the helpers, after which their memory is nobody else's again

 private:
  enum Word : std::uint32_t { kWait, kGo, kGiveUp };
  // Between the helper and its maker, on memory that both have in any case.
  struct Shared {
    std::atomic<std::uint32_t> word = kWait;
    pid_t pid = -1;
    pid_t network = -1;  // the process that makes the network
  };

  Failure start(bool shares_memory);
  void part_from(pid_t process, unsigned core) const;
  void stay();
  void find_cores();
  static int run_helper(void* self);
  static int run_network(void* self);
  void help();
  void tell(Word word);

  Faults faults_;
  bool has_proxy_ = false;
  bool shares_memory_ = false;
  pid_t maker_ = -1;
  UserMap user_map_;
  UniqueFd near_;     // the control socket
  int control_ = -1;  // its other end, as the helper numbers it
  pid_t helper_ = -1;
  char* stack_ = nullptr;  // of the helper, and then of pid 1
  Shared* shared_ = nullptr;
  ChildContext* context_ = nullptr;
  // Schedulers may leave a new process on its maker's core, behind it, while others idle. So each is told where to work
  // until the walls are made: where all may use every core, and only there, since the kernel takes what is given back
  // for somebody's wish, and keeps to it when there are more.
  bool has_several_cores_ = false, is_bound_ = false;
  unsigned own_core_ = 0;
  cpu_set_t cores_{};  // all of them
};

}  // namespace sallyport::sandbox
