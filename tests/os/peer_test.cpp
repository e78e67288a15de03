#include "os/peer.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <fstream>
#include <iterator>
#include <thread>

#include "os/files.h"
#include "os/process.h"
#include "os/sockets.h"
#include "support/attacker.h"
#include "support/daemon.h"

namespace sallyport::os {
namespace {

using sallyport::testing::can_unshare;
using sallyport::testing::eventually;
using sallyport::testing::in_child;
using sallyport::testing::in_namespaces;
using sallyport::testing::TemporaryDirectory;

class Peers : public ::testing::Test {
 protected:
  void SetUp() override {
    directory_ = std::move(*open_private_directory(base_.path() + "/d"));
    listening_ = std::move(*listen_unix(directory_.get(), "s"));
  }
  std::string path() const { return base_.path() + "/d/s"; }
  UniqueFd accept() const {
    UniqueFd fd;
    eventually([&] {
      fd = UniqueFd(::accept4(listening_.get(), nullptr, nullptr, SOCK_CLOEXEC));
      return bool(fd);
    });
    return fd;
  }
  // A child that connects and stays until it is killed.
  pid_t connected_child() const {
    const pid_t child = ::fork();
    if (child == 0) {
      const auto fd = connect_unix(path());
      ::pause();
      ::_exit(fd ? 0 : 1);
    }
    return child;
  }
  static void end(pid_t child) {
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
  }

  TemporaryDirectory base_;
  UniqueFd directory_, listening_;
};

TEST_F(Peers, AreThoseThatTheKernelNames) {
  const pid_t child = connected_child();
  const UniqueFd fd = accept();
  const auto peer = identify_peer(fd.get());
  ASSERT_TRUE(peer);
  EXPECT_EQ(peer->identity.pid, child);
  EXPECT_EQ(peer->identity.uid, ::geteuid());
  EXPECT_EQ(peer->identity.gid, ::getegid());
  EXPECT_NE(peer->process, 0U);
  EXPECT_TRUE(peer->process_fd);
  EXPECT_TRUE(require_own_namespaces(*peer));
  end(child);
}

TEST_F(Peers, TwoConnectionsOfOneProcessAreOneProcess) {
  const auto first = connect_unix(path()), second = connect_unix(path());
  const UniqueFd a = accept(), b = accept();
  EXPECT_EQ(identify_peer(a.get())->process, identify_peer(b.get())->process);
  const pid_t child = connected_child();
  const UniqueFd c = accept();
  EXPECT_NE(identify_peer(a.get())->process, identify_peer(c.get())->process);
  end(child);
}

TEST_F(Peers, TwoLivesOfOnePidAreTwoProcesses) {
  const pid_t first = connected_child();
  const UniqueFd a = accept();
  const auto before = identify_peer(a.get());
  ASSERT_TRUE(before);
  end(first);
  const pid_t second = sallyport::testing::fork_with_pid(first);
  if (second == 0) {
    const auto fd = connect_unix(path());
    ::pause();
    ::_exit(fd ? 0 : 1);
  }
  if (second < 0) GTEST_SKIP() << "this kernel or user cannot choose a pid";
  const UniqueFd b = accept();
  const auto after = identify_peer(b.get());
  ASSERT_TRUE(after);
  EXPECT_EQ(after->identity.pid, before->identity.pid);
  EXPECT_NE(after->process, before->process);
  end(second);
}

TEST_F(Peers, ThatAreGoneDoNotPassForTheHost) {
  in_child([&] { return connect_unix(path()) ? 0 : 1; });
  const UniqueFd fd = accept();
  const auto peer = identify_peer(fd.get());
  if (peer) {
    const Status checked = require_own_namespaces(*peer);
    ASSERT_FALSE(checked);
    EXPECT_EQ(checked.error().code, Code::unauthenticated);
  } else {
    EXPECT_EQ(peer.error().code, Code::unauthenticated);
  }
}

TEST_F(Peers, AreSaidToHaveEndedOnlyIfTheyHave) {
  in_child([&] { return connect_unix(path()) ? 0 : 1; });
  const UniqueFd gone = accept();
  EXPECT_EQ(require_server_beside_us(gone.get()).error().code, Code::unavailable);
  // Whoever has no descriptor left cannot be told who it is.
  const pid_t child = connected_child();
  const UniqueFd fd = accept();
  EXPECT_TRUE(require_server_beside_us(fd.get()));
  EXPECT_EQ(in_child([&] {
              const rlimit none{0, 0};
              ::setrlimit(RLIMIT_NOFILE, &none);
              const Status known = require_server_beside_us(fd.get());
              return !known && known.error().code == Code::unauthenticated ? 0 : 1;
            }),
            0);
  end(child);
}

// As one that was killed while its other thread still wrote to the disk.
TEST_F(Peers, ThatAreJustEndingAreWaitedFor) {
  const pid_t child = ::fork();
  if (child == 0) {
    const auto fd = connect_unix(path());
    std::thread([] {
      std::this_thread::sleep_for(std::chrono::milliseconds(200));
      ::_exit(0);
    }).detach();
    ::syscall(SYS_exit, 0);  // this thread alone
  }
  const UniqueFd fd = accept();
  const std::string status = "/proc/" + std::to_string(child) + "/status";
  ASSERT_TRUE(eventually([&] {
    std::ifstream file(status);
    return std::string(std::istreambuf_iterator<char>(file), {}).find("State:\tZ") != std::string::npos;
  }));
  // Giving back a sanitizer's memory takes longer than anybody waits.
  const Code seen = require_server_beside_us(fd.get()).error().code;
  EXPECT_TRUE(seen == Code::unavailable || (kIsSanitized && seen == Code::unauthenticated));
  ::waitpid(child, nullptr, 0);
}

TEST_F(Peers, InOtherNamespacesDoNotPassForTheHost) {
  for (const int flags : {CLONE_NEWUSER, CLONE_NEWUSER | CLONE_NEWPID}) {
    if (!can_unshare(flags)) GTEST_SKIP() << "no user namespaces here";
    // The namespaces are asked for while the peer is alive: it waits for the end of this socket.
    int ends[2];
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    UniqueFd ours{ends[0]};
    const UniqueFd theirs{ends[1]};
    const pid_t outer = ::fork();
    if (outer == 0) {
      ours.reset();
      ::_exit(in_namespaces(flags, [&] {
        const auto fd = connect_unix(path());
        char byte = 0;
        return fd && ::read(theirs.get(), &byte, 1) == 0 ? 0 : 1;
      }));
    }
    const UniqueFd fd = accept();
    const auto peer = identify_peer(fd.get());
    ASSERT_TRUE(peer);
    EXPECT_FALSE(require_own_namespaces(*peer));
    ours.reset();
    ::kill(outer, SIGKILL);
    ::waitpid(outer, nullptr, 0);
  }
}

TEST_F(Peers, AreFoundInTheirNamespacesAlsoByAnOldKernel) {
  constexpr int kFlags = CLONE_NEWUSER | CLONE_NEWPID;
  if (!can_unshare(kFlags)) GTEST_SKIP() << "no user namespaces here";
  const UniqueFd own_place{::open("/proc/self/ns/pid", O_RDONLY | O_CLOEXEC)};
  const auto own = namespace_id(own_place.get());
  ASSERT_TRUE(own);
  for (const bool is_inside : {false, true}) {
    int ends[2];
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    UniqueFd ours{ends[0]};
    const UniqueFd theirs{ends[1]};
    const auto stay = [&] {
      const auto fd = connect_unix(path());
      char byte = 0;
      return fd && ::read(theirs.get(), &byte, 1) == 0 ? 0 : 1;
    };
    const pid_t outer = ::fork();
    if (outer == 0) {
      ours.reset();
      ::_exit(is_inside ? in_namespaces(kFlags, stay) : stay());
    }
    const UniqueFd fd = accept();
    EXPECT_EQ(in_child([&] {
                sallyport::testing::become_old_kernel();
                const auto peer = identify_peer(fd.get());
                if (!peer || peer->proof != IdentityProof::pid_checked || !peer->process_fd) return 1;
                const auto is_here = is_in_pid_namespace(*peer, *own);
                return is_here && *is_here == !is_inside ? 0 : 2;
              }),
              0)
        << is_inside;
    ours.reset();
    ::kill(outer, SIGKILL);
    ::waitpid(outer, nullptr, 0);
  }
}

TEST_F(Peers, OfWhatIsNoUnixSocketCannotBeKnown) {
  const auto listener = listen_loopback();
  ASSERT_TRUE(listener);
  const auto client = connect_loopback(listener->address);
  ASSERT_TRUE(client);
  EXPECT_FALSE(identify_peer(client->get()));
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const UniqueFd in{ends[0]}, out{ends[1]};
  EXPECT_EQ(identify_peer(in.get()).error().code, Code::unauthenticated);
  EXPECT_EQ(identify_peer(-1).error().code, Code::unauthenticated);
}

// ---- processes ----

TEST(Process, AStartTimeTellsTwoProcessesApartAndIsStable) {
  const auto own = process_start_time(::getpid());
  ASSERT_TRUE(own);
  EXPECT_EQ(*own, *process_start_time(::getpid()));
  EXPECT_TRUE(is_process_alive(::getpid(), *own));
  EXPECT_FALSE(is_process_alive(::getpid(), *own + 1));
  EXPECT_EQ(process_start_time(0x3fffffff).error().code, Code::not_found);
}

TEST(Process, AZombieIsNotAlive) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(0);
  siginfo_t info{};
  ASSERT_EQ(::waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOWAIT), 0);
  const auto started = process_start_time(child);
  ASSERT_TRUE(started) << "it still has a line in /proc";
  EXPECT_FALSE(is_process_alive(child, *started));
  ::waitpid(child, nullptr, 0);
  EXPECT_FALSE(process_start_time(child));
}

TEST(Process, OneWhoseFirstThreadEndedIsAliveUntilTheLastHas) {
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe2(ends.data(), O_CLOEXEC), 0);
  UniqueFd theirs{ends[0]}, ours{ends[1]};
  const pid_t child = ::fork();
  if (child == 0) {
    ours.reset();
    std::thread([&theirs] {
      char byte = 0;
      [[maybe_unused]] const ssize_t count = ::read(theirs.get(), &byte, 1);
      ::_exit(0);
    }).detach();
    ::syscall(SYS_exit, 0);  // this thread alone
  }
  const auto started = process_start_time(child);
  ASSERT_TRUE(started);
  const std::string status = "/proc/" + std::to_string(child) + "/status";
  ASSERT_TRUE(eventually([&] {
    std::ifstream file(status);
    return std::string(std::istreambuf_iterator<char>(file), {}).find("State:\tZ") != std::string::npos;
  }));
  EXPECT_TRUE(is_process_alive(child, *started));
  ours.reset();
  siginfo_t info{};
  ASSERT_EQ(::waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOWAIT), 0);
  EXPECT_FALSE(is_process_alive(child, *started));
  ::waitpid(child, nullptr, 0);
}

TEST(Process, ANameFullOfParenthesesAndSpacesDoesNotConfuseIt) {
  EXPECT_EQ(in_child([] {
              const auto before = process_start_time(::getpid());
              ::pthread_setname_np(::pthread_self(), ") R 1 2 (x) y");
              const auto after = process_start_time(::getpid());
              return before && after && *before == *after && is_process_alive(::getpid(), *after) ? 0 : 1;
            }),
            0);
}

TEST(Process, TheBootIdIsOneLine) {
  const auto id = boot_id();
  ASSERT_TRUE(id);
  EXPECT_EQ(id->size(), 36U);
}

TEST(Process, TheLimitOnOpenFilesIsRaisedAsFarAsItGoes) { EXPECT_GE(raise_open_files_limit(), 1024U); }

}  // namespace
}  // namespace sallyport::os
