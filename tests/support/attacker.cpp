#include "support/attacker.h"

#include <grp.h>
#include <linux/filter.h>
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstring>
#include <vector>

#include "support/client.h"
#include "support/daemon.h"

namespace sallyport::testing {

void become_ordinary() {
  if (::setgroups(0, nullptr) != 0 || ::setresgid(kOrdinaryUid, kOrdinaryUid, kOrdinaryUid) != 0 ||
      ::setresuid(kOrdinaryUid, kOrdinaryUid, kOrdinaryUid) != 0) {
    ::_exit(kOther);
  }
  // A change of uid clears both.
  ::prctl(PR_SET_DUMPABLE, 1);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
}

bool is_root() { return ::geteuid() == 0; }

int try_call(const std::string& socket_path, const std::string& method, const std::string& params,
             const std::string& token) {
  Client client = Client::unix_socket(socket_path);
  if (!client) return kUnreachable;
  const std::string code = client.outcome(method, params, token);
  if (code == "OK") return kServed;
  if (code == "UNAUTHENTICATED") return kRefused;
  return code == "CLOSED" ? kClosed : kOther;
}

int try_ping(const std::string& socket_path) { return try_call(socket_path, "test.ping", "", ""); }

int in_namespaces(int flags, const std::function<int()>& work) {
  return in_child([&]() -> int {
    // Born there: unshare gives no user namespace to a process of two threads, and the thread sanitizer's runtime is
    // always a second one.
    const auto pid = static_cast<pid_t>(::syscall(SYS_clone, flags | SIGCHLD, nullptr, nullptr, nullptr, nullptr));
    if (pid < 0) return kOther;
    if (pid == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      ::_exit(work());
    }
    int status = 0;
    return ::waitpid(pid, &status, 0) == pid && WIFEXITED(status) ? WEXITSTATUS(status) : kOther;
  });
}

// Only this machine's own calls, and only the lower halves of their arguments: nobody here tries to get round it.
void become_old_kernel() {
  constexpr std::uint32_t kPeerPidfd = 77, kPidNamespace = 0xFF06, kUserNamespace = 0xFF09;
  const auto load = [](std::size_t at) {
    return sock_filter BPF_STMT(BPF_LD | BPF_W | BPF_ABS, static_cast<__u32>(at));
  };
  const auto skip_unless = [](std::uint32_t value, std::uint8_t count) {
    return sock_filter BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 0, count);
  };
  const auto answer = [](std::uint32_t what) { return sock_filter BPF_STMT(BPF_RET | BPF_K, what); };
  constexpr std::size_t kNumber = offsetof(seccomp_data, nr);
  constexpr auto kArgument = [](std::size_t i) { return offsetof(seccomp_data, args) + 8 * i; };
  std::array filter = {
      load(kNumber),
      skip_unless(SYS_getsockopt, 5),
      load(kArgument(1)),
      skip_unless(SOL_SOCKET, 9),
      load(kArgument(2)),
      skip_unless(kPeerPidfd, 7),
      answer(SECCOMP_RET_ERRNO | ENOPROTOOPT),
      skip_unless(SYS_ioctl, 5),
      load(kArgument(1)),
      skip_unless(kPidNamespace, 1),
      answer(SECCOMP_RET_ERRNO | ENOTTY),
      skip_unless(kUserNamespace, 1),
      answer(SECCOMP_RET_ERRNO | ENOTTY),
      answer(SECCOMP_RET_ALLOW),
  };
  const sock_fprog program{filter.size(), filter.data()};
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) {
    ::_exit(kOther);
  }
}

bool can_unshare(int flags) {
  return in_namespaces(flags, [] { return 0; }) == 0;
}

pid_t fork_with_pid(pid_t pid) {
  clone_args arguments{};
  arguments.exit_signal = SIGCHLD;
  arguments.set_tid = reinterpret_cast<std::uintptr_t>(&pid);
  arguments.set_tid_size = 1;
  return static_cast<pid_t>(::syscall(SYS_clone3, &arguments, sizeof arguments));
}

bool send_with_descriptors(int socket, const std::string& bytes, const int* descriptors, std::size_t count) {
  std::vector<char> control(CMSG_SPACE(count * sizeof(int)));
  std::string copy = bytes;
  iovec part{copy.data(), copy.size()};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  cmsghdr* head = CMSG_FIRSTHDR(&message);
  head->cmsg_level = SOL_SOCKET;
  head->cmsg_type = SCM_RIGHTS;
  head->cmsg_len = CMSG_LEN(count * sizeof(int));
  std::memcpy(CMSG_DATA(head), descriptors, count * sizeof(int));
  return ::sendmsg(socket, &message, MSG_NOSIGNAL) == static_cast<ssize_t>(copy.size());
}

UniqueFd receive_descriptor(int socket) {
  char byte = 0, control[CMSG_SPACE(sizeof(int))] = {};
  iovec part{&byte, 1};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  if (::recvmsg(socket, &message, MSG_CMSG_CLOEXEC) != 1) return {};
  const cmsghdr* head = CMSG_FIRSTHDR(&message);
  if (head == nullptr || head->cmsg_type != SCM_RIGHTS) return {};
  int fd = -1;
  std::memcpy(&fd, CMSG_DATA(head), sizeof fd);
  return UniqueFd(fd);
}

}  // namespace sallyport::testing
