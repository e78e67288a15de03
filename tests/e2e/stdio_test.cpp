// The door of a parent process: stdin and stdout.
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <csignal>
#include <thread>

#include "door.h"

namespace sallyport::testing {
namespace {

using std::chrono::milliseconds;

struct Pipe {
  UniqueFd read, write;
  Pipe() {
    int ends[2];
    EXPECT_EQ(::pipe2(ends, O_CLOEXEC), 0);
    read = UniqueFd(ends[0]);
    write = UniqueFd(ends[1]);
  }
};

struct SocketPair {
  UniqueFd ours, theirs;
  SocketPair() {
    int ends[2];
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    ours = UniqueFd(ends[0]);
    theirs = UniqueFd(ends[1]);
  }
};

class Stdio : public Door {
 protected:
  // The client of the test is gone by now, and the daemon goes with it.
  void TearDown() override {
    if (daemon_ && daemon_->pid() > 0) {
      EXPECT_EQ(daemon_->wait(), 0);
    }
  }
  static void expect_refused(int fd) {
    Daemon refused({.arguments = {"--stdio"}, .stdin_fd = fd, .stdout_fd = fd});
    EXPECT_FALSE(refused.start());
    EXPECT_EQ(refused.wait(), 1);
    EXPECT_NE(refused.log().find("must be pipes or sockets"), std::string::npos) << refused.log();
  }
  Client start_on_pipes() {
    Pipe in, out;
    start({.arguments = {"--stdio"}, .stdin_fd = in.read.get(), .stdout_fd = out.write.get()});
    return {std::move(out.read), std::move(in.write)};
  }
};

TEST_F(Stdio, ServesItsParentOverPipes) {
  Client client = start_on_pipes();
  const auto hello = client.call("warden.hello");
  ASSERT_EQ(code_of(hello), "OK");
  EXPECT_EQ(hello->result.get("identity").as_string(), "inherited");
  EXPECT_EQ(hello->result.get("principal").as_string(), "host");
  EXPECT_TRUE(connect().pings()) << "the control door is open beside it";
}

TEST_F(Stdio, ServesItsParentOverASocketPair) {
  SocketPair pair;
  start({.arguments = {"--stdio"}, .stdin_fd = pair.theirs.get(), .stdout_fd = pair.theirs.get()});
  Client client(std::move(pair.ours));
  EXPECT_TRUE(client.pings());
}

TEST_F(Stdio, ServesWhereStdinIsASocketAndStdoutAPipe) {
  SocketPair pair;
  Pipe out;
  start({.arguments = {"--stdio"}, .stdin_fd = pair.theirs.get(), .stdout_fd = out.write.get()});
  Client client(std::move(out.read), std::move(pair.ours));
  EXPECT_TRUE(client.pings());
}

TEST_F(Stdio, ServesWhereStdinIsAPipeAndStdoutASocket) {
  SocketPair pair;
  Pipe in;
  start({.arguments = {"--stdio"}, .stdin_fd = in.read.get(), .stdout_fd = pair.theirs.get()});
  Client client(std::move(pair.ours), std::move(in.write));
  EXPECT_TRUE(client.pings());
}

TEST_F(Stdio, EndsWithItsParent) {
  Client client = start_on_pipes();
  ASSERT_TRUE(client.pings());
  client.close();
  EXPECT_EQ(daemon().wait(), 0);
}

TEST_F(Stdio, AnswersWhatIsInFlightAfterTheEndOfItsInput) {
  Client client = start_on_pipes();
  ASSERT_TRUE(client.send_request("1", "test.sleep", R"({"ms":200})"));
  client.half_close();
  EXPECT_EQ(code_of(client.next_message()), "OK");
  EXPECT_EQ(daemon().wait(), 0);
}

TEST_F(Stdio, ATokenCannotBeMadeWhereNoProcessIsKnown) {
  Client client = start_on_pipes();
  EXPECT_EQ(client.outcome("token.create", R"({"methods":["*"],"ttl_ms":1000})"), "UNAUTHENTICATED");
}

TEST_F(Stdio, BrokenFramesEndTheSessionAndTheDaemonWithIt) {
  Client client = start_on_pipes();
  ASSERT_TRUE(client.send(header_of(0)));
  EXPECT_EQ(code_for_nobody(client.next_message()), "PROTOCOL_ERROR");
  EXPECT_EQ(daemon().wait(), 0);
}

TEST_F(Stdio, WithoutPipesOrSocketsItDoesNotStart) {
  const UniqueFd file{::open("/tmp", O_RDWR | O_TMPFILE | O_CLOEXEC, 0600)},
      null{::open("/dev/null", O_RDWR | O_CLOEXEC)};
  for (const int fd : {file.get(), null.get()}) expect_refused(fd);
}

// A pipe takes 64 KiB at a time, so that here the backlog never empties; on a socket it seldom does.
TEST_F(Stdio, AReaderThatIsAlwaysBehindCostsBoundedMemory) {
  Client client = start_on_pipes();
  const std::string echo = request_frame("e", "test.echo", R"({"data":")" + std::string(100'000, 'b') + "\"}");
  const std::size_t backlog = 60, rounds = scaled(3000);
  std::thread writer([&] {
    for (std::size_t i = 0; i < rounds + backlog; ++i) client.send(echo);
  });
  for (std::size_t i = 0; i < rounds; ++i) {
    if (i % 4 == 0) std::this_thread::sleep_for(milliseconds(1));
    EXPECT_TRUE(client.next_body());
  }
  EXPECT_LT(memory_kib(), kIsSanitized ? 1 << 20 : 64 << 10);
  for (std::size_t i = 0; i < backlog; ++i) EXPECT_TRUE(client.next_body());
  writer.join();
}

}  // namespace
}  // namespace sallyport::testing
