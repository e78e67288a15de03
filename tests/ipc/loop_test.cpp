// The loop where the kernel has no room for another descriptor: it counts those of all processes of a user, sandboxes
// included.
#include "ipc/loop.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>

#include "base/task.h"

namespace sallyport::ipc {
namespace {

// For good, in this process.
bool leave_no_room() {
  constexpr std::uint32_t kCall = offsetof(seccomp_data, nr), kOperation = offsetof(seccomp_data, args) + 8;
  std::array<sock_filter, 6> program = {{
      {BPF_LD | BPF_W | BPF_ABS, 0, 0, kCall},
      {BPF_JMP | BPF_JEQ | BPF_K, 0, 3, SYS_epoll_ctl},
      {BPF_LD | BPF_W | BPF_ABS, 0, 0, kOperation},
      {BPF_JMP | BPF_JEQ | BPF_K, 0, 1, EPOLL_CTL_ADD},
      {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ERRNO | ENOSPC},
      {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW},
  }};
  const sock_fprog filter = {static_cast<unsigned short>(program.size()), program.data()};
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0;
}

struct Pair {
  std::unique_ptr<Watch> near;
  UniqueFd far;
};

Pair make_pair(Loop& loop) {
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends.data()) != 0) ::_exit(10);
  auto watch = Watch::open(loop, UniqueFd(ends[0]));
  if (!watch) ::_exit(11);
  return {std::move(*watch), UniqueFd(ends[1])};
}

// Adds up what comes, byte by byte, until the end; the last one of all stops the loop.
Fire read_all(Loop& loop, Watch& watch, int& sum, std::size_t& left) {
  for (;;) {
    const bool is_ready = co_await watch.readable();
    if (!is_ready) co_return;
    char byte = 0;
    const ssize_t length = ::read(watch.fd(), &byte, 1);
    if (length > 0) sum += byte;
    if (length != 0) continue;
    if (--left == 0) loop.stop();
    co_return;
  }
}

Fire write_one(Watch& watch) {
  const bool is_ready = co_await watch.writable();
  if (is_ready && ::write(watch.fd(), "w", 1) != 1) ::_exit(12);
}

// More than fit into one turn; the timer is one of the loop's own descriptors.
int serve(Loop& loop) {
  constexpr std::size_t kPairs = 300;
  std::vector<Pair> pairs;
  int sum = 0;
  std::size_t left = kPairs;
  for (std::size_t i = 0; i < kPairs; ++i) pairs.push_back(make_pair(loop));
  for (Pair& pair : pairs) {
    read_all(loop, *pair.near, sum, left);
    write_one(*pair.near);
    if (::write(pair.far.get(), "\1\1", 2) != 2) return 13;
  }
  loop.after(Millis(50), [&] {
    for (Pair& pair : pairs) pair.far.reset();
  });
  loop.after(Millis(20'000), [] { ::_exit(15); });
  loop.run();
  return sum == 2 * static_cast<int>(kPairs) ? 0 : 14;
}

int exit_of(int (*work)()) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(work());
  int status = -1;
  ::waitpid(child, &status, 0);
  return status;
}

TEST(LoopWithoutRoom, ServesWhatCameBefore) {
  EXPECT_EQ(exit_of([] {
              Loop loop(Spinner::Mode::never);
              return leave_no_room() ? serve(loop) : 1;
            }),
            0);
}

TEST(LoopWithoutRoom, BeginsAndServesAllByPolling) {
  EXPECT_EQ(exit_of([] {
              if (!leave_no_room()) return 1;
              Loop loop;
              return serve(loop);
            }),
            0);
}

TEST(LoopWithoutRoom, StillRefusesWhatCannotBeWaitedFor) {
  EXPECT_EQ(exit_of([] {
              Loop loop;
              return Watch::open(loop, UniqueFd(::open("/dev/null", O_RDONLY | O_CLOEXEC))) ? 1 : 0;
            }),
            0);
}

}  // namespace
}  // namespace sallyport::ipc
