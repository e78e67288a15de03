#include "sandbox/ahead.h"

#include <linux/futex.h>
#include <linux/sched.h>
#include <linux/sockios.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <new>
#include <utility>

#include "base/sanitized.h"
#include "sandbox/network.h"
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

char* make_stack() {
  void* stack = ::mmap(nullptr, kStackBytes, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
  if (stack == MAP_FAILED) return nullptr;
  ::mprotect(stack, kGuardBytes, PROT_NONE);
  return static_cast<char*>(stack);
}

// As fork: returns twice. The kernel writes to `told` before the new process runs.
long fork_with(std::uint64_t flags, int exit_signal, pid_t* told) {
  clone_args arguments{};
  arguments.flags = flags | CLONE_PARENT_SETTID;
  arguments.parent_tid = reinterpret_cast<std::uint64_t>(told);
  arguments.exit_signal = static_cast<std::uint64_t>(exit_signal);
  return raw_call(SYS_clone3, &arguments, sizeof(arguments)).value;
}

// The namespace, and the listener if there is one.
void send_network(int control, int space, int listener, const Reporter& reporter) {
  Notice notice{};
  notice.kind = Notice::Kind::network;
  notice.handed = kNetworkNamespace | (listener >= 0 ? kProxyListener : 0U);
  const int fds[2] = {listener >= 0 ? listener : space, space};  // in the order of their bits
  const std::size_t bytes = listener >= 0 ? sizeof(fds) : sizeof(int);
  iovec data{&notice, sizeof(notice)};
  alignas(cmsghdr) char extra[CMSG_SPACE(sizeof(fds))] = {};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = extra;
  message.msg_controllen = CMSG_SPACE(bytes);
  cmsghdr* header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(bytes);
  std::memcpy(CMSG_DATA(header), fds, bytes);
  reporter.must(Step::more_namespaces, raw_call(SYS_sendmsg, control, &message, MSG_NOSIGNAL));
}

}  // namespace

void Ahead::begin(bool has_proxy, const Faults& faults) {
  if (has_begun() || !may_share_memory()) return;
  has_proxy_ = has_proxy;
  faults_ = faults;
  // What fails now fails again when it is needed, and is told then.
  (void)start(true);
}

Failure Ahead::start(bool shares_memory) {
  release();
  int pair[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0) return {Step::socket, errno};
  near_ = UniqueFd(pair[0]);
  const UniqueFd far_end(pair[1]);
  control_ = far_end.get();
  void* shared = ::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared == MAP_FAILED) return {Step::clone, errno};
  shared_ = new (shared) Shared;
  shared_->word = context_ != nullptr ? kGo : kWait;
  if (context_ != nullptr) context_->control = control_;
  maker_ = ::getpid();
  user_map_ = UserMap::to_itself();
  shares_memory_ = shares_memory;
  if (shares_memory) {
    find_cores();
    stack_ = make_stack();
    if (stack_ != nullptr) {
      helper_ = ::clone(&Ahead::run_helper, stack_ + kStackBytes, CLONE_VM | CLONE_NEWUSER | SIGCHLD, this);
    }
  } else {
    const long helper = fork_with(CLONE_NEWUSER, SIGCHLD, &helper_);
    if (helper == 0) ::_exit(run_helper(this));
    if (helper < 0) errno = static_cast<int>(-helper);
    helper_ = static_cast<pid_t>(helper);
  }
  const int error = errno;
  if (helper_ > 0 && shares_memory) part_from(helper_, own_core_);
  if (helper_ > 0) return {};
  release();
  return {Step::clone, error};
}

// Moves it to another core. Where that fails it is only slower.
void Ahead::part_from(pid_t process, unsigned core) const {
  if (!has_several_cores_) return;
  cpu_set_t others = cores_;
  CPU_CLR(core, &others);
  raw_call(SYS_sched_setaffinity, process, sizeof(others), &others);
}

// Its maker, so that it is not woken behind those from which it parted.
void Ahead::stay() {
  if (!has_several_cores_) return;
  cpu_set_t only;
  CPU_ZERO(&only);
  CPU_SET(own_core_, &only);
  is_bound_ = ::sched_setaffinity(0, sizeof(only), &only) == 0;
}

void Ahead::find_cores() {
  const int here = ::sched_getcpu();
  has_several_cores_ = here >= 0 && ::sched_getaffinity(0, sizeof(cores_), &cores_) == 0 && CPU_COUNT(&cores_) > 1 &&
                       CPU_COUNT(&cores_) == ::sysconf(_SC_NPROCESSORS_ONLN);
  own_core_ = static_cast<unsigned>(here);
  std::memset(&cores_, 0xff, sizeof(cores_));
}

int Ahead::run_helper(void* self) {
  static_cast<Ahead*>(self)->help();
  return 0;
}

// In the helper. What fails here is told on the control socket, and ends it.
void Ahead::help() {
  const Reporter reporter(control_, faults_);
  const std::uint64_t all = ~std::uint64_t{0};
  raw_call(SYS_rt_sigprocmask, SIG_SETMASK, &all, nullptr, sizeof(all));
  raw_call(SYS_prctl, PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
  if (raw_call(SYS_getppid).value != maker_) return;              // it ended before that was set
  raw_call(SYS_madvise, shared_, sizeof(Shared), MADV_DONTFORK);  // not pid 1's
  // Descriptors on their way count against the limit of who sends them, whoever of the user has sent the others.
  rlimit limit{};
  raw_call(SYS_prlimit64, 0, RLIMIT_NOFILE, nullptr, &limit);
  limit.rlim_cur = limit.rlim_max;
  raw_call(SYS_prlimit64, 0, RLIMIT_NOFILE, &limit, nullptr);
  map_user(user_map_, reporter);
  reporter.must(Step::clone, raw_call(SYS_unshare, CLONE_NEWNS | CLONE_NEWUTS));
  reporter.must(Step::more_namespaces, raw_call(SYS_unshare, CLONE_NEWIPC));
  Base base{make_root(reporter), nullptr};
  bound_capabilities(reporter);
  // It takes the kernel about as long as all the rest.
  if (shares_memory_) {
    char* stack = stack_ + kGuardBytes + kNetworkStackBytes;
    constexpr int kFlags = CLONE_VM | CLONE_PARENT | CLONE_PARENT_SETTID | SIGCHLD;
    // The one call here whose failure errno has, and with it the maker: what that plans comes to nothing anyway.
    if (::clone(&Ahead::run_network, stack, kFlags, this, &shared_->network) < 0) {
      reporter.fail(Step::more_namespaces, EAGAIN);
    }
    if (unsigned here = 0; raw_call(SYS_getcpu, &here, nullptr, nullptr).is_ok()) part_from(shared_->network, here);
  } else {
    const long network = fork_with(CLONE_PARENT, 0, &shared_->network);
    if (network == 0) ::_exit(run_network(this));
    reporter.must(Step::more_namespaces, Answer{network});
  }
  while (shared_->word.load() == kWait) raw_call(SYS_futex, &shared_->word, FUTEX_WAIT, kWait, nullptr);
  if (shared_->word.load() != kGo) return;
  if (has_several_cores_) base.cores = &cores_;
  // With a version 1 group the namespace of groups is entered after joining, or it would show the join.
  const std::uint64_t groups = context_->cgroup_count == 0 ? std::uint64_t{CLONE_NEWCGROUP} : 0;
  const long pid = fork_with(CLONE_NEWPID | CLONE_PARENT | CLONE_CLEAR_SIGHAND | groups, 0, &shared_->pid);
  if (pid == 0) run_child(*context_, &base);
  reporter.must(Step::clone, Answer{pid});
}

// In a process of its own, beside the helper.
int Ahead::run_network(void* self) {
  const auto* ahead = static_cast<const Ahead*>(self);
  const int control = ahead->control_;
  const Reporter reporter(control, ahead->faults_);
  reporter.must(Step::more_namespaces, raw_call(SYS_unshare, CLONE_NEWNET));
  int listener = -1;
  reporter.must(Step::loopback, set_up_network(ahead->has_proxy_ ? &listener : nullptr));
  // Not by a path: pid 1 may have changed the root by now.
  const Answer any = raw_call(SYS_socket, AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  reporter.must(Step::more_namespaces, any);
  const long space = reporter.must(Step::more_namespaces, raw_call(SYS_ioctl, any.value, SIOCGSKNS, 0));
  send_network(control, static_cast<int>(space), listener, reporter);
  return 0;
}

void Ahead::tell(Word word) {
  shared_->word.store(word);
  ::syscall(SYS_futex, &shared_->word, FUTEX_WAKE, 1, nullptr);
}

void Ahead::give_up() {
  if (helper_ > 0) tell(kGiveUp);
  release();
}

void Ahead::release() {
  reap(std::exchange(helper_, -1));
  if (shared_ != nullptr) {
    reap(shared_->network);
    ::munmap(shared_, sizeof(Shared));
  }
  if (stack_ != nullptr) ::munmap(stack_, kStackBytes);
  if (std::exchange(is_bound_, false)) ::sched_setaffinity(0, sizeof(cores_), &cores_);
  has_several_cores_ = false;
  shared_ = nullptr;
  stack_ = nullptr;
  near_.reset();
}

Ahead::Made Ahead::make(ChildContext& context) {
  Made made;
  context_ = &context;
  if (has_begun()) {
    context.control = control_;
    stay();
    tell(kGo);
  } else {
    has_proxy_ = context.plan->has_proxy;
    faults_ = context.faults;
    made.failed = start(false);
  }
  if (made.failed.step == Step::none) {
    reap(std::exchange(helper_, -1));
    made.pid = shared_->pid;
    made.control = std::move(near_);
  }
  context_ = nullptr;
  return made;
}

}  // namespace sallyport::sandbox
