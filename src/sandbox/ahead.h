// What every sandbox has, whatever its plan says: the namespaces, a root with its /dev, an empty bounding set. Made by
// a helper on another core while its maker still reads profiles and searches the workspace. Internal to launch(),
// except that a caller who knows that it will launch something may begin earlier.
//
// The helper runs on the maker's memory. That is how the plan reaches pid 1, which the helper forks once there is one;
// and so the helper neither allocates nor locks, nor does it fail a call whose errno the maker could mistake for its
// own.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <optional>

#include "base/unique_fd.h"
#include "sandbox/child.h"
#include "sandbox/steps.h"

namespace sallyport::sandbox {

class Ahead {
 public:
  Ahead() = default;
  Ahead(const Ahead&) = delete;
  Ahead& operator=(const Ahead&) = delete;
  ~Ahead();  // what was begun and not used is taken back

  // Does nothing where the memory cannot be shared: launch() then makes everything in its turn. A process that is not
  // dumpable holds what others must not see, and stays as it is.
  void begin(const Faults& faults = {});
  bool has_begun() const { return helper_ > 0; }

  struct Made {
    pid_t pid = -1;  // -1: the error, or a notice on the control socket, says why
    int error = 0;   // of making the user namespace
    UniqueFd pidfd;
    UniqueFd control;
  };
  int control() const { return control_; }  // for ChildContext::control
  Made finish(const ChildContext& context);

 private:
  enum Word : std::uint32_t { kWait, kGo, kGiveUp };

  static int help(void* self);
  void work();
  void tell(Word word);
  void await_end();

  Faults faults_;
  UserMap user_map_;
  pid_t maker_ = -1;
  UniqueFd near_;     // the control socket
  int control_ = -1;  // its other end, as the helper numbers it
  pid_t helper_ = -1;
  char* stack_ = nullptr;  // of the helper, and then of pid 1
  const ChildContext* context_ = nullptr;
  std::atomic<std::uint32_t> word_ = kWait;
  // The helper's.
  std::optional<Reporter> reporter_;
  std::optional<NetworkMaker> network_;
  Base base_;
  pid_t pid_ = -1;
  int error_ = 0;
};

}  // namespace sallyport::sandbox
