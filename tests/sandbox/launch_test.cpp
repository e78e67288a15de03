// Starting, ending and failing to start.
#include <fcntl.h>
#include <pty.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>
#include <csignal>

#include <filesystem>
#include <fstream>
#include <functional>
#include <set>
#include <thread>

#include "base/sanitized.h"
#include "fixture.h"

namespace sallyport::sandbox {
namespace {

class Launch : public AttackTest {};
SALLYPORT_BOTH_WAYS(Launch);

TEST_P(Launch, PassesTheExitStatusOn) { EXPECT_EQ(shell("exit 5").code, 5); }

TEST_P(Launch, PassesADeathBySignalOn) { EXPECT_EQ(attack({"die-by", "15"}).code, 128 + SIGTERM); }

TEST_P(Launch, SaysWhatIsInForce) {
  const Outcome outcome = shell("true");
  const std::string all = testing::PrintToString(outcome.report);
  EXPECT_NE(all.find("\\\"namespaces\\\":true"), std::string::npos) << all;
  EXPECT_NE(all.find("\\\"processes\\\":\\\"kernel\\\""), std::string::npos) << all;
}

TEST_P(Launch, NamesACommandThatIsNotThere) {
  Spec missing = spec();
  missing.command = {"no-such-program"};
  EXPECT_EQ(run(missing).error, "NOT_FOUND: command not found: no-such-program");
}

TEST_P(Launch, NamesACommandThatTheExecListRefuses) {
  Spec refused = spec();
  refused.exec = {probe_};
  refused.command = {"/usr/bin/true"};
  EXPECT_NE(run(refused).error.find("may not be executed: /usr/bin/true"), std::string::npos);
}

TEST_P(Launch, RefusesAWorkspaceThatIsNotThere) {
  Spec wrong = spec();
  wrong.workspace += "/nowhere";
  wrong.command = {"true"};
  EXPECT_NE(run(wrong).error.find("the workspace is not a directory"), std::string::npos);
}

TEST_P(Launch, RefusesToMountProcOrTheWholeRoot) {
  for (const char* path : {"/", "/proc", "/dev", "/sys/kernel"}) {
    Spec wrong = spec();
    wrong.read.emplace_back(path);
    wrong.command = {"true"};
    EXPECT_NE(run(wrong).error.find("may not mount"), std::string::npos) << path;
  }
}

TEST_P(Launch, EndsAfterItsDuration) {
  Spec slow = spec();
  slow.limits.duration = std::chrono::milliseconds(100);
  slow.command = {"sleep", "60"};
  const Outcome outcome = run(slow);
  EXPECT_EQ(outcome.code, 128 + SIGKILL);
  EXPECT_TRUE(outcome.reports("over time"));
}

TEST_P(Launch, MountsABindUnderAnotherName) {
  const std::string door = make_directory("door");
  write("door/hello", "hi");
  Spec with_door = spec();
  with_door.binds = {{door, "/run/sallyport", false, false}};
  with_door.command = {"bash", "-c", "cat /run/sallyport/hello; ! touch /run/sallyport/x"};
  const Outcome outcome = run(with_door);
  EXPECT_EQ(outcome.code, 0) << outcome.output;
  EXPECT_EQ(outcome.output.substr(0, 2), "hi");
}

TEST_P(Launch, WorksWithEveryLandlockRight) {
  Spec strict = spec();
  strict.use_all_landlock_rights = true;
  strict.command = {
      "bash", "-c",
      "echo x > f && mkdir d && mv f d/f && rm -r d && echo > /tmp/x && echo x > /dev/null && ls / > /dev/null"};
  const Outcome outcome = run(strict);
  EXPECT_EQ(outcome.code, 0) << outcome.output;
}

TEST_P(Launch, SaysWhichNamespacesTheMachineRefusesAndDoesWithoutWhereThatIsAccepted) {
  host("git init -q .");
  for (const Step step : {Step::clone, Step::more_namespaces}) {
    Spec refused = spec();
    refused.deny.clear();
    refused.command = {"true"};
    ForegroundOptions options;
    options.launch.faults = {step, ENOSPC};
    const Outcome outcome = run(refused, options);
    EXPECT_NE(outcome.error.find("max_*_namespaces"), std::string::npos) << outcome.error;
    EXPECT_NE(outcome.error.find("--allow-weak"), std::string::npos) << outcome.error;
    EXPECT_FALSE(exists(workspace_ + "/.git/commondir"));
    if (step == Step::clone) continue;  // the weak one is cloned too
    EXPECT_NE(outcome.error.find("network and IPC"), std::string::npos) << outcome.error;
    refused.allow_weak = Risk{"a test"};
    EXPECT_EQ(run(refused, options).code, 0);
  }
}

// Every step once: the error names it, and nothing is left.
TEST_P(Launch, NamesTheStepThatFailsAndLeavesNothing) {
  host("git init -q . && mkdir .vscode && echo x > .env");
  // Nobody fails to join what this user, or this machine, does not have.
  const os::CgroupParent groups = os::CgroupParent::find();
  const bool can_join = GetParam() == StartedBy::root && (groups.has("memory") || groups.has("pids"));
  for (int step = static_cast<int>(Step::plan); step < static_cast<int>(Step::count); ++step) {
    const auto failing = static_cast<Step>(step);
    if (failing == Step::cgroup && GetParam() == StartedBy::user) continue;
    if (failing == Step::join_cgroup && !can_join) continue;
    Spec faulty = spec();
    faulty.command = {"true"};
    if (failing == Step::cgroup || failing == Step::join_cgroup) faulty.limits.cpus = 1;
    ForegroundOptions options;
    options.launch.faults = {failing, EIO};
    const Outcome outcome = run(faulty, options);
    EXPECT_FALSE(outcome.has_started) << to_string(failing);
    const bool names_step = outcome.error.find(to_string(failing)) != std::string::npos || failing == Step::cgroup ||
                            failing == Step::plan || failing == Step::socket;
    EXPECT_TRUE(names_step) << to_string(failing) << ": " << outcome.error;
    EXPECT_NE(outcome.error.find("Input/output error"), std::string::npos) << outcome.error;
    EXPECT_FALSE(exists(workspace_ + "/.git/commondir")) << to_string(failing);
  }
}

std::size_t open_descriptors() {
  std::size_t count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) ++count;
  return count;
}

TEST_P(Launch, LeaksNoDescriptorAndNoChildWhenAStepFails) {
  Spec faulty = spec();
  faulty.command = {"true"};
  const auto check = [&] {
    const std::size_t before = open_descriptors();
    for (int step = static_cast<int>(Step::plan); step < static_cast<int>(Step::count); ++step) {
      LaunchOptions options;
      options.faults = {static_cast<Step>(step), EIO};
      (void)launch(faulty, options);
    }
    if (open_descriptors() != before) ::_exit(1);
    if (::waitpid(-1, nullptr, WNOHANG) != -1 || errno != ECHILD) ::_exit(2);
  };
  Spec nothing = spec();
  nothing.command = {"true"};
  EXPECT_EQ(run(nothing, check).code, 0);
}

TEST_P(Launch, DiesWithTheProcessThatStartedIt) {
  const std::string lock = workspace_ + "/lock";
  Spec lasting = spec();
  lasting.command = {"bash", "-c", "./sp_probe daemon lock; echo > ready; sleep 1000"};
  const pid_t runner = ::fork();
  if (runner == 0) {
    run(lasting, [&] { write("report/runner", std::to_string(::getpid())); });
    ::_exit(0);
  }
  while (!exists(workspace_ + "/ready")) ::usleep(1000);
  ::kill(static_cast<pid_t>(std::stol(read(base_ + "/report/runner"))), SIGKILL);
  ::waitpid(runner, nullptr, 0);
  const int file = ::open(lock.c_str(), O_RDWR | O_CLOEXEC);
  ASSERT_GE(file, 0);
  ASSERT_EQ(::flock(file, LOCK_EX), 0);  // waits: returns only when the daemon inside is dead
  ::close(file);
}

class Explain : public AttackTest {
 protected:
  Outcome explained(const std::string& script) {
    Spec wanted = spec();
    wanted.explain = true;
    wanted.command = {"bash", "-c", script};
    return run(wanted);
  }
};
SALLYPORT_BOTH_WAYS(Explain);

TEST_P(Explain, NamesPathsThatWereNotMountedOrNotWritable) {
  const std::string key = write("home/.ssh/id_rsa", "x");
  const Outcome outcome = explained("cat " + key + "; echo hi > /etc/x; exit 3");
  EXPECT_EQ(outcome.code, 3);
  EXPECT_TRUE(outcome.reports("refused openat " + key + " not mounted")) << testing::PrintToString(outcome.report);
  EXPECT_TRUE(outcome.reports("refused openat /etc/x read-only")) << testing::PrintToString(outcome.report);
}

TEST_P(Explain, NamesAddressesThatCouldNotBeReached) {
  const Outcome outcome = explained("echo > /dev/tcp/192.0.2.1/80");
  EXPECT_TRUE(outcome.reports("refused connect 192.0.2.1:80 refused")) << testing::PrintToString(outcome.report);
}

TEST_P(Explain, MakesRelativePathsAbsolute) {
  write("workspace/.env", "x");
  const Outcome outcome = explained("cd /usr && echo x > local/new");
  EXPECT_TRUE(outcome.reports("refused openat /usr/local/new read-only")) << testing::PrintToString(outcome.report);
}

TEST_P(Explain, FollowsForksThreadsAndPipes) {
  const Outcome outcome = explained(
      "for i in 1 2 3; do (echo $i | cat | cat) & done; wait; git init -q r && cd r && git status -s; exit 0");
  EXPECT_EQ(outcome.code, 0) << outcome.output;
}

TEST_P(Explain, NamesACommandThatIsNotThere) {
  Spec wanted = spec();
  wanted.explain = true;
  wanted.command = {"no-such-program"};
  EXPECT_EQ(run(wanted).error, "NOT_FOUND: command not found: no-such-program");
}

TEST_P(Explain, PassesSignalsAndStatusOn) {
  EXPECT_EQ(explained("kill -TERM $$").code, 128 + SIGTERM);
  EXPECT_EQ(explained("trap 'exit 9' USR1; kill -USR1 $$; sleep 1").code, 9);
}

class WeakMode : public AttackTest {
 protected:
  Outcome run_weak(Spec weak, bool is_accepted = true) {
    if (is_accepted) weak.allow_weak = Risk{"a test"};
    ForegroundOptions options;
    options.launch.machine.has_user_namespaces = false;
    return run(weak, options);
  }
};
SALLYPORT_BOTH_WAYS(WeakMode);

TEST_P(WeakMode, IsRefusedUnlessAccepted) {
  Spec weak = spec();
  weak.command = {"true"};
  const Outcome outcome = run_weak(weak, false);
  EXPECT_NE(outcome.error.find("a weak sandbox (--allow-weak) was not accepted"), std::string::npos) << outcome.error;
  EXPECT_NE(outcome.error.find("no private view of the file system"), std::string::npos) << outcome.error;
}

// The kernel itself says no.
TEST_P(WeakMode, IsNamedWhereUserNamespacesAreForbidden) {
  if (kIsSanitized) GTEST_SKIP() << "a process with a sanitizer's thread cannot enter a user namespace";
  Spec wanted = spec();
  wanted.command = {"true"};
  const Outcome outcome = run(wanted, [] {
    const std::string uid = std::to_string(::geteuid());
    if (::unshare(CLONE_NEWUSER) != 0) ::_exit(90);
    std::ofstream("/proc/self/uid_map") << uid << " " << uid << " 1";
    std::ofstream("/proc/sys/user/max_user_namespaces") << "0";
  });
  EXPECT_NE(outcome.error.find("user namespaces are not available: ENOSPC"), std::string::npos) << outcome.error;
  EXPECT_NE(outcome.error.find("--allow-weak"), std::string::npos) << outcome.error;
}

TEST_P(Launch, AnExecListThatTheKernelCannotEnforceIsAnError) {
  Spec wanted = spec();
  wanted.command = {"true"};
  ASSERT_FALSE(wanted.exec.empty());
  ForegroundOptions options;
  options.launch.machine.landlock_abi = 0;
  EXPECT_NE(run(wanted, options).error.find("this kernel has no Landlock"), std::string::npos);
  wanted.allow_weak = Risk{"a test"};
  EXPECT_EQ(run(wanted, options).code, 0);
}

TEST_P(WeakMode, StillRefusesFilesSocketsAndProcesses) {
  Spec weak = spec();
  weak.deny.clear();
  const std::string secret = write("home/.ssh/id_rsa", "x");
  for (const std::vector<std::string>& words : {std::vector<std::string>{"read", secret},
                                                {"write", home_ + "/new"},
                                                {"write", "/tmp/sallyport-weak-probe"},
                                                {"socket", "1", "1", "0"},
                                                {"socket", "2", "1", "0"},
                                                {"ptrace", std::to_string(::getpid())},
                                                {"privileges"},
                                                {"mount"},
                                                {"io-uring"}}) {
    weak.command = {probe_};
    weak.command.insert(weak.command.end(), words.begin(), words.end());
    if (words[0] == "privileges" && GetParam() == StartedBy::user) continue;  // the bounding set is not ours to drop
    EXPECT_TRUE(is_refused(run_weak(weak))) << words[0];
  }
  weak.command = {"bash", "-c", "echo x > f && cat f && ls /usr > /dev/null"};
  EXPECT_EQ(run_weak(weak).code, 0);
}

TEST_P(WeakMode, AttackOutlivesTheSandboxFromASessionOfItsOwn) {
  Spec weak = spec();
  weak.deny.clear();
  const std::string sleep = "sleep 4" + std::to_string(::getpid());  // nobody else's
  const auto is_left = [&] { return std::system(("pgrep -f '^" + sleep + "$' > /dev/null").c_str()) == 0; };
  weak.command = {"bash", "-c", "setsid -f " + sleep + "; echo begun > begun"};
  EXPECT_EQ(run_weak(weak).code, 0);
  EXPECT_EQ(read(workspace_ + "/begun"), "begun\n");
  EXPECT_FALSE(is_left()) << "ended by itself";
  weak.command = {"bash", "-c", "setsid -f " + sleep + "; kill -9 $PPID; " + sleep};
  run_weak(weak);
  EXPECT_FALSE(is_left()) << "without its pid 1";
  weak.command = {"bash", "-c", "setsid -f " + sleep + "; " + sleep};
  weak.limits.duration = std::chrono::milliseconds(300);
  run_weak(weak);
  EXPECT_FALSE(is_left()) << "killed";
}

TEST_P(WeakMode, RefusesADenyThatItCannotEnforce) {
  write("workspace/secrets/token", "x");
  Spec weak = spec();
  weak.deny = {workspace_ + "/secrets"};
  weak.command = {"true"};
  EXPECT_NE(run_weak(weak).error.find("cannot be hidden"), std::string::npos);
}

// What a person at a terminal does, with a real terminal.
class AtATerminal : public Launch {
 protected:
  enum class Place : std::uint8_t { foreground, background };

  // The sandbox as a job of a shell: of this process, which leads the terminal's session. It stops when its job does,
  // and gives the terminal to it again when it is continued.
  pid_t fork_on_terminal(int& leader, const std::vector<std::string>& command, Place place = Place::foreground) {
    const pid_t pid = ::forkpty(&leader, nullptr, nullptr, nullptr);
    if (pid != 0) return pid;
    if (GetParam() == StartedBy::user && ::geteuid() == 0) {
      if (::setresgid(kOrdinaryUser, kOrdinaryUser, kOrdinaryUser) != 0 ||
          ::setresuid(kOrdinaryUser, kOrdinaryUser, kOrdinaryUser) != 0) {
        ::_exit(98);
      }
    }
    ::signal(SIGTTOU, SIG_IGN);
    std::array<int, 2> start{};
    if (::pipe2(start.data(), O_CLOEXEC) != 0) ::_exit(96);
    static pid_t job = -1;
    job = ::fork();
    if (job == 0) run_as_job(start[0], command);
    ::signal(SIGHUP, [](int number) { ::kill(-job, number); });  // as shells do with their jobs
    ::setpgid(job, job);
    if (place == Place::foreground) ::tcsetpgrp(0, job);
    (void)!::write(start[1], "", 1);
    int status = 0;
    while (::waitpid(job, &status, WUNTRACED) == job && WIFSTOPPED(status)) {
      ::raise(SIGSTOP);
      ::tcsetpgrp(0, job);
      ::kill(-job, SIGCONT);
    }
    ::_exit(WEXITSTATUS(status));
  }
  [[noreturn]] void run_as_job(int start, const std::vector<std::string>& command) {
    char go = 0;
    (void)!::read(start, &go, 1);
    ::signal(SIGTTOU, SIG_DFL);
    Spec interactive = spec();
    interactive.environment.emplace_back("TERM=dumb");
    interactive.environment.emplace_back("PS1=prompt> ");
    interactive.command = command;
    const auto report = run_foreground(interactive);
    ::_exit(report ? report->exit_code() : 97);
  }
  // Runs the sandbox on a terminal, feeding it the lines; returns all it printed.
  std::string talk(const std::vector<std::string>& command,
                   const std::vector<std::pair<std::string, std::string>>& turns) {
    int leader = -1;
    const pid_t pid = fork_on_terminal(leader, command);
    std::string seen;
    std::size_t from = 0;
    for (const auto& [wait_for, say] : turns) {
      if (!read_until(leader, wait_for, seen, from)) break;
      (void)!::write(leader, say.data(), say.size());
    }
    read_until(leader, "never to be seen", seen, from);
    ::close(leader);
    ::waitpid(pid, &status_, 0);
    return seen;
  }
  int status_ = 0;

  static bool soon(const std::function<bool()>& claim) {
    for (int i = 0; i < 1000 && !claim(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
    return claim();
  }
  static bool read_until(int leader, const std::string& wanted, std::string& seen, std::size_t& from) {
    for (;;) {
      const std::size_t at = seen.find(wanted, from);
      if (at != std::string::npos) {
        from = at + wanted.size();
        return true;
      }
      char buffer[1024];
      const ssize_t length = ::read(leader, buffer, sizeof(buffer));
      if (length <= 0) return false;
      seen.append(buffer, static_cast<std::size_t>(length));
    }
  }
};
SALLYPORT_BOTH_WAYS(AtATerminal);

TEST_P(AtATerminal, AnInteractiveShellHasJobControl) {
  const std::string seen =
      talk({"bash", "--norc", "-i"},
           {{"prompt> ", "sleep 100 &\n"}, {"prompt> ", "jobs\n"}, {"Running", "kill %1\n"}, {"prompt> ", "exit 6\n"}});
  EXPECT_EQ(seen.find("no job control"), std::string::npos) << seen;
  EXPECT_EQ(WEXITSTATUS(status_), 6) << seen;
}

TEST_P(AtATerminal, ControlCInterruptsTheCommandOnly) {
  const std::string seen = talk({"bash", "--norc", "-i"}, {{"prompt> ", "bash -c 'echo be\"\"gin; exec sleep 100'\n"},
                                                           {"begin", "\x03"},
                                                           {"prompt> ", "echo status $?\n"},
                                                           {"status 130", "exit 0\n"}});
  EXPECT_NE(seen.find("status 130"), std::string::npos) << seen;
}

// What has left the terminal's session reads it without being stopped for that.
constexpr const char* kSpy = "setsid bash -c 'while read -r line <&1; do echo \"$line\" >> stolen; done' & ";

TEST_P(AtATerminal, AttackReadsWhatIsTypedWhileTheCommandIsStopped) {
  int leader = -1;
  const pid_t pid = fork_on_terminal(leader, {"bash", "-c", std::string(kSpy) + "echo begin; exec sleep 100"});
  std::string seen;
  std::size_t from = 0;
  ASSERT_TRUE(read_until(leader, "begin", seen, from));
  ASSERT_EQ(::write(leader, "seen\n", 5), 5);
  ASSERT_TRUE(soon([&] { return read(workspace_ + "/stolen") == "seen\n"; })) << "the spy works";
  ASSERT_EQ(::write(leader, "\x1a", 1), 1);  // Ctrl-Z
  ASSERT_EQ(::waitpid(pid, &status_, WUNTRACED), pid);
  ASSERT_TRUE(WIFSTOPPED(status_));
  ASSERT_EQ(::write(leader, "password\n", 9), 9);
  // Long enough for somebody who looks all the time.
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  EXPECT_EQ(read(workspace_ + "/stolen"), "seen\n");
  // In the foreground again, what runs inside goes on.
  ::kill(-pid, SIGCONT);
  EXPECT_TRUE(soon([&] { return read(workspace_ + "/stolen") == "seen\npassword\n"; }));
  ASSERT_EQ(::write(leader, "\x03", 1), 1);
  ::close(leader);
  EXPECT_EQ(::waitpid(pid, &status_, 0), pid);
}

// By a timer of its own, which the kernel serves though it is stopped.
constexpr const char* kWaker =
    "import ctypes, os, signal, struct, time\n"
    "os.setsid(); signal.signal(signal.SIGCONT, lambda *_: None)\n"
    "libc, timer = ctypes.CDLL(None), ctypes.c_void_p()\n"
    "event = struct.pack('Qii', 0, signal.SIGCONT, 0) + bytes(48)\n"
    "assert libc.timer_create(1, event, ctypes.byref(timer)) == 0\n"
    "assert libc.timer_settime(timer, 0, struct.pack('qqqq', 0, 10_000_000, 0, 10_000_000), None) == 0\n"
    "print('begin', flush=True)\n"
    "while True: time.sleep(1)\n";

TEST_P(AtATerminal, AttackHasItselfContinuedWhileTheCommandIsStopped) {
  int leader = -1;
  const pid_t pid =
      fork_on_terminal(leader, {"bash", "-c", "python3 -c \"$0\" & echo $! > waker; exec sleep 1000", kWaker});
  std::string seen;
  std::size_t from = 0;
  ASSERT_TRUE(read_until(leader, "begin", seen, from)) << seen;
  ASSERT_EQ(::write(leader, "\x1a", 1), 1);  // Ctrl-Z
  ASSERT_EQ(::waitpid(pid, &status_, WUNTRACED), pid);
  ASSERT_TRUE(WIFSTOPPED(status_));
  // All of it is over although we are still stopped.
  const auto child_of = [](pid_t parent) {
    const std::string number = std::to_string(parent);
    pid_t child = 0;
    std::ifstream("/proc/" + number + "/task/" + number + "/children") >> child;
    return child;
  };
  const pid_t init = child_of(child_of(pid));
  ASSERT_NE(init, 0);
  const auto is_left = [&] { return child_of(init) != 0; };
  EXPECT_TRUE(soon([&] { return !is_left(); }));
  ::kill(-pid, SIGCONT);
  ::close(leader);
  EXPECT_EQ(::waitpid(pid, &status_, 0), pid);
  EXPECT_EQ(WEXITSTATUS(status_), 128 + SIGKILL);
}

TEST_P(AtATerminal, AttackHasTheTerminalInTheBackground) {
  int leader = -1;
  const pid_t pid = fork_on_terminal(leader, {"bash", "-c", "echo begin > began"}, Place::background);
  std::string seen;
  std::size_t from = 0;
  read_until(leader, "never to be seen", seen, from);
  ::close(leader);
  EXPECT_EQ(::waitpid(pid, &status_, 0), pid);
  EXPECT_EQ(WEXITSTATUS(status_), 97) << seen;
  EXPECT_EQ(read(workspace_ + "/began"), "");
}

TEST_P(AtATerminal, ControlCEndsAPlainCommandBySignal) {
  talk({"bash", "-c", "echo begin; exec sleep 100"}, {{"begin", "\x03"}});
  EXPECT_EQ(WEXITSTATUS(status_), 128 + SIGINT);
}

}  // namespace
}  // namespace sallyport::sandbox
