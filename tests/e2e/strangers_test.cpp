// Whom the command line believes to be the warden: nobody but this user's own.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "os/files.h"
#include "os/sockets.h"
#include "support/attacker.h"
#include "support/daemon.h"
#include "support/shell.h"

namespace sallyport::testing {
namespace {

class Stranger : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!is_root()) GTEST_SKIP() << "only root can give a directory away";
    std::filesystem::create_directories(root_.path() + "/project");
  }
  std::string runtime_dir() const { return root_.path() + "/run"; }
  std::string environment() const {
    return "cd '" + root_.path() + "/project' && HOME='" + root_.path() + "' SALLYPORT_STATE_DIR='" + root_.path() +
           "/state' SALLYPORT_CONFIG='" + root_.path() + "/sallyport.toml' ";
  }
  Ran sallyport(const std::string& arguments) const {
    return run_shell(environment() + "SALLYPORT_RUNTIME_DIR='" + runtime_dir() + "' " SALLYPORT_CLI " " + arguments +
                     " 2>&1 </dev/null");
  }
  // Somebody listens where the warden would. Who owns the directory, and who called listen(), is up to the test.
  void listen_there() {
    auto directory = os::open_private_directory(runtime_dir());
    ASSERT_TRUE(directory);
    auto listening = os::listen_unix(directory->get(), "warden.sock");
    ASSERT_TRUE(listening);
    listening_ = std::move(*listening);
  }
  // Whether a connection came, and brought a byte.
  bool learnt_something() const {
    for (;;) {
      const UniqueFd connection{::accept4(listening_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK)};
      if (!connection) return false;
      char byte = 0;
      if (::recv(connection.get(), &byte, 1, MSG_DONTWAIT) > 0) return true;
    }
  }
  void expect_that_nobody_is_fooled(const std::string& words) {
    for (const char* command :
         {"ping", "up", "down", "status", "call test.echo '{\"data\":\"secret\"}'", "approvals ls", "container ls"}) {
      const Ran ran = sallyport(command);
      EXPECT_NE(ran.status, 0) << command;
      EXPECT_NE(ran.output.find(words), std::string::npos) << command << ": " << ran.output;
    }
    const Ran doctor = sallyport("doctor");
    EXPECT_EQ(doctor.status, 1);
    EXPECT_EQ(doctor.output.find("answers at"), std::string::npos) << doctor.output;
    // The walls stand all the same, and nothing of the stranger's is in them.
    const Ran run = sallyport("run -- sh -c 'ls /run/sallyport/session; echo \"door: $SALLYPORT_DOOR\"'");
    EXPECT_NE(run.output.find(words), std::string::npos) << run.output;
    EXPECT_NE(run.output.find("door: \n"), std::string::npos) << run.output;
    EXPECT_FALSE(learnt_something());
  }

  TemporaryDirectory root_;
  UniqueFd listening_;
};

TEST_F(Stranger, WhoOwnsTheRuntimeDirectoryIsNotSpokenTo) {
  listen_there();
  ASSERT_EQ(::chown(runtime_dir().c_str(), kOrdinaryUid, kOrdinaryUid), 0);
  expect_that_nobody_is_fooled("belongs to another user");
}

TEST_F(Stranger, WhoMayWriteToTheRuntimeDirectoryIsNotSpokenTo) {
  listen_there();
  ASSERT_EQ(::chmod(runtime_dir().c_str(), 0777), 0);
  expect_that_nobody_is_fooled("other users may write to");
}

TEST_F(Stranger, ALinkInPlaceOfTheRuntimeDirectoryIsNotFollowed) {
  listen_there();
  ASSERT_EQ(::rename(runtime_dir().c_str(), (root_.path() + "/elsewhere").c_str()), 0);
  ASSERT_EQ(::symlink("elsewhere", runtime_dir().c_str()), 0);
  expect_that_nobody_is_fooled("symbolic link");
}

TEST_F(Stranger, WhoListensAsAnotherUserIsNotSpokenToWhereverItIs) {
  listen_there();
  ASSERT_EQ(in_child([&] {
              become_ordinary();
              return ::listen(listening_.get(), 100);
            }),
            0);
  expect_that_nobody_is_fooled("runs as another user");
}

TEST_F(Stranger, TheRuntimeDirectoryOfAnotherLoginIsNotUsed) {
  const std::string shared = root_.path() + "/user";
  ASSERT_EQ(::mkdir(shared.c_str(), 0700), 0);
  ASSERT_EQ(::chown(shared.c_str(), kOrdinaryUid, kOrdinaryUid), 0);
  const Ran ran = run_shell("unset SALLYPORT_RUNTIME_DIR; " + environment() + "XDG_RUNTIME_DIR='" + shared +
                            "' " SALLYPORT_CLI " up 2>&1");
  EXPECT_EQ(ran.status, 2);
  EXPECT_NE(ran.output.find("XDG_RUNTIME_DIR (" + shared + ") belongs to another user"), std::string::npos)
      << ran.output;
  EXPECT_TRUE(std::filesystem::is_empty(shared));
}

// As MCP clients start their servers.
TEST_F(Stranger, AProgramWithoutVariablesComesToTheWardenOfTheLogin) {
  const std::string login = "/run/user/" + std::to_string(::geteuid());
  const std::string with_variable = environment() + "XDG_RUNTIME_DIR=" + login + " " SALLYPORT_CLI " --json ";
  const Ran ran = run_shell("unshare -m sh -c \"mount -t tmpfs none /run && mkdir -p -m 700 " + login + " && " +
                            with_variable + "up && " + environment() +
                            "env -u XDG_RUNTIME_DIR -u SALLYPORT_RUNTIME_DIR " SALLYPORT_CLI " --json up && " +
                            with_variable + "down\" 2>&1");
  EXPECT_EQ(ran.status, 0) << ran.output;
  EXPECT_NE(ran.output.find("\"was_running\":true,\"socket\":\"" + login + "/sallyport/warden.sock\""),
            std::string::npos)
      << ran.output;
}

TEST_F(Stranger, ASecondWardenOfOneStateIsToldWhereTheFirstIs) {
  const std::string cli = environment() + "SALLYPORT_RUNTIME_DIR='" + root_.path();
  ASSERT_EQ(run_shell(cli + "/one' " SALLYPORT_CLI " up").status, 0);
  const Ran second = run_shell(cli + "/two' " SALLYPORT_CLI " up 2>&1");
  EXPECT_EQ(second.status, 4) << second.output;
  EXPECT_NE(second.output.find("its sockets are in " + root_.path() + "/one"), std::string::npos) << second.output;
  EXPECT_EQ(run_shell(cli + "/one' " SALLYPORT_CLI " down").status, 0);
}

// ---- descriptors that are not what they should be ----

TEST_F(Stranger, AReadyDescriptorThatIsNotOpenIsRefusedBeforeAnythingIsOpened) {
  const std::string daemon = std::string(SALLYPORT_CLI) + "d";
  for (const char* number : {"5", "7", "8", "9", "12", "14"}) {
    const Ran ran = run_shell(environment() + "SALLYPORT_RUNTIME_DIR='" + runtime_dir() + "' " + daemon +
                              " --ready-fd " + number + " 2>&1 </dev/null " + number + ">&-");
    EXPECT_EQ(ran.status, 2) << number;
    EXPECT_NE(ran.output.find("no descriptor that is open for writing"), std::string::npos) << ran.output;
  }
  EXPECT_FALSE(std::filesystem::exists(root_.path() + "/state"));
  const Ran only_to_read = run_shell(environment() + daemon + " --ready-fd 7 2>&1 7</dev/null");
  EXPECT_EQ(only_to_read.status, 2) << only_to_read.output;
}

TEST(ClosedDescriptors, OfTheStandardThreeBecomeNothingElse) {
  Daemon daemon({.before_exec = [] {
    for (const int fd : {0, 1, 2}) ::close(fd);
  }});
  ASSERT_TRUE(daemon.start());
  for (const char* fd : {"0", "1", "2"}) {
    const std::string link = "/proc/" + std::to_string(daemon.pid()) + "/fd/" + fd;
    EXPECT_EQ(std::filesystem::read_symlink(link), "/dev/null") << fd;
  }
  std::ifstream lock(daemon.runtime_dir() + "/warden.lock");
  int pid = 0;
  EXPECT_TRUE(lock >> pid);
  EXPECT_EQ(pid, daemon.pid()) << "and no log line";
  EXPECT_EQ(daemon.stop(), 0);
}

}  // namespace
}  // namespace sallyport::testing
