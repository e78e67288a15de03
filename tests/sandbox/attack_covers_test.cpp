// Attacks on what is masked, pinned and denied: by one run for the next, and by one sandbox for another.
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <csignal>

#include <chrono>
#include <filesystem>

#include "base/sanitized.h"
#include "fixture.h"

namespace sallyport::sandbox {
namespace {

class CoverAttack : public AttackTest {
 protected:
  void SetUp() override {
    AttackTest::SetUp();
    if (IsSkipped()) return;
    host(
        "git init -q . && git config user.name a && git config user.email a@b && git commit -q --allow-empty -m first");
    write("workspace/cfg/.env", "TOKEN=1\n");
  }

  // One run does this, the next one must not see the token.
  void expect_hidden_after(const std::string& script, const Spec& wanted) {
    Spec attacked = wanted;
    attacked.command = {"bash", "-c", script};
    const Outcome first = run(attacked);
    ASSERT_TRUE(first.has_started) << first.error;
    attacked.command = {"grep", "-rsh", "TOKEN", workspace_};
    const Outcome second = run(attacked);
    EXPECT_TRUE(second.has_started) << second.error;
    EXPECT_EQ(second.output.find("TOKEN"), std::string::npos) << script << "\n" << second.output;
  }
  void expect_hidden_after(const std::string& script) { expect_hidden_after(script, spec()); }

  // Somebody on the host, while the sandbox runs.
  template <typename Work>
  pid_t beside(const Work& work) {
    const pid_t pid = ::fork();
    if (pid != 0) return pid;
    work();
    ::_exit(0);
  }
};
SALLYPORT_BOTH_WAYS(CoverAttack);

TEST_P(CoverAttack, ClaimsInTheIndexThatASecretIsTracked) {
  expect_hidden_after(
      "B=$(echo forged | git hash-object -w --stdin) && git update-index --add --cacheinfo 100644,$B,cfg/.env && "
      "git commit -q -m forged");
}

TEST_P(CoverAttack, ClaimsInAForgedRepositoryBesideItThatASecretIsTracked) {
  expect_hidden_after(
      "git init -q cfg && B=$(echo forged | git -C cfg hash-object -w --stdin) && "
      "git -C cfg update-index --add --cacheinfo 100644,$B,.env");
}

TEST_P(CoverAttack, MovesASecretToWhereNobodySearches) {
  write("workspace/cfg/server.pem", "TOKEN=2\n");
  expect_hidden_after("mv cfg node_modules");
  expect_hidden_after("git init -q n && mv cfg n/.git/cfg");
  EXPECT_TRUE(exists(workspace_ + "/cfg/.env"));
}

TEST_P(CoverAttack, MovesADirectoryFarAboveASecret) {
  write("workspace/a/b/c/.env", "TOKEN=2\n");
  expect_hidden_after("mv a node_modules; mv a/b node_modules; mv a/b/c node_modules; mkdir x; mv -T --exchange a x");
}

TEST_P(CoverAttack, MovesADirectoryAboveADeniedPath) {
  Spec denying = spec();
  denying.deny.push_back(write("workspace/config/secrets", "TOKEN=2\n"));
  expect_hidden_after("mv config c2; cp -r config c3; mv config node_modules", denying);
}

TEST_P(CoverAttack, MovesADirectoryAboveADeniedPathInAnotherWritablePlace) {
  Spec denying = spec();
  denying.write.push_back(make_directory("data"));
  denying.deny.push_back(write("data/config/secrets", "TOKEN=2\n"));
  denying.command = {"bash", "-c", "mv " + base_ + "/data/config " + base_ + "/data/c2"};
  EXPECT_NE(run(denying).code, 0);
  EXPECT_TRUE(exists(base_ + "/data/config/secrets"));
}

TEST_P(CoverAttack, ReadsADeniedNameWhereSecretsAreNotSearched) {
  write("workspace/node_modules/x/plan.secret", "TOKEN=2\n");
  write("workspace/nested/.git/plan.secret", "TOKEN=3\n");
  Spec denying = spec();
  denying.deny_patterns = {"**/plan.secret"};
  expect_hidden_after("mv node_modules/x y; true", denying);
}

TEST_P(CoverAttack, ReadsADeniedPatternAtEveryDepthAndBehindALink) {
  write("workspace/s.txt", "TOKEN=2\n");
  write("workspace/a/s.txt", "TOKEN=3\n");
  write("workspace/a/b/c/.d/s.txt", "TOKEN=4\n");
  write("workspace/target/x", "TOKEN=5\n");
  std::filesystem::create_symlink("../target", workspace_ + "/a/lnk");
  Spec denying = spec();
  denying.deny_patterns = {"**/s.txt", "a/lnk"};
  expect_hidden_after("true", denying);
  denying.deny_patterns = {"*/**/s.txt", "target"};
  write("workspace/s.txt", "");
  expect_hidden_after("true", denying);
}

TEST_P(CoverAttack, DeniesTheRepositoryItself) {
  write("workspace/.git/note", "TOKEN=2\n");
  Spec denying = spec();
  denying.deny_patterns = {"**/.git"};
  expect_hidden_after("true", denying);
}

TEST_P(CoverAttack, DeniesADirectoryThatHoldsSecrets) {
  Spec denying = spec();
  denying.deny.push_back(workspace_ + "/cfg");
  expect_hidden_after("true", denying);
}

TEST_P(CoverAttack, ReadsTheSecretsOfOtherTools) {
  for (const char* path : {".npmrc", ".pypirc", ".kube/config", ".docker/config.json", ".config/gcloud/token",
                           "gh/hosts.yml", "git/credentials", ".env~", "id_ed25519_sk", ".envrc"}) {
    write(std::string("workspace/tools/") + path, "TOKEN=2\n");
  }
  expect_hidden_after("true");
}

TEST_P(CoverAttack, WritesTheConfigurationOfMercurial) {
  const std::string hgrc = write("workspace/.hg/hgrc", "[ui]\n");
  const std::string other = write("workspace/.hg/hgrc-not-shared", "[ui]\n");
  EXPECT_TRUE(is_refused(attack({"write", hgrc})));
  EXPECT_TRUE(is_refused(attack({"write", other})));
  const Outcome outcome = shell("mkdir -p new/.hg && touch new/.hg/hgrc new/.hg/hgrc-not-shared");
  EXPECT_TRUE(outcome.reports("suspicious " + workspace_ + "/new/.hg/hgrc"));
  EXPECT_TRUE(outcome.reports("suspicious " + workspace_ + "/new/.hg/hgrc-not-shared"));
  EXPECT_TRUE(is_refused(attack({"rename", workspace_ + "/.hg", workspace_ + "/old"})));
}

TEST_P(CoverAttack, WritesWhatOnlyItsDirectoryMakesASetting) {
  const std::string hook = write("workspace/.github/hooks/a.json", "{}\n");
  const std::string shared = write("workspace/.sl/sharedpath", "x\n");
  EXPECT_TRUE(is_refused(attack({"write", hook})));
  EXPECT_TRUE(is_refused(attack({"write", shared})));
  EXPECT_EQ(shell("touch .github/workflow").code, 0);
  const Outcome outcome =
      shell("mkdir -p new/.github/hooks new/.hg && touch new/.hg/sharedpath new/.Renviron new/.RData");
  for (const char* path : {".github/hooks", ".hg/sharedpath", ".Renviron", ".RData"}) {
    EXPECT_TRUE(outcome.reports("suspicious " + workspace_ + "/new/" + path)) << path;
  }
}

// Masking what git tracks would make git commit an empty file.
TEST_P(CoverAttack, CommitsWhatItCannotSee) {
  host("git add -f cfg/.env && git commit -q -m env");
  write("workspace/cfg/.env", "TOKEN=changed\n");
  const Outcome outcome = shell("cat cfg/.env; git commit -q -am x; git add -A; git show HEAD:cfg/.env");
  EXPECT_TRUE(outcome.reports("changed " + workspace_ + "/cfg/.env"));
  EXPECT_EQ(outcome.output.find("TOKEN=changed"), std::string::npos) << outcome.output;
  EXPECT_NE(outcome.output.find("TOKEN=1"), std::string::npos) << outcome.output;
}

TEST_P(CoverAttack, SeesTrackedFilesOfEveryKindOfRepository) {
  const std::string add =
      " && echo PUBLIC > .env && git add -f .env && git -c user.name=a -c user.email=a@b commit -q -m e";
  host("mkdir r1 && cd r1 && git init -q --object-format=sha256 ." + add);
  host("mkdir r2 && cd r2 && git init -q ." + add + " && git update-index --split-index");
  host("mkdir r3 && cd r3 && git init -q --separate-git-dir=../.store ." + add);
  host("git init -q src && cd src" + add +
       " && cd .. && git -c protocol.file.allow=always submodule --quiet add ./src sub");
  for (const char* name : {"r1", "r2", "r3", "sub"}) {
    const Outcome outcome = shell(std::string("cd ") + name + " && cat .env && git status --porcelain");
    EXPECT_EQ(outcome.output, "PUBLIC\n") << name;
    EXPECT_TRUE(outcome.reports("tracked " + workspace_ + "/" + name + "/.env")) << name;
  }
}

TEST_P(CoverAttack, HidesFromAnIndexThatCannotBeReadAndSaysSo) {
  host("git add -f cfg/.env && git commit -q -m env && echo garbage > .git/index");
  const Outcome outcome = shell("cat cfg/.env");
  EXPECT_EQ(outcome.output, "");
  EXPECT_TRUE(outcome.reports("unread " + workspace_ + "/.git"));
}

// Root of the host is nobody special inside: what another user closed is closed, and needs no mask.
TEST_P(CoverAttack, HasADirectoryOfAnotherUserInItsWorkspace) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs two users";
  write("workspace/theirs/.env", "TOKEN=2\n");
  const std::string theirs = workspace_ + "/theirs";
  ASSERT_EQ(::chown(theirs.c_str(), kOrdinaryUser + 1, kOrdinaryUser + 1), 0);
  ASSERT_EQ(::chmod(theirs.c_str(), 0700), 0);
  expect_hidden_after("chmod 777 theirs; ls theirs; mv theirs t2");
}

// The other sandbox was there before the directory, so that it can move it all the time.
TEST_P(CoverAttack, MovesASecretWhileAnotherSandboxStarts) {
  std::filesystem::remove_all(workspace_ + "/cfg");
  Spec moving = spec();
  moving.command = {probe_, "move-forever", workspace_ + "/cfg", workspace_ + "/t", workspace_ + "/enough"};
  const pid_t other = beside([&] { run(moving); });
  while (!exists(workspace_ + "/enough.ready")) ::usleep(1000);
  write("made/.env", "TOKEN=1\n");
  std::filesystem::rename(base_ + "/made", workspace_ + "/cfg");
  int started = 0;
  for (int i = 0; i < 30; ++i) {
    const Outcome outcome = shell("for i in 1 2 3 4 5 6 7 8; do cat cfg/.env t/.env 2>/dev/null; done; true");
    EXPECT_EQ(outcome.output.find("TOKEN"), std::string::npos);
    EXPECT_TRUE(outcome.has_started || outcome.error.find("changes all the time") != std::string::npos)
        << outcome.error;
    started += outcome.has_started ? 1 : 0;
  }
  write("workspace/enough", "");
  ::waitpid(other, nullptr, 0);
  EXPECT_GT(started, 0);
}

// Both were there before it: neither can move it, because each holds what is above it.
TEST_P(CoverAttack, MovesASecretThatBothSandboxesHaveCovered) {
  Spec moving = spec();
  moving.command = {probe_, "move-forever", workspace_ + "/cfg", workspace_ + "/t", workspace_ + "/enough"};
  const pid_t other = beside([&] { run(moving); });
  while (!exists(workspace_ + "/enough.ready")) ::usleep(1000);
  for (int i = 0; i < 5; ++i) {
    const Outcome outcome = shell("cat cfg/.env t/.env");
    EXPECT_TRUE(outcome.has_started) << outcome.error;
    EXPECT_EQ(outcome.output.find("TOKEN"), std::string::npos);
    EXPECT_TRUE(exists(workspace_ + "/cfg/.env"));
  }
  write("workspace/enough", "");
  ::waitpid(other, nullptr, 0);
}

// A workspace that never holds still, and takes long to search: whoever launches is told so, instead of searching on.
TEST_P(CoverAttack, MovesDirectoriesForAsLongAsAnotherSandboxStarts) {
  host("mkdir -p many/{1..20} && touch many/{1..20}/{1..30} && mkdir many/a{1..8}");
  Spec denying = spec();
  for (int i = 0; i < (kIsSanitized ? 2000 : 10000); ++i)
    denying.deny_patterns.push_back("**/secret" + std::to_string(i));
  denying.command = {"true"};
  Outcome outcome = run(denying);
  ASSERT_TRUE(outcome.has_started) << outcome.error;
  const pid_t other = beside([&] {
    for (bool is_there = true;; is_there = !is_there) {
      for (int i = 1; i <= 8; ++i) {
        const std::string a = workspace_ + "/many/a" + std::to_string(i),
                          b = workspace_ + "/many/b" + std::to_string(i);
        ::rename((is_there ? a : b).c_str(), (is_there ? b : a).c_str());
      }
      ::usleep(500);
    }
  });
  // Where the other one gets no CPU for as long as a search takes, the workspace does hold still.
  for (int i = 0; i < 20 && outcome.has_started; ++i) outcome = run(denying);
  ::kill(other, SIGKILL);
  ::waitpid(other, nullptr, 0);
  EXPECT_FALSE(outcome.has_started) << "it never noticed";
  EXPECT_NE(outcome.error.find("changes all the time"), std::string::npos) << outcome.error;
}

TEST_P(CoverAttack, SeesTheHostPutADirectoryInThePlaceOfASecret) {
  Spec attacked = spec();
  attacked.command = {"bash", "-c", "touch started; until [ -e replaced ]; do sleep 0.01; done; sleep 3"};
  const pid_t editor = beside([&] {
    while (!exists(workspace_ + "/started")) ::usleep(1000);
    host("rm -f cfg/.env && mkdir cfg/.env && touch replaced");
  });
  const Outcome outcome = run(attacked);
  ::waitpid(editor, nullptr, 0);
  EXPECT_TRUE(outcome.reports("uncovered " + workspace_ + "/cfg/.env"));
}

constexpr const char* kAwaitCover =
    "for i in $(seq 2000); do grep -q /cfg/.env /proc/self/mountinfo && break; sleep 0.01; done; ";

TEST_P(CoverAttack, WaitsForTheHostToReplaceADirectoryAboveASecret) {
  Spec attacked = spec();
  attacked.command = {
      "bash", "-c",
      std::string("touch started; until [ -e replaced ]; do sleep 0.01; done; ") +
          "for i in $(seq 2000); do grep -q /cfg/.env\\  /proc/self/mountinfo && break; sleep 0.01; done; "
          "cat cfg/.env; echo; for i in $(seq 2000); do grep -q /.git/hooks\\  /proc/self/mountinfo && "
          "break; sleep 0.01; done; echo evil > .git/hooks/pre-commit"};
  const pid_t editor = beside([&] {
    while (!exists(workspace_ + "/started")) ::usleep(1000);
    host(
        "mv cfg cfg.bak && cp -r cfg.bak cfg && mv .git ../home/old.git && cp -r ../home/old.git .git && touch "
        "replaced");
  });
  const Outcome outcome = run(attacked);
  ::waitpid(editor, nullptr, 0);
  EXPECT_EQ(outcome.output.find("TOKEN"), std::string::npos) << outcome.output;
  EXPECT_TRUE(outcome.reports("lost " + workspace_ + "/cfg/.env"));
  EXPECT_TRUE(outcome.reports("lost " + workspace_ + "/.git/hooks"));
  EXPECT_FALSE(exists(workspace_ + "/.git/hooks/pre-commit"));
}

TEST_P(CoverAttack, WaitsForTheHostToReplaceADirectoryTwice) {
  Spec attacked = spec();
  attacked.command = {"bash", "-c",
                      std::string("touch started; until [ -e one ]; do sleep 0.01; done; ") + kAwaitCover +
                          "touch seen; until [ -e two ]; do sleep 0.01; done; " + kAwaitCover + "cat cfg/.env"};
  const pid_t editor = beside([&] {
    while (!exists(workspace_ + "/started")) ::usleep(1000);
    host("mv cfg ../home/cfg1 && cp -r ../home/cfg1 cfg && touch one");
    while (!exists(workspace_ + "/seen")) ::usleep(1000);
    host("mv cfg ../home/cfg2 && cp -r ../home/cfg2 cfg && touch two");
  });
  const Outcome outcome = run(attacked);
  ::waitpid(editor, nullptr, 0);
  EXPECT_EQ(outcome.output.find("TOKEN"), std::string::npos) << outcome.output;
}

}  // namespace
}  // namespace sallyport::sandbox
