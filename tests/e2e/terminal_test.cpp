// `sallyport run` under a person's shell, on a real terminal: stopped, continued, resized, killed.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <pty.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <csignal>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "base/unique_fd.h"
#include "support/daemon.h"

namespace sallyport::testing {
namespace {

// What is in a file of /proc; nothing if its process is gone.
std::string slurp(const std::string& path) {
  const UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  std::string text(4096, '\0');
  const ssize_t count = file ? ::read(file.get(), text.data(), text.size()) : 0;
  text.resize(count > 0 ? static_cast<std::size_t>(count) : 0);
  return text;
}

// The processes of the machine that have this word among their arguments.
std::vector<pid_t> processes_with(const std::string& word) {
  std::vector<pid_t> found;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const std::string name = entry.path().filename();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    if (slurp(entry.path() / "cmdline").find(word) != std::string::npos)
      found.push_back(static_cast<pid_t>(std::stol(name)));
  }
  return found;
}

std::vector<pid_t> children_of(pid_t parent) {
  const std::string path = "/proc/" + std::to_string(parent) + "/task/" + std::to_string(parent) + "/children";
  std::istringstream file(slurp(path));
  std::vector<pid_t> found;
  for (pid_t pid = 0; file >> pid;) found.push_back(pid);
  return found;
}

// An interactive bash on a terminal of its own.
class AtAShell : public ::testing::Test {
 protected:
  void SetUp() override {
    const std::string project = root_.path() + "/project";
    std::filesystem::create_directory(project);
    std::filesystem::copy_file(SALLYPORT_PROBE, project + "/probe");
    int leader = -1;
    shell_ = ::forkpty(&leader, nullptr, nullptr, nullptr);
    if (shell_ == 0) {
      if (::chdir(project.c_str()) != 0) ::_exit(99);
      ::setenv("PS1", "host> ", 1);
      ::setenv("TERM", "dumb", 1);
      ::setenv("HOME", root_.path().c_str(), 1);
      ::setenv("SALLYPORT_RUNTIME_DIR", (root_.path() + "/run").c_str(), 1);
      ::execlp("bash", "bash", "--norc", "--noediting", "-i", nullptr);
      ::_exit(99);
    }
    leader_ = UniqueFd(leader);
    ASSERT_TRUE(sees("host> "));
  }
  void TearDown() override {
    leader_.reset();
    ::kill(shell_, SIGKILL);
    ::waitpid(shell_, nullptr, 0);
    EXPECT_TRUE(eventually([&] { return processes_with(word_).empty(); })) << "something outlived its terminal";
  }

  void type(const std::string& text) const {
    ASSERT_EQ(::write(leader_.get(), text.data(), text.size()), static_cast<ssize_t>(text.size()));
  }
  // Reads until the text has come, after what was seen before.
  bool sees(const std::string& wanted) {
    for (;;) {
      if (const std::size_t at = seen_.find(wanted, from_); at != std::string::npos) {
        from_ = at + wanted.size();
        return true;
      }
      pollfd event{leader_.get(), POLLIN, 0};
      char block[1024];
      const ssize_t count =
          ::poll(&event, 1, static_cast<int>(kPatience.count())) > 0 ? ::read(leader_.get(), block, sizeof block) : -1;
      if (count <= 0) {
        ADD_FAILURE() << "'" << wanted << "' never came; the terminal shows:\n" << seen_;
        return false;
      }
      seen_.append(block, static_cast<std::size_t>(count));
    }
  }
  // Starts a sandboxed bash that runs the script; its command line holds a word of this test's own.
  void run(const std::string& script, const std::string& behind = "") {
    type(std::string(SALLYPORT_CLI) + " run --no-warden -- bash -c '" + script + "' " + word_ + behind + "\n");
    ASSERT_TRUE(sees("begin\r\n"));
  }
  // The run's own process: the shell's only child.
  pid_t run_pid() const {
    const auto children = children_of(shell_);
    return children.size() == 1 ? children[0] : -1;
  }

  TemporaryDirectory root_;
  pid_t shell_ = -1;
  UniqueFd leader_;
  std::string seen_;
  std::size_t from_ = 0;
  std::string word_ = "word-of-" + std::to_string(::getpid()) + "-alone";
};

TEST_F(AtAShell, ControlZGivesThePromptBackAndFgGoesOn) {
  run("echo be\"\"gin; read line; echo got $line");
  type("\x1a");
  ASSERT_TRUE(sees("Stopped"));
  ASSERT_TRUE(sees("host> "));
  type("fg\n");
  ASSERT_TRUE(sees(word_));
  type("hello\n");
  EXPECT_TRUE(sees("got hello"));
  EXPECT_TRUE(sees("host> "));
}

// Again and again: neither is it taken for one that went on by itself, nor is it stopped once more than it was asked
// to.
TEST_F(AtAShell, BgDoesNotLetItGoOnAndFgDoes) {
  for (const char* behind : {"", " | cat"}) {
    run("exec ./probe tell-continued $0", behind);
    for (int i = 0; i < 3; ++i) {
      type("\x1a");
      ASSERT_TRUE(sees("Stopped"));
      ASSERT_TRUE(sees("host> "));
      type("bg\n");
      ASSERT_TRUE(sees("&\r\n"));
      // All of a pipeline: else the shell takes it for running.
      type("until [[ $(jobs -s) ]]; do sleep 0.01; done; echo it\"\" stopped\n");
      ASSERT_TRUE(sees("it stopped\r\n"));
      type("fg\n");
      ASSERT_TRUE(sees("\r\nagain\r\n"));
    }
    type("hello\n");
    EXPECT_TRUE(sees("got hello"));
    ASSERT_TRUE(sees("host> "));
  }
}

// A reader that is woken by Ctrl-Z takes what has been typed before it stops: nothing must have been.
TEST_F(AtAShell, WhatIsTypedBehindControlZIsForTheShell) {
  for (const char* behind : {"", " | cat"}) {
    run("echo be\"\"gin; exec cat $0 - 2>/dev/null", behind);
    for (int i = 0; i < 20; ++i) {
      type("\x1a");
      ASSERT_TRUE(sees("Stopped"));
      ASSERT_TRUE(sees("host> "));
      type("echo mi\"\"ne\n");
      ASSERT_TRUE(sees("mine\r\n"));
      type("fg\n");
      ASSERT_TRUE(sees(word_ + behind + "\r\n"));
      type("yes\n");
      ASSERT_TRUE(sees("yes\r\nyes\r\n"));
    }
    type("\x04");
    ASSERT_TRUE(sees("host> "));
  }
}

// Held output would keep the shell from its prompt.
TEST_F(AtAShell, HeldOutputIsLetGoWithTheTerminal) {
  for (const char* behind : {"kill -STOP $$", "exit"}) {
    run("echo be\"\"gin; python3 -c \"import termios; termios.tcflow(1, termios.TCOOFF)\"; " + std::string(behind));
    ASSERT_TRUE(sees("host> "));
  }
}

// Each of these is told to whoever is stopped and does not read it.
TEST_F(AtAShell, WhatStopsAndGoesOnWithoutEndIsEndedAllTheSame) {
  std::ofstream(root_.path() + "/project/flicker.py") << R"(import os, signal, time
if os.fork() == 0:
    os.setsid()
    while True:
        signal.sigtimedwait([signal.SIGUSR1], 0.001)
        os.kill(os.getppid(), signal.SIGCONT)
def stop(*_):
    os.kill(os.getpid(), signal.SIGSTOP)
signal.signal(signal.SIGCONT, stop)
os.write(1, b"begin\n")
while True:
    time.sleep(1000)
)";
  type(std::string(SALLYPORT_CLI) + " run --no-warden -- python3 flicker.py " + word_ + " | cat\n");
  ASSERT_TRUE(sees("begin\r\n"));
  type("\x1a");
  ASSERT_TRUE(sees("host> "));
  type("echo still\"\" here\n");
  EXPECT_TRUE(sees("still here\r\n"));
  type("kill -9 %1; wait; echo al\"\"l over\n");
  EXPECT_TRUE(sees("all over"));
}

// As ssh and terminals start it, and a script that they start: the kernel stops no such group either.
TEST_F(AtAShell, WhereNobodyWouldContinueItControlZDoesNotStopIt) {
  type("exec bash -c '" + std::string(SALLYPORT_CLI) +
       " run --no-warden -- bash -c \"echo be\\\"\\\"gin; read line; echo got \\$line\" " + word_ + "; true'\n");
  ASSERT_TRUE(sees("begin\r\n"));
  type("\x1ahello\n");
  EXPECT_TRUE(sees("got hello"));
}

TEST_F(AtAShell, WhatWaitsForAStoppedChildDoesNotKeepThePromptFromComing) {
  run("./probe wait-for-child $0; true");
  ASSERT_TRUE(eventually([&] {
    const auto waiting = processes_with("wait-for-child");
    return std::any_of(waiting.begin(), waiting.end(), [](pid_t pid) {
      return slurp("/proc/" + std::to_string(pid) + "/stat").find(") D ") != std::string::npos;
    });
  }));
  type("\x1a");
  ASSERT_TRUE(sees("Stopped"));
  ASSERT_TRUE(sees("host> "));
  type("kill -9 %1; wait; echo al\"\"l over\n");
  EXPECT_TRUE(sees("all over"));
}

TEST_F(AtAShell, AClosedTerminalEndsWhatIsStopped) {
  for (const char* behind : {"", " | cat"}) {
    run("echo be\"\"gin; sleep 1000", behind);
    type("\x1a");
    ASSERT_TRUE(sees("Stopped"));
    ASSERT_TRUE(sees("host> "));
  }
}

TEST_F(AtAShell, TheTerminalReachesACommandWhoseOutputGoesElsewhere) {
  run("echo be\"\"gin; read line; echo got $line; sh -c \"echo asleep; exec sleep 1000\"; echo not reached", " | cat");
  type("hello\n");
  ASSERT_TRUE(sees("got hello"));
  ASSERT_TRUE(sees("asleep\r\n"));
  type("\x03");
  ASSERT_TRUE(sees("host> "));
  EXPECT_EQ(seen_.find("\r\nnot reached"), std::string::npos);
}

TEST_F(AtAShell, AResizeReachesTheCommand) {
  run("trap \"stty size; exit\" WINCH; echo be\"\"gin; while :; do read -t 1 line; done");
  const winsize size{.ws_row = 33, .ws_col = 77, .ws_xpixel = 0, .ws_ypixel = 0};
  ASSERT_EQ(::ioctl(leader_.get(), TIOCSWINSZ, &size), 0);
  EXPECT_TRUE(sees("33 77"));
  EXPECT_TRUE(sees("host> "));
}

TEST_F(AtAShell, AKilledRunLeavesNoProcessBehind) {
  run("echo be\"\"gin; sleep 1000 & setsid sleep 1000 & sleep 1000");
  const pid_t run = run_pid();
  ASSERT_GT(run, 0);
  ::kill(run, SIGKILL);
  EXPECT_TRUE(sees("Killed"));
  EXPECT_TRUE(eventually([&] { return processes_with(word_).size() <= 1; })) << "more than the shell's own history";
}

TEST_F(AtAShell, AKilledPidOneEndsTheRun) {
  run("echo be\"\"gin; setsid sleep 1000 & sleep 1000");
  const auto inits = children_of(run_pid());
  ASSERT_EQ(inits.size(), 1U);
  ::kill(inits[0], SIGKILL);
  ASSERT_TRUE(sees("host> "));
  // 137; or another failure if it had not yet said that the command runs.
  type("test $? -ne 0 && echo fa\"\"iled\n");
  EXPECT_TRUE(sees("failed"));
  EXPECT_TRUE(eventually([&] { return children_of(shell_).empty(); }));
}

TEST_F(AtAShell, AClosedTerminalEndsTheRun) {
  run("echo be\"\"gin; sleep 1000");
  leader_.reset();
  EXPECT_TRUE(eventually([&] { return processes_with(word_).empty(); }));
}

// Redirected it may be in the background, where another job has the terminal.
TEST_F(AtAShell, WhatHasNoStreamOnTheTerminalCannotOpenItEither) {
  type(std::string(SALLYPORT_CLI) + " run --no-warden -- bash -c ': </dev/tty && echo o\"\"pen || echo r\"\"efused' " +
       word_ + " </dev/null >said 2>&1 & wait; cat said\n");
  EXPECT_TRUE(sees("refused"));
}

// The kernel stops the whole group of one that reads in the background: its supervisor too, if it let it.
TEST_F(AtAShell, WhatTakesTheTerminalAndHasItsGroupStoppedIsStoppedWithIt) {
  std::ofstream(root_.path() + "/project/take.py") << R"(import os, signal, time
terminal = os.open("/dev/tty", os.O_RDWR)
ready, told = os.pipe()
if os.fork() == 0:
    signal.signal(signal.SIGTTOU, signal.SIG_IGN)
    os.setpgid(0, 0)
    os.tcsetpgrp(terminal, os.getpid())
    if os.fork() == 0:
        os.setsid()
        os.write(told, b"x")
        while True:
            key = os.read(terminal, 1)
            open("stolen", "ab").write(key)
    time.sleep(1000)
os.read(ready, 1)
print("begin", flush=True)
os.read(terminal, 1)
time.sleep(1000)
)";
  type(std::string(SALLYPORT_CLI) + " run --no-warden -- python3 take.py " + word_ + " | cat\n");
  ASSERT_TRUE(sees("Stopped"));
  ASSERT_TRUE(sees("host> "));
  type("echo se\"\"cret\n");
  EXPECT_TRUE(sees("secret\r\n"));
  EXPECT_FALSE(std::filesystem::exists(root_.path() + "/project/stolen"));
  type("kill -9 %1; wait; echo al\"\"l over\n");
  EXPECT_TRUE(sees("all over"));
}

// A shell ends a script at Ctrl-C if what it ran died of it.
TEST_F(AtAShell, ControlCEndsTheScriptAroundIt) {
  type("for i in 1 2; do " + std::string(SALLYPORT_CLI) + " run --no-warden -- bash -c 'echo be\"\"gin; sleep 1000' " +
       word_ + "; echo we\"\"nt on; done; echo af\"\"terwards\n");
  ASSERT_TRUE(sees("begin\r\n"));
  type("\x03");
  ASSERT_TRUE(sees("host> "));
  EXPECT_EQ(seen_.find("went on"), std::string::npos) << seen_;
}

}  // namespace
}  // namespace sallyport::testing
