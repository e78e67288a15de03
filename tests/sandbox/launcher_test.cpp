// The launcher, spoken to as the warden speaks to it.
#include <fcntl.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <csignal>

#include "fixture.h"
#include "os/packets.h"
#include "sandbox/launcher.h"
#include "sandbox/launcher_protocol.h"

namespace sallyport::sandbox {
namespace {

class LauncherTest : public AttackTest {
 protected:
  void SetUp() override {
    AttackTest::SetUp();
    if (!IsSkipped()) start_launcher();
  }
  void start_launcher() {
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
      ::_exit(run_launcher(pair[1], nullptr));
    }
    ::close(pair[1]);
    socket_ = UniqueFd(pair[0]);
    null_ = UniqueFd(::open("/dev/null", O_RDWR | O_CLOEXEC));
  }
  void TearDown() override {
    socket_.reset();
    if (launcher_ > 0) ::waitpid(launcher_, nullptr, 0);
    AttackTest::TearDown();
  }

  // The next notice, which must be a T.
  template <typename T>
  T next() {
    auto packet = os::receive_packet(socket_.get(), 0);
    EXPECT_TRUE(packet);
    if (!packet) return {};
    namespace_ = packet->fds.empty() ? UniqueFd() : std::move(packet->fds.front());
    auto notice = decode_notice(packet->bytes.view());
    EXPECT_TRUE(notice);
    if (!notice) return {};
    if (const auto* failed = std::get_if<LaunchFailed>(&*notice)) last_failure_ = failed->message;
    EXPECT_TRUE(std::holds_alternative<T>(*notice)) << "another notice: " << notice->index() << " " << last_failure_;
    return std::holds_alternative<T>(*notice) ? std::get<T>(*notice) : T{};
  }
  // Passes over all others.
  template <typename T>
  void await(const std::function<bool(const T&)>& is_it) {
    for (;;) {
      auto packet = os::receive_packet(socket_.get(), 0);
      ASSERT_TRUE(packet && !packet->bytes.empty()) << "the launcher is gone";
      const auto notice = decode_notice(packet->bytes.view());
      ASSERT_TRUE(notice);
      if (const auto* wanted = std::get_if<T>(&*notice); wanted != nullptr && is_it(*wanted)) return;
    }
  }
  // Started, or told why not.
  void await_answer(std::uint32_t job) {
    for (;;) {
      auto packet = os::receive_packet(socket_.get(), 0);
      ASSERT_TRUE(packet && !packet->bytes.empty()) << "the launcher is gone";
      const auto notice = decode_notice(packet->bytes.view());
      ASSERT_TRUE(notice);
      const auto* started = std::get_if<JobStarted>(&*notice);
      const auto* failed = std::get_if<LaunchFailed>(&*notice);
      if ((started != nullptr && started->job == job) || (failed != nullptr && failed->job == job)) return;
    }
  }
  void ask(const ToLauncher& request, const std::vector<int>& fds) {
    const auto packet = encode(request);
    ASSERT_TRUE(packet);
    ASSERT_TRUE(os::send_packet(socket_.get(), *packet, fds, 0));
  }
  void start(Handle container, const Spec& wanted) {
    ask(LaunchRequest{container, wanted}, {null_.get(), null_.get(), null_.get()});
    EXPECT_EQ(next<Launched>().container, container);
  }
  void execute(Handle container, std::uint32_t job, const std::vector<std::string>& words,
               const std::string& directory = "") {
    ask(ExecRequest{container, job, words, {"PATH=/usr/bin"}, directory}, {null_.get(), null_.get(), null_.get()});
  }

  void execute_until_it_writes(std::uint32_t job, const std::string& script) {
    int ends[2];
    ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
    const UniqueFd from(ends[0]);
    {
      const UniqueFd to(ends[1]);
      ask(ExecRequest{1, job, {"bash", "-c", script}, {"PATH=/usr/bin"}, ""}, {null_.get(), to.get(), null_.get()});
    }
    next<JobStarted>();
    char byte = 0;
    ASSERT_EQ(::read(from.get(), &byte, 1), 1);
  }
  void expect_processes(int count) {
    execute(1, 99, {"bash", "-c", "set -- /proc/[0-9]*; exit $#"});
    next<JobStarted>();
    EXPECT_EQ(WEXITSTATUS(next<JobExited>().wait_status), count);
  }

  void expect_daemon_dies_when(const std::function<void()>& something_ends) {
    const std::string lock = workspace_ + "/lock";
    start(1, spec());
    execute(1, 2, {probe_, "daemon", lock});
    next<JobStarted>();
    EXPECT_EQ(next<JobExited>().wait_status, 0);
    something_ends();
    const int file = ::open(lock.c_str(), O_RDWR | O_CLOEXEC);
    ASSERT_GE(file, 0);
    ASSERT_EQ(::flock(file, LOCK_EX), 0);  // waits for the daemon's death
    ::close(file);
  }

  pid_t launcher_ = -1;
  UniqueFd socket_, null_, namespace_;
  std::string last_failure_;
};
SALLYPORT_BOTH_WAYS(LauncherTest);

TEST_P(LauncherTest, RunsACommandAndReportsItsStatus) {
  Spec wanted = spec();
  wanted.command = {"bash", "-c", "exit 4"};
  start(7, wanted);
  EXPECT_EQ(WEXITSTATUS(next<JobExited>().wait_status), 4);
  EXPECT_EQ(next<Ended>().container, 7U);
}

TEST_P(LauncherTest, HandsOverThePidNamespaceAndWhatIsInForce) {
  ask(LaunchRequest{1, spec()}, {null_.get(), null_.get(), null_.get()});
  const Launched launched = next<Launched>();
  EXPECT_TRUE(static_cast<bool>(namespace_));
  EXPECT_NE(launched.protections_json.find("\"namespaces\":true"), std::string::npos);
}

TEST_P(LauncherTest, ExecutesFurtherCommandsWithTheirOwnStreams) {
  start(1, spec());
  int output[2];
  ASSERT_EQ(::pipe2(output, O_CLOEXEC), 0);
  ask(ExecRequest{1, 5, {"bash", "-c", "echo $WORD; pwd; exit 3"}, {"PATH=/usr/bin", "WORD=hello"}, "/tmp"},
      {null_.get(), output[1], output[1]});
  ::close(output[1]);
  EXPECT_EQ(next<JobStarted>().job, 5U);
  const JobExited exited = next<JobExited>();
  EXPECT_EQ(exited.job, 5U);
  EXPECT_EQ(WEXITSTATUS(exited.wait_status), 3);
  std::string text;
  char buffer[64];
  for (ssize_t length = 0; (length = ::read(output[0], buffer, sizeof(buffer))) > 0;) {
    text.append(buffer, static_cast<std::size_t>(length));  // ends only if nobody else holds the pipe
  }
  EXPECT_EQ(text, "hello\n/tmp\n");
  ::close(output[0]);
}

// What Landlock would have to guard it with is settled at launch.
TEST_P(LauncherTest, GivesFurtherCommandsNoFileOfTheHostToRead) {
  const std::string input = write("home/input", "before");
  const UniqueFd file(::open(input.c_str(), O_RDONLY | O_CLOEXEC));
  start(1, spec());
  ask(ExecRequest{1, 5, {probe_, "cut-input"}, {"PATH=/usr/bin"}, ""}, {file.get(), null_.get(), null_.get()});
  EXPECT_NE(next<LaunchFailed>().message.find("use a pipe"), std::string::npos);
  EXPECT_EQ(read(input), "before");
}

TEST_P(LauncherTest, ConfinesFurtherCommandsAsTheFirst) {
  start(1, spec());
  execute(1, 2, {probe_, "privileges"});
  next<JobStarted>();
  EXPECT_EQ(WEXITSTATUS(next<JobExited>().wait_status), kProbeRefused);
}

TEST_P(LauncherTest, TellsOfViolationsAsTheyHappen) {
  start(1, spec());
  execute(1, 3, {"bash", "-c", probe_ + " mount; sleep 100"});
  // The start and the violation come from two sources: either may be told first.
  std::string operation;
  for (int i = 0; i < 2 && operation.empty(); ++i) {
    const auto packet = os::receive_packet(socket_.get(), 0);
    ASSERT_TRUE(packet);
    const auto notice = decode_notice(packet->bytes.view());
    ASSERT_TRUE(notice);
    if (const auto* violated = std::get_if<Violated>(&*notice)) operation = violated->operation;
  }
  EXPECT_EQ(operation, "mount");
}

TEST_P(LauncherTest, GivesFurtherCommandsNoDescriptorOfTheSandbox) {
  start(1, spec());
  execute(1, 2, {probe_, "extra-descriptors"});
  next<JobStarted>();
  EXPECT_EQ(WEXITSTATUS(next<JobExited>().wait_status), kProbeRefused);
}

TEST_P(LauncherTest, NamesWhatCannotBeExecuted) {
  start(1, spec());
  execute(1, 2, {"no-such-program"});
  const LaunchFailed failed = next<LaunchFailed>();
  EXPECT_EQ(failed.job, 2U);
  EXPECT_EQ(failed.message, "command not found");
  EXPECT_EQ(failed.code, "NOT_FOUND");
  execute(1, 3, {"true"}, "/nowhere");
  const LaunchFailed outside = next<LaunchFailed>();
  EXPECT_EQ(outside.code + " " + outside.details_json, R"(IO_ERROR {"errno":"ENOENT"})");
}

TEST_P(LauncherTest, SignalsACommandWithItsChildren) {
  start(1, spec());
  execute(1, 2, {"bash", "-c", "sleep 100 & wait"});
  next<JobStarted>();
  ask(SignalRequest{1, 2, SIGTERM}, {});
  EXPECT_EQ(WTERMSIG(next<JobExited>().wait_status), SIGTERM);
}

TEST_P(LauncherTest, KillsWithACommandWhateverItStartedAndThenSaysSo) {
  const std::string lock = workspace_ + "/lock";
  start(1, spec());
  execute_until_it_writes(2, probe_ + " daemon " + lock + "; setsid sleep 1000 & echo ready; sleep 1000");
  ask(SignalRequest{1, 2, SIGKILL}, {});
  EXPECT_EQ(WTERMSIG(next<JobExited>().wait_status), SIGKILL);
  UniqueFd file(::open(lock.c_str(), O_RDWR | O_CLOEXEC));
  ASSERT_TRUE(file);
  EXPECT_EQ(::flock(file.get(), LOCK_EX | LOCK_NB), 0) << "the daemon was gone when it was told";
  expect_processes(2);  // pid 1, and who counts
}

// Each process lives just long enough to start the next one, in a session of its own.
TEST_P(LauncherTest, KillsACommandThatRunsAwayByForking) {
  start(1, spec());
  execute_until_it_writes(2, R"(export S='setsid bash -c "$S" &'; bash -c "$S"; echo ready; sleep 1000)");
  ask(SignalRequest{1, 2, SIGKILL}, {});
  next<JobExited>();
  expect_processes(2);
}

TEST_P(LauncherTest, LeavesTheOtherCommandsOfAContainerAlone) {
  start(1, spec());
  execute_until_it_writes(2, "sleep 1000 & echo ready; wait");
  execute_until_it_writes(3, "setsid sleep 1000 & echo ready; sleep 1000");
  ask(SignalRequest{1, 3, SIGKILL}, {});
  EXPECT_EQ(next<JobExited>().job, 3U);
  expect_processes(4);  // the first bash and its sleep, too
}

TEST_P(LauncherTest, LetsNoCommandShakeItsMarkOff) {
  start(1, spec());
  execute(1, 2, {"bash", "-c", "ulimit -H -x 5 || ulimit -S -x 5"});
  next<JobStarted>();
  EXPECT_NE(next<JobExited>().wait_status, 0);
}

TEST_P(LauncherTest, RunsSeveralContainersAtOnce) {
  start(1, spec());
  start(2, spec());
  ask(KillRequest{1}, {});
  EXPECT_EQ(next<Ended>().container, 1U);
  execute(2, 9, {"true"});
  EXPECT_EQ(next<JobStarted>().container, 2U);
}

TEST_P(LauncherTest, RunsManyCommandsInOneContainerAtOnce) {
  start(1, spec());
  constexpr std::uint32_t kCommands = 40;
  for (std::uint32_t job = 1; job <= kCommands; ++job) execute(1, job, {"sleep", "100"});
  for (std::uint32_t job = 1; job <= kCommands; ++job) EXPECT_EQ(next<JobStarted>().job, job);
  ask(SignalRequest{1, 17, SIGKILL}, {});
  EXPECT_EQ(next<JobExited>().job, 17U);
}

TEST_P(LauncherTest, EndsAContainerAfterItsDuration) {
  Spec limited = spec();
  limited.limits.duration = std::chrono::milliseconds(50);
  start(1, limited);
  EXPECT_TRUE(next<Ended>().was_over_time);
}

TEST_P(LauncherTest, ReportsWhatTheScanAtExitFound) {
  Spec wanted = spec();
  wanted.command = {"bash", "-c", "git init -q new && echo evil > new/.git/hooks/pre-commit"};
  start(1, wanted);
  next<JobExited>();
  const Ended ended = next<Ended>();
  ASSERT_EQ(ended.reports.size(), 1U);
  EXPECT_EQ(ended.reports[0], "quarantined: " + workspace_ + "/new/.git/hooks/pre-commit");
}

class LauncherScanTest : public LauncherTest {
 protected:
  void SetUp() override {
    LauncherTest::SetUp();
    if (IsSkipped()) return;
    ASSERT_EQ(::chmod(make_directory("state").c_str(), 0700), 0);
    hook_ = workspace_ + "/new/.git/hooks/pre-commit";
    Spec wanted = spec();
    wanted.name = "planter";
    wanted.scan_records = records();
    wanted.command = {"bash", "-c",
                      "git init -q new && echo evil > new/.git/hooks/pre-commit && touch ready; sleep 1000"};
    start(1, wanted);
    while (!exists(workspace_ + "/ready")) ::usleep(1000);
  }
  std::string records() const { return base_ + "/state/scans"; }
  void expect_another_makes_up() {
    start_launcher();
    ask(MakeUpRequest{0, records()}, {});
    const MadeUp made_up = next<MadeUp>();
    EXPECT_EQ(made_up.name, "planter");
    EXPECT_EQ(made_up.reports, std::vector<std::string>{"quarantined: " + hook_});
    EXPECT_FALSE(exists(hook_));
  }
  std::string hook_;
};
SALLYPORT_BOTH_WAYS(LauncherScanTest);

TEST_P(LauncherScanTest, IsMadeAndToldWhenTheWardenEndsInOrder) {
  ::shutdown(socket_.get(), SHUT_WR);
  EXPECT_EQ(next<Ended>().reports, std::vector<std::string>{"quarantined: " + hook_});
  EXPECT_FALSE(exists(hook_));
}

TEST_P(LauncherScanTest, IsMadeWhenTheWardenWasKilledAndToldToTheNext) {
  socket_.reset();
  ::waitpid(launcher_, nullptr, 0);
  EXPECT_FALSE(exists(hook_));
  expect_another_makes_up();
}

TEST_P(LauncherScanTest, IsMadeByTheNextLauncherWhenThisOneWasKilled) {
  ::kill(launcher_, SIGKILL);
  ::waitpid(launcher_, nullptr, 0);
  EXPECT_TRUE(exists(hook_));
  expect_another_makes_up();
}

// Whatever comes first: a launch in that workspace must not take what it finds for the user's own.
TEST_P(LauncherScanTest, IsMadeBeforeTheNextContainerOfThatWorkspace) {
  ::kill(launcher_, SIGKILL);
  ::waitpid(launcher_, nullptr, 0);
  start_launcher();
  Spec wanted = spec();
  wanted.scan_records = records();
  wanted.command = {"test", "!", "-e", hook_};
  start(2, wanted);
  EXPECT_EQ(next<JobExited>().wait_status, 0);
  const Ended ended = next<Ended>();
  ASSERT_EQ(ended.reports.size(), 1U);
  EXPECT_NE(ended.reports[0].find("(planter) that was killed: quarantined: " + hook_), std::string::npos);
}

TEST_P(LauncherTest, TellsOfTheEndHoweverMuchTheScanFound) {
  Spec wanted = spec();
  wanted.command = {"bash", "-c",
                    "D=$(printf 'x%.0s' $(seq 200)); for i in $(seq 600); do mkdir -p $D/$D/$i/.vscode; done"};
  start(1, wanted);
  next<JobExited>();
  const Ended ended = next<Ended>();
  EXPECT_EQ(ended.container, 1U);
  ASSERT_EQ(ended.reports.size(), 101U);
  EXPECT_EQ(ended.reports.back(), "and 500 more");
}

// Stops everything again and again, so that a new command can hardly become one.
TEST_P(LauncherTest, OutlivesAContainerThatStopsEveryNewProcess) {
  start(1, spec());
  execute(1, 1, {probe_, "stop-everything"});
  next<JobStarted>();
  for (std::uint32_t job = 2; job <= 40; ++job) {
    ask(ExecRequest{1, job, {"true"}, {"PATH=/usr/bin", "X=" + std::string(30'000, 'x')}, ""},
        {null_.get(), null_.get(), null_.get()});
  }
  ask(LaunchRequest{2, spec()}, {null_.get(), null_.get(), null_.get()});
  await<Launched>([](const Launched& launched) { return launched.container == 2; });
  ask(KillRequest{1}, {});
  await<Ended>([](const Ended& ended) { return ended.container == 1; });
  execute(2, 9, {"true"});
  await<JobExited>([](const JobExited& exited) { return exited.container == 2 && exited.job == 9; });
}

// Pid 1 itself goes on: a job that could not be started is told so.
TEST_P(LauncherTest, AnswersForEveryCommandOfAContainerThatStopsEveryNewProcess) {
  start(1, spec());
  execute(1, 1, {probe_, "stop-everything"});
  next<JobStarted>();
  for (std::uint32_t job = 2; job <= 4; ++job) {
    execute(1, job, {"true"});
    await_answer(job);
  }
}

TEST_P(LauncherTest, SaysWhyALaunchFails) {
  Spec wrong = spec();
  wrong.workspace += "/nowhere";
  ask(LaunchRequest{1, wrong}, {null_.get(), null_.get(), null_.get()});
  EXPECT_EQ(next<LaunchFailed>().message, "the workspace is not a directory");
}

TEST_P(LauncherTest, KillsEverythingWhenTheWardenIsGone) {
  expect_daemon_dies_when([&] { socket_.reset(); });
}

TEST_P(LauncherTest, KillsEverythingWhenItIsKilled) {
  expect_daemon_dies_when([&] { ::kill(launcher_, SIGKILL); });
}

}  // namespace
}  // namespace sallyport::sandbox
