// Attacks on the host's git through the files in which it keeps what it is doing: it believes them.
#include <sys/stat.h>

#include "fixture.h"

namespace sallyport::sandbox {
namespace {

class StateAttack : public AttackTest {
 protected:
  void SetUp() override {
    AttackTest::SetUp();
    if (IsSkipped()) return;
    git_ = workspace_ + "/.git";
    victim_ = write("home/victim", "mine\n");
    host(
        "git init -q -b main . && git config user.name a && git config user.email a@b && echo f > f && git add f && "
        "git commit -qm first");
  }
  void expect_set_aside(const Outcome& outcome, const std::string& path) const {
    EXPECT_TRUE(outcome.reports("quarantined " + path)) << path << "\n" << testing::PrintToString(outcome.report);
    EXPECT_FALSE(exists(path)) << path;
  }
  static void expect_nothing_found(const Outcome& outcome) {
    EXPECT_EQ(outcome.code, 0) << outcome.error << outcome.output;
    for (const std::string& line : outcome.report) {
      EXPECT_FALSE(line.starts_with("quarantined") || line.starts_with("suspicious")) << line;
    }
  }
  std::string host_output(const std::string& script) const {
    host("{ " + script + "; } > " + home_ + "/output 2>&1 || true");
    return read(home_ + "/output");
  }
  // Git refuses to add such paths. It checks no sum when it reads them.
  static std::string forge_index(const std::string& git) {
    return "evil=$(printf '#!/bin/sh\\necho PWNED\\n' | git hash-object -w --stdin); "
           "git update-index --add --cacheinfo 100755,$evil,xgit/hooks/pre-commit "
           "--cacheinfo 100644,$evil,xx/home/victim; LC_ALL=C sed -i 's,xgit/,.git/,g; s,xx/,../,g' " +
           git;
  }
  // A branch to pick from, and a program that stands where a strategy would.
  const std::string program_ =
      "git checkout -qb side && echo s > s && git add s && git commit -qm s && git checkout -q main && echo m > m && "
      "git add m && git commit -qm m && mkdir git-merge-x && printf '#!/bin/sh\\necho PWNED\\n' > git-merge-x/evil && "
      "chmod +x git-merge-x/evil; ";
  std::string git_, victim_;
};
SALLYPORT_BOTH_WAYS(StateAttack);

// ---- an index with paths out of the work tree ----

TEST_P(StateAttack, ChecksOutAHookAndAFileOfTheHostFromAForgedIndex) {
  expect_set_aside(shell(forge_index(".git/index")), git_ + "/index");
  host("git checkout -q . || true; git reset -q --hard");
  EXPECT_FALSE(exists(git_ + "/hooks/pre-commit"));
  EXPECT_EQ(read(victim_), "mine\n");
  EXPECT_EQ(read(workspace_ + "/f"), "f\n");
}

TEST_P(StateAttack, HasTheHostAddAFileOfItsOwnByAForgedIndex) {
  shell(forge_index(".git/index"));
  EXPECT_EQ(host_output("git add -u; git cat-file -e $(git hash-object ../home/victim) && echo leaked").find("leaked"),
            std::string::npos);
}

TEST_P(StateAttack, ForgesTheIndexOfEveryVersionAndPart) {
  for (const char* version : {"2", "3", "4"}) {
    host("git reset -q --hard");
    const Outcome outcome =
        shell("rm -f f; git update-index --index-version " + std::string(version) + "; " + forge_index(".git/index"));
    expect_set_aside(outcome, git_ + "/index");
  }
  host("git reset -q --hard");
  const Outcome outcome = shell(
      forge_index("f") + "; git update-index --split-index; LC_ALL=C sed -i 's,xgit/,.git/,g' .git/sharedindex.*");
  std::size_t parts = 0;
  for (const std::string& line : outcome.report)
    parts += line.starts_with("quarantined " + git_ + "/sharedindex.") ? 1 : 0;
  EXPECT_GE(parts, 1U) << testing::PrintToString(outcome.report);
}

TEST_P(StateAttack, ForgesTheIndexOfAWorktreeASubmoduleAndANewRepository) {
  host(
      "git worktree add -q side && git init -q lib && git -C lib -c user.name=a -c user.email=a@b commit -q "
      "--allow-empty -m first && git -c protocol.file.allow=always submodule --quiet add ./lib sub");
  const Outcome outcome = shell("(cd side; " + forge_index("../.git/worktrees/side/index") + "); (cd sub; " +
                                forge_index("../.git/modules/sub/index") + "); git init -q new; (cd new; " +
                                forge_index(".git/index") + ")");
  for (const char* index : {"/.git/worktrees/side/index", "/.git/modules/sub/index", "/new/.git/index"}) {
    expect_set_aside(outcome, workspace_ + index);
  }
}

TEST_P(StateAttack, LeavesEveryIndexThatGitMakes) {
  for (const char* format : {"sha1", "sha256"}) {
    host(
        std::string("rm -rf .git side && git init -q --object-format=") + format +
        " . && git config user.name a && git config user.email a@b && mkdir -p d/e && touch d/e/{a..z} && git add . && "
        "git commit -qm first");
    for (const char* change :
         {"--index-version 2", "--index-version 4", "--split-index", "--no-split-index", "--untracked-cache"}) {
      expect_nothing_found(shell("git status -s; git -c index.threads=3 update-index --force-write-index " +
                                 std::string(change) +
                                 "; touch x; git add -N x; git rm -q --cached d/e/b; git status -s"));
    }
    expect_nothing_found(shell("git reset -q --hard; git worktree add -q side && git merge -q side"));
    expect_nothing_found(shell("git -C side sparse-checkout set --sparse-index d; git -C side status -s"));
  }
}

// ---- "rerere", which is on where its directory is ----

TEST_P(StateAttack, HasTheNextCommitCopyAFileOfTheHostIntoTheRepository) {
  const std::string id(40, '1');
  const Outcome outcome = shell("mkdir -p .git/rr-cache/" + id + "; touch .git/rr-cache/" + id + "/preimage; printf '" +
                                id + "\\t../home/victim\\0' > .git/MERGE_RR");
  expect_set_aside(outcome, git_ + "/MERGE_RR");
  host("echo x >> f; git commit -qam second");
  EXPECT_FALSE(exists(git_ + "/rr-cache/" + id + "/postimage"));
}

TEST_P(StateAttack, PutsALinkWhereAMergeOfTheHostIsToBeRemembered) {
  host(
      "git config rerere.enabled true && git checkout -qb side && echo s > f && git commit -qam s && "
      "git checkout -q main && echo m > f && git commit -qam m && ! git merge -q side > /dev/null 2>&1");
  expect_nothing_found(shell("echo both > f"));
  ASSERT_NE(read(git_ + "/MERGE_RR"), "");
  expect_set_aside(shell("ln -sf ../home/victim f && git add f"), git_ + "/MERGE_RR");
  EXPECT_EQ(host_output("git commit -qm merged; cat .git/rr-cache/*/postimage").find("mine"), std::string::npos);
}

// ---- a strategy that is a program of the work tree ----

TEST_P(StateAttack, LeavesARebaseByAStrategyOfItsOwn) {
  const Outcome outcome = shell(
      program_ +
      "mkdir .git/rebase-merge; cd .git/rebase-merge; echo refs/heads/main > head-name; git rev-parse main > onto; "
      "cp onto orig-head; echo pick $(git rev-parse side) s > git-rebase-todo; touch done interactive; echo 1 > end; "
      "echo 0 > msgnum; echo x/evil > strategy");
  expect_set_aside(outcome, git_ + "/rebase-merge/strategy");
  EXPECT_EQ(host_output("git rebase --continue").find("PWNED"), std::string::npos);
}

TEST_P(StateAttack, LeavesACherryPickByAStrategyOfItsOwn) {
  const Outcome outcome = shell(
      program_ +
      "mkdir .git/sequencer; cd .git/sequencer; git rev-parse main > head; cp head abort-safety; s=$(git rev-parse "
      "side); printf 'pick %s s\\npick %s s\\n' $s $s > todo; printf '[options]\\nstrategy = x/evil\\n' > opts");
  expect_set_aside(outcome, git_ + "/sequencer/opts");
  EXPECT_EQ(host_output("git cherry-pick --continue").find("PWNED"), std::string::npos);
}

TEST_P(StateAttack, LeavesARebaseAndACherryPickThatStoppedInside) {
  host(
      "git checkout -qb side && echo s > f && git commit -qam s && echo t > f && git commit -qam t && "
      "git checkout -q main && echo m > f && git commit -qam m");
  expect_nothing_found(shell("git cherry-pick --strategy=ort -X patience side~1 side; ls .git/sequencer/opts"));
  host("git cherry-pick --abort");
  expect_nothing_found(shell("git rebase -q -s ort side; ls .git/rebase-merge/strategy"));
}

// ---- places that a repair or a search writes to ----

TEST_P(StateAttack, LeadsTheRepairOfAWorktreeToADirectoryOfTheHost) {
  const std::string elsewhere = make_directory("home/elsewhere");
  const Outcome outcome = shell(
      "mkdir -p .git/worktrees/e && cd .git/worktrees/e && echo ../.. > commondir && cp "
      "../../HEAD . && echo " +
      elsewhere + "/.git > gitdir");
  expect_set_aside(outcome, git_ + "/worktrees/e/gitdir");
  host("git worktree repair || true");
  EXPECT_FALSE(exists(elsewhere + "/.git"));
}

TEST_P(StateAttack, LeadsWhatIsLostAndFoundToAFileOfTheHost) {
  shell("mkdir -p .git/lost-found/other; ln -s " + victim_ +
        " .git/lost-found/other/$(echo evil | git hash-object -w --stdin)");
  host("git fsck --lost-found > /dev/null 2>&1 || true");
  EXPECT_EQ(read(victim_), "mine\n");
}

TEST_P(StateAttack, PutsPipesWhereGitWouldWaitForEver) {
  host("git commit -q --allow-empty -m second");
  const Outcome outcome =
      shell("rm -f .git/index .git/COMMIT_EDITMSG && mkfifo .git/{index,COMMIT_EDITMSG,MERGE_RR} .git/refs/heads/x");
  for (const char* name : {"index", "COMMIT_EDITMSG", "MERGE_RR", "refs/heads/x"}) {
    expect_set_aside(outcome, git_ + "/" + name);
  }
}

}  // namespace
}  // namespace sallyport::sandbox
