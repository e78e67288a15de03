// What is masked and denied stays so for the next run: `sallyport run`, twice, as root and as an ordinary user.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "support/attacker.h"
#include "support/daemon.h"
#include "support/shell.h"

namespace sallyport::testing {
namespace {

namespace fs = std::filesystem;

constexpr const char* kProfile = R"(
[profile.denying]
fs.read  = ["/usr", "/etc"]
fs.write = ["${workspace}"]
fs.deny  = ["${workspace}/config/secrets", "${workspace}/**/plan.txt", "${workspace}/missing/../up", "**/lnk"]
exec     = ["/usr/**"]
env      = { PATH = "/usr/bin:/bin" }
)";

class Covers : public ::testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    if (GetParam() && !is_root()) GTEST_SKIP() << "needs root";
    const fs::path programs = fs::path(SALLYPORT_CLI).parent_path();
    for (const char* below : {"/bin", "/profiles", "/desk"}) fs::create_directories(root() + below);
    for (const char* program : {"sallyport", "sallyport-connect"}) {
      fs::copy_file(programs / program, root() + "/bin/" + program);
    }
    std::ofstream(root() + "/profiles/denying.toml") << kProfile;
    if (!is_root()) return;
    ASSERT_EQ(run_shell("chown -R " + owner() + " '" + root() + "'").status, 0);
  }

  // In the workspace, as whoever runs the sandboxes.
  Ran host(const std::string& script) const {
    std::ofstream(root() + "/script") << script;
    const std::string become = is_root() && !GetParam()
                                   ? "setpriv --reuid " + std::to_string(kOrdinaryUid) + " --regid " +
                                         std::to_string(kOrdinaryUid) + " --clear-groups "
                                   : "";
    return run_shell("cd '" + root() + "/desk' && " + become + "env HOME=/nowhere " + places_in(root()) + "PATH='" +
                     root() + "/bin':$PATH sh '" + root() + "/script' 2>&1");
  }
  Ran inside(const std::string& script, const std::string& profile = "default") const {
    return host("sallyport run --no-warden --profile " + profile + " -- sh -c '" + script + "'");
  }
  void make_repository() const {
    const Ran made = host(
        "git init -q . && git config user.name a && git config user.email a@b && git commit -q --allow-empty -m x && "
        "mkdir cfg && echo TOPSECRET > cfg/.env && echo TOPSECRET > cfg/server.pem");
    ASSERT_EQ(made.status, 0) << made.output;
  }
  void expect_hidden(const std::string& profile = "default") const {
    const Ran second = inside("grep -rs TOPSECRET . ; true", profile);
    EXPECT_EQ(second.status, 0) << second.output;
    EXPECT_EQ(second.output.find("TOPSECRET"), std::string::npos) << second.output;
  }
  std::string owner() const {
    const std::string id = std::to_string(GetParam() ? 0 : kOrdinaryUid);
    return id + ":" + id;
  }
  const std::string& root() const { return directory_.path(); }

 private:
  TemporaryDirectory directory_;
};
INSTANTIATE_TEST_SUITE_P(StartedBy, Covers, ::testing::Bool(),
                         [](const auto& by) { return std::string(by.param ? "root" : "user"); });

TEST_P(Covers, StayOverASecretThatTheFirstRunClaimsIsTracked) {
  make_repository();
  inside("git update-index --add --cacheinfo 100644,$(echo x | git hash-object -w --stdin),cfg/.env");
  expect_hidden();
  EXPECT_NE(inside("true").output.find("differs from what git tracks"), std::string::npos);
}

// The kernel does not escape every blank in its list of mounts.
TEST_P(Covers, InADirectoryWithAnOddNameAreMadeOnce) {
  ASSERT_EQ(host("d=$(printf 'a\\rb\\vc\\fd'); mkdir \"$d\" && echo x > \"$d/.env\"").status, 0);
  const Ran ran = inside("sleep 1; echo mounts $(wc -l < /proc/self/mountinfo)");
  const std::size_t at = ran.output.find("mounts ");
  ASSERT_NE(at, std::string::npos) << ran.output;
  EXPECT_LT(std::stoi(ran.output.substr(at + 7)), 200) << ran.output;
}

// While a pin was lost the sandbox could write what it pinned.
TEST_P(Covers, ThatWereLostAreNoProofOfWhatIsThere) {
  make_repository();
  const Ran ran = host(
      "sallyport run --no-warden -- sh -c 'touch started; while [ ! -e done ]; do sleep 0.1; done; until grep -q "
      "\"/.git/config \" /proc/self/mountinfo; do sleep 0.1; done' & "
      "while [ ! -e started ]; do sleep 0.1; done; "
      "printf '[core]\\n\\tfsmonitor = touch stolen\\n' > .git/new; mv .git/new .git/config; touch done; wait");
  EXPECT_NE(ran.output.find("its protection was put back"), std::string::npos) << ran.output;
  EXPECT_EQ(host("git status; git config core.fsmonitor; ls stolen").output.find("touch stolen"), std::string::npos);
  EXPECT_FALSE(fs::exists(root() + "/desk/stolen")) << ran.output;
}

TEST_P(Covers, StayOverASecretThatTheFirstRunTriesToMove) {
  make_repository();
  inside("mv cfg node_modules; git init -q n; mv cfg n/.git/cfg");
  expect_hidden();
  EXPECT_TRUE(fs::exists(root() + "/desk/cfg/.env"));
}

TEST_P(Covers, StayOverWhatAProfileDenies) {
  const Ran made = host(
      "mkdir -p config a/b/.c up target && for f in config/secrets plan.txt a/plan.txt a/b/.c/plan.txt up/x target/y; "
      "do "
      "echo TOPSECRET > $f; done; ln -s ../target a/lnk");
  ASSERT_EQ(made.status, 0) << made.output;
  const Ran moved = inside("mv config c2; mv a a2; mv up up2; mkdir -p node_modules; mv a/b node_modules/b", "denying");
  EXPECT_EQ(moved.output.find("cannot start"), std::string::npos) << moved.output;
  expect_hidden("denying");
}

TEST_P(Covers, HoldOrRefuseWhileAnotherSandboxMovesTheSecret) {
  make_repository();
  // The other one is there first: for it the secret is an ordinary file.
  const Ran raced = host(
      "mv cfg ../kept; sallyport run --no-warden -- sh -c 'touch ready; until test -e enough; do mv cfg t; mv t cfg; "
      "done' "
      "</dev/null >/dev/null 2>&1 & until test -e ready; do sleep 0.05; done; mv ../kept cfg; "
      "for i in 1 2 3 4 5 6 7 8 9 10; do "
      "sallyport run --no-warden -- sh -c 'cat cfg/.env t/.env cfg/.env t/.env 2>/dev/null'; done; touch enough; wait");
  EXPECT_EQ(raced.output.find("TOPSECRET"), std::string::npos) << raced.output;
}

TEST_P(Covers, AreAppliedToWhatTheHostPutsInTheirPlace) {
  make_repository();
  const Ran replaced = host(
      "sallyport run --no-warden -- sh -c 'touch ready; until test -e done; do sleep 0.05; done; "
      "for i in $(seq 600); do grep -q cfg/.env /proc/self/mountinfo && break; sleep 0.05; done; cat cfg/.env' & "
      "until test -e ready; do sleep 0.05; done; mv cfg ../old; cp -r ../old cfg; touch done; wait");
  EXPECT_EQ(replaced.output.find("TOPSECRET"), std::string::npos) << replaced.output;
  EXPECT_NE(replaced.output.find("the host replaced"), std::string::npos) << replaced.output;
}

TEST_P(Covers, AreRefusedWhereTheyCouldNotHold) {
  const Ran good = host("sallyport policy check '" + root() + "/profiles/denying.toml'");
  EXPECT_EQ(good.status, 0) << good.output;
  for (const char* path : {"${workspace}/{a,b}", "/data/**/x", "**/a/**/b", "**/", "${workspace}/*/../x"}) {
    std::ofstream(root() + "/bad.toml") << "[profile.bad]\nfs.deny = [\"" << path << "\"]\n";
    const Ran checked = host("sallyport policy check '" + root() + "/bad.toml'");
    EXPECT_NE(checked.status, 0) << path;
    EXPECT_NE(checked.output.find("bad.toml:2"), std::string::npos) << checked.output;
  }
}

}  // namespace
}  // namespace sallyport::testing
