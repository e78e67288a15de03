// The mailbox of an ordinary user, from the command line: a signal, a request that a human approves, its reply. The
// other tests run as root where the machine's owner does; this one never does.
#include <gtest/gtest.h>
#include <sys/stat.h>
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
[profile.worker]
fs.read  = ["/usr", "/etc"]
fs.write = ["${workspace}"]
exec     = ["/usr/**"]
signals  = ["context_reset", "schedule_task"]
review   = { schedule_task = ["deputy", "human"] }
agent    = ["/bin/sh", "-c", "cat >report"]
env      = { PATH = "/usr/bin:/bin" }
)";

class OrdinaryUser : public ::testing::Test {
 protected:
  void SetUp() override {
    // Where that user can read them: a build directory may lie in somebody's home.
    for (const char* below : {"/bin", "/profiles", "/desk"}) fs::create_directories(root() + below);
    const fs::path programs = fs::path(SALLYPORT_CLI).parent_path();
    for (const char* program : {"sallyport", "sallyportd", "sallyport-launcher", "sallyport-signal"}) {
      fs::copy_file(programs / program, root() + "/bin/" + program);
    }
    std::ofstream(root() + "/profiles/worker.toml") << kProfile;
    std::ofstream(root() + "/desk/task.json") << R"({"prompt":"water the plants","schedule":"0 3 * * *"})";
    if (!is_root()) return;
    for (const auto& entry : fs::recursive_directory_iterator(root())) {
      ASSERT_EQ(::chown(entry.path().c_str(), kOrdinaryUid, kOrdinaryUid), 0);
    }
    ASSERT_EQ(::chown(root().c_str(), kOrdinaryUid, kOrdinaryUid), 0);
  }
  void TearDown() override { EXPECT_EQ(sallyport("down").status, 0); }

  Ran sallyport(const std::string& arguments) const {
    const std::string become = is_root() ? "setpriv --reuid " + std::to_string(kOrdinaryUid) + " --regid " +
                                               std::to_string(kOrdinaryUid) + " --clear-groups "
                                         : "";
    return run_shell("cd '" + root() + "/desk' && " + become + "env " + places_in(root()) + "'" + root() +
                     "/bin/sallyport' " + arguments + " 2>&1");
  }
  const std::string& root() const { return directory_.path(); }

 private:
  TemporaryDirectory directory_;
};

TEST_F(OrdinaryUser, RaisesASignalAndARequestThatAHumanApproves) {
  const Ran created = sallyport("container create --profile worker --workspace . --name mine");
  ASSERT_EQ(created.status, 0) << created.output;
  const std::string id = created.output.substr(0, created.output.find('\n'));
  const std::string inside = "container exec " + id + " -- ";

  // A signal: the session is emptied.
  const Ran kept = sallyport(inside + "sh -c 'echo old > /run/sallyport/session/note'");
  ASSERT_EQ(kept.status, 0) << kept.output;
  const Ran reset = sallyport(inside + "sallyport-signal context_reset");
  ASSERT_EQ(reset.status, 0) << reset.output;
  EXPECT_TRUE(eventually([&] { return sallyport(inside + "test -e /run/sallyport/session/note").status == 1; }));

  // A request: it waits for a human, and is answered once one has said yes.
  const std::string request = "6ba7b810-9dad-41d1-80b4-00c04fd430c8";
  const std::string ask = inside + "sallyport-signal schedule_task --payload task.json --id " + request;
  const Ran asked = sallyport(ask);
  ASSERT_EQ(asked.status, 0) << asked.output;
  std::string question;
  EXPECT_TRUE(eventually([&] {
    const std::string listed = sallyport("approvals ls --json").output;
    const std::size_t at = listed.find("\"id\":\"");
    if (at == std::string::npos) return false;
    question = listed.substr(at + 6, listed.find('"', at + 6) - at - 6);
    return true;
  }));
  EXPECT_NE(sallyport("approvals show " + question).output.find("water the plants"), std::string::npos);
  const Ran approved = sallyport("approvals approve " + question);
  EXPECT_EQ(approved.status, 0) << approved.output;
  const Ran answered = sallyport(ask + " --wait");
  EXPECT_EQ(answered.status, 0) << answered.output;
  EXPECT_NE(answered.output.find("\"result\""), std::string::npos) << answered.output;
  EXPECT_NE(sallyport("schedule ls").output.find(id), std::string::npos) << sallyport("schedule ls").output;
  EXPECT_EQ(sallyport("audit verify").status, 0) << sallyport("audit verify").output;
}

TEST_F(OrdinaryUser, IsToldOfAWorkspaceThatIsNotTheirs) {
  fs::create_directories(root() + "/locked");
  ASSERT_EQ(::chmod((root() + "/locked").c_str(), 0), 0);
  const Ran ran = sallyport("run --no-warden --workspace '" + root() + "/locked' -- true");
  EXPECT_EQ(ran.status, 2) << ran.output;
  EXPECT_EQ(ran.output, "sallyport: the workspace is not for this user to read: " + root() + "/locked\n");
}

}  // namespace
}  // namespace sallyport::testing
