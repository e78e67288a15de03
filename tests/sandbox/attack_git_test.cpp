// Attacks on what the host's git, editors and agents would run later.
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <thread>

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
  outer.command = {"sh", "-c", "touch started; until [ -e enough ]; do sleep 0.05; done"};
  const std::string placeholder = git_ + "/commondir";
  const pid_t other = ::fork();
  if (other == 0) {
    run(outer);
    ::_exit(0);
  }
  while (!exists(workspace_ + "/started")) ::usleep(1000);
  EXPECT_TRUE(exists(placeholder));
  attack({"write", placeholder});
  EXPECT_TRUE(exists(placeholder));
  write("workspace/enough", "");
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

// The repository may be elsewhere in the workspace: a file or a link that points to it stands in for .git.
class PointerAttack : public AttackTest {
 protected:
  void expect_protected(const std::string& git) {
    EXPECT_TRUE(is_refused(attack({"write", git + "/hooks/pre-commit"})));
    EXPECT_TRUE(is_refused(attack({"write", git + "/config"})));
    EXPECT_TRUE(is_refused(attack({"rename", git, workspace_ + "/away"})));
    EXPECT_FALSE(exists(git + "/hooks/pre-commit"));
  }
};
SALLYPORT_BOTH_WAYS(PointerAttack);

TEST_P(PointerAttack, WritesAHookBehindASeparateGitDirectory) {
  host("git init -q --separate-git-dir=.bare .");
  expect_protected(workspace_ + "/.bare");
  EXPECT_TRUE(is_refused(attack({"write", workspace_ + "/.bare/commondir"})));
  EXPECT_FALSE(exists(workspace_ + "/.bare/commondir")) << "the placeholder was left";
}

TEST_P(PointerAttack, WritesAHookBehindABareRepositoryWithWorktrees) {
  host("git init -q --bare .bare && echo 'gitdir: ./.bare' > .git");
  expect_protected(workspace_ + "/.bare");
}

TEST_P(PointerAttack, WritesAHookOfTheCommonDirectoryBehindAWorktree) {
  host(
      "git init -q --bare .bare && T=$(git -C .bare write-tree) && "
      "C=$(git -C .bare -c user.name=a -c user.email=a@b commit-tree -m one $T) && "
      "git -C .bare update-ref refs/heads/main $C && git -C .bare symbolic-ref HEAD refs/heads/other && "
      "git -C .bare worktree add -q ../side main");
  expect_protected(workspace_ + "/.bare");
}

TEST_P(PointerAttack, WritesAHookBehindALink) {
  host("git init -q --separate-git-dir=.bare . && rm .git && ln -s .bare .git");
  expect_protected(workspace_ + "/.bare");
}

TEST_P(PointerAttack, ForgesAWorktreeWhoseCommonDirectoryIsNotARepositoryOfItsOwn) {
  shell(
      "mkdir -p forged/worktrees/x forged/hooks sub && printf '../..\\n' > forged/worktrees/x/commondir && "
      "echo evil > forged/hooks/pre-commit && echo 'gitdir: ../forged/worktrees/x' > sub/.git");
  EXPECT_FALSE(exists(workspace_ + "/forged/hooks/pre-commit"));
}

TEST_P(PointerAttack, HidesTheTargetOfAPointerBehindANewline) {
  shell(
      "mkdir -p $'a\\nb/hooks' sub && echo evil > $'a\\nb/hooks/pre-commit' && printf 'gitdir: ../a\\nb\\n' > "
      "sub/.git");
  EXPECT_FALSE(exists(workspace_ + "/a\nb/hooks/pre-commit"));
}

// What the user made is the user's: a run that touches nothing changes nothing.
TEST_P(PointerAttack, LeavesTheUsersOwnLinksAlone) {
  make_directory("elsewhere");
  host(
      "git init -q --separate-git-dir=.bare . && rm .git && ln -s .bare .git && mkdir githooks && "
      "echo mine > githooks/pre-commit && rm -r .bare/hooks && ln -s ../githooks .bare/hooks && "
      "git init -q nested && rm -r nested/.git/hooks && ln -s ../../../elsewhere "
      "nested/.git/hooks");
  const Outcome outcome = shell("true");
  EXPECT_EQ(outcome.code, 0) << outcome.error;
  for (const std::string& line : outcome.report) EXPECT_FALSE(line.starts_with("quarantined")) << line;
  EXPECT_TRUE(exists(workspace_ + "/.git"));
  EXPECT_TRUE(exists(workspace_ + "/.bare/hooks"));
  EXPECT_TRUE(exists(workspace_ + "/nested/.git/hooks"));
  EXPECT_EQ(read(workspace_ + "/githooks/pre-commit"), "mine\n");
}

TEST_P(PointerAttack, WritesAHookBehindALinkedHooksDirectory) {
  host("git init -q . && mkdir githooks && rm -r .git/hooks && ln -s ../githooks .git/hooks");
  EXPECT_TRUE(is_refused(attack({"write", workspace_ + "/githooks/pre-commit"})));
}

TEST_P(PointerAttack, LeadsALinkedHooksDirectoryElsewhereWhichIsQuarantined) {
  host("git init -q . && mkdir githooks && rm -r .git/hooks && ln -s ../githooks .git/hooks");
  const Outcome outcome = shell("mkdir evil && echo evil > evil/pre-commit && ln -sfn ../evil .git/hooks");
  EXPECT_TRUE(outcome.reports("quarantined " + workspace_ + "/.git/hooks"));
  EXPECT_FALSE(exists(workspace_ + "/.git/hooks/pre-commit"));
}

TEST_P(GitAttack, MakesTheConfiguredHooksDirectoryThatIsMissing) {
  host("git config core.hooksPath tools/hooks");
  const std::string hook = workspace_ + "/tools/hooks/pre-commit";
  const Outcome outcome = shell("mkdir -p tools/hooks && echo evil > tools/hooks/pre-commit");
  EXPECT_TRUE(outcome.reports("quarantined " + hook)) << outcome.output;
  EXPECT_FALSE(exists(hook));
}

// Whatever is in the tree would be a hook then, whatever else it is.
TEST_P(GitAttack, LeadsTheConfiguredHooksDirectoryToTheTreeOrItsRepository) {
  host("git config core.hooksPath .githooks");
  for (const char* target : {".", ".git", "src"}) {
    host("rm -rf .githooks* src; mkdir src; echo mine > src/pre-push");
    const Outcome outcome =
        shell(std::string("ln -s ") + target + " .githooks; for d in . .git src; do echo evil > $d/pre-commit; done");
    EXPECT_TRUE(outcome.reports("quarantined " + workspace_ + "/.githooks")) << target;
    EXPECT_FALSE(exists(workspace_ + "/.githooks")) << target;
    EXPECT_TRUE(exists(workspace_ + "/src/pre-push")) << target;
    EXPECT_TRUE(exists(workspace_ + "/.git/HEAD")) << target;
  }
}

// The user's own link, or another way to the same place, may come before the one that is new.
TEST_P(GitAttack, LeadsTheConfiguredHooksDirectoryToTheTreeBehindALinkOfTheUsers) {
  struct Way {
    const char *configured, *before, *inside, *link;
  };
  const std::string other = make_directory("other"), alias = other + "/alias/.githooks";
  host("ln -s " + workspace_ + " " + other + "/alias");
  const Way ways[] = {{"link/hooks", "mkdir tools; ln -s tools link", "ln -s .. tools/hooks", "/tools/hooks"},
                      {".githooks", "ln -s gen/hooks .githooks", "mkdir gen; ln -s .. gen/hooks", "/gen/hooks"},
                      {"../workspace/.githooks", "true", "ln -s . .githooks", "/.githooks"},
                      {alias.c_str(), "true", "ln -s . .githooks", "/.githooks"}};
  for (const Way& way : ways) {
    host("rm -rf tools link gen .githooks* pre-commit; mkdir src; echo mine > src/main.c; echo mine > src/server.key");
    host(std::string("git config core.hooksPath ") + way.configured + " && " + way.before);
    const Outcome outcome = shell(std::string(way.inside) + "; echo evil > pre-commit");
    EXPECT_TRUE(outcome.reports("quarantined " + workspace_ + way.link)) << way.configured;
    EXPECT_FALSE(exists(workspace_ + way.link)) << way.configured;
    host("rm -rf src");
  }
}

// Under another name a secret would not be hidden from the next one.
TEST_P(GitAttack, HasTheScanGiveASecretAnotherName) {
  write("workspace/.kube/config", "token: secret");
  shell("touch .kube/HEAD; mkdir .kube/objects .kube/refs; true");
  EXPECT_EQ(read(workspace_ + "/.kube/config"), "token: secret");
  for (const char* name : {".env.quarantined", "server.key.quarantined", "id_rsa.1234567.quarantined",
                           ".kube/config.quarantined", "name-too-long.1.quarantined"}) {
    write(std::string("workspace/") + name, "secret");
  }
  const Outcome looked = shell("cat .env.quarantined *.quarantined .kube/*; true");
  EXPECT_EQ(looked.output.find("secret"), std::string::npos) << looked.output;
}

TEST_P(GitAttack, KeepsALinkOfTheUsersInANewTree) {
  write("workspace/tools/hooks/pre-push", "mine\n");
  host(
      "ln -s tools/hooks .githooks && git config core.hooksPath .githooks && git add . && git -c user.name=a -c "
      "user.email=a@b commit -qm hooks");
  shell("git worktree add -q side && echo evil > side/tools/hooks/pre-commit");
  EXPECT_TRUE(exists(workspace_ + "/side/.githooks/pre-push"));
  EXPECT_FALSE(exists(workspace_ + "/side/tools/hooks/pre-commit"));
}

// What was found before something closed was opened is told, also if the second look is cut.
TEST_P(GitAttack, HidesWhatWasFoundBehindMoreThanCanBeLookedAt) {
  const Outcome outcome = shell(
      "echo evil > .envrc; mkdir -p zz c/d .git/info; ln -s /etc/passwd .git/info/attributes; cd zz; for d in $(seq "
      "70); "
      "do mkdir $d; (cd $d; touch $(seq 3000)); done; cd ..; chmod 0 c");
  EXPECT_TRUE(outcome.reports("suspicious " + workspace_ + "/.envrc")) << ::testing::PrintToString(outcome.report);
  EXPECT_FALSE(exists(workspace_ + "/.git/info/attributes.quarantined.quarantined"));
}

TEST_P(GitAttack, NamesALinkAsIfItHadBeenSetAside) {
  const std::string link = workspace_ + "/.git/logs/refs/heads/main.quarantined";
  shell("mkdir -p .git/logs/refs/heads && ln -s /etc/passwd .git/logs/refs/heads/main.quarantined");
  EXPECT_FALSE(std::filesystem::is_symlink(link)) << "the next reflog would be written through it";
}

TEST_P(GitAttack, MakesARepositoryAroundASecretThatIsItsConfiguration) {
  write("workspace/.kube/config", "[core]\n\tfsmonitor = ./evil\n");
  shell("cd .kube && git init -q --bare made && mv made/HEAD made/objects made/refs .");
  EXPECT_FALSE(exists(workspace_ + "/.kube/HEAD")) << "git would take the directory for a repository";
  EXPECT_TRUE(exists(workspace_ + "/.kube/config"));
}

// Not an attack: the host's own, in no workspace.
TEST_P(GitAttack, IsNoneIfTheHostMakesWhatItsConfigurationNamesElsewhere) {
  host("git config include.path " + base_ + "/included");
  std::thread maker([&] {
    while (!exists(workspace_ + "/started")) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    write("included", "[user]\n\tname = me\n");
    write("workspace/go", "");
  });
  const Outcome outcome = shell("touch started; until [ -e go ]; do sleep 0.01; done");
  maker.join();
  EXPECT_EQ(outcome.code, 0);
}

TEST_P(GitAttack, LeadsTheHooksDirectoryOfANewTreeToThatTree) {
  write("workspace/.githooks/pre-push", "mine\n");
  host(
      "git config core.hooksPath .githooks && git add .githooks && git -c user.name=a -c user.email=a@b commit -qm "
      "hooks");
  shell("git worktree add -q side && cd side && rm -r .githooks && ln -s . .githooks && echo evil > pre-commit");
  EXPECT_FALSE(exists(workspace_ + "/side/.githooks/pre-commit"));
  EXPECT_TRUE(exists(workspace_ + "/.githooks/pre-push"));
}

// What is closed looks as if it were not there, until the scan opens it.
TEST_P(GitAttack, ClosesWhatTheConfigurationLeadsThrough) {
  host("git config core.hooksPath tools/hooks && git config include.path ../tools/included && mkdir tools");
  write("workspace/tools/mine", "mine");
  host("ln -s tools/envrc .envrc");
  const Outcome outcome = shell(
      "mkdir tools/hooks && echo evil > tools/hooks/pre-commit && printf '[core]\\n\\tfsmonitor = ./evil\\n' > "
      "tools/included && echo evil > tools/envrc && chmod 0 tools");
  EXPECT_TRUE(outcome.reports("quarantined " + workspace_ + "/tools/hooks/pre-commit"))
      << ::testing::PrintToString(outcome.report);
  EXPECT_TRUE(outcome.reports("suspicious " + workspace_ + "/.envrc"));
  EXPECT_FALSE(exists(workspace_ + "/tools/hooks/pre-commit"));
  EXPECT_EQ(read(workspace_ + "/tools/included").find("fsmonitor"), std::string::npos);
}

TEST_P(GitAttack, ClosesTheWorkspaceItself) {
  shell("git init -q new && echo evil > new/.git/hooks/pre-commit && chmod 0 .");
  EXPECT_EQ(::access(workspace_.c_str(), X_OK), 0);
  EXPECT_TRUE(exists(workspace_ + "/new/.git/HEAD"));
  EXPECT_FALSE(exists(workspace_ + "/new/.git/hooks/pre-commit"));
}

TEST_P(GitAttack, HidesARepositoryAmongTheLooseObjects) {
  for (const char* place : {"zz", "0a", "ff/deep"}) {
    const std::string hidden = std::string(".git/objects/") + place;
    shell("mkdir -p " + hidden + "; git init -q --bare " + hidden + " && echo evil > " + hidden + "/hooks/pre-receive");
    EXPECT_TRUE(exists(workspace_ + "/" + hidden + "/HEAD")) << place;
    EXPECT_FALSE(exists(workspace_ + "/" + hidden + "/hooks/pre-receive")) << place;
  }
}

TEST_P(GitAttack, MakesTheHooksThatAConfigurationNamedByAVariableWants) {
  write("elsewhere/gitconfig", "[core]\n\thooksPath = .githooks\n");
  Spec wanted = spec();
  wanted.command = {"bash", "-c", "mkdir .githooks && echo evil > .githooks/pre-commit"};
  run(wanted, [&] { ::setenv("GIT_CONFIG_GLOBAL", (base_ + "/elsewhere/gitconfig").c_str(), 1); });
  EXPECT_TRUE(exists(workspace_ + "/.githooks"));
  EXPECT_FALSE(exists(workspace_ + "/.githooks/pre-commit"));
  const std::string own = write("workspace/gitconfig", "[user]\n\tname = a\n");
  wanted.command = {"bash", "-c", "printf '[core]\\n\\tfsmonitor = ./evil\\n' >> gitconfig"};
  run(wanted, [&] { ::setenv("GIT_CONFIG_GLOBAL", own.c_str(), 1); });
  EXPECT_EQ(read(own).find("fsmonitor"), std::string::npos);
}

// Another sandbox of the same workspace may write there if it made the repository: a pipe must not keep the next one
// waiting.
TEST_P(GitAttack, PutsAPipeInThePlaceOfThePlaceholder) {
  const std::string place = workspace_ + "/.git/commondir", pipe = base_ + "/pipe";
  const pid_t other = ::fork();
  if (other == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (;;) {
      if (::access(place.c_str(), F_OK) == 0 && ::mkfifo(pipe.c_str(), 0666) == 0)
        ::rename(pipe.c_str(), place.c_str());
    }
  }
  int pipes = 0;
  for (int round = 0; round < 20; ++round) {
    shell("true");
    struct stat info{};
    if (::lstat(place.c_str(), &info) == 0 && S_ISFIFO(info.st_mode)) ++pipes;
    ::unlink(place.c_str());
  }
  EXPECT_GT(pipes, 0) << "it was never tried";
  ::kill(other, SIGKILL);
  ::waitpid(other, nullptr, 0);
  ::unlink(place.c_str());
  EXPECT_EQ(shell("true").code, 0);
}

TEST_P(GitAttack, LeadsTheConfiguredHooksDirectoryElsewhere) {
  write("workspace/tools/hooks/pre-commit", "mine");
  write("outside/hooks/pre-commit", "theirs");
  host("git config core.hooksPath tools/hooks");
  shell("mv tools kept; ln -sfn " + base_ + "/outside tools");
  EXPECT_EQ(read(workspace_ + "/tools/hooks/pre-commit"), "mine");
  EXPECT_TRUE(exists(base_ + "/outside/hooks/pre-commit")) << "what the link leads to is not ours";
}

TEST_P(GitAttack, ForgesTheConfiguredHooksDirectoryUnderItsName) {
  write("workspace/tools/hooks/pre-commit", "mine");
  host("git config core.hooksPath tools/hooks");
  shell("mv tools kept; mkdir -p tools/hooks; echo evil > tools/hooks/pre-commit");
  EXPECT_EQ(read(workspace_ + "/tools/hooks/pre-commit"), "mine");
}

TEST_P(GitAttack, ForgesANestedRepositoryUnderItsName) {
  host("git init -q nested");
  shell("mv nested kept && mkdir -p nested/.git/hooks && echo evil > nested/.git/hooks/pre-commit");
  EXPECT_FALSE(exists(workspace_ + "/nested/.git/hooks/pre-commit"));
}

TEST_P(GitAttack, MakesTheIncludedConfigurationThatIsMissing) {
  host("git config include.path ../shared.config");
  shell("printf '[core]\\n\\tfsmonitor = ./evil\\n' > shared.config");
  EXPECT_EQ(read(workspace_ + "/shared.config").find("fsmonitor"), std::string::npos);
}

TEST_P(GitAttack, WritesAConfigurationThatAnIncludedOneIncludes) {
  write("workspace/b.config", "[user]\n\tname = a\n");
  write("workspace/a.config", "[include]\n\tpath = b.config\n");
  host("git config include.path ../a.config");
  EXPECT_TRUE(is_refused(attack({"write", workspace_ + "/b.config"})));
}

TEST_P(GitAttack, WritesAHookThatTheUsersOwnConfigurationNames) {
  write("home/.gitconfig", "[core]\n\thooksPath = .githooks\n");
  write("workspace/.githooks/pre-commit", "mine");
  EXPECT_TRUE(is_refused(attack({"write", workspace_ + "/.githooks/pre-commit"})));
  host("rm -r .githooks");
  shell("mkdir .githooks && echo evil > .githooks/pre-commit");
  EXPECT_FALSE(exists(workspace_ + "/.githooks/pre-commit"));
}

TEST_P(GitAttack, WritesAHookOfANewWorktreeWhereTheHooksDirectoryIsRelative) {
  write("workspace/tools/hooks/post-merge", "mine\n");
  write("workspace/tools/hooks/pre-push", "mine\n");
  host(
      "git config core.hooksPath tools/hooks && git add tools && git -c user.name=a -c user.email=a@b commit -qm "
      "hooks");
  const Outcome outcome = shell(
      "git worktree add -q side && cd side/tools/hooks && echo evil > pre-push && cp pre-push "
      "pre-commit");
  for (const char* hook : {"pre-push", "pre-commit"}) {
    const std::string path = workspace_ + "/side/tools/hooks/" + hook;
    EXPECT_TRUE(outcome.reports("quarantined " + path)) << testing::PrintToString(outcome.report);
    EXPECT_FALSE(exists(path));
  }
  EXPECT_EQ(read(workspace_ + "/side/tools/hooks/post-merge"), "mine\n") << "the same as the user's own";
}

TEST_P(GitAttack, WritesAHookOfANewRepositoryWhereTheUsersOwnConfigurationSaysSo) {
  write("home/.gitconfig", "[core]\n\thooksPath = tools/hooks\n");
  const std::string own = write("workspace/own/tools/hooks/pre-commit", "mine\n");
  host("git init -q own && git init -q --bare bare");
  const Outcome outcome =
      shell("git init -q new && mkdir -p new/tools/hooks && echo evil > new/tools/hooks/pre-commit");
  EXPECT_TRUE(outcome.reports("quarantined " + workspace_ + "/new/tools/hooks/pre-commit"));
  EXPECT_FALSE(exists(workspace_ + "/new/tools/hooks/pre-commit"));
  EXPECT_TRUE(exists(own));
}

TEST_P(GitAttack, WritesAHookWhereTheWorkspaceItselfIsTheHooksDirectory) {
  host("git config core.hooksPath .");
  write("workspace/pre-push", "mine");
  EXPECT_TRUE(is_refused(attack({"write", workspace_ + "/pre-push"})));
  shell("echo evil > pre-commit; echo fine > other");
  EXPECT_FALSE(exists(workspace_ + "/pre-commit"));
  EXPECT_TRUE(exists(workspace_ + "/other"));
}

TEST_P(GitAttack, MakesTheNameForSettingAsideImpossible) {
  shell("git init -q new && mkdir -p new/.git/hooks/pre-commit.quarantined/x && echo evil > new/.git/hooks/pre-commit");
  EXPECT_FALSE(exists(workspace_ + "/new/.git/hooks/pre-commit"));
}

TEST_P(GitAttack, LeavesMoreHooksThanTheScanHasTimeFor) {
  shell(
      "git init -q new && cd new/.git/hooks && for i in $(seq 2000); do echo evil > x$i; done; echo evil > pre-commit");
  EXPECT_FALSE(exists(workspace_ + "/new/.git/hooks/pre-commit"));
}

TEST_P(GitAttack, WritesEditorAndAgentSettings) {
  for (const char* path : {".vscode/tasks.json",
                           ".idea/workspace.xml",
                           ".claude/settings.json",
                           ".envrc",
                           ".gemini/settings.json",
                           ".codex/config.toml",
                           ".opencode/plugin/p.ts",
                           "sub/opencode.json",
                           "opencode.jsonc",
                           ".pdbrc",
                           ".aider.conf.yml",
                           ".cursor/mcp.json",
                           ".kiro/hooks/h",
                           ".windsurf/hooks.json",
                           ".continue/config.yaml",
                           ".helix/languages.toml",
                           ".Rprofile",
                           ".ghci",
                           ".iex.exs",
                           ".ocamlinit",
                           ".octaverc",
                           ".perldb"}) {
    const std::string settings = write(std::string("workspace/") + path, "{}");
    EXPECT_TRUE(is_refused(attack({"write", settings}))) << path;
  }
}

TEST_P(GitAttack, LeavesNewSettingsWhichAreReported) {
  const Outcome outcome = shell(
      "mkdir .vscode .codex .opencode && echo '{}' > .vscode/tasks.json && touch .codex/config.toml .pdbrc "
      "opencode.json .Rprofile .ghci && mkdir .helix");
  for (const char* name :
       {".vscode", ".codex", ".opencode", ".pdbrc", "opencode.json", ".Rprofile", ".ghci", ".helix"}) {
    EXPECT_TRUE(outcome.reports("suspicious " + workspace_ + "/" + name)) << name;
  }
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
                      "for i in $(seq 2000); do grep -q /.git/config /proc/self/mountinfo && break; sleep 0.01; done; "
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

// The host may remove a masked file, and may bring it back later.
TEST_P(GitAttack, WaitsForTheHostToRemoveAMaskedFile) {
  write("workspace/.env", "TOKEN=1");
  Spec attacked = spec();
  attacked.command = {
      "bash", "-c",
      "touch started; until [ -e back ]; do sleep 0.01; done; "
      "for i in $(seq 2000); do grep -q /.env /proc/self/mountinfo && break; sleep 0.01; done; cat .env"};
  const pid_t editor = ::fork();
  if (editor == 0) {
    while (!exists(workspace_ + "/started")) ::usleep(1000);
    host("rm .env; sleep 2; echo TOKEN=2 > .env; touch back");
    ::_exit(0);
  }
  const Outcome outcome = run(attacked);
  ::waitpid(editor, nullptr, 0);
  EXPECT_EQ(outcome.output.find("TOKEN"), std::string::npos) << outcome.output;
  EXPECT_TRUE(outcome.reports("removed " + workspace_ + "/.env"));
  EXPECT_TRUE(outcome.reports("lost " + workspace_ + "/.env"));
}

TEST_P(GitAttack, SeesAMaskedFileRemovedForGoodReportedAsThat) {
  write("workspace/.env", "TOKEN=1");
  Spec attacked = spec();
  attacked.command = {"bash", "-c",
                      "touch started; while grep -q /.env /proc/self/mountinfo; do sleep 0.01; done; sleep 2"};
  const pid_t editor = ::fork();
  if (editor == 0) {
    while (!exists(workspace_ + "/started")) ::usleep(1000);
    host("rm .env");
    ::_exit(0);
  }
  const Outcome outcome = run(attacked);
  ::waitpid(editor, nullptr, 0);
  EXPECT_TRUE(outcome.reports("removed " + workspace_ + "/.env"));
  EXPECT_FALSE(outcome.reports("lost " + workspace_ + "/.env")) << "nothing was put back";
}

TEST_P(GitAttack, WaitsForTheHostToReplaceAMaskedFile) {
  write("workspace/.env", "TOKEN=1");
  Spec attacked = spec();
  attacked.command = {
      "bash", "-c",
      "touch started; until [ -e replaced ]; do sleep 0.01; done; "
      "for i in $(seq 2000); do grep -q /.env /proc/self/mountinfo && break; sleep 0.01; done; cat .env"};
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
