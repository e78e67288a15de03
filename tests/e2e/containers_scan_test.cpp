// What the scan at exit finds is set aside and told, however the container, its launcher or the warden ends.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>
#include <csignal>

#include <filesystem>
#include <fstream>

#include "e2e/containers.h"
#include "os/process.h"
#include "support/attacker.h"
#include "support/shell.h"

namespace sallyport::testing {
namespace {

namespace fs = std::filesystem;

class ContainersScan : public Containers {
 protected:
  // A container with a repository that has a hook, made inside.
  std::string plant() {
    Client client = connect();
    const std::string id = create(client, "");
    const Ran ran = exec(client, id, "git init -q new && echo evil > new/.git/hooks/pre-commit");
    EXPECT_EQ(ran.exit_code, 0) << id << ran.err;
    EXPECT_TRUE(fs::exists(hook()));
    return id;
  }
  // In the audit log, which outlives the container.
  bool is_recorded(const std::string& id) {
    Client client = connect();
    const auto answer = client.call("audit.query", R"({"method":"container.finding"})");
    if (!answer || answer->error) return false;
    for (const wire::Value record : answer->result.get("records").items()) {
      const bool is_it = record.get("rule").as_string().value_or("").ends_with("quarantined: " + hook());
      if (is_it && record.get("principal").as_string() == "container/" + id) return true;
    }
    return false;
  }
  std::string hook() { return workspace() + "/new/.git/hooks/pre-commit"; }
  bool is_reported(const std::string& id) {
    Client client = connect();
    const auto answer = client.call("container.inspect", named(id));
    if (!answer) return false;
    for (const wire::Value report : answer->result.get("reports").items()) {
      if (report.as_string() == "quarantined: " + hook()) return true;
    }
    return false;
  }
};

TEST_F(ContainersScan, IsMadeBeforeAnOrderlyEndIsOver) {
  const std::string id = plant();
  ASSERT_EQ(daemon().stop(), 0);
  EXPECT_FALSE(fs::exists(hook()));
  ASSERT_TRUE(daemon().start());
  EXPECT_TRUE(is_reported(id) && is_recorded(id));
}

TEST_F(ContainersScan, IsToldAndRecordedOfAContainerThatIsForgottenAtOnce) {
  Client events = connect();
  ASSERT_EQ(events.outcome("warden.subscribe", R"({"events":["container.finding"]})"), "OK");
  std::string id;
  {
    Client client = connect();
    id = create(client, R"(,"ends_with_session":true)");
    EXPECT_EQ(exec(client, id, "git init -q new && echo evil > new/.git/hooks/pre-commit").exit_code, 0);
  }
  std::string told;
  while (const auto body = events.next_body()) {
    auto message = decode(*body);
    ASSERT_TRUE(message);
    if (message->method != "container.finding") continue;
    EXPECT_EQ(message->params.get("container").as_string(), id);
    told = message->params.get("report").as_string().value_or("");
    break;
  }
  EXPECT_EQ(told, "quarantined: " + hook());
  EXPECT_TRUE(eventually([&] { return is_recorded(id); }));
  Client client = connect();
  EXPECT_TRUE(eventually([&] { return state_of(client, id) == "unknown"; }));
  EXPECT_TRUE(daemon().logs("quarantined: " + hook()));
}

TEST_F(ContainersScan, IsMadeUpForWhenTheLauncherWasKilled) {
  const std::string id = plant();
  ASSERT_EQ(::kill(launcher(), SIGKILL), 0);
  EXPECT_TRUE(eventually([&] { return is_reported(id) && is_recorded(id); }));
  EXPECT_FALSE(fs::exists(hook()));
}

TEST_F(ContainersScan, IsMadeByTheLauncherWhenTheWardenWasKilled) {
  const std::string id = plant();
  daemon().kill_now();
  EXPECT_TRUE(eventually([&] { return !fs::exists(hook()); }));
  ASSERT_TRUE(daemon().start());
  EXPECT_TRUE(eventually([&] { return is_reported(id) && is_recorded(id); }));
}

TEST_F(ContainersScan, IsMadeUpForByTheNextWardenWhenBothWereKilled) {
  const std::string id = plant();
  const pid_t its_launcher = launcher();
  const auto started = os::process_start_time(its_launcher);
  ASSERT_TRUE(started);
  daemon().signal(SIGSTOP);
  ASSERT_EQ(::kill(its_launcher, SIGKILL), 0);
  daemon().kill_now();
  ASSERT_TRUE(eventually([&] { return !os::is_process_alive(its_launcher, *started); }));
  ASSERT_TRUE(daemon().start());
  EXPECT_TRUE(eventually([&] { return is_reported(id) && is_recorded(id); }));
  EXPECT_FALSE(fs::exists(hook()));
}

// The command line, as an ordinary user: `run` is killed, with a warden and without.
class RunScan : public ::testing::Test {
 protected:
  void SetUp() override {
    for (const char* below : {"/bin", "/desk", "/home"}) fs::create_directories(root() + below);
    const fs::path programs = fs::path(SALLYPORT_CLI).parent_path();
    for (const char* program : {"sallyport", "sallyportd", "sallyport-launcher", "sallyport-signal",
                                "sallyport-connect", "sallyport-egress"}) {
      fs::copy_file(programs / program, root() + "/bin/" + program);
    }
    if (!is_root()) return;
    for (const auto& entry : fs::recursive_directory_iterator(root())) {
      ASSERT_EQ(::chown(entry.path().c_str(), kOrdinaryUid, kOrdinaryUid), 0);
    }
    ASSERT_EQ(::chown(root().c_str(), kOrdinaryUid, kOrdinaryUid), 0);
  }
  void TearDown() override { EXPECT_EQ(run_shell(sallyport("down")).status, 0); }

  std::string sallyport(const std::string& arguments) const {
    const std::string become = is_root() ? "setpriv --reuid " + std::to_string(kOrdinaryUid) + " --regid " +
                                               std::to_string(kOrdinaryUid) + " --clear-groups "
                                         : "";
    return "cd '" + root() + "/desk' && exec " + become + "env HOME='" + root() + "/home' " + places_in(root()) + "'" +
           root() + "/bin/sallyport' " + arguments + " 2>&1";
  }
  void run_and_kill(const std::string& options) {
    const std::string command = sallyport("run " + options +
                                          " -- sh -c 'git init -q new && echo evil > new/.git/hooks/pre-commit && "
                                          "touch ready && sleep 1000'");
    const pid_t pid = ::fork();
    if (pid == 0) {
      ::execl("/bin/sh", "sh", "-c", command.c_str(), nullptr);
      ::_exit(96);
    }
    EXPECT_TRUE(eventually([&] { return fs::exists(root() + "/desk/ready"); }));
    ::kill(pid, SIGKILL);
    ::waitpid(pid, nullptr, 0);
  }
  std::string hook() const { return root() + "/desk/new/.git/hooks/pre-commit"; }
  const std::string& root() const { return directory_.path(); }

 private:
  TemporaryDirectory directory_;
};

TEST_F(RunScan, IsMadeUpForByTheNextRunWhenRunWasKilled) {
  run_and_kill("--no-warden");
  EXPECT_TRUE(fs::exists(hook()));
  const Ran next = run_shell(sallyport("run --no-warden -- true"));
  EXPECT_EQ(next.status, 0) << next.output;
  EXPECT_NE(next.output.find("that was killed: quarantined: " + hook()), std::string::npos) << next.output;
  EXPECT_FALSE(fs::exists(hook()));
}

TEST_F(RunScan, IsMadeUpForByTheWardenThatRuns) {
  const Ran up = run_shell(sallyport("up"));
  ASSERT_EQ(up.status, 0) << up.output;
  run_and_kill("");
  EXPECT_TRUE(eventually([&] { return !fs::exists(hook()); }));
}

TEST_F(RunScan, IsRecordedByTheWardenThatRuns) {
  ASSERT_EQ(run_shell(sallyport("up")).status, 0);
  const Ran ran = run_shell(sallyport("run -- sh -c 'git init -q new && echo evil > new/.git/hooks/pre-commit'"));
  EXPECT_EQ(ran.status, 0) << ran.output;
  const Ran audit = run_shell(sallyport("--json audit query --method container.finding"));
  EXPECT_NE(audit.output.find("quarantined: " + hook()), std::string::npos) << audit.output;
  EXPECT_NE(audit.output.find("container/default-"), std::string::npos) << audit.output;
}

TEST_F(RunScan, IsMadeUpForByTheNextWarden) {
  run_and_kill("--no-warden");
  EXPECT_TRUE(fs::exists(hook()));
  const Ran up = run_shell(sallyport("up"));
  ASSERT_EQ(up.status, 0) << up.output;
  EXPECT_TRUE(eventually([&] { return !fs::exists(hook()); }));
}

TEST_F(RunScan, TheBuildProfileReachesCachesAndNothingThatConfiguresBuildTools) {
  const std::string home = root() + "/home";
  for (const char* below : {"/.gradle/init.d", "/.gradle/caches", "/.m2/repository", "/.ccache", "/.npm/_npx"}) {
    fs::create_directories(home + below);
  }
  std::ofstream(home + "/.m2/settings.xml") << "<password>secret</password>";
  std::ofstream(home + "/.gradle/gradle.properties") << "password=secret";
  if (is_root()) {
    for (const auto& entry : fs::recursive_directory_iterator(home)) {
      ASSERT_EQ(::chown(entry.path().c_str(), kOrdinaryUid, kOrdinaryUid), 0);
    }
  }
  const Ran ran = run_shell(sallyport(
      "run --no-warden --profile build -- sh -c 'cd; cat .m2/settings.xml .gradle/gradle.properties; mkdir -p "
      ".gradle/init.d .ccache .npm/_npx; for f in .gradle/init.d/evil.gradle .m2/settings.xml .ccache/ccache.conf "
      ".npm/_npx/evil; do echo evil > $f; done; echo kept > .gradle/caches/a && echo kept > .m2/repository/b'"));
  EXPECT_EQ(ran.output.find("secret"), std::string::npos) << ran.output;
  for (const char* path : {"/.gradle/init.d/evil.gradle", "/.ccache/ccache.conf", "/.npm/_npx/evil"}) {
    EXPECT_FALSE(fs::exists(home + path)) << path;
  }
  EXPECT_EQ(fs::file_size(home + "/.m2/settings.xml"), 27U);
  EXPECT_TRUE(fs::exists(home + "/.gradle/caches/a") && fs::exists(home + "/.m2/repository/b")) << ran.output;
}

}  // namespace
}  // namespace sallyport::testing
