// Who may come in, and who only looks as if.
#include <fcntl.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>

#include "door.h"
#include "support/attacker.h"

namespace sallyport::testing {
namespace {

class Identity : public Door {
 protected:
  // Lets everybody reach the socket, so that nothing but the check of the peer stands in the way.
  void open_the_way() {
    ::chmod(daemon().root().c_str(), 0755);
    ::chmod(daemon().runtime_dir().c_str(), 0755);
    ::chmod(daemon().socket_path().c_str(), 0666);
  }
  void start_as_ordinary_user() {
    const auto become = [this] {
      if (::chown(daemon_->root().c_str(), kOrdinaryUid, kOrdinaryUid) != 0) ::_exit(126);
      become_ordinary();
    };
    start({.before_exec = become});
    open_the_way();
  }
  // Somebody asks for a shutdown and goes; the warden is stopped meanwhile, so that nobody is there when it accepts.
  void ask_and_go() {
    const std::string path = daemon().socket_path();
    daemon().signal(SIGSTOP);
    EXPECT_EQ(in_child([&] {
                Client client = Client::unix_socket(path);
                return client && client.send(request_frame("1", "warden.shutdown")) ? 0 : 1;
              }),
              0);
    daemon().signal(SIGCONT);
  }
};

TEST_F(Identity, TheSocketAndItsDirectoryAreOursAlone) {
  struct stat socket{}, directory{};
  ASSERT_EQ(::stat(daemon().socket_path().c_str(), &socket), 0);
  ASSERT_EQ(::stat(daemon().runtime_dir().c_str(), &directory), 0);
  EXPECT_EQ(socket.st_mode & 07777, 0600U);
  EXPECT_EQ(directory.st_mode & 07777, 0700U);
  EXPECT_EQ(socket.st_uid, ::geteuid());
}

TEST_F(Identity, AForeignUidIsRefusedEvenIfItReachesTheSocket) {
  if (!is_root()) GTEST_SKIP() << "only root can become somebody else";
  daemon();
  open_the_way();
  const std::string path = daemon().socket_path();
  EXPECT_EQ(in_child([&] {
              become_ordinary();
              return try_ping(path);
            }),
            kRefused);
  EXPECT_EQ(counter("refused"), 1);
  EXPECT_TRUE(daemon().logs("peer is another user"));
}

TEST_F(Identity, AForeignUidDoesNotReachTheSocketAtAll) {
  if (!is_root()) GTEST_SKIP() << "only root can become somebody else";
  const std::string path = daemon().socket_path();
  EXPECT_EQ(in_child([&] {
              become_ordinary();
              return try_ping(path);
            }),
            kUnreachable);
}

TEST_F(Identity, RootIsAForeignUidToAnOrdinaryUsersWarden) {
  if (!is_root()) GTEST_SKIP() << "only root can be root";
  start_as_ordinary_user();
  EXPECT_EQ(try_ping(daemon().socket_path()), kRefused);
  EXPECT_EQ(daemon().stop(), 0);
}

TEST_F(Identity, ASandboxedProcessThatFindsTheControlDoorIsRefused) {
  const std::string path = daemon().socket_path();
  constexpr int kFlags = CLONE_NEWUSER | CLONE_NEWPID;
  if (!can_unshare(kFlags)) GTEST_SKIP() << "no user namespaces here";
  EXPECT_EQ(in_namespaces(kFlags, [&] { return try_ping(path); }), kRefused);
  EXPECT_EQ(counter("refused"), 1);
}

TEST_F(Identity, AnotherUserNamespaceAloneIsRefused) {
  const std::string path = daemon().socket_path();
  if (!can_unshare(CLONE_NEWUSER)) GTEST_SKIP() << "no user namespaces here";
  EXPECT_EQ(in_namespaces(CLONE_NEWUSER, [&] { return try_ping(path); }), kRefused);
  EXPECT_TRUE(daemon().logs("not in the host's namespaces"));
}

TEST_F(Identity, AnotherPidNamespaceAloneIsRefused) {
  const std::string path = daemon().socket_path();
  if (!can_unshare(CLONE_NEWPID)) GTEST_SKIP() << "needs the right to make a pid namespace";
  EXPECT_EQ(in_namespaces(CLONE_NEWPID, [&] { return try_ping(path); }), kRefused);
  EXPECT_TRUE(daemon().logs("not in the host's namespaces"));
}

TEST_F(Identity, AnUndumpablePeerOfAnOrdinaryUserIsRefused) {
  if (!is_root()) {
    const std::string own = daemon().socket_path();
    EXPECT_EQ(in_child([&] {
                ::prctl(PR_SET_DUMPABLE, 0);
                return try_ping(own);
              }),
              kRefused);
    return;
  }
  start_as_ordinary_user();
  const std::string path = daemon().socket_path();
  EXPECT_EQ(in_child([&] {
              become_ordinary();
              return try_ping(path);
            }),
            kServed);
  EXPECT_EQ(in_child([&] {
              become_ordinary();
              ::prctl(PR_SET_DUMPABLE, 0);
              return try_ping(path);
            }),
            kRefused);
  EXPECT_EQ(daemon().stop(), 0);
}

TEST_F(Identity, AnUndumpablePeerIsKnownToAPrivilegedWarden) {
  if (!is_root()) GTEST_SKIP() << "the other half of the test above";
  const std::string path = daemon().socket_path();
  EXPECT_EQ(in_child([&] {
              ::prctl(PR_SET_DUMPABLE, 0);
              return try_ping(path);
            }),
            kServed);
}

TEST_F(Identity, APeerThatExitsRightAfterConnectingIsRefused) {
  ask_and_go();
  EXPECT_TRUE(reaches("refused", 1));
  EXPECT_EQ(daemon().log().find("stopping"), std::string::npos) << "and its request was never looked at";
}

// ---- on a kernel that cannot name a peer's process by a descriptor ----

TEST_F(Identity, WithoutPeerPidfdsPeersAreKnownByTheirCheckedPids) {
  start({.before_exec = become_old_kernel});
  const std::string path = daemon().socket_path();
  Client client = connect();
  const auto hello = client.call("warden.hello");
  ASSERT_EQ(code_of(hello), "OK");
  EXPECT_EQ(hello->result.get("identity").as_string(), "pid-checked");
  EXPECT_EQ(hello->result.get("peer").get("pid").as_int(), ::getpid());
  for (const int flags : {CLONE_NEWUSER, CLONE_NEWUSER | CLONE_NEWPID}) {
    if (!can_unshare(flags)) GTEST_SKIP() << "no user namespaces here";
    EXPECT_EQ(in_namespaces(flags, [&] { return try_ping(path); }), kRefused) << flags;
  }
  EXPECT_TRUE(daemon().logs("not in the host's namespaces"));
  // A token is its process's alone there too.
  const auto made = client.call("token.create", R"({"methods":["*"],"ttl_ms":60000})");
  EXPECT_EQ(code_of(made), "OK");
}

TEST_F(Identity, WithoutPeerPidfdsAPeerThatIsGoneIsRefused) {
  start({.before_exec = become_old_kernel});
  ask_and_go();
  EXPECT_TRUE(reaches("refused", 1));
}

TEST_F(Identity, WithoutPeerPidfdsAWardenThatRequiresThemDoesNotStart) {
  Daemon refused({.config = "[warden]\nrequire_pidfd = true\n", .before_exec = become_old_kernel});
  EXPECT_FALSE(refused.start());
  EXPECT_EQ(refused.wait(), 1);
  EXPECT_NE(refused.log().find("cannot prove who a peer is"), std::string::npos) << refused.log();
}

TEST_F(Identity, PeersThatComeAndGoInAHurryLeaveNothingBehind) {
  const std::string path = daemon().socket_path();
  for (std::size_t i = 0; i < scaled(300); ++i) {
    in_child([&] {
      Client client = Client::unix_socket(path);
      if (i % 2 == 0) client.send(request_frame("1", "test.ping"));
      return 0;
    });
  }
  EXPECT_TRUE(eventually([&] { return status_number(path, {"sessions"}) == 1; }));
}

TEST_F(Identity, APassedSocketKeepsTheIdentityOfTheOneThatConnected) {
  const std::string path = daemon().socket_path();
  int ends[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
  const UniqueFd ours{ends[0]}, theirs{ends[1]};
  const pid_t child = ::fork();
  if (child == 0) {
    Client client = Client::unix_socket(path);
    const int fd = client.fd();
    send_with_descriptors(theirs.get(), "x", &fd, 1);
    ::pause();
    ::_exit(0);
  }
  Client passed(receive_descriptor(ours.get()));
  ASSERT_TRUE(passed);
  const auto hello = passed.call("warden.hello");
  ASSERT_EQ(code_of(hello), "OK");
  EXPECT_EQ(hello->result.get("peer").get("pid").as_int(), child);
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
}

TEST_F(Identity, APassedSocketOfASandboxedProcessStaysRefused) {
  const std::string path = daemon().socket_path();
  if (!can_unshare(CLONE_NEWUSER)) GTEST_SKIP() << "no user namespaces here";
  int ends[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
  const UniqueFd ours{ends[0]}, theirs{ends[1]};
  in_namespaces(CLONE_NEWUSER, [&] {
    Client client = Client::unix_socket(path);
    const int fd = client.fd();
    send_with_descriptors(theirs.get(), "x", &fd, 1);
    return 0;
  });
  Client passed(receive_descriptor(ours.get()));
  ASSERT_TRUE(passed);
  EXPECT_EQ(passed.outcome("test.ping"), "UNAUTHENTICATED");
}

// ---- descriptors nobody asked for ----

TEST_F(Identity, DescriptorsInScmRightsAreDroppedAndCounted) {
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  const UniqueFd read_end{ends[0]};
  UniqueFd write_end{ends[1]};
  Client client = connect();
  const int fd = write_end.get();
  ASSERT_TRUE(send_with_descriptors(client.fd(), request_frame("1", "test.ping"), &fd, 1));
  EXPECT_EQ(code_of(client.next_message()), "OK") << "the message itself is served";
  write_end.reset();
  char byte = 0;
  EXPECT_EQ(::read(read_end.get(), &byte, 1), 0) << "nobody else holds the pipe open";
  EXPECT_EQ(counter("descriptors_dropped"), 1);
  EXPECT_TRUE(daemon().logs("dropped descriptors nobody asked for"));
}

TEST_F(Identity, AFloodOfDescriptorsExhaustsNothing) {
  const std::string ping = request_frame("1", "test.ping");
  for (int i = 0; i < 100; ++i) {
    Client client = connect();
    const std::vector<int> many(250, client.fd());
    // Spread over the frame: each piece brings its own.
    ASSERT_TRUE(send_with_descriptors(client.fd(), ping.substr(0, 10), many.data(), many.size()));
    ASSERT_TRUE(send_with_descriptors(client.fd(), ping.substr(10), many.data(), many.size()));
    ASSERT_EQ(code_of(client.next_message()), "OK");
  }
  EXPECT_GE(counter("descriptors_dropped"), 100);
}

TEST_F(Identity, WhoKeepsSendingDescriptorsIsDisconnected) {
  Client client = connect();
  const int fd = client.fd();
  for (int i = 0; i + 1 < wire::kMaxMalformed; ++i) {
    ASSERT_TRUE(send_with_descriptors(client.fd(), request_frame("1", "test.ping"), &fd, 1));
    ASSERT_EQ(code_of(client.next_message()), "OK");
  }
  ASSERT_TRUE(send_with_descriptors(client.fd(), request_frame("1", "test.ping"), &fd, 1));
  EXPECT_EQ(code_for_nobody(client.next_message()), "PROTOCOL_ERROR");
  EXPECT_TRUE(client.is_closed_by_peer());
}

TEST_F(Identity, AFloodOfBrokenConnectionsCostsAFewLinesOfTheLog) {
  constexpr int kConnections = 500;
  for (int i = 0; i < kConnections; ++i) {
    Client client = connect();
    ASSERT_TRUE(client.send(header_of(0)));
    ASSERT_TRUE(client.is_closed_by_peer());
  }
  EXPECT_TRUE(reaches("protocol_closes", kConnections));
  const std::string log = daemon().log();
  const auto lines = std::count(log.begin(), log.end(), '\n');
  EXPECT_LT(lines, kConnections / 2) << log;
  EXPECT_NE(log.find("closing a connection that broke the protocol"), std::string::npos);
  EXPECT_TRUE(daemon().logs("lines were left out")) << "those are counted";
}

}  // namespace
}  // namespace sallyport::testing
