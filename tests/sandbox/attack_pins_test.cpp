// Attacks on what is pinned by another way than its name: hard links, and links that lead to it.
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>

#include "fixture.h"

namespace sallyport::sandbox {
namespace {

class PinAttack : public AttackTest {
 protected:
  void SetUp() override {
    AttackTest::SetUp();
    if (IsSkipped()) return;
    host("git init -q . && git -c user.name=a -c user.email=a@b commit -q --allow-empty -m first");
    git_ = workspace_ + "/.git";
  }
  static std::size_t findings(const Outcome& outcome) {
    return static_cast<std::size_t>(std::count_if(outcome.report.begin(), outcome.report.end(), [](const auto& line) {
      return line.starts_with("quarantined ") || line.starts_with("suspicious ");
    }));
  }
  static bool remarks_on(const Outcome& outcome, const std::string& path) {
    return std::any_of(outcome.report.begin(), outcome.report.end(),
                       [&](const auto& line) { return line.starts_with("remark " + path + " "); });
  }
  std::string git_;
};
SALLYPORT_BOTH_WAYS(PinAttack);

// ---- one run makes a second name, the next one writes through it ----

TEST_P(PinAttack, WritesAPinnedConfigurationThroughAHardLink) {
  EXPECT_EQ(findings(shell("git init -q sub && git -C sub config user.name kept && ln sub/.git/config x")), 0U);
  const std::string config = workspace_ + "/sub/.git/config";
  const Outcome second =
      shell("ln -f sub/.git/config y; printf '[core]\\n\\tfsmonitor = \"touch PWNED; false\"\\n' >> x; rm x");
  EXPECT_TRUE(second.reports("quarantined " + config)) << second.output;
  EXPECT_FALSE(exists(workspace_ + "/y")) << "no new names for what is pinned";
  host("cd sub && git status > /dev/null");
  EXPECT_FALSE(exists(workspace_ + "/sub/PWNED"));
  EXPECT_NE(read(config).find("kept"), std::string::npos);
}

TEST_P(PinAttack, IsToldOfAPinnedFileWithAnotherName) {
  host("echo '{}' > .mcp.json && ln .mcp.json other && mkdir .vscode && echo '{}' > .vscode/a && ln .vscode/a b");
  const Outcome quiet = shell("true");
  EXPECT_EQ(findings(quiet), 0U) << testing::PrintToString(quiet.report);
  EXPECT_TRUE(remarks_on(quiet, workspace_ + "/.mcp.json"));
  EXPECT_TRUE(remarks_on(quiet, workspace_ + "/.vscode/a"));
}

TEST_P(PinAttack, WritesPinnedSettingsThroughAHardLink) {
  shell(
      "mkdir -p .vscode/deep; echo '{}' | tee .mcp.json .vscode/tasks.json .vscode/deep/x; ln .mcp.json a; "
      "ln .vscode/tasks.json b; ln .vscode/deep/x c");
  const Outcome second = shell("for i in a b c; do echo evil >> $i; rm $i; done");
  for (const char* path : {"/.mcp.json", "/.vscode/tasks.json", "/.vscode/deep/x"}) {
    EXPECT_TRUE(second.reports("suspicious " + workspace_ + path)) << path;
  }
  EXPECT_EQ(findings(second), 3U) << testing::PrintToString(second.report);
  EXPECT_EQ(findings(shell("true")), 0U) << "what did not change since the launch is not named again";
}

TEST_P(PinAttack, WritesAPinnedHookThroughAHardLink) {
  host("echo mine > .git/hooks/pre-commit && ln .git/hooks/pre-commit x && echo mine > .git/hooks/pre-push");
  const Outcome outcome = shell("echo evil > x; rm x");
  EXPECT_TRUE(outcome.reports("quarantined " + git_ + "/hooks/pre-commit"));
  EXPECT_FALSE(exists(git_ + "/hooks/pre-commit"));
  EXPECT_TRUE(exists(git_ + "/hooks/pre-push"));
}

TEST_P(PinAttack, WritesAPointerThroughAHardLink) {
  make_directory("outside");
  host("git init -q --separate-git-dir=other.git tree && ln tree/.git x");
  const Outcome outcome = shell("echo 'gitdir: " + base_ + "/outside' > x; rm x");
  EXPECT_TRUE(outcome.reports("quarantined " + workspace_ + "/tree/.git"));
}

// What the host writes meanwhile is named, and left where it is.
TEST_P(PinAttack, SeesTheHostWriteAHookWhichIsNamed) {
  host("echo mine > .git/hooks/pre-commit");
  Spec attacked = spec();
  attacked.command = {"bash", "-c", "touch started; until [ -e written ]; do sleep 0.01; done"};
  const pid_t editor = ::fork();
  if (editor == 0) {
    while (!exists(workspace_ + "/started")) ::usleep(1000);
    host("echo again >> .git/hooks/pre-commit; touch written");
    ::_exit(0);
  }
  const Outcome outcome = run(attacked);
  ::waitpid(editor, nullptr, 0);
  EXPECT_TRUE(outcome.reports("suspicious " + git_ + "/hooks/pre-commit"));
  EXPECT_EQ(read(git_ + "/hooks/pre-commit"), "mine\nagain\n");
}

// A file that the host wrote in the very tick of the launch has not changed since.
TEST_P(PinAttack, LeavesWhatTheHostWroteRightBeforeTheLaunch) {
  for (int round = 0; round < 5; ++round) {
    write("workspace/.mcp.json", "{}");
    write("workspace/.claude/settings.json", "{}");
    const Outcome outcome = shell("true");
    EXPECT_EQ(findings(outcome), 0U) << testing::PrintToString(outcome.report);
  }
}

// ---- what is used is a link to a file that was writable ----

TEST_P(PinAttack, WritesAHookThatIsALink) {
  host(
      "mkdir -p scripts tools/hooks && echo mine | tee scripts/pre-commit scripts/pre-push > log && "
      "ln -s ../../scripts/pre-commit .git/hooks/pre-commit && ln -s ../../scripts/pre-push tools/hooks/pre-push && "
      "git config core.hooksPath tools/hooks");
  EXPECT_TRUE(is_refused(attack({"write", workspace_ + "/scripts/pre-commit"})));
  EXPECT_TRUE(is_refused(attack({"unlink", workspace_ + "/scripts/pre-commit"})));
  EXPECT_TRUE(is_refused(attack({"write", workspace_ + "/scripts/pre-push"})));
  const Outcome quiet = shell("echo more > scripts/other");
  EXPECT_EQ(findings(quiet), 0U) << testing::PrintToString(quiet.report);
  EXPECT_TRUE(exists(git_ + "/hooks/pre-commit"));
  EXPECT_TRUE(exists(workspace_ + "/tools/hooks/pre-push"));
}

TEST_P(PinAttack, LeadsAHookThatIsALinkElsewhere) {
  host(
      "mkdir one two && echo mine > one/pre-commit && ln -s one now && ln -s ../../now/pre-commit "
      ".git/hooks/pre-commit "
      "&& ln -s ../../later .git/hooks/pre-push");
  const Outcome outcome = shell("echo evil | tee two/pre-commit later; ln -sfn two now");
  for (const char* hook : {"/hooks/pre-commit", "/hooks/pre-push"}) {
    EXPECT_TRUE(outcome.reports("quarantined " + git_ + hook)) << hook;
    EXPECT_FALSE(exists(git_ + hook)) << hook;
  }
}

TEST_P(PinAttack, WritesSettingsBehindLinks) {
  host(
      "mkdir -p conf skills .claude sub && echo '{}' | tee conf/claude.json conf/tasks.json skills/s mcp > log && "
      "ln -s conf .vscode && ln -s ../conf/claude.json .claude/settings.json && ln -s ../skills .claude/skills && "
      "ln -s ../mcp sub/.mcp.json");
  for (const char* path : {"/conf/claude.json", "/conf/tasks.json", "/skills/s", "/mcp"}) {
    EXPECT_TRUE(is_refused(attack({"write", workspace_ + path}))) << path;
  }
  const Outcome quiet = shell("true");
  EXPECT_EQ(findings(quiet), 0U) << testing::PrintToString(quiet.report);
}

TEST_P(PinAttack, LeadsSettingsElsewhere) {
  host("mkdir -p a b .claude && ln -s a .vscode && ln -s a way && ln -s ../way .claude/skills");
  const Outcome outcome = shell("ln -sfn b .vscode; ln -sfn b way; ln -s b .idea");
  for (const char* path : {"/.vscode", "/.claude/skills", "/.idea"}) {
    EXPECT_TRUE(outcome.reports("suspicious " + workspace_ + path)) << path;
  }
}

TEST_P(PinAttack, WritesWhatALinkLeadsToThroughAHardLink) {
  host(
      "mkdir -p scripts conf && echo mine | tee scripts/pre-commit conf/tasks.json > log && ln scripts/pre-commit x && "
      "ln conf/tasks.json y && ln -s ../../scripts/pre-commit .git/hooks/pre-commit && ln -s conf .vscode");
  const Outcome outcome = shell("echo evil | tee x y; rm x y");
  EXPECT_TRUE(outcome.reports("quarantined " + git_ + "/hooks/pre-commit"));
  EXPECT_TRUE(outcome.reports("suspicious " + workspace_ + "/conf/tasks.json"));
}

// A link into the directory that it is in does not make all of that read-only, and one that needs no pin gets none.
TEST_P(PinAttack, KeepsWhatALinkOfSettingsIsInWritable) {
  host(
      "mkdir -p sub/.claude/bin && echo x > sub/.claude/tool && ln -s .. sub/.claude/top && ln -s ../tool "
      "sub/.claude/bin/t");
  const Outcome outcome = shell("echo fine > sub/file && ! grep -q /.claude/tool /proc/self/mountinfo");
  EXPECT_EQ(outcome.code, 0) << outcome.output;
  EXPECT_EQ(findings(outcome), 0U) << testing::PrintToString(outcome.report);
}

}  // namespace
}  // namespace sallyport::sandbox
