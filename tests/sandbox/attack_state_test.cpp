// Attacks on the host's git by what it keeps for itself in a git directory and believes: the index, resolutions, what
// is left to do.
#include <cstdint>

#include "fixture.h"
#include "sandbox/git_hash.h"
#include "sandbox/git_index.h"
#include "sandbox/git_state.h"

namespace sallyport::sandbox {
namespace {

std::string big_endian(std::uint32_t value, int bytes) {
  std::string text;
  for (int i = bytes - 1; i >= 0; --i) text.push_back(static_cast<char>(value >> (8 * i)));
  return text;
}

// Of empty files, sorted by their names. A version 4 one repeats what it can of the path before.
std::string index_entry(const std::string& path, unsigned version = 2, const std::string& before = {}) {
  constexpr const char kEmptyBlob[] =
      "\xe6\x9d\xe2\x9b\xb2\xd1\xd6\x43\x4b\x8b\x29\xae\x77\x5a\xd8\xc2\xe4\x8c\x53\x91";
  std::string entry = std::string(24, '\0') + big_endian(0100755, 4) + std::string(12, '\0') + kEmptyBlob +
                      big_endian(static_cast<std::uint32_t>(path.size()), 2);
  if (version != 4) {
    entry += path;
    return entry + std::string(8 - entry.size() % 8, '\0');
  }
  std::size_t same = 0;
  while (same < before.size() && same < path.size() && before[same] == path[same]) ++same;
  return entry + big_endian(static_cast<std::uint32_t>(before.size() - same), 1) + path.substr(same) + '\0';
}

std::string index_of(const std::vector<std::string>& paths, unsigned version = 2, const std::string& extensions = {}) {
  std::string index = "DIRC" + big_endian(version, 4) + big_endian(static_cast<std::uint32_t>(paths.size()), 4);
  std::string before;
  for (const std::string& path : paths) index += index_entry(path, version, std::exchange(before, path));
  return index + extensions + std::string(kSha1Bytes, '\0');  // git does not look at this hash unless told to
}

bool is_in_tree(const std::string& index) { return is_harmless_index(index, kSha1Bytes); }

TEST(GitIndexPaths, LieInTheWorkTree) {
  for (const unsigned version : {2U, 4U}) {
    for (const char* path : {"a", ".gitignore", "a/.github/b", "..a/b..", "a/...", "dir/"}) {
      EXPECT_TRUE(is_in_tree(index_of({path, "z"}, version))) << path;
    }
    for (const char* path : {"../a", "..", "a/../b", "./a", "/a", "a//b", ".git/hooks/x", "a/.GIT/config", "a/.git"}) {
      EXPECT_FALSE(is_in_tree(index_of({"!", path, "z"}, version))) << path;
    }
  }
}

TEST(GitIndexPaths, AreThoseThatGitSees) {
  EXPECT_FALSE(is_in_tree(index_of({".a", "../x"}, 4))) << "in two pieces";
  // Git goes by the length.
  std::string shorter = index_of({"..zzzzzz/x"});
  shorter[12 + 61] = 2;
  EXPECT_FALSE(is_in_tree(shorter));
  std::string flagged = index_of({"aa../x"});
  flagged[12 + 60] |= 0x40;
  EXPECT_FALSE(is_in_tree(flagged)) << "more flags, which version 2 has not";
}

// Git reads from where this says, when there are enough entries.
TEST(GitIndexPaths, AreThoseOfEveryBlock) {
  const std::string hidden = index_entry("../x");
  const std::string harmless = index_of({"a"});
  const auto end = static_cast<std::uint32_t>(harmless.size() - kSha1Bytes);
  const auto blocks = [](std::uint32_t at, std::uint32_t count) {
    return "IEOT" + big_endian(12, 4) + big_endian(1, 4) + big_endian(at, 4) + big_endian(count, 4);
  };
  const auto tail = [](std::uint32_t at) {
    return "EOIE" + big_endian(24, 4) + big_endian(at, 4) + std::string(kSha1Bytes, '\0');
  };
  const std::string kept = "TREE" + big_endian(static_cast<std::uint32_t>(hidden.size()), 4) + hidden;
  EXPECT_TRUE(is_in_tree(index_of({"a"}, 2, kept + blocks(12, 1) + tail(end))));
  EXPECT_FALSE(is_in_tree(index_of({"a"}, 2, kept + blocks(end + 8, 1) + tail(end))));
  EXPECT_FALSE(is_in_tree(index_of({"a"}, 2, kept + blocks(12, 2) + tail(end)))) << "more than there are";
  // The same in a part that only who starts elsewhere takes for an extension.
  const std::string inner = blocks(end + 8, 1) + tail(end + 8 + static_cast<std::uint32_t>(hidden.size()));
  const std::string all = hidden + inner;
  EXPECT_FALSE(is_in_tree(index_of({"a"}, 2, "TREE" + big_endian(static_cast<std::uint32_t>(all.size()), 4) + all)));
}

TEST(GitState, TellsWhatMayRunFromWhatGitWrites) {
  const auto judge = [](const char* below, const std::string& text) {
    return judge_git_state(below, text, kSha1Bytes);
  };
  EXPECT_EQ(judge("rebase-merge/strategy", "ort\n"), GitState::harmless);
  EXPECT_EQ(judge("worktrees/a/rebase-merge/strategy", "x\n"), GitState::may_run);
  EXPECT_EQ(judge("worktrees/a/rebase-merge/strategy", "../../x\n"), GitState::leads_away);
  EXPECT_EQ(judge("rebase-apply/strategy", "../../x\n"), GitState::leads_away);
  EXPECT_EQ(judge("sequencer/opts", "[options]\n\tstrategy = recursive\n\tedit = true\n"), GitState::harmless);
  EXPECT_EQ(judge("sequencer/opts", "[options]\n\tstrategy = x\n"), GitState::may_run);
  EXPECT_EQ(judge("sequencer/opts", "[options]\n\tstrategy = ../../x\n\tstrategy = ort\n"), GitState::leads_away);
  EXPECT_EQ(judge("sequencer/opts", "[options\n"), GitState::leads_away);
  EXPECT_EQ(judge("rebase-apply/apply-opt", "\n"), GitState::harmless);
  EXPECT_EQ(judge("rebase-apply/apply-opt", " '--build-fake-ancestor=/x'\n"), GitState::may_run);
  EXPECT_EQ(judge("MERGE_RR", ""), GitState::harmless);
  EXPECT_EQ(judge("refs/heads/index", "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391\n"), GitState::harmless);
  EXPECT_EQ(judge("refs/heads/MERGE_RR", "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391\n"), GitState::harmless);
  EXPECT_FALSE(is_git_state("refs/remotes/origin/main"));
  EXPECT_FALSE(is_git_state("reindex"));
}

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

TEST_P(StateAttack, NamesFilesOfTheHostInTheIndex) {
  host("git worktree add -q side; git init -q --bare bare.git");
  for (const unsigned version : {2U, 4U}) {
    write("workspace/forged", index_of({"../outside", ".git/hooks/post-checkout", "f"}, version));
    const Outcome outcome =
        shell("cp forged .git/index; cp forged .git/worktrees/side/index; git init -q new; cp forged new/.git/index");
    for (const char* index : {"/.git/index", "/.git/worktrees/side/index", "/new/.git/index"}) {
      EXPECT_TRUE(outcome.reports("quarantined " + workspace_ + index)) << index << version;
    }
    host("git checkout -q -- . || true; git reset -q --hard; git -C side reset -q --hard; rm -rf new");
    EXPECT_FALSE(exists(base_ + "/outside"));
    EXPECT_FALSE(exists(workspace_ + "/.git/hooks/post-checkout"));
  }
}

TEST_P(StateAttack, NamesFilesOfTheHostInTheBaseOfASplitIndex) {
  host("git update-index --split-index; touch g; git add g");
  // Git does not compute the hash that names it either.
  write("workspace/forged", index_of({"../outside", "f"}));
  const Outcome forged = shell(
      "for base in .git/sharedindex.*; do (head -c -20 forged; tail -c 20 $base) > new; cat new > $base; done; "
      "echo -n $base");
  EXPECT_TRUE(forged.reports("quarantined " + workspace_ + "/" + forged.output)) << forged.output;
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

TEST_P(StateAttack, HasTheNextCommitCopyAFileOfTheHost) {
  write("secret", "a key of the user's\n");
  const std::string forge =
      "id=$(printf x | sha1sum | cut -c1-40); mkdir -p .git/rr-cache/$id; echo pre > .git/rr-cache/$id/preimage; "
      "printf '%s\\t../secret\\0' $id > .git/MERGE_RR";
  EXPECT_TRUE(shell(forge).reports("quarantined " + workspace_ + "/.git/MERGE_RR"));
  host("echo more >> f; git commit -q -a -m 2");
  EXPECT_EQ(shell("cat .git/rr-cache/*/postimage").output.find("a key"), std::string::npos);
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

TEST_P(StateAttack, LeavesAMergeStrategyBehindThatIsAProgram) {
  const Outcome outcome = shell(
      "mkdir .git/sequencer .git/rebase-merge; printf '[options]\\n\\tstrategy = x\\n' > .git/sequencer/opts; "
      "echo x > .git/rebase-merge/strategy");
  EXPECT_TRUE(outcome.reports("suspicious " + workspace_ + "/.git/sequencer/opts"));
  EXPECT_TRUE(outcome.reports("suspicious " + workspace_ + "/.git/rebase-merge/strategy"));
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

TEST_P(StateAttack, PushesToARepositoryInsideOfTheGitDirectory) {
  const std::string hook = "echo '#!/bin/sh' > $at/hooks/pre-receive; chmod +x $at/hooks/pre-receive; ";
  const Outcome outcome = shell("for at in .git/evil .git/objects/evil .git/logs/a/b; do git init -q --bare $at; " +
                                hook + "done; mkdir -p .git/remotes; echo URL: " + workspace_ +
                                "/.git/evil > .git/remotes/origin; "
                                "mkdir -p .git/branches; echo " +
                                workspace_ + "/.git/evil > .git/branches/other");
  for (const char* path : {"evil/hooks/pre-receive", "objects/evil/hooks/pre-receive", "logs/a/b/hooks/pre-receive",
                           "remotes/origin", "branches/other"}) {
    EXPECT_TRUE(outcome.reports("quarantined " + workspace_ + "/.git/" + path)) << path;
  }
}

TEST_P(StateAttack, LeadsASubmoduleToARemoteOfItsOwn) {
  const Outcome outcome = shell(
      "git init -q --bare .git/modules/refs/lib; mkdir -p .git/modules/refs/lib/remotes/a; "
      "echo URL: /elsewhere > .git/modules/refs/lib/remotes/a/b");
  expect_set_aside(outcome, git_ + "/modules/refs/lib/remotes/a/b");
}

// git-lfs copies what is there into the work tree, if the size is right.
TEST_P(StateAttack, PutsALinkToAFileOfTheHostAmongLargeFiles) {
  const Outcome outcome = shell("mkdir -p .git/lfs/objects/ab/cd; ln -s /etc/hostname .git/lfs/objects/ab/cd/abcd");
  EXPECT_TRUE(outcome.reports("quarantined " + workspace_ + "/.git/lfs/objects/ab/cd/abcd"));
}

// What git itself writes, whatever it is made to write, stays.
TEST_P(StateAttack, LeavesGitsOwnFilesAlone) {
  const Outcome outcome = shell(
      "set -e; export GIT_TEST_INDEX_THREADS=3; for i in $(seq 300); do echo $i > file$i; done; "
      "for version in 4 2; do git update-index --index-version $version; git add .; git commit -q -m $version; "
      "for i in $(seq 9); do echo $version > file$i; done; done; git commit -q -a -m 3; "
      "git update-index --split-index; git rm -q file7; git commit -q -m 4; git branch index; git branch MERGE_RR; "
      "git worktree add -q -b w wt; git init -q --object-format=sha256 sha256; touch sha256/a; git -C sha256 add a; "
      "git sparse-checkout set --cone --sparse-index 2> /dev/null || true; git status > /dev/null");
  ASSERT_EQ(outcome.code, 0) << outcome.output;
  for (const std::string& line : outcome.report) {
    EXPECT_FALSE(line.starts_with("quarantined") || line.starts_with("suspicious")) << line;
  }
}

}  // namespace
}  // namespace sallyport::sandbox
