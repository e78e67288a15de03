// Attacks on what the host's git, editors and agents would run later.
#include <sys/stat.h>
#include <unistd.h>

#include "fixture.h"

namespace sallyport::sandbox {
namespace {

class GitAttack : public AttackTest {
 protected:
  void SetUp() override {
    AttackTest::SetUp();
    if (!IsSkipped()) host("git init -q . && git -c user.name=a -c user.email=a@b commit -q --allow-empty -m first");
    git_ = workspace_ + "/.git";
  }
  std::string git_;
};
SALLYPORT_BOTH_WAYS(GitAttack);

TEST_P(GitAttack, WritesAHook) {
  EXPECT_TRUE(is_refused(attack({"write", git_ + "/hooks/pre-commit"})));
  EXPECT_FALSE(exists(git_ + "/hooks/pre-commit"));
}

TEST_P(GitAttack, WritesTheConfiguration) {
  const std::string before = read(git_ + "/config");
  EXPECT_TRUE(is_refused(attack({"write", git_ + "/config"})));
  EXPECT_TRUE(is_refused(attack({"unlink", git_ + "/config"})));
  write("workspace/forged", "[core]\n\tfsmonitor = evil\n");
  EXPECT_TRUE(is_refused(attack({"rename", workspace_ + "/forged", git_ + "/config"})));
  EXPECT_TRUE(is_refused(attack({"exchange", workspace_ + "/forged", git_ + "/config"})));
  EXPECT_EQ(read(git_ + "/config"), before);
}

TEST_P(GitAttack, MovesTheRepositoryAway) {
  EXPECT_TRUE(is_refused(attack({"rename", git_, workspace_ + "/.old"})));
  EXPECT_TRUE(is_refused(attack({"rename", git_ + "/hooks", git_ + "/old"})));
}

TEST_P(GitAttack, MovesAParentOfTheWorkspace) {
  // The parents are directories of the sandbox's own /tmp: moving them moves nothing on the host.
  shell("mv " + base_ + " /tmp/elsewhere; mkdir -p " + git_ + "/hooks; echo evil > " + git_ + "/hooks/pre-commit");
  EXPECT_FALSE(exists(git_ + "/hooks/pre-commit"));
}

TEST_P(GitAttack, ForgesTheCommonDirectory) {
  EXPECT_TRUE(is_refused(attack({"write", git_ + "/commondir"})));
  EXPECT_TRUE(is_refused(attack({"unlink", git_ + "/commondir"})));
  EXPECT_FALSE(exists(git_ + "/commondir")) << "the placeholder was left";
}

TEST_P(GitAttack, LeavesThePlaceholderToTheOtherSandboxOfTheWorkspace) {
  Spec outer = spec();
  outer.command = {"sleep", "0.5"};
  const std::string placeholder = git_ + "/commondir";
  const pid_t other = ::fork();
  if (other == 0) {
    run(outer);
    ::_exit(0);
  }
  while (!exists(placeholder)) ::usleep(1000);
  attack({"write", placeholder});
  EXPECT_TRUE(exists(placeholder));
  ::waitpid(other, nullptr, 0);
  EXPECT_FALSE(exists(placeholder));
}

TEST_P(GitAttack, TakesOverAPlaceholderThatAKilledRunLeft) {
  write("workspace/.git/commondir", ".");
  EXPECT_TRUE(is_refused(attack({"write", git_ + "/commondir"})));
  EXPECT_FALSE(exists(git_ + "/commondir"));
}

TEST_P(GitAttack, WritesAConfiguredHooksDirectory) {
  write("workspace/tools/hooks/pre-commit", "#!/bin/sh\n");
  host("git config core.hooksPath tools/hooks");
  EXPECT_TRUE(is_refused(attack({"write", workspace_ + "/tools/hooks/pre-commit"})));
}

TEST_P(GitAttack, WritesAnIncludedConfiguration) {
  write("workspace/shared.config", "[user]\n\tname = a\n");
  host("git config include.path ../shared.config");
  EXPECT_TRUE(is_refused(attack({"write", workspace_ + "/shared.config"})));
}

TEST_P(GitAttack, WritesASubmodulesConfiguration) {
  write("workspace/.git/modules/lib/sub/HEAD", "ref: refs/heads/main\n");
  const std::string config = write("workspace/.git/modules/lib/sub/config", "[core]\n");
  EXPECT_TRUE(is_refused(attack({"write", config})));
  EXPECT_TRUE(is_refused(attack({"rename", git_ + "/modules/lib/sub", git_ + "/modules/lib/other"})));
}

TEST_P(GitAttack, WritesAWorktreesCommonDirectory) {
  host("git worktree add -q side");
  EXPECT_TRUE(is_refused(attack({"write", git_ + "/worktrees/side/commondir"})));
}

TEST_P(GitAttack, WritesTheHooksOfANestedRepository) {
  host("git init -q nested");
  EXPECT_TRUE(is_refused(attack({"write", workspace_ + "/nested/.git/hooks/pre-commit"})));
  EXPECT_TRUE(is_refused(attack({"write", workspace_ + "/nested/.git/config"})));
}

// A documented limit of direct mode: what did not exist at launch is dealt with at exit.
TEST_P(GitAttack, LeavesANewRepositoryWithAHookWhichIsQuarantined) {
  const Outcome outcome = shell(
      "git init -q new && echo evil > new/.git/hooks/pre-commit && chmod +x new/.git/hooks/pre-commit && "
      "git -C new config core.fsmonitor ./evil && git -C new config user.name kept");
  const std::string hook = workspace_ + "/new/.git/hooks/pre-commit";
  EXPECT_TRUE(outcome.reports("quarantined " + hook));
  EXPECT_FALSE(exists(hook));
  const std::string config = read(workspace_ + "/new/.git/config");
  EXPECT_EQ(config.find("fsmonitor"), std::string::npos) << config;
  EXPECT_NE(config.find("kept"), std::string::npos) << config;
}

TEST_P(GitAttack, LeavesANewRepositoryWithAForgedCommonDirectoryWhichIsQuarantined) {
  const Outcome outcome = shell("git init -q new && echo ../../evil > new/.git/commondir");
  EXPECT_TRUE(outcome.reports("quarantined " + workspace_ + "/new/.git/commondir"));
  EXPECT_FALSE(exists(workspace_ + "/new/.git/commondir"));
}

TEST_P(GitAttack, LeavesAPointerToARepositoryElsewhereWhichIsQuarantined) {
  const Outcome outcome = shell("mkdir sub && echo 'gitdir: /tmp' > sub/.git");
  EXPECT_TRUE(outcome.reports("quarantined " + workspace_ + "/sub/.git"));
}

TEST_P(GitAttack, WritesEditorAndAgentSettings) {
  for (const char* path : {".vscode/tasks.json", ".idea/workspace.xml", ".claude/settings.json", ".envrc"}) {
    const std::string settings = write(std::string("workspace/") + path, "{}");
    EXPECT_TRUE(is_refused(attack({"write", settings}))) << path;
  }
}

TEST_P(GitAttack, LeavesNewSettingsWhichAreReported) {
  const Outcome outcome = shell("mkdir .vscode && echo '{}' > .vscode/tasks.json");
  EXPECT_TRUE(outcome.reports("suspicious " + workspace_ + "/.vscode"));
}

TEST_P(GitAttack, MasksNoTrackedSecretButReportsIt) {
  write("workspace/.env", "PUBLIC=1");
  host("git add .env && git -c user.name=a -c user.email=a@b commit -q -m env");
  const Outcome outcome = shell("cat .env; git status --porcelain");
  EXPECT_NE(outcome.output.find("PUBLIC=1"), std::string::npos);
  EXPECT_EQ(outcome.output.find(" M "), std::string::npos) << outcome.output;
  EXPECT_TRUE(outcome.reports("tracked " + workspace_ + "/.env"));
}

TEST_P(GitAttack, WaitsForTheHostToReplaceAPinnedFile) {
  Spec attacked = spec();
  // Waits until the host has replaced the file, gives the supervisor a moment, then writes.
  attacked.command = {"bash", "-c",
                      "touch started; until grep -q replaced .git/config; do sleep 0.01; done; "
                      "for i in $(seq 200); do grep -q /.git/config /proc/self/mountinfo && break; sleep 0.01; done; "
                      "echo evil >> .git/config"};
  const pid_t editor = ::fork();
  if (editor == 0) {
    while (!exists(workspace_ + "/started")) ::usleep(1000);
    host("printf '# replaced\\n' > .git/config.new && mv .git/config.new .git/config");
    ::_exit(0);
  }
  const Outcome outcome = run(attacked);
  ::waitpid(editor, nullptr, 0);
  EXPECT_EQ(read(git_ + "/config"), "# replaced\n") << outcome.output;
  EXPECT_TRUE(outcome.reports("lost " + git_ + "/config")) << outcome.output;
}

TEST_P(GitAttack, WaitsForTheHostToReplaceAMaskedFile) {
  write("workspace/.env", "TOKEN=1");
  Spec attacked = spec();
  attacked.command = {
      "bash", "-c",
      "touch started; until [ -e replaced ]; do sleep 0.01; done; "
      "for i in $(seq 200); do grep -q /.env /proc/self/mountinfo && break; sleep 0.01; done; cat .env"};
  const pid_t editor = ::fork();
  if (editor == 0) {
    while (!exists(workspace_ + "/started")) ::usleep(1000);
    host("echo TOKEN=2 > .env.new2 && mv .env.new2 .env && touch replaced");
    ::_exit(0);
  }
  const Outcome outcome = run(attacked);
  ::waitpid(editor, nullptr, 0);
  EXPECT_EQ(outcome.output.find("TOKEN"), std::string::npos) << outcome.output;
  EXPECT_TRUE(outcome.reports("lost " + workspace_ + "/.env"));
}

}  // namespace
}  // namespace sallyport::sandbox
