// The command line, as a person or a script meets it.
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>

#include "os/process.h"
#include "support/daemon.h"
#include "support/shell.h"

namespace sallyport::testing {
namespace {

class CommandLine : public ::testing::Test {
 protected:
  // Runs `sallyport ARGUMENTS` with directories of this test's own.
  Ran sallyport(const std::string& arguments, const std::string& input = "/dev/null") {
    const std::string root = root_.path();
    const std::string command = "cd '" + root + "/project' && HOME='" + root + "/home' SALLYPORT_RUNTIME_DIR='" + root +
                                "/run' SALLYPORT_STATE_DIR='" + root + "/state' SALLYPORT_CONFIG='" + root +
                                "/sallyport.toml' " SALLYPORT_CLI " " + arguments + " 2>&1 <" + input;
    return run_shell(command);
  }
  void write(const std::string& name, const std::string& text) { std::ofstream(root_.path() + "/" + name) << text; }

  void SetUp() override {
    std::filesystem::create_directories(root_.path() + "/project");
    std::filesystem::create_directories(root_.path() + "/home");
  }
  void TearDown() override { EXPECT_EQ(sallyport("down").status, 0); }

  TemporaryDirectory root_;
};

TEST_F(CommandLine, UpIsIdempotentAndDownToo) {
  EXPECT_EQ(sallyport("up").status, 0);
  EXPECT_NE(sallyport("up").output.find("already running"), std::string::npos);
  EXPECT_EQ(sallyport("down").status, 0);
  EXPECT_EQ(sallyport("down").status, 0);
}

// What keeps every other test from leaving one behind.
TEST(TemporaryDirectories, TakeAWardenThatWasLeftInThemAlong) {
  Ran up;
  std::optional<std::uint64_t> started;
  pid_t pid = 0;
  {
    const TemporaryDirectory root;
    up = run_shell("SALLYPORT_RUNTIME_DIR='" + root.path() + "/run' SALLYPORT_STATE_DIR='" + root.path() +
                   "/state' SALLYPORT_CONFIG='" + root.path() + "/sallyport.toml' " SALLYPORT_CLI " --json up");
    ASSERT_EQ(std::sscanf(up.output.c_str(), "{\"pid\":%d", &pid), 1) << up.output;
    if (const auto time = os::process_start_time(pid)) started = *time;
    ASSERT_TRUE(started && os::is_process_alive(pid, *started));
  }
  EXPECT_FALSE(os::is_process_alive(pid, *started));
}

TEST_F(CommandLine, TheWardenStartsByItselfWhenACommandNeedsIt) {
  EXPECT_EQ(sallyport("status").status, 4) << "looking does not start it";
  EXPECT_EQ(sallyport("ping").status, 0);
  EXPECT_EQ(sallyport("status").status, 0);
}

TEST_F(CommandLine, ExitCodesTellDeniedFromFailedFromWrongUsage) {
  EXPECT_EQ(sallyport("call test.ping").output, "{\"pong\":true}\n");
  EXPECT_EQ(sallyport("call no.such.method").status, 1);
  EXPECT_EQ(sallyport("call test.echo '{'").status, 2);
  EXPECT_EQ(sallyport("call test.echo '[]'").status, 2);
  write("sallyport.toml", "[host]\nmethods = [\"test.*\", \"warden.reload\", \"warden.shutdown\"]\n");
  ASSERT_EQ(sallyport("call warden.reload").status, 0);
  const Ran denied = sallyport("call warden.status");
  EXPECT_EQ(denied.status, 3);
  EXPECT_NE(denied.output.find("POLICY_DENIED"), std::string::npos);
  EXPECT_EQ(sallyport("up").status, 0) << "who it is the kernel says";
}

TEST_F(CommandLine, AnUnknownCommandSuggestsTheNearest) {
  const Ran ran = sallyport("statsu");
  EXPECT_EQ(ran.status, 2);
  EXPECT_NE(ran.output.find("Did you mean: sallyport status"), std::string::npos) << ran.output;
}

TEST_F(CommandLine, AWardenThatDiesWhileStartingSaysWhy) {
  write("sallyport.toml", "[warden]\nidle_timeout = 5\n");
  const Ran ran = sallyport("up");
  EXPECT_EQ(ran.status, 4);
  EXPECT_NE(ran.output.find("sallyport.toml:2:1: unknown key 'idle_timeout'"), std::string::npos) << ran.output;
}

TEST_F(CommandLine, RunPassesStatusAndSignalsThrough) {
  EXPECT_EQ(sallyport("run -- sh -c 'exit 7'").status, 7);
  EXPECT_EQ(sallyport("run -- sh -c 'kill -TERM $$'").status, 128 + 15);
  EXPECT_EQ(sallyport("run -- no-such-program").status, 1);
  EXPECT_EQ(sallyport("run --profile none -- true").status, 2);
  EXPECT_EQ(sallyport("run --limit memory=much -- true").status, 2);
  EXPECT_EQ(sallyport("run --allow-net 'no host' -- true").status, 2);
}

TEST_F(CommandLine, RunWorksInTheWorkspaceAndHidesTheHome) {
  write("home/secret", "s");
  EXPECT_EQ(sallyport("run -- sh -c 'echo made > file; cat ~/secret'").status, 1);
  EXPECT_TRUE(std::filesystem::exists(root_.path() + "/project/file"));
}

TEST_F(CommandLine, ARunningWardenGivesRunADoorAndForgetsItAfterwards) {
  ASSERT_EQ(sallyport("up").status, 0);
  EXPECT_NE(sallyport("run -- sh -c 'echo $SALLYPORT_DOOR'").output.find("/run/sallyport/door.sock"),
            std::string::npos);
  EXPECT_EQ(sallyport("run --no-warden -- sh -c 'echo $SALLYPORT_DOOR'").output, "\n");
  EXPECT_TRUE(eventually([&] { return sallyport("container ls").output.empty(); }));
}

TEST_F(CommandLine, WhatTheWallsOfARunRefusedIsInTheWardensLog) {
  ASSERT_EQ(sallyport("up").status, 0);
  EXPECT_EQ(sallyport("run -- sh -c 'for i in 1 2 3; do unshare -m true; done; exit 5'").status, 5);
  const std::string records = sallyport("--json audit query --method container.violation").output;
  EXPECT_NE(records.find("\"code\":\"POLICY_DENIED\""), std::string::npos) << records;
  EXPECT_NE(records.find("unshare flags 0x20000 (3 times)"), std::string::npos) << records;
}

TEST_F(CommandLine, ContainersAreMadeUsedAndForgotten) {
  Ran made = sallyport("container create --name box");
  ASSERT_EQ(made.status, 0) << made.output;
  made.output.pop_back();
  EXPECT_EQ(sallyport("container exec " + made.output + " -- sh -c 'echo hi; exit 4'").output, "hi\n");
  EXPECT_EQ(sallyport("container exec " + made.output + " -- sh -c 'exit 4'").status, 4);
  // Both ways at once, far more than what may be under way; and a command that reads nothing of it.
  const std::string through = "container exec -i " + made.output + " -- ", text(3'000'000, 'x');
  write("text", text);
  EXPECT_TRUE(sallyport(through + "cat", "../text").output == text);
  EXPECT_EQ(sallyport(through + "sh -c 'exit 6'", "/dev/zero").status, 6);
  EXPECT_EQ(sallyport("container rm " + made.output).status, 1) << "it still runs";
  EXPECT_EQ(sallyport("container stop " + made.output).status, 0);
  EXPECT_EQ(sallyport("container rm " + made.output).status, 0);
}

TEST_F(CommandLine, APathThatIsNotThereIsNotAllowedInSilence) {
  for (const char* option : {"--read", "--write"}) {
    const Ran ran = sallyport(std::string("run --no-warden ") + option + " no/such/place -- true");
    EXPECT_EQ(ran.status, 2) << ran.output;
    EXPECT_NE(ran.output.find("no/such/place"), std::string::npos) << ran.output;
  }
}

TEST_F(CommandLine, AFaultInAProfileNamesLineAndWordAndStartsNothing) {
  std::filesystem::create_directories(root_.path() + "/profiles");
  write("profiles/mine.toml", "[profile.mine]\nfs.raed = [\"/usr\"]\n");
  const Ran checked = sallyport("policy check ../profiles/mine.toml");
  EXPECT_EQ(checked.status, 1);
  EXPECT_NE(checked.output.find("mine.toml:2:4: unknown key 'raed'"), std::string::npos) << checked.output;
  EXPECT_EQ(sallyport("run -- true").status, 2);
}

TEST_F(CommandLine, AuditFindsWhatWasChangedInItsFiles) {
  ASSERT_EQ(sallyport("call token.create '{\"methods\":[\"*\"],\"ttl_ms\":1000}'").status, 0);
  ASSERT_EQ(sallyport("down").status, 0);
  EXPECT_EQ(sallyport("audit verify").status, 0);
  for (const auto& entry : std::filesystem::directory_iterator(root_.path() + "/state/audit")) {
    std::ofstream(entry.path(), std::ios::app) << "{\"seq\":99}\n";
  }
  EXPECT_NE(sallyport("audit verify").status, 0);
}

}  // namespace
}  // namespace sallyport::testing
