// Attacks on the scan at exit: races with it, things it might not see, its end by force, and what it must leave alone.
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <csignal>

#include <filesystem>

#include "fixture.h"
#include "sandbox/git_state.h"

namespace sallyport::sandbox {
namespace {

namespace fs = std::filesystem;

class ScanAttack : public AttackTest {
 protected:
  void SetUp() override {
    AttackTest::SetUp();
    if (IsSkipped()) return;
    state_ = make_directory("state");
    ASSERT_EQ(::chmod(state_.c_str(), 0700), 0);
  }
  Spec recorded(const std::string& script) const {
    Spec wanted = spec();
    wanted.scan_records = state_ + "/scans";
    wanted.command = {"bash", "-c", script};
    return wanted;
  }
  Outcome run_recorded(const std::string& script) { return run(recorded(script)); }
  std::size_t records() const {
    std::size_t count = 0;
    for (const auto& entry : fs::directory_iterator(state_ + "/scans")) count += entry.is_regular_file() ? 1 : 0;
    return count;
  }
  static bool mentions(const Outcome& outcome, const std::string& kind, const std::string& part) {
    for (const std::string& line : outcome.report) {
      if (line.starts_with(kind) && line.find(part) != std::string::npos) return true;
    }
    return false;
  }
  // The supervisor itself, without the harness around it.
  [[noreturn]] void supervise(const Spec& spec) const {
    if (by_ == StartedBy::user && ::geteuid() == 0 &&
        (::setresgid(kOrdinaryUser, kOrdinaryUser, kOrdinaryUser) != 0 ||
         ::setresuid(kOrdinaryUser, kOrdinaryUser, kOrdinaryUser) != 0)) {
      ::_exit(98);
    }
    [[maybe_unused]] const auto ignored = run_foreground(spec);
    ::_exit(0);
  }
  // One that plants a hook and is killed with its supervisor: nobody looks.
  std::string plant_and_kill() {
    const std::string hook = workspace_ + "/new/.git/hooks/pre-commit";
    const Spec attacked = recorded("git init -q new && echo evil > " + hook + " && touch ready && sleep 1000");
    const pid_t harness = ::fork();
    if (harness == 0) supervise(attacked);
    while (!exists(workspace_ + "/ready")) ::usleep(1000);
    EXPECT_EQ(records(), 1U);
    ::kill(harness, SIGKILL);
    ::waitpid(harness, nullptr, 0);
    EXPECT_TRUE(exists(hook)) << "nobody was there to look";
    return hook;
  }
  std::string state_;
};
SALLYPORT_BOTH_WAYS(ScanAttack);

// ---- another sandbox of the same workspace exchanges directories for links while the scan looks at them ----

TEST_P(ScanAttack, ExchangesADirectoryForALinkToTheHostWhileAnotherSandboxIsScanned) {
  const std::string victim = make_directory("victim");
  write("victim/authorized_keys", "mine");
  write("victim/pre-commit", "mine");
  write("victim/config", "[alias]\n\tmine = !ls\n");
  for (const char* round : {"1", "2", "3"}) {
    const std::string here = make_directory(std::string("workspace/round") + round);
    // Where p has a directory, q has a link to the host's.
    Spec swapper = spec();
    swapper.command = {
        "bash", "-c",
        "cd " + here +
            "; until [ -e started ]; do sleep 0.01; done; "
            "mkdir -p p/h{1..60}/.git/hooks q/h{1..60}/.git p/g{1..60}/.git q/g{1..60}; for i in {1..60}; do "
            "echo evil > p/h$i/.git/hooks/pre-commit; printf '[core]\\nfsmonitor = evil\\n' > p/g$i/.git/config; done; "
            "ln -s " +
            victim +
            " link; for i in {1..60}; do cp -P link q/h$i/.git/hooks; cp -P link q/g$i/.git; done; "
            "exec " +
            probe_ + " exchange-for-long p q enough"};
    const pid_t other = ::fork();
    if (other == 0) {
      ::_exit(run(swapper).code == kProbeSucceeded ? 0 : 1);
    }
    shell("cd " + here + "; touch started; until [ -e enough.ready ]; do sleep 0.01; done");
    write(std::string("workspace/round") + round + "/enough", "");
    int status = 0;
    ::waitpid(other, &status, 0);
    EXPECT_EQ(status, 0) << "nothing was exchanged";
  }
  EXPECT_EQ(read(victim + "/authorized_keys"), "mine");
  EXPECT_EQ(read(victim + "/pre-commit"), "mine");
  EXPECT_EQ(read(victim + "/config"), "[alias]\n\tmine = !ls\n");
  std::size_t files = 0;
  for ([[maybe_unused]] const auto& entry : fs::directory_iterator(victim)) ++files;
  EXPECT_EQ(files, 3U);
}

TEST_P(ScanAttack, MovesTheWholeWorkspaceOfAnotherSandboxAway) {
  const std::string inner = make_directory("workspace/inner");
  write("victim/.git/hooks/pre-commit", "mine");
  Spec scanned = spec();
  scanned.workspace = inner;
  scanned.command = {"sh", "-c", "touch started; until [ -e enough ] || [ -e ../enough ]; do sleep 0.01; done"};
  const pid_t other = ::fork();
  if (other == 0) {
    const Outcome outcome = run(scanned);
    ::_exit(mentions(outcome, "note", "was moved") ? 0 : 1);
  }
  while (!exists(inner + "/started")) ::usleep(1000);
  // The outer sandbox may move the inner workspace, and put a link in its place.
  shell("mv inner gone && ln -s " + base_ + "/victim inner");
  write("workspace/gone/enough", "");
  int status = 0;
  ::waitpid(other, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(read(base_ + "/victim/.git/hooks/pre-commit"), "mine");
}

TEST_P(ScanAttack, UndoesWhatWasSetAsideForAnotherSandboxThatItKnowsFrom) {
  const std::string hooks = workspace_ + "/new/.git/hooks";
  const Spec earlier = recorded(
      "git init -q new && rm -r new/.git/hooks && mkdir kit && echo evil > kit/pre-commit && "
      "ln -s ../../kit new/.git/hooks && touch planted; until [ -e started ]; do sleep 0.01; done");
  const Spec later = recorded("touch started; until [ -e ended ]; do sleep 0.01; done; ln -s ../../kit new/.git/hooks");
  const pid_t first = ::fork();
  if (first == 0) supervise(earlier);
  while (!exists(workspace_ + "/planted")) ::usleep(1000);
  const pid_t second = ::fork();
  if (second == 0) supervise(later);
  ::waitpid(first, nullptr, 0);
  EXPECT_FALSE(exists(hooks));
  write("workspace/ended", "");
  ::waitpid(second, nullptr, 0);
  EXPECT_FALSE(exists(hooks));
  EXPECT_EQ(records(), 0U);
}

// ---- what it might not see ----

TEST_P(ScanAttack, HidesASettingBehindACommentThatSeemsToGoOn) {
  shell(
      "git init -q new && printf '[user]\\n\\tname = x # \\\\\\n[core]fsmonitor = \"touch PWNED; false\"\\n' >> "
      "new/.git/config && git init -q two && printf '[user]\\n\\tname = x\\\\\\\\\\n[core]fsmonitor = \"touch "
      "PWNED; false\"\\n' >> two/.git/config");
  host("for r in new two; do (cd $r && git status >/dev/null); done");
  EXPECT_FALSE(exists(workspace_ + "/new/PWNED"));
  EXPECT_FALSE(exists(workspace_ + "/two/PWNED"));
}

TEST_P(ScanAttack, ClosesTheHooksDirectory) {
  for (const char* mode : {"0311", "0000", "0555"}) {
    const std::string hook = workspace_ + "/r" + mode + "/.git/hooks/pre-commit";
    const Outcome outcome = shell(std::string("R=r") + mode +
                                  "; git init -q $R && echo evil > $R/.git/hooks/pre-commit && "
                                  "chmod " +
                                  mode + " $R/.git/hooks");
    EXPECT_TRUE(outcome.reports("quarantined " + hook)) << mode;
    EXPECT_FALSE(exists(hook)) << mode;
  }
}

TEST_P(ScanAttack, ClosesADirectoryAboveTheRepository) {
  const Outcome outcome =
      shell("mkdir a && git init -q a/b && echo evil > a/b/.git/hooks/pre-commit && chmod 0311 a/b && chmod 0311 a");
  EXPECT_FALSE(exists(workspace_ + "/a/b/.git/hooks/pre-commit"));
  EXPECT_TRUE(outcome.reports("quarantined " + workspace_ + "/a/b/.git/hooks/pre-commit"));
}

TEST_P(ScanAttack, LeavesARepositoryBelowNodeModules) {
  host(
      "mkdir -p node_modules/mine && git init -q node_modules/mine && echo mine > "
      "node_modules/mine/.git/hooks/pre-push");
  const Outcome outcome = shell(
      "git init -q node_modules/p && git -C node_modules/p config core.fsmonitor 'touch PWNED; false' && "
      "echo evil > node_modules/p/.git/hooks/pre-commit");
  EXPECT_TRUE(outcome.reports("quarantined " + workspace_ + "/node_modules/p/.git/config"));
  EXPECT_FALSE(exists(workspace_ + "/node_modules/p/.git/hooks/pre-commit"));
  EXPECT_TRUE(exists(workspace_ + "/node_modules/mine/.git/hooks/pre-push")) << testing::PrintToString(outcome.report);
}

TEST_P(ScanAttack, MovesAPreparedDirectoryIntoNodeModules) {
  shell("mkdir -p kit/hooks && echo evil > kit/hooks/pre-commit");
  const Outcome outcome = shell(
      "mkdir -p node_modules/p && git init -q node_modules/p && rm -r "
      "node_modules/p/.git/hooks && mv kit/hooks node_modules/p/.git/hooks");
  const std::string hook = workspace_ + "/node_modules/p/.git/hooks/pre-commit";
  EXPECT_TRUE(outcome.reports("suspicious " + hook) || outcome.reports("quarantined " + hook));
}

TEST_P(ScanAttack, LeavesABareLayout) {
  host("git init -q --bare mine.git && echo mine > mine.git/hooks/update && git -C mine.git config alias.x '!ls'");
  const Outcome outcome = shell(
      "for d in . sub; do mkdir -p $d/objects $d/refs; echo 'ref: refs/heads/m' > $d/HEAD; printf "
      "'[core]\\nrepositoryformatversion=0\\nbare=false\\nworktree=.\\nfsmonitor=touch PWNED; false\\n' > $d/config; "
      "done; echo evil > mine.git/hooks/post-update; git init -q --bare fine.git");
  EXPECT_TRUE(outcome.reports("quarantined " + workspace_ + "/config"));
  EXPECT_TRUE(outcome.reports("quarantined " + workspace_ + "/sub/config"));
  host("git status >/dev/null 2>&1 || cd sub && git status > /dev/null 2>&1 || true");
  EXPECT_FALSE(exists(workspace_ + "/PWNED"));
  EXPECT_FALSE(exists(workspace_ + "/sub/PWNED"));
  EXPECT_FALSE(exists(workspace_ + "/mine.git/hooks/post-update")) << "the hooks of one that was there are read-only";
  EXPECT_EQ(read(workspace_ + "/mine.git/hooks/update"), "mine\n");
  EXPECT_FALSE(exists(workspace_ + "/fine.git/config.quarantined"));
}

// Git asks only whether the names are there.
TEST_P(ScanAttack, LeavesABareLayoutOfLinksAndFiles) {
  const Outcome outcome = shell(
      "git init -q --bare real.git; mkdir links files; ln -s ../real.git/objects ../real.git/refs links; "
      "touch files/objects files/refs; chmod +x files/*; for d in links files; do echo 'ref: refs/heads/m' > $d/HEAD; "
      "printf '[core]\\nrepositoryformatversion=0\\nbare=false\\nworktree=.\\nfsmonitor=touch PWNED; false\\n' > "
      "$d/config; done");
  host("for d in links files; do (cd $d && git status > /dev/null 2>&1) || true; done");
  for (const char* directory : {"/links", "/files"}) {
    EXPECT_TRUE(outcome.reports("quarantined " + workspace_ + directory + "/config"));
    EXPECT_FALSE(exists(workspace_ + directory + "/PWNED"));
  }
}

TEST_P(ScanAttack, LeavesAConfigurationTooLargeToBeRead) {
  const Outcome outcome =
      shell("git init -q new && (yes a | head -c 16000000; printf '[core]\\nfsmonitor = evil\\n') > new/.git/config");
  EXPECT_TRUE(outcome.reports("quarantined " + workspace_ + "/new/.git/config"));
  EXPECT_EQ(read(workspace_ + "/new/.git/config"), "");
}

// The host's git would go on with it, commands and all.
TEST_P(ScanAttack, LeavesARebaseThatRunsACommandWhenItGoesOn) {
  host(
      "git init -q . && export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b && "
      "git commit -q --allow-empty -m 1 && git commit -q --allow-empty -m 2 && git worktree add -q side");
  const std::string todo = "/rebase-merge/git-rebase-todo";
  const std::string stop = "export GIT_SEQUENCE_EDITOR=\"sed -i '1ibreak\\n$0'\"; git rebase -q -i HEAD~1; true";
  const auto rebase = [&](const std::string& directory, const std::string& line) {
    Spec attacked = spec();
    attacked.command = {"bash", "-c", "cd " + workspace_ + directory + "; " + stop, line};
    return run(attacked);
  };
  EXPECT_FALSE(mentions(rebase("", "noop"), "suspicious", "")) << "nothing would be run";
  ASSERT_TRUE(exists(workspace_ + "/.git" + todo));
  host("git rebase --abort");
  EXPECT_TRUE(rebase("", "  x touch PWNED").reports("suspicious " + workspace_ + "/.git" + todo));
  EXPECT_TRUE(rebase("/side", "exec\ttouch PWNED").reports("suspicious " + workspace_ + "/.git/worktrees/side" + todo));
  host("true");
  const Outcome quiet = shell("git status > /dev/null");
  EXPECT_FALSE(mentions(quiet, "suspicious", "")) << testing::PrintToString(quiet.report);
}

TEST_P(ScanAttack, PutsAPreparedRebaseIntoPlace) {
  host("git init -q .; git init -q two");
  shell("mkdir kit; echo 'exec touch PWNED' > kit/git-rebase-todo");
  const Outcome outcome = shell("mv kit .git/rebase-merge; mkdir kit; ln -s ../../kit two/.git/rebase-merge");
  EXPECT_TRUE(outcome.reports("suspicious " + workspace_ + "/.git/rebase-merge/git-rebase-todo"));
  EXPECT_TRUE(outcome.reports("quarantined " + workspace_ + "/two/.git/rebase-merge"));
}

TEST(ExitScan, KnowsCommandsInWhatIsLeftOfARebase) {
  for (const char* text : {"exec a", "x a", "pick 1\n\t x\ta\n", "exec  a\r\n", "pick 1\nexec a"}) {
    EXPECT_TRUE(has_command(text)) << text;
  }
  for (const char* text : {"", "pick 1 exec a\n", "# exec a\n", "exec", "x\n", "execute a", "X a", "\n\n", " \t"}) {
    EXPECT_FALSE(has_command(text)) << text;
  }
}

// ---- what makes the search at launch incomplete does not make the scan toothless ----

TEST_P(ScanAttack, MakesPathsTooLongAndRepositoriesTooMany) {
  host(
      "for i in $(seq 36); do git init -q r$i; echo mine > r$i/.git/hooks/pre-push; git -C r$i config alias.m '!ls'; "
      "done");
  const std::string name(200, 'x');
  shell("for i in $(seq 25); do mkdir " + name + " && cd " + name + "; done; echo deep > f");
  const Outcome outcome = shell(
      "git init -q new && echo evil > new/.git/hooks/pre-commit; for i in $(seq 36); do "
      "echo evil > r$i/.git/hooks/pre-commit; git -C r$i config user.name x; done; true");
  EXPECT_TRUE(outcome.reports("quarantined " + workspace_ + "/new/.git/hooks/pre-commit"));
  for (int i = 1; i <= 36; ++i) {
    const std::string git = workspace_ + "/r" + std::to_string(i) + "/.git";
    EXPECT_FALSE(exists(git + "/hooks/pre-commit")) << i;
    EXPECT_TRUE(exists(git + "/hooks/pre-push")) << i;
    EXPECT_NE(read(git + "/config").find("!ls"), std::string::npos) << i;
  }
  host("rm -rf " + name);
}

TEST_P(ScanAttack, TouchesNothingOfTheUsersOwnWithoutNamespaces) {
  host(
      "git init -q . && git config alias.x '!ls' && git config core.sshCommand 'ssh -i mykey' && "
      "echo mine > .git/hooks/pre-commit && mkdir .vscode && cp .git/config before");
  Spec weak = spec();
  weak.allow_weak = Risk{"a test"};
  weak.deny.clear();
  ForegroundOptions options;
  options.launch.machine.has_user_namespaces = false;
  weak.command = {"true"};
  const Outcome quiet = run(weak, options);
  ASSERT_EQ(quiet.code, 0) << quiet.error;
  EXPECT_EQ(read(workspace_ + "/.git/config"), read(workspace_ + "/before"));
  EXPECT_EQ(read(workspace_ + "/.git/hooks/pre-commit"), "mine\n");
  EXPECT_FALSE(exists(workspace_ + "/.git/commondir"));
  for (const std::string& line : quiet.report) {
    EXPECT_FALSE(line.starts_with("quarantined") || line.starts_with("suspicious")) << line;
  }
  weak.command = {"bash", "-c", "echo evil > .git/hooks/pre-push; git config core.fsmonitor evil"};
  const Outcome loud = run(weak, options);
  EXPECT_TRUE(loud.reports("quarantined " + workspace_ + "/.git/hooks/pre-push"));
  EXPECT_EQ(read(workspace_ + "/.git/config"), read(workspace_ + "/before")) << "only what came from inside goes";
  EXPECT_EQ(read(workspace_ + "/.git/hooks/pre-commit"), "mine\n");
}

// ---- its supervisor is killed ----

TEST_P(ScanAttack, KillsItsSupervisorBeforeTheScan) {
  const std::string hook = plant_and_kill();
  // One elsewhere does not care; the next one here does, before it starts.
  Spec elsewhere = recorded("true");
  elsewhere.workspace = make_directory("elsewhere");
  EXPECT_FALSE(mentions(run(elsewhere), "missed", hook));
  const Outcome next = run_recorded("! test -e " + hook);
  EXPECT_EQ(next.code, 0) << next.output;
  EXPECT_TRUE(mentions(next, "missed", "quarantined: " + hook));
  EXPECT_FALSE(exists(hook));
  EXPECT_EQ(records(), 0U);
  EXPECT_FALSE(mentions(run_recorded("true"), "missed", ""));
}

TEST_P(ScanAttack, RunsNothingWhenItsSupervisorDiesBeforeTheRecordIsWritten) {
  ASSERT_EQ(::prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0), 0);  // so that its pid 1 can be waited for
  const pid_t harness = ::fork();
  if (harness == 0) {
    const rlimit none{0, RLIM_INFINITY};
    if (::setrlimit(RLIMIT_FSIZE, &none) != 0) ::_exit(97);  // the first byte that it writes kills it
    supervise(recorded("touch ran"));
  }
  int status = 0;
  ASSERT_EQ(::waitpid(harness, &status, 0), harness);
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGXFSZ) << status;
  while (::waitpid(-1, nullptr, __WALL) > 0) {
  }
  ::prctl(PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0);
  EXPECT_FALSE(exists(workspace_ + "/ran"));
  EXPECT_EQ(records(), 1U);
  EXPECT_FALSE(mentions(run_recorded("true"), "missed", "")) << "nothing ran, so there is nothing to be told";
  EXPECT_EQ(records(), 0U);
}

TEST_P(ScanAttack, IsToldByTheNextThatStartsWhenOneThatMadeItDoesNot) {
  const std::string hook = plant_and_kill();
  Spec failing = recorded("");
  failing.command = {"no-such-command"};
  EXPECT_FALSE(run(failing).has_started);
  EXPECT_FALSE(exists(hook));
  EXPECT_TRUE(mentions(run_recorded("true"), "missed", "quarantined: " + hook));
  EXPECT_EQ(records(), 0U);
}

TEST_P(ScanAttack, TellsOfARecordThatCannotBeReadAndLeavesIt) {
  EXPECT_EQ(run_recorded("true").code, 0);
  const std::string record = write("state/scans/1-1-1", "of another version");
  EXPECT_TRUE(mentions(run_recorded("true"), "missed", record + " cannot be read"));
  EXPECT_TRUE(exists(record));
}

TEST_P(ScanAttack, TakesARecordAwayThatWasNeverWritten) {
  EXPECT_EQ(run_recorded("true").code, 0);
  write("state/scans/1-1-1", "");
  EXPECT_FALSE(mentions(run_recorded("true"), "missed", ""));
  EXPECT_EQ(records(), 0U);
}

TEST_P(ScanAttack, IsNotMadeForASandboxThatStillRuns) {
  const std::string hook = workspace_ + "/new/.git/hooks/pre-commit";
  const Spec outer = recorded("git init -q new && echo mine > " + hook +
                              " && touch ready && "
                              "until [ -e enough ]; do sleep 0.01; done");
  const pid_t other = ::fork();
  if (other == 0) {
    run(outer);
    ::_exit(0);
  }
  while (!exists(workspace_ + "/ready")) ::usleep(1000);
  EXPECT_FALSE(mentions(run_recorded("true"), "missed", ""));
  EXPECT_TRUE(exists(hook));
  write("workspace/enough", "");
  ::waitpid(other, nullptr, 0);
  EXPECT_FALSE(exists(hook));
}

}  // namespace
}  // namespace sallyport::sandbox
