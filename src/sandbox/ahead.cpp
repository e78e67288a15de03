#include "sandbox/ahead.h"

#include <linux/futex.h>
#include <linux/sched.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>

#include "base/sanitized.h"
#include "sandbox/raw_call.h"

namespace sallyport::sandbox {
namespace {

// As much as a process has: pid 1's file workers run on copies of it. Only what is touched costs memory.
constexpr std::size_t kStackBytes = std::size_t{8} << 20;
constexpr std::size_t kGuardBytes = 4096;
constexpr std::size_t kNetworkStackBytes = 64 * 1024;  // at the far end of it

bool may_share_memory() { return kHasRawCalls && !kIsSanitized && ::prctl(PR_GET_DUMPABLE, 0, 0, 0, 0) == 1; }

void reap(pid_t pid) {
  while (pid > 0 && ::waitpid(pid, nullptr, __WALL) < 0 && errno == EINTR) {
  }
}

}  // namespace

Ahead::~Ahead() {
  if (helper_ > 0) {
    tell(kGiveUp);
    await_end();
  }
}

void Ahead::begin(const Faults& faults) {
  if (!may_share_memory()) return;
  int pair[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0) return;
  near_ = UniqueFd(pair[0]);
  const UniqueFd far_end(pair[1]);
  control_ = far_end.get();
  void* stack = ::mmap(nullptr, kStackBytes, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
  if (stack == MAP_FAILED) return;
  stack_ = static_cast<char*>(stack);
  faults_ = faults;
  user_map_ = UserMap::to_itself();
  maker_ = ::getpid();
  if (::mprotect(stack_, kGuardBytes, PROT_NONE) == 0) {
    helper_ = ::clone(&Ahead::help, stack_ + kStackBytes, CLONE_VM | SIGCHLD, this);
  }
  if (helper_ < 0) ::munmap(stack_, kStackBytes);
}

int Ahead::help(void* self) {
  static_cast<Ahead*>(self)->work();
  return 0;
}

// In the helper. Whatever fails here is told by the reporter and ends it.
void Ahead::work() {
  sigset_t all;
  ::sigfillset(&all);
  ::sigprocmask(SIG_SETMASK, &all, nullptr);
  if (const long result = raw_call(SYS_unshare, CLONE_NEWUSER); result < 0) {
    error_ = static_cast<int>(-result);
    return;
  }
  ::prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
  if (::getppid() != maker_) return;  // it ended before that was set
  const Reporter& reporter = reporter_.emplace(control_, faults_);
  network_.emplace(reporter, CLONE_PARENT, stack_ + kGuardBytes + kNetworkStackBytes);
  make_base(base_, user_map_, *network_, CLONE_NEWNS | CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWCGROUP, reporter);
  while (word_.load() == kWait) raw_call(SYS_futex, &word_, FUTEX_WAIT_PRIVATE, kWait, 0);
  if (word_.load() != kGo) return;
  clone_args arguments{};
  arguments.flags = CLONE_NEWPID | CLONE_PARENT | CLONE_CLEAR_SIGHAND;
  const long pid = raw_call(SYS_clone3, &arguments, sizeof(arguments));
  if (pid == 0) run_child(*context_, &base_);
  if (pid < 0) reporter.fail(Step::clone, static_cast<int>(-pid));
  pid_ = static_cast<pid_t>(pid);
}

void Ahead::tell(Word word) {
  word_.store(word);
  ::syscall(SYS_futex, &word_, FUTEX_WAKE_PRIVATE, 1, nullptr);
}

// The memory that both helpers ran on is nobody else's again.
void Ahead::await_end() {
  reap(helper_);
  helper_ = -1;
  reap(base_.network_maker);
  ::munmap(stack_, kStackBytes);
}

Ahead::Made Ahead::finish(const ChildContext& context) {
  context_ = &context;
  tell(kGo);
  await_end();
  Made made;
  made.pid = pid_;
  made.error = error_;
  if (pid_ > 0) made.pidfd = UniqueFd(static_cast<int>(::syscall(SYS_pidfd_open, pid_, 0)));
  made.control = std::move(near_);
  return made;
}

}  // namespace sallyport::sandbox
