#include "sandbox/child.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>

namespace sallyport::sandbox {
namespace {

constexpr int kAboveOurs = 10;  // where descriptors wait while 0 to 3 are rearranged

void join_cgroups(const ChildContext& context, const Reporter& reporter) {
  for (std::uint32_t i = 0; i < context.cgroup_count; ++i) {
    reporter.must(Step::join_cgroup, ::write(context.cgroup_procs[i], "0", 1), i);
  }
}

// Leaves 0, 1, 2, the control socket and the root, which it returns; whatever else the launching process had open is
// closed before anything of the plan is built, also what it forgot to mark close-on-exec.
int arrange_descriptors(const ChildContext& context, const Base* base, Reporter& reporter) {
  const int control = ::fcntl(context.control, F_DUPFD_CLOEXEC, kAboveOurs);
  reporter.must(Step::descriptors, control);
  reporter.moved_to(control);
  const int root = base == nullptr ? -1 : ::fcntl(base->root, F_DUPFD_CLOEXEC, kAboveOurs);
  if (base != nullptr) reporter.must(Step::descriptors, root);
  int wanted[3];
  for (int i = 0; i < 3; ++i) {
    wanted[i] = context.stdio[i] == i  ? i
                : context.stdio[i] < 0 ? ::open("/dev/null", O_RDWR | O_CLOEXEC)
                                       : ::fcntl(context.stdio[i], F_DUPFD_CLOEXEC, kAboveOurs);
    reporter.must(Step::descriptors, wanted[i]);
  }
  for (int i = 0; i < 3; ++i) {
    if (wanted[i] >= 0 && wanted[i] != i) reporter.must(Step::descriptors, ::dup2(wanted[i], i));
  }
  reporter.must(Step::descriptors, ::dup3(control, kControlFd, O_CLOEXEC));
  reporter.moved_to(kControlFd);
  constexpr int kRootFd = kControlFd + 1;
  if (base != nullptr) reporter.must(Step::descriptors, ::dup3(root, kRootFd, O_CLOEXEC));
  const unsigned first_other = base != nullptr ? kRootFd + 1 : kRootFd;
  reporter.must(Step::descriptors, ::close_range(first_other, ~0U, 0));
  return kRootFd;
}

// /proc/1/cmdline is open to everyone inside, and pid 1's is a copy of the launching command line:
// with the values of --env in it.
void hide_command_line(const Plan& plan) {
  if (plan.command_line.empty()) return;
  std::memset(plan.command_line.data(), 0, plan.command_line.size());
  constexpr const char kName[] = "sallyport-init";
  if (plan.command_line.size() > sizeof(kName)) std::memcpy(plan.command_line.data(), kName, sizeof(kName));
}

void hand(int fd, Handover bit, InitContext& init) {
  init.handed_fds[__builtin_popcount(init.handed)] = fd;
  init.handed |= bit;
}

// Taken while they can be: pid 1 is about to become opaque, also to those who made it.
void take_handover(std::uint32_t wanted, InitContext& init, const Reporter& reporter) {
  struct Source {
    Handover bit;
    const char* path;
  };
  constexpr Source kSources[] = {{kUserNamespace, "/proc/self/ns/user"},
                                 {kMountNamespace, "/proc/self/ns/mnt"},
                                 {kPidNamespace, "/proc/self/ns/pid"},
                                 {kMountInfo, "/proc/self/mountinfo"}};
  for (const Source& source : kSources) {
    if ((wanted & source.bit) == 0) continue;
    const int fd = ::open(source.path, O_RDONLY | O_CLOEXEC);
    reporter.must(Step::hand_over, fd);
    hand(fd, source.bit, init);
  }
}

// The maker writes down what is to be done should it be killed, and has the network made, beside all of the above. One
// that was killed first has closed the socket. Returns the namespace of the network, or -1.
int await_go() {
  Request request{};
  iovec data{&request, sizeof(request)};
  alignas(cmsghdr) char space[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = space;
  message.msg_controllen = sizeof(space);
  ssize_t length = 0;
  do {
    length = ::recvmsg(kControlFd, &message, MSG_CMSG_CLOEXEC);
  } while (length < 0 && errno == EINTR);
  if (length != sizeof(request) || request.kind != Request::Kind::go) ::_exit(127);
  int network = -1;
  const cmsghdr* header = CMSG_FIRSTHDR(&message);
  if (header != nullptr && header->cmsg_type == SCM_RIGHTS) std::memcpy(&network, CMSG_DATA(header), sizeof(network));
  return network;
}

void enter_network(int network, const Reporter& reporter) {
  reporter.must(Step::more_namespaces, ::setns(network, CLONE_NEWNET));
  ::close(network);
}

}  // namespace

long Reporter::must(Step step, Answer answer, std::size_t index) const {
  if (is_injected(step)) fail(step, faults_.error, index);
  if (!answer.is_ok()) fail(step, static_cast<int>(-answer.value), index);
  return answer.value;
}

long Reporter::must(Step step, long result, std::size_t index) const {
  return must(step, Answer{result < 0 ? -long{errno} : result}, index);
}

void Reporter::fail(Step step, int error, std::size_t index) const {
  Notice notice{};
  notice.kind = Notice::Kind::failed;
  notice.step = step;
  notice.value = error;
  notice.index = static_cast<std::uint32_t>(index);
  // If nobody hears it, the exit below says the same.
  raw_call(SYS_sendto, control_, &notice, sizeof(notice), MSG_NOSIGNAL, nullptr, 0);
  ::_exit(127);
}

UserMap UserMap::to_itself() {
  const auto line = [](unsigned id) { return std::to_string(id) + " " + std::to_string(id) + " 1"; };
  return {line(::geteuid()), line(::getegid())};
}

Answer write_whole(int directory, const char* path, const char* text) {
  const Answer file = raw_call(SYS_openat, directory, path, O_WRONLY | O_CLOEXEC, 0);
  if (!file.is_ok()) return file;
  const std::size_t length = std::strlen(text);
  const Answer written = raw_call(SYS_write, file.value, text, length);
  raw_call(SYS_close, file.value);
  if (!written.is_ok()) return written;
  return {written.value == static_cast<long>(length) ? 0 : -EIO};
}

void map_user(const UserMap& map, const Reporter& reporter) {
  // A launcher that is not dumpable would leave these files to the host's root; then this memory is not shared with it.
  raw_call(SYS_prctl, PR_SET_DUMPABLE, 1, 0, 0, 0);
  reporter.must(Step::uid_map, write_whole(AT_FDCWD, "/proc/self/setgroups", "deny"));
  reporter.must(Step::uid_map, write_whole(AT_FDCWD, "/proc/self/gid_map", map.group.c_str()));
  reporter.must(Step::uid_map, write_whole(AT_FDCWD, "/proc/self/uid_map", map.user.c_str()));
}

void run_child(const ChildContext& context, const Base* base) {
  const Plan& plan = *context.plan;
  Reporter reporter(context.control, context.faults);
  sigset_t all;
  ::sigfillset(&all);
  ::sigprocmask(SIG_SETMASK, &all, nullptr);
  join_cgroups(context, reporter);
  const int root = arrange_descriptors(context, base, reporter);

  InitContext init{&plan, &reporter, context.terminal, 0, {}, context.worker};
  if (!plan.is_weak) {
    if (context.cgroup_count > 0) reporter.must(Step::join_cgroup, ::unshare(CLONE_NEWCGROUP));
    build_root(plan, root, reporter);
    reporter.must(Step::hostname, ::sethostname(plan.hostname.c_str(), plan.hostname.size()));
    hide_command_line(plan);
    ::prctl(PR_SET_NAME, "sallyport-init", 0, 0, 0);
    take_handover(context.wanted_handover, init, reporter);
    check_covers(plan, reporter);
  } else {
    ::prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
  }
  bound_rights(plan, reporter);
  apply_landlock(plan, reporter);
  const int network = await_go();
  if (!plan.is_weak) enter_network(network, reporter);
  if (base != nullptr && base->cores != nullptr) ::sched_setaffinity(0, sizeof(*base->cores), base->cores);
  // Opaque before anything foreign runs: pid 1 is a copy of the launching process's memory.
  reporter.must(Step::capabilities, ::prctl(PR_SET_DUMPABLE, 0, 0, 0, 0));
  drop_capabilities(reporter);
  // A weak one sees its maker's end as the end of its socket, and ends the commands first.
  if (!plan.is_weak) ::prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
  const int listener = apply_seccomp(plan, reporter);
  if (listener >= 0) {
    hand(listener, kViolations, init);
  }
  reporter.must(Step::ready, 0);
  run_init(init);
}

}  // namespace sallyport::sandbox
