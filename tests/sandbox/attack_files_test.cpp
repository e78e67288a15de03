// Attacks on files, each under its own name, started by root and by an ordinary user.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <filesystem>
#include <thread>

#include "fixture.h"
#include "sandbox/plan.h"

namespace sallyport::sandbox {
namespace {

class FileAttack : public AttackTest {};
SALLYPORT_BOTH_WAYS(FileAttack);

// It is detached beside the rest of the launch, many times as fast as here and a few times as slow.
TEST_P(FileAttack, FindsTheRootOfTheHostOnTopOfItsOwn) {
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(
        shell("while read -r a b c d point rest; do [ $point = / ] && echo $d; done < /proc/self/mountinfo").output,
        "/\n");
  }
}

TEST_P(FileAttack, ReadsSshKeysOfTheHome) {
  const std::string key = write("home/.ssh/id_rsa", "PRIVATE");
  EXPECT_TRUE(is_refused(attack({"read", key})));
  EXPECT_TRUE(is_refused(attack({"stat", key})));
}

TEST_P(FileAttack, ReadsNetrcAndCloudCredentials) {
  const std::string netrc = write("home/.netrc", "machine x password y");
  const std::string cloud = write("home/.aws/credentials", "key");
  EXPECT_TRUE(is_refused(attack({"read", netrc})));
  EXPECT_TRUE(is_refused(attack({"read", cloud})));
}

TEST_P(FileAttack, ReadsTheWorkspacesEnvFile) {
  const std::string secret = write("workspace/.env", "TOKEN=1");
  EXPECT_TRUE(is_refused(attack({"read", secret})));
  EXPECT_TRUE(is_refused(attack({"write", secret})));
  EXPECT_TRUE(is_refused(attack({"unlink", secret})));
  EXPECT_TRUE(is_refused(attack({"rename", secret, workspace_ + "/plain"})));
  EXPECT_EQ(read(secret), "TOKEN=1");
}

TEST_P(FileAttack, ReadsSecretsInOtherSpellings) {
  const std::string upper = write("workspace/sub/.ENV", "TOKEN=1");
  const std::string key = write("workspace/deep/er/Server.PEM", "KEY");
  EXPECT_TRUE(is_refused(attack({"read", upper})));
  EXPECT_TRUE(is_refused(attack({"read", key})));
}

TEST_P(FileAttack, MovesTheParentOfAMaskedFile) {
  write("workspace/sub/.env", "TOKEN=1");
  const Outcome outcome = shell("mv sub elsewhere; cat elsewhere/.env sub/.env");
  EXPECT_EQ(outcome.output.find("TOKEN"), std::string::npos) << outcome.output;
}

TEST_P(FileAttack, WritesToTheHome) {
  const std::string bashrc = write("home/.bashrc", "before");
  shell("echo evil >> ~/.bashrc; echo evil > ~/new");
  EXPECT_EQ(read(bashrc), "before");
  EXPECT_FALSE(exists(home_ + "/new"));
}

TEST_P(FileAttack, WritesToTheHostsTmpAndShm) {
  const std::string name = "sallyport-probe-" + std::to_string(::getpid());
  shell("echo evil > /tmp/" + name + "; echo evil > /dev/shm/" + name);
  EXPECT_FALSE(exists("/tmp/" + name));
  EXPECT_FALSE(exists("/dev/shm/" + name));
}

TEST_P(FileAttack, WritesToTheSystem) {
  for (const char* path : {"/etc/evil", "/usr/bin/evil", "/evil", "/dev/evil", "/proc/sys/kernel/core_pattern"}) {
    EXPECT_TRUE(is_refused(attack({"write", path}))) << path;
  }
}

TEST_P(FileAttack, ReadsTheShadowFile) { EXPECT_TRUE(is_refused(attack({"read", "/etc/shadow"}))); }

TEST_P(FileAttack, ChangesModesOutside) {
  for (const char* path : {"/dev/null", "/etc/passwd", "/usr/bin/env", "/"}) {
    EXPECT_TRUE(is_refused(attack({"chmod", path, "777"}))) << path;
  }
}

TEST_P(FileAttack, HardLinksAFileFromOutside) {
  const std::string outside = write("home/secret", "x");
  EXPECT_TRUE(is_refused(attack({"link", outside, workspace_ + "/link"})));
  EXPECT_TRUE(is_refused(attack({"link", "/etc/passwd", workspace_ + "/link"})));
}

TEST_P(FileAttack, FollowsASymlinkOutside) {
  const std::string outside = write("home/secret", "x");
  EXPECT_TRUE(is_refused(attack({"read-through-symlink", outside})));
  EXPECT_TRUE(is_refused(attack({"write-through-symlink", "/etc/evil"})));
}

TEST_P(FileAttack, RenamesAcrossTheWall) {
  write("workspace/mine", "x");
  EXPECT_TRUE(is_refused(attack({"rename", workspace_ + "/mine", "/usr/mine"})));
  EXPECT_TRUE(is_refused(attack({"rename", "/etc/passwd", workspace_ + "/passwd"})));
}

TEST_P(FileAttack, OpensByHandle) { EXPECT_TRUE(is_refused(attack({"open-by-handle"}))); }

TEST_P(FileAttack, MakesASetUserIdFile) {
  write("workspace/mine", "x");
  EXPECT_TRUE(is_refused(attack({"chmod", workspace_ + "/mine", "4755"})));
  EXPECT_TRUE(is_refused(attack({"chmod", workspace_ + "/mine", "2755"})));
  EXPECT_TRUE(is_refused(attack({"fchmodat2-setuid", workspace_ + "/mine"})));
  EXPECT_TRUE(is_refused(attack({"create-setuid", workspace_ + "/new"})));
  EXPECT_TRUE(is_refused(attack({"create-setuid-openat2", workspace_ + "/new"})));
  EXPECT_TRUE(is_refused(attack({"create-setuid-nameless", workspace_})));
}

TEST_P(FileAttack, ReadsWhatIsDeniedInsideWhatIsAllowed) {
  const std::string denied = write("workspace/secrets/token", "x");
  Spec attacked = spec();
  attacked.deny.push_back(workspace_ + "/secrets");
  attacked.read.push_back(denied);  // a deeper allow does not win
  attacked.command = {probe_, "read", denied};
  EXPECT_TRUE(is_refused(run(attacked)));
}

TEST_P(FileAttack, ReadsADeniedNameAnywhere) {
  const std::string denied = write("workspace/a/b/plan.secret", "x");
  Spec attacked = spec();
  attacked.deny_patterns = {"**/*.secret"};
  attacked.command = {probe_, "read", denied};
  EXPECT_TRUE(is_refused(run(attacked)));
}

// A mode protects from nobody who may change it.
TEST_P(FileAttack, OpensTheModeOfWhatIsDenied) {
  const std::string file = write("workspace/secrets/token", "x");
  const std::string behind = write("workspace/closed/token", "x");
  host("chmod 000 secrets/token closed");
  Spec attacked = spec();
  attacked.deny.insert(attacked.deny.end(), {file, behind});
  attacked.command = {"bash", "-c", "chmod 700 secrets/token closed; grep x secrets/token closed/token"};
  EXPECT_NE(run(attacked).code, 0);
  host("chmod 700 secrets/token closed");
}

TEST_P(FileAttack, HidesASecretFromTheNextRunsSearch) {
  write("workspace/config/.env", "TOKEN=1");
  write("workspace/listed/.env", "TOKEN=1");
  host("chmod 000 config && chmod 600 listed");
  const Outcome outcome = shell("chmod 700 config listed; cat config/.env listed/.env");
  EXPECT_TRUE(outcome.has_started) << outcome.error;
  EXPECT_EQ(outcome.output.find("TOKEN"), std::string::npos) << outcome.output;
  host("chmod 700 config listed");
}

TEST_P(FileAttack, LeavesADirectoryThatCannotBeSearchedWhichIsOpened) {
  const Outcome outcome = shell("mkdir -p closed/.vscode && chmod 000 closed");
  const std::string closed = workspace_ + "/closed";
  EXPECT_TRUE(outcome.reports("suspicious " + closed + "/.vscode"));
  host("chmod 700 closed");
}

// The bounds of the search are the machine's: here they are small instead of the workspace large.
TEST_P(FileAttack, MakesTheWorkspaceTooLargeToBeSearched) {
  for (int i = 0; i < 20; ++i) write("workspace/f" + std::to_string(i), "x");
  ForegroundOptions options;
  options.launch.machine.bounds.entries = 10;
  Spec attacked = spec();
  attacked.command = {"true"};
  const Outcome told = run(attacked, options);
  EXPECT_TRUE(told.has_started) << told.error;
  EXPECT_TRUE(std::any_of(told.report.begin(), told.report.end(), [](const std::string& line) {
    return line.starts_with("protections") && line.find("not all of it was searched") != std::string::npos;
  }));
  attacked.deny_patterns = {"**/*.secret"};
  const Outcome refused = run(attacked, options);
  EXPECT_FALSE(refused.has_started);
  EXPECT_NE(refused.error.find("too large to find every file that fs.deny names"), std::string::npos) << refused.error;
}

TEST_P(FileAttack, LeavesMoreSecretsThanCanBeMasked) {
  host("mkdir many && cd many && for i in $(seq 4100); do : > .env.$i; done");
  const Outcome outcome = shell("true");
  EXPECT_FALSE(outcome.has_started);
  EXPECT_NE(outcome.error.find("more secrets, settings and repositories than can be protected"), std::string::npos)
      << outcome.error;
}

TEST_P(FileAttack, WritesAReadOnlyWorkspace) {
  Spec attacked = spec();
  attacked.is_workspace_writable = false;
  attacked.command = {probe_, "write", workspace_ + "/new"};
  EXPECT_TRUE(is_refused(run(attacked)));
  EXPECT_FALSE(exists(workspace_ + "/new"));
}

TEST_P(FileAttack, ExecutesWhatTheListDoesNotName) {
  std::filesystem::create_symlink("/usr/bin/env", workspace_ + "/link");
  write("workspace/script", "#!/usr/bin/env bash\nexit 42\n");
  ::chmod((workspace_ + "/script").c_str(), 0755);
  Spec attacked = spec();
  attacked.exec = {probe_, workspace_ + "/script"};
  for (const char* target : {"/usr/bin/env", "./link", "./script"}) {
    attacked.command = {probe_, "exec", target};
    EXPECT_TRUE(is_refused(run(attacked))) << target;
  }
}

TEST_P(FileAttack, ExecutesFromAPrivateDirectoryOffTheList) {
  const Outcome outcome = shell("cp sp_probe /tmp/p; /tmp/p succeed");
  EXPECT_EQ(outcome.code, 126) << outcome.output;
}

TEST_P(FileAttack, OpensItsInputAgainForWriting) {
  const std::string input = write("home/input", "before");
  Spec attacked = spec();
  attacked.command = {probe_, "reopen-input"};
  EXPECT_TRUE(is_refused(run(attacked, [&] { ::dup2(::open(input.c_str(), O_RDONLY), 0); })));
}

TEST_P(FileAttack, CutsItsInput) {
  const std::string input = write("home/input", "before");
  Spec attacked = spec();
  attacked.command = {probe_, "cut-input"};
  EXPECT_TRUE(is_refused(run(attacked, [&] { ::dup2(::open(input.c_str(), O_RDONLY), 0); })));
  EXPECT_EQ(read(input), "before");
}

TEST_P(FileAttack, IsGivenADirectoryAsItsInput) {
  Spec attacked = spec();
  attacked.command = {"true"};
  const Outcome outcome = run(attacked, [&] { ::dup2(::open(home_.c_str(), O_RDONLY | O_DIRECTORY), 0); });
  EXPECT_NE(outcome.error.find("a directory cannot be"), std::string::npos);
}

TEST_P(FileAttack, PlantsALinkWhereTheProfileMounts) {
  const std::string secret = write("home/.ssh/id_rsa", "x");
  for (const bool is_write : {false, true}) {
    std::filesystem::remove(workspace_ + "/data");
    std::filesystem::create_symlink(home_ + "/.ssh", workspace_ + "/data");
    Spec attacked = spec();
    (is_write ? attacked.write : attacked.read).push_back(workspace_ + "/data");
    attacked.command = {probe_, "read", secret};
    EXPECT_NE(run(attacked).error.find("leads out of it"), std::string::npos);
  }
}

// By a sandbox of another profile or workspace, which also takes away the mode by which its user could write there.
TEST_P(FileAttack, PlantsALinkForALaterProfileAndClosesTheDirectory) {
  const std::string secret = write("home/.ssh/id_rsa", "x");
  const std::string cache = make_directory("cache");
  host("ln -s " + home_ + " " + cache + "/npm && chmod 555 " + cache);
  for (const bool is_write : {false, true}) {
    Spec attacked = spec();
    (is_write ? attacked.write : attacked.read).push_back(cache + "/npm");
    attacked.command = {probe_, "read", secret};
    EXPECT_TRUE(is_refused(run(attacked)));
  }
}

// By a sandbox that still runs, while the next one is planned.
TEST_P(FileAttack, SwapsALinkForADirectoryWhileItIsLookedAt) {
  const std::string cache = make_directory("cache");
  host("mkdir " + cache + "/npm && ln -s " + home_ + " " + cache + "/link");
  Spec attacked = spec();
  attacked.workspace.clear();
  attacked.write.push_back(cache + "/npm");
  attacked.command = {"true"};
  const Outcome outcome = run(attacked, [&] {
    std::atomic<bool> is_over = false;
    std::thread swapper([&] {
      while (!is_over) {
        ::renameat2(AT_FDCWD, (cache + "/npm").c_str(), AT_FDCWD, (cache + "/link").c_str(), RENAME_EXCHANGE);
      }
    });
    const Machine machine = Machine::probe();
    int shown = 0;
    for (int i = 0; i < 3000; ++i) {
      const auto plan = make_plan(attacked, machine);
      if (!plan) std::printf("%s\n", plan.error().describe().c_str());
      if (!plan) break;
      shown += static_cast<int>(std::any_of(plan->items.begin(), plan->items.end(), [&](const Item& item) {
        return item.action == Action::bind && item.source == home_;
      }));
    }
    is_over = true;
    swapper.join();
    std::filesystem::remove(cache + "/npm");
    if (shown != 0) std::printf("shown %d times\n", shown), std::fflush(stdout);
  });
  EXPECT_EQ(outcome.output, "");
}

TEST_P(FileAttack, ReadsASecretBehindALink) {
  const std::string secret = write("workspace/config/production", "x");
  std::filesystem::create_symlink("config/production", workspace_ + "/.env");
  EXPECT_TRUE(is_refused(attack({"read", secret})));
  EXPECT_TRUE(is_refused(attack({"read", workspace_ + "/.env"})));
}

TEST_P(FileAttack, MakesAFileAboveTheLimit) {
  EXPECT_TRUE(is_refused(attack({"large-file", workspace_ + "/big", std::to_string(4ULL << 30)})));
}

TEST_P(FileAttack, FillsThePrivateDirectories) {
  Spec attacked = spec();
  attacked.limits.scratch_bytes = 8 << 20;
  for (const char* place : {"/tmp/big", "/dev/shm/big"}) {
    attacked.command = {probe_, "fill", place, std::to_string(64 << 20)};
    EXPECT_TRUE(is_refused(run(attacked))) << place;
  }
}

}  // namespace
}  // namespace sallyport::sandbox
