// The launcher, spoken to as the warden speaks to it.
#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fixture.h"
#include "sandbox/packet.h"
#include "sandbox/spec_codec.h"

namespace sallyport::sandbox {
namespace {

using Kind = LauncherEvent::Kind;

class LauncherTest : public AttackTest {
 protected:
  void SetUp() override {
    AttackTest::SetUp();
    if (IsSkipped()) return;
    int pair[2];
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
    launcher_ = ::fork();
    if (launcher_ == 0) {
      ::close(pair[0]);
      if (GetParam() == StartedBy::user && ::geteuid() == 0 &&
          (::setresgid(kOrdinaryUser, kOrdinaryUser, kOrdinaryUser) != 0 ||
           ::setresuid(kOrdinaryUser, kOrdinaryUser, kOrdinaryUser) != 0)) {
        ::_exit(98);
      }
      ::_exit(run_launcher(UniqueFd(pair[1])));
    }
    ::close(pair[1]);
    client_.emplace(UniqueFd(pair[0]));
    null_ = UniqueFd(::open("/dev/null", O_RDWR | O_CLOEXEC));
  }
  void TearDown() override {
    client_.reset();
    if (launcher_ > 0) ::waitpid(launcher_, nullptr, 0);
    AttackTest::TearDown();
  }

  LauncherEvent next() {
    Result<LauncherEvent> event = client_->next_event();
    EXPECT_TRUE(event) << event.error().describe();
    return event ? std::move(*event) : LauncherEvent{Kind::failed, 0, 0, 0, {}, {}, {}};
  }
  std::array<int, 3> nowhere() const { return {null_.get(), null_.get(), null_.get()}; }

  // Starts a container that waits for commands.
  void start(std::uint32_t container, const Spec& wanted) {
    ASSERT_TRUE(client_->launch(container, wanted, nowhere()));
    const LauncherEvent event = next();
    ASSERT_EQ(event.kind, Kind::launched) << event.error.describe();
    EXPECT_EQ(event.container, container);
  }

  void expect_daemon_dies_when(const std::function<void()>& something_ends) {
    const std::string lock = workspace_ + "/lock";
    start(1, spec());
    ASSERT_TRUE(client_->exec(1, 2, {{probe_, "daemon", lock}, {}, "", {null_.get(), null_.get(), null_.get()}}));
    EXPECT_EQ(next().kind, Kind::started);
    EXPECT_EQ(next().value, 0);
    something_ends();
    const int file = ::open(lock.c_str(), O_RDWR | O_CLOEXEC);
    ASSERT_GE(file, 0);
    ASSERT_EQ(::flock(file, LOCK_EX), 0);  // waits for the daemon's death
    ::close(file);
  }

  pid_t launcher_ = -1;
  std::optional<LauncherClient> client_;
  UniqueFd null_;
};
SALLYPORT_BOTH_WAYS(LauncherTest);

TEST_P(LauncherTest, RunsACommandAndReportsItsStatus) {
  Spec wanted = spec();
  wanted.command = {"bash", "-c", "exit 4"};
  start(7, wanted);
  const LauncherEvent exited = next();
  EXPECT_EQ(exited.kind, Kind::exited);
  EXPECT_EQ(WEXITSTATUS(exited.value), 4);
  const LauncherEvent ended = next();
  EXPECT_EQ(ended.kind, Kind::ended);
  EXPECT_EQ(WEXITSTATUS(ended.value), 4);
}

TEST_P(LauncherTest, HandsOverThePidNamespace) {
  ASSERT_TRUE(client_->launch(1, spec(), nowhere()));
  const LauncherEvent event = next();
  EXPECT_TRUE(static_cast<bool>(event.pid_namespace));
  EXPECT_NE(event.text.find("\"namespaces\":true"), std::string::npos);
}

TEST_P(LauncherTest, ExecutesFurtherCommandsWithTheirOwnStreams) {
  start(1, spec());
  int output[2];
  ASSERT_EQ(::pipe2(output, O_CLOEXEC), 0);
  ASSERT_TRUE(client_->exec(1, 5, {{"bash", "-c", "echo $WORD; pwd; exit 3"}, {"PATH=/usr/bin", "WORD=hello"}, "/tmp", {null_.get(), output[1], output[1]}}));
  ::close(output[1]);
  EXPECT_EQ(next().kind, Kind::started);
  const LauncherEvent exited = next();
  EXPECT_EQ(exited.kind, Kind::exited);
  EXPECT_EQ(exited.job, 5U);
  EXPECT_EQ(WEXITSTATUS(exited.value), 3);
  char text[64] = {};
  ASSERT_GT(::read(output[0], text, sizeof(text) - 1), 0);
  EXPECT_STREQ(text, "hello\n/tmp\n");
  EXPECT_EQ(::read(output[0], text, sizeof(text)), 0) << "somebody still holds the pipe";
  ::close(output[0]);
}

TEST_P(LauncherTest, ConfinesFurtherCommandsAsTheFirst) {
  start(1, spec());
  ASSERT_TRUE(client_->exec(1, 2, {{probe_, "privileges"}, {}, "", {null_.get(), null_.get(), null_.get()}}));
  EXPECT_EQ(next().kind, Kind::started);
  EXPECT_EQ(WEXITSTATUS(next().value), kProbeRefused);
  ASSERT_TRUE(client_->exec(1, 3, {{probe_, "mount"}, {}, "", {null_.get(), null_.get(), null_.get()}}));
  std::vector<Kind> seen;
  for (LauncherEvent event = next();; event = next()) {
    seen.push_back(event.kind);
    if (event.kind == Kind::violation) {
      EXPECT_EQ(event.text, "mount\t\tmounts");
    }
    if (event.kind != Kind::exited) continue;
    EXPECT_EQ(WEXITSTATUS(event.value), kProbeRefused);
    break;
  }
  EXPECT_NE(std::find(seen.begin(), seen.end(), Kind::violation), seen.end());
}

TEST_P(LauncherTest, GivesFurtherCommandsNoDescriptorOfTheSandbox) {
  start(1, spec());
  ASSERT_TRUE(client_->exec(1, 2, {{probe_, "extra-descriptors"}, {}, "", {null_.get(), null_.get(), null_.get()}}));
  EXPECT_EQ(next().kind, Kind::started);
  EXPECT_EQ(WEXITSTATUS(next().value), kProbeRefused);
}

TEST_P(LauncherTest, NamesWhatCannotBeExecuted) {
  start(1, spec());
  ASSERT_TRUE(client_->exec(1, 2, {{"no-such-program"}, {"PATH=/usr/bin"}, "", {null_.get(), null_.get(), null_.get()}}));
  const LauncherEvent event = next();
  EXPECT_EQ(event.kind, Kind::failed);
  EXPECT_EQ(event.job, 2U);
  EXPECT_EQ(event.error.code, Code::not_found);
}

TEST_P(LauncherTest, SignalsACommandWithItsChildren) {
  start(1, spec());
  ASSERT_TRUE(client_->exec(1, 2, {{"bash", "-c", "sleep 100 & wait"}, {"PATH=/usr/bin"}, "", {null_.get(), null_.get(), null_.get()}}));
  EXPECT_EQ(next().kind, Kind::started);
  ASSERT_TRUE(client_->signal(1, 2, SIGTERM));
  EXPECT_EQ(WTERMSIG(next().value), SIGTERM);
}

TEST_P(LauncherTest, RunsSeveralContainersAtOnce) {
  start(1, spec());
  start(2, spec());
  ASSERT_TRUE(client_->kill(1));
  EXPECT_EQ(next().kind, Kind::ended);
  ASSERT_TRUE(client_->exec(2, 9, {{"true"}, {"PATH=/usr/bin"}, "", {null_.get(), null_.get(), null_.get()}}));
  EXPECT_EQ(next().kind, Kind::started);
  EXPECT_EQ(next().container, 2U);
}

TEST_P(LauncherTest, EndsAContainerAfterItsDuration) {
  Spec limited = spec();
  limited.limits.duration = std::chrono::milliseconds(50);
  start(1, limited);
  EXPECT_EQ(next().kind, Kind::over_time);
  EXPECT_EQ(next().kind, Kind::ended);
}

TEST_P(LauncherTest, ReportsWhatTheScanAtExitFound) {
  Spec wanted = spec();
  wanted.command = {"bash", "-c", "git init -q new && echo evil > new/.git/hooks/pre-commit"};
  start(1, wanted);
  EXPECT_EQ(next().kind, Kind::exited);
  const LauncherEvent found = next();
  EXPECT_EQ(found.kind, Kind::quarantined);
  EXPECT_EQ(found.text, workspace_ + "/new/.git/hooks/pre-commit");
}

TEST_P(LauncherTest, RefusesASecondContainerOfTheSameNumber) {
  start(1, spec());
  ASSERT_TRUE(client_->launch(1, spec(), nowhere()));
  EXPECT_EQ(next().kind, Kind::failed);
}

TEST_P(LauncherTest, KillsEverythingWhenTheWardenIsGone) { expect_daemon_dies_when([&] { client_.reset(); }); }

TEST_P(LauncherTest, KillsEverythingWhenItIsKilled) { expect_daemon_dies_when([&] { ::kill(launcher_, SIGKILL); }); }

TEST(SpecCodec, KeepsEveryField) {
  Spec spec;
  spec.name = "n";
  spec.command = {"a", "b c"};
  spec.binds = {{"/s", "/t", true, false}};
  spec.limits.cpus = 1.5;
  spec.limits.duration = std::chrono::milliseconds(1234);
  spec.allow_weak = Risk{"why"};
  spec.deny_names = {"*.x"};
  const std::string bytes = encode(spec);
  const auto decoded = decode_spec(bytes);
  ASSERT_TRUE(decoded);
  EXPECT_EQ(encode(*decoded), bytes);
  EXPECT_EQ(decoded->allow_weak->reason, "why");
}

TEST(SpecCodec, RefusesEveryTruncation) {
  const std::string bytes = encode(Spec{});
  for (std::size_t length = 0; length < bytes.size(); ++length) EXPECT_FALSE(decode_spec(bytes.substr(0, length))) << length;
  EXPECT_FALSE(decode_spec(bytes + "x"));
}

TEST(SpecCodec, RefusesACountThatIsLargerThanTheMessage) {
  std::string bytes = encode(Spec{});
  bytes.replace(0, 8, "\xff\xff\xff\xff\xff\xff\xff\x7f", 8);
  EXPECT_FALSE(decode_spec(bytes));
}

}  // namespace
}  // namespace sallyport::sandbox
