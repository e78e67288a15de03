// Attacks on the host's git through what lies inside a git directory, or leads to one: links, pointers, submodules.
#include <sys/stat.h>

#include "fixture.h"

namespace sallyport::sandbox {
namespace {

class LinkAttack : public AttackTest {
 protected:
  void SetUp() override {
    AttackTest::SetUp();
    if (IsSkipped()) return;
    git_ = workspace_ + "/.git";
    victim_ = write("home/victim", "mine\n");
    host("git init -q . && touch f && git add f && " + commit_ + " -qm first");
  }
  void expect_set_aside(const Outcome& outcome, const std::vector<std::string>& paths) const {
    for (const std::string& path : paths) {
      EXPECT_TRUE(outcome.reports("quarantined " + path)) << path << "\n" << testing::PrintToString(outcome.report);
      EXPECT_FALSE(exists(path)) << path;
    }
  }
  static void expect_nothing_found(const Outcome& outcome) {
    EXPECT_EQ(outcome.code, 0) << outcome.error << outcome.output;
    for (const std::string& line : outcome.report) {
      EXPECT_FALSE(line.starts_with("quarantined") || line.starts_with("suspicious")) << line;
    }
  }
  const std::string commit_ = "GIT_EDITOR=true git -c user.name=a -c user.email=a@b commit";
  std::string git_, victim_;
};
SALLYPORT_BOTH_WAYS(LinkAttack);

// ---- links that the host's git would write through ----

TEST_P(LinkAttack, LeadsTheMessageOfTheNextCommitToAFileOfTheHost) {
  const Outcome outcome =
      shell("ln -sf " + victim_ + " .git/COMMIT_EDITMSG; echo evil > .git/MERGE_MSG; echo x >> f; git add f");
  host(commit_ + " -q");
  EXPECT_EQ(read(victim_), "mine\n");
  EXPECT_TRUE(outcome.reports("quarantined " + git_ + "/COMMIT_EDITMSG"));
}

TEST_P(LinkAttack, LeadsTheMessageOfTheNextCommitToThePinnedConfiguration) {
  shell(
      "ln -sf config .git/COMMIT_EDITMSG; printf '[core]\\nfsmonitor = \"touch PWNED; false\"\\n' > .git/MERGE_MSG; "
      "echo x >> f; git add f");
  const std::string before = read(git_ + "/config");
  host(commit_ + " -q; git status > /dev/null");
  EXPECT_EQ(read(git_ + "/config"), before);
  EXPECT_FALSE(exists(workspace_ + "/PWNED"));
}

TEST_P(LinkAttack, LeadsTheLogOfACheckoutToAFileOfTheHost) {
  shell("git branch 'x;evil'; rm .git/logs/HEAD; ln -s " + victim_ + " .git/logs/HEAD");
  host("git checkout -q 'x;evil'");
  EXPECT_EQ(read(victim_), "mine\n");
}

TEST_P(LinkAttack, LeavesLinksWhereverGitWrites) {
  host("git init -q --bare .bare; git worktree add -q side; mkdir -p .git/modules/lib; touch .git/modules/lib/HEAD");
  std::vector<std::string> links;
  for (const char* name :
       {"index", "packed-refs", "refs/heads/x", "refs/tags", "logs/refs/heads/x", "info/exclude", "objects/00",
        "objects/info/commit-graph", "objects/pack/multi-pack-index", "rr-cache", "sequencer/todo",
        "rebase-apply/patch", "rebase-merge/done", "lfs/cache/locks", "worktrees/side/COMMIT_EDITMSG",
        "worktrees/side/logs/HEAD", "modules/lib/index", "modules/lib/logs/HEAD"}) {
    links.push_back(git_ + "/" + name);
  }
  links.push_back(workspace_ + "/.bare/FETCH_HEAD");
  links.push_back(workspace_ + "/new/.git/COMMIT_EDITMSG");
  Spec attacked = spec();
  attacked.command = {
      "bash", "-c",
      "git init -q new; for link; do rm -rf $link; mkdir -p ${link%/*}; ln -s " + victim_ + " $link; done", "-"};
  attacked.command.insert(attacked.command.end(), links.begin(), links.end());
  expect_set_aside(run(attacked), links);
}

TEST_P(LinkAttack, HidesALinkInADirectoryThatItCloses) {
  const Outcome outcome = shell("ln -sf " + victim_ + " .git/logs/HEAD; chmod 0311 .git/logs .git");
  EXPECT_TRUE(outcome.reports("quarantined " + git_ + "/logs/HEAD")) << testing::PrintToString(outcome.report);
}

TEST_P(LinkAttack, MovesADirectoryWithALinkIntoPlace) {
  shell("mkdir kit; ln -s " + victim_ + " kit/HEAD");
  host("true");
  expect_set_aside(shell("rm -r .git/logs; mv kit .git/logs"), {git_ + "/logs/HEAD"});
}

TEST_P(LinkAttack, LeavesTheUsersOwnLinksInAGitDirectory) {
  make_directory("workspace/elsewhere/refs");
  host(
      "rm -r .git/objects/pack .git/logs/refs; ln -s ../../elsewhere .git/objects/pack; ln -s "
      "../../elsewhere/refs "
      ".git/logs/refs; ln -sf ../../f .git/info/exclude; ln -s ../f .git/mine; mkdir .git/modules; "
      "ln -s ../../elsewhere .git/modules/lib");
  expect_nothing_found(
      shell("echo x >> f; git commit -qam two && git reflog expire --all --expire=now && git worktree add -q side && "
            "git -c core.preferSymlinkRefs=true checkout -q -b other && test -L .git/HEAD"));
  for (const char* link : {"objects/pack", "logs/refs", "info/exclude", "mine", "modules/lib", "HEAD"}) {
    EXPECT_TRUE(exists(git_ + "/" + link)) << link;
  }
}

// ---- git directories inside of a git directory ----

constexpr const char* kPlant =
    "plant() { mkdir -p $1/objects $1/refs/heads $1/hooks; git rev-parse HEAD > $1/refs/heads/main; echo 'ref: "
    "refs/heads/main' > $1/HEAD; cp -r .git/objects $1; printf '[core]\\nrepositoryformatversion=0\\n' > $1/config; "
    "printf '#!/bin/sh\\ntouch %s/PWNED\\n' $PWD > $1/hooks/post-checkout; chmod +x $1/hooks/post-checkout; }; "
    // A submodule of that name, at lib.
    "name() { printf '[submodule \"%s\"]\\n\\tpath = lib\\n\\turl = ./.git\\n' $1 > .gitmodules; mkdir -p lib; "
    "git add .gitmodules; git update-index --add --cacheinfo 160000,$(git rev-parse HEAD),lib; git commit -qm lib; }; ";

TEST_P(LinkAttack, HidesASubmodulesGitDirectoryBehindALink) {
  for (const char* script : {"plant .git/cache/lib; ln -s cache .git/modules; name lib",
                             "plant .git/cache; mkdir .git/modules; ln -s ../cache .git/modules/lib; name lib",
                             "plant .git/refs/lib; ln -s refs .git/modules; name lib"}) {
    shell(std::string(kPlant) + script);
    host("git submodule update -q --init 2>/dev/null || true");
    EXPECT_FALSE(exists(workspace_ + "/PWNED")) << script;
    host(
        "git reset -q --hard HEAD~1; rm -rf .git/modules* .git/cache .git/refs/lib lib PWNED; git config "
        "--remove-section "
        "submodule.lib || true");
  }
}

TEST_P(LinkAttack, HidesASubmodulesGitDirectoryDeepBelowOthers) {
  for (const char* name : {"a/b/c/d/e/f/g/h", "HEAD/lib", "a/HEAD/b", "objects/00/lib", "a/modules/b/modules/c"}) {
    const Outcome outcome =
        shell(std::string(kPlant) + "plant .git/modules/" + name + "; mkdir -p .git/modules/a/HEAD");
    expect_set_aside(outcome, {git_ + "/modules/" + name + "/hooks/post-checkout"});
    host("rm -r .git/modules");
  }
}

TEST_P(LinkAttack, PutsALinkAmongTheWorktrees) {
  host("git worktree add -q side");
  expect_set_aside(shell("ln -s ../evil .git/worktrees/x"), {git_ + "/worktrees/x"});
}

// What was there is the user's: also the submodules of a worktree.
TEST_P(LinkAttack, LeavesTheUsersOwnHooksOfSubmodules) {
  host(
      "git worktree add -q side; for m in .git/modules/a/b .git/modules/d/e/f/g/h/i/j .git/worktrees/side/modules/c; "
      "do mkdir -p $m; "
      "git init -q --bare $m; echo mine > $m/hooks/pre-push; done");
  expect_nothing_found(shell("true"));
  EXPECT_TRUE(exists(git_ + "/modules/a/b/hooks/pre-push"));
  EXPECT_TRUE(exists(git_ + "/modules/d/e/f/g/h/i/j/hooks/pre-push"));
  EXPECT_TRUE(exists(git_ + "/worktrees/side/modules/c/hooks/pre-push"));
}

// ---- pointers ----

TEST_P(LinkAttack, LeavesAPointerToWhatAnotherBranchHolds) {
  const Outcome outcome = shell(
      "mkdir sub; echo 'gitdir: ../later' > sub/.git; git checkout -q -b feature; mkdir -p later/objects later/refs; "
      "touch later/objects/x later/refs/x; echo 'ref: refs/heads/m' > later/HEAD; printf '[core]\\n"
      "repositoryformatversion=0\\nbare=false\\nworktree=../sub\\nfsmonitor=touch PWNED; false\\n' > later/config; "
      "git add later; git commit -qm later; git checkout -q -");
  host("git merge -q feature; cd sub; git status > /dev/null 2>&1 || true");
  EXPECT_FALSE(exists(workspace_ + "/sub/PWNED"));
  EXPECT_TRUE(outcome.reports("quarantined " + workspace_ + "/sub/.git"));
}

// Clean today, and a branch may change it tomorrow. Nothing is ever checked out into a ".git".
TEST_P(LinkAttack, LeavesAPointerIntoTheWorkspace) {
  const Outcome outcome = shell(
      "git init -q --bare kit; mkdir -p kit/modules one two; git init -q --bare kit/modules/m; "
      "echo 'gitdir: ../kit' > one/.git; echo 'gitdir: ../kit/modules/m' > two/.git; git clone -q . three; "
      "mkdir four; mv three/.git/refs/tags four; echo 'gitdir: ../three/.git' > four/.git; "
      "mkdir -p five three/.git/modules/m; ln -s three/.git way; echo 'gitdir: ../way/modules/m' > five/.git");
  expect_set_aside(outcome, {workspace_ + "/one/.git", workspace_ + "/two/.git", workspace_ + "/four/.git",
                             workspace_ + "/five/.git"});
}

TEST_P(LinkAttack, LeavesThePointersOfWorktreesAndSubmodules) {
  host("git clone -q --bare . .bare; mkdir near; echo 'gitdir: ../gone' > near/.git");
  const Outcome outcome = shell(
      "git worktree add -q side && git -C .bare worktree add -q -f ../other && "
      "git -c protocol.file.allow=always submodule --quiet add ./.git lib && cd side && "
      "git -c protocol.file.allow=always submodule --quiet add ../.git lib");
  EXPECT_EQ(outcome.code, 0) << outcome.output;
  for (const char* tree : {"side", "other", "lib", "side/lib", "near"}) {
    EXPECT_TRUE(exists(workspace_ + "/" + tree + "/.git")) << tree;
  }
}

// ---- names ----

TEST_P(LinkAttack, SkipsTheSameDirectoriesAtBothEnds) {
  write("workspace/Node_Modules/.env", "TOKEN=1");
  host("git init -q Node_Modules/p; echo mine > Node_Modules/p/.git/hooks/pre-push");
  const Outcome outcome = shell("cat Node_Modules/.env");
  expect_nothing_found(outcome);
  EXPECT_EQ(outcome.output, "");
  EXPECT_TRUE(exists(workspace_ + "/Node_Modules/p/.git/hooks/pre-push"));
}

TEST_P(LinkAttack, WritesSettingsOfFurtherTools) {
  const std::vector<std::string> names = {".jj/repo/config.toml",
                                          ".jj/workspace-config.toml",
                                          ".git/lazygit.yml",
                                          ".lazygit.yml",
                                          ".sl/config",
                                          ".rdbgrc",
                                          ".byebugrc",
                                          ".dir-locals.el",
                                          ".vim/coc-settings.json",
                                          "jupyter_server_config.py",
                                          "jupyter_lab_config.json",
                                          ".fleet"};
  for (const std::string& name : names) {
    const Outcome fresh = shell("mkdir -p $(dirname " + name + "); touch " + name);
    EXPECT_TRUE(fresh.reports("suspicious " + workspace_ + "/" + name)) << name;
    EXPECT_TRUE(is_refused(attack({"rename", workspace_ + "/" + name, workspace_ + "/away"}))) << name;
  }
}

// A project's own work changes these: they can be written, and that is told.
TEST_P(LinkAttack, WritesWhatRunsWithTheNextCommit) {
  write("workspace/lefthook.yml", "");
  write("workspace/sub/.pre-commit-config.yaml", "");
  host("true");
  const Outcome outcome =
      shell("touch sub/other; echo x > lefthook.yml && echo x > .lefthook.yaml && echo x > lefthook-local.json");
  EXPECT_EQ(outcome.code, 0);
  EXPECT_TRUE(outcome.reports("suspicious " + workspace_ + "/lefthook.yml"));
  EXPECT_TRUE(outcome.reports("suspicious " + workspace_ + "/.lefthook.yaml"));
  EXPECT_TRUE(outcome.reports("suspicious " + workspace_ + "/lefthook-local.json"));
  EXPECT_FALSE(outcome.reports("suspicious " + workspace_ + "/sub/.pre-commit-config.yaml"));
}

}  // namespace
}  // namespace sallyport::sandbox
