// The command line, as a person or a script meets it.
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>

#include "os/process.h"
#include "os/sockets.h"
#include "support/attacker.h"
#include "support/client.h"
#include "support/daemon.h"
#include "support/shell.h"

namespace sallyport::testing {
namespace {

class CommandLine : public ::testing::Test {
 protected:
  // Runs `sallyport ARGUMENTS` with directories of this test's own.
  Ran sallyport(const std::string& arguments, const std::string& input = "/dev/null") {
    const std::string root = root_.path();
    return run_shell("cd '" + root + "/project' && " + environment() + SALLYPORT_CLI " " + arguments + " 2>&1 <" +
                     input);
  }
  std::string environment() const { return "HOME='" + root_.path() + "/home' " + places_in(root_.path()); }
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
    up = run_shell(places_in(root.path()) + SALLYPORT_CLI " --json up");
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
  EXPECT_EQ(sallyport("audit verify").status, 1);
  // Numbers and words that mean nothing are refused, not taken for everything.
  for (const char* wrong :
       {"tail -n -1", "query --limit -1", "query --limit 0", "query --limit 1e20", "query --decision NOSUCH"}) {
    EXPECT_EQ(sallyport(std::string("audit ") + wrong).status, 2) << wrong;
  }
  EXPECT_EQ(sallyport("audit query --decision POLICY_DENIED").status, 0);
}

// ---- a warden that cannot or will not serve ----

TEST_F(CommandLine, ARefusalIsReportedAsWhatItIsEveryTime) {
  ASSERT_EQ(sallyport("up").status, 0);
  const std::string inside = "cd '" + root_.path() + "/project' && " + environment() +
                             "unshare -r -p -f --mount-proc " SALLYPORT_CLI " ping 2>&1";
  for (int i = 0; i < 20; ++i) {
    const Ran ran = run_shell(inside);
    EXPECT_EQ(ran.status, 3) << ran.output;
    EXPECT_NE(ran.output.find("not in the host's namespaces"), std::string::npos) << ran.output;
  }
}

TEST_F(CommandLine, AFullDoorIsReportedAsWhatItIsEveryTime) {
  write("sallyport.toml", "[warden]\nmax_connections = 1\n");
  ASSERT_EQ(sallyport("up").status, 0);
  const auto connection = os::connect_unix(root_.path() + "/run/warden.sock");
  ASSERT_TRUE(connection);
  // The one before it is closed when its command has ended, which the warden may not have seen yet.
  ASSERT_TRUE(eventually([&] { return sallyport("ping").status == 1; }));
  for (int i = 0; i < 20; ++i) {
    const Ran ran = sallyport("ping");
    EXPECT_EQ(ran.status, 1) << ran.output;
    EXPECT_NE(ran.output.find("too many connections"), std::string::npos) << ran.output;
  }
}

TEST_F(CommandLine, AWardenThatIsStoppingIsWaitedFor) {
  write("sallyport.toml", "[warden]\ndrain_timeout_ms = 1500\n");
  ASSERT_EQ(sallyport("up").status, 0);
  Client busy = Client::unix_socket(root_.path() + "/run/warden.sock");
  ASSERT_TRUE(busy.send_request("1", "test.sleep", R"({"ms":60000})"));
  ASSERT_TRUE(busy.send_request("2", "warden.shutdown"));
  const auto stopping = busy.next_message();
  ASSERT_TRUE(stopping && stopping->id == "2" && !stopping->error);
  const Ran ran = sallyport("--json up");
  EXPECT_EQ(ran.status, 0) << ran.output;
  EXPECT_NE(ran.output.find("\"was_running\":false"), std::string::npos) << ran.output;
  // And who was cut off is told so.
  const auto cut_off = busy.next_message();
  ASSERT_TRUE(cut_off && cut_off->id == "1");
  EXPECT_EQ(code_of(cut_off), "UNAVAILABLE");
}

TEST_F(CommandLine, DownWhileAnotherOneStopsItIsFine) {
  ASSERT_EQ(sallyport("up").status, 0);
  const std::string twice =
      "for i in 1 2 3 4; do (" + std::string(SALLYPORT_CLI) + " down || echo FAILED) & done; wait";
  const Ran ran = run_shell(environment() + "sh -c '" + twice + "' 2>&1");
  EXPECT_EQ(ran.output.find("FAILED"), std::string::npos) << ran.output;
}

TEST_F(CommandLine, AFaultInAProfileLeavesNoSocketBehind) {
  std::filesystem::create_directories(root_.path() + "/profiles");
  write("profiles/bad.toml", "nonsense = 1\n");
  EXPECT_EQ(sallyport("up").status, 4);
  EXPECT_FALSE(std::filesystem::exists(root_.path() + "/run/warden.sock"));
  std::filesystem::remove(root_.path() + "/profiles/bad.toml");
}

TEST_F(CommandLine, OutputThatCannotBeWrittenIsAFailure) {
  ASSERT_EQ(sallyport("up").status, 0);
  const Ran ran = run_shell(environment() + SALLYPORT_CLI " call test.ping 2>&1 >/dev/full");
  EXPECT_EQ(ran.status, 1);
  EXPECT_NE(ran.output.find("the output cannot be written"), std::string::npos) << ran.output;
}

TEST_F(CommandLine, WhatWaitsForAHumanSaysSo) {
  write("sallyport.toml",
        "[[rule]]\nname = \"careful\"\nmatch = \"test.echo\"\nprincipal = [\"host\"]\neffect = \"human\"\n");
  const Ran ran = sallyport("call test.echo '{\"data\":1}' --deadline-ms 4000");
  EXPECT_NE(ran.output.find("sallyport approvals show"), std::string::npos) << ran.output;
}

TEST_F(CommandLine, AMethodThatNeedsATokenCanBeCalled) {
  write("sallyport.toml", "[host]\ntoken_methods = [\"test.echo\"]\n");
  const Ran without = sallyport("call test.echo '{\"data\":1}'");
  EXPECT_EQ(without.status, 3);
  EXPECT_NE(without.output.find("sallyport call --token"), std::string::npos) << without.output;
  const Ran with = sallyport("call --token test.echo '{\"data\":1}'");
  EXPECT_EQ(with.status, 0) << with.output;
}

TEST_F(CommandLine, ParametersWithoutAnEndAreNotReadToTheEnd) {
  const Ran endless = sallyport("call test.echo -", "/dev/zero");
  EXPECT_EQ(endless.status, 2) << endless.output;
  EXPECT_NE(endless.output.find("larger than a message can be"), std::string::npos) << endless.output;
}

TEST_F(CommandLine, ARunSaysWhatItRefusedAndWhatCannotBeSeen) {
  const std::string hidden = root_.path() + "/hidden";
  std::filesystem::create_directories(hidden);
  for (int i = 0; i < 300; ++i) std::ofstream(hidden + "/" + std::to_string(i)) << "x";
  const Ran plain = sallyport("run --no-warden -- bash -c 'unshare -U true; cat " + hidden + "/1'");
  EXPECT_NE(plain.output.find("refused 1 calls by seccomp"), std::string::npos) << plain.output;
  EXPECT_NE(plain.output.find("not seen without --explain"), std::string::npos) << plain.output;
  const Ran explained = sallyport("run --no-warden --explain -- bash -c 'for i in {0..299}; do read x < " + hidden +
                                  "/$i; done; : > /etc/x'");
  EXPECT_NE(explained.output.find(hidden + "/1: ENOENT, the host has it"), std::string::npos) << explained.output;
  EXPECT_NE(explained.output.find("more\n"), std::string::npos) << "what was left out is not counted";
  EXPECT_EQ(explained.output.find("without --explain"), std::string::npos) << explained.output;
}

TEST_F(CommandLine, ACallThatCarriesAStreamIsNoSilentSuccess) {
  write("project/f", "text\n");
  const std::string place = "{\"workspace\":\"" + root_.path() + "/project\",\"path\":\"f\",";
  const Ran read = sallyport("call fs.read '" + place + "\"stream\":true}'");
  EXPECT_NE(read.status, 0);
  EXPECT_NE(read.output.find("no stream of bytes"), std::string::npos) << read.output;
  const Ran written = sallyport("call fs.write '" + place + "\"content\":{\"$stream\":1}}'");
  EXPECT_NE(written.status, 0);
  write("project/f", R"(a file that says {"$stream":1})");
  EXPECT_EQ(sallyport("call fs.read '" + place + "\"line_numbers\":false}'").status, 0);
}

TEST_F(CommandLine, AFullDiskIsNamed) {
  if (!is_root()) GTEST_SKIP() << "only root can mount";
  const std::string state = root_.path() + "/state";
  std::filesystem::create_directories(state);
  std::filesystem::permissions(state, std::filesystem::perms::owner_all);
  // In a mount namespace of its own, which goes with the command.
  const std::string script = "mount -t tmpfs -o size=64k,mode=700 tmpfs " + state + " && : >" + state +
                             "/warden.log && dd if=/dev/zero of=" + state +
                             "/full bs=1k 2>/dev/null; " SALLYPORT_CLI " up; echo status $?; " SALLYPORT_CLI " doctor";
  const Ran ran =
      run_shell(environment() + "SALLYPORT_STATE_DIR='" + state + "' unshare -m sh -c '" + script + "' 2>&1");
  EXPECT_EQ(ran.output.find("it said nothing"), std::string::npos) << ran.output;
  EXPECT_NE(ran.output.find("status 4"), std::string::npos) << ran.output;
  EXPECT_NE(ran.output.find("disk is full"), std::string::npos) << ran.output;
  EXPECT_NE(ran.output.find("state directory"), std::string::npos) << ran.output;
  EXPECT_NE(ran.output.find("free some room"), std::string::npos) << ran.output;
}

}  // namespace
}  // namespace sallyport::testing
