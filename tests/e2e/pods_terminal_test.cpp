// Pods on real terminals: the command line in tmux, as a person would use it, and on a bare pseudo-terminal,
// where every byte that reaches the terminal can be looked at.
#include <fcntl.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "pod/terminal.h"
#include "pods.h"

namespace sallyport::testing {
namespace {

// A terminal multiplexer with one window that runs a shell.
class PodsInTmux : public Pods {
 protected:
  void SetUp() override {
    Pods::SetUp();
    tmux("-f /dev/null new-session -d -x 80 -y 24 \"cd '" + root_.path() + "/project' && env " + environment() +
         "PS1='host> ' bash --norc --noprofile\"");
    ASSERT_TRUE(shows("host>"));
  }
  void TearDown() override {
    tmux("kill-server");
    Pods::TearDown();
  }
  std::string tmux(const std::string& arguments) {
    const std::string command = "TERM=xterm tmux -S '" + root_.path() + "/tmux.sock' " + arguments + " 2>/dev/null";
    return run_shell(command).output;
  }
  void type(const std::string& keys) { tmux("send-keys " + keys); }
  std::string screen() { return tmux("capture-pane -p"); }
  bool shows(const std::string& text) {
    return eventually([&] { return screen().find(text) != std::string::npos; });
  }
};

constexpr const char* kShell = "PS1='pod> ' exec bash --norc --noprofile -i";

TEST_F(PodsInTmux, AttachResizeInterruptDetachAndComeBack) {
  make("shell", kShell);
  type("'" SALLYPORT_CLI " pod attach shell' Enter");
  ASSERT_TRUE(shows("pod>")) << screen();
  type("'echo in-the-$((40+2))' Enter");
  ASSERT_TRUE(shows("in-the-42")) << screen();
  // The size follows the window.
  tmux("resize-window -x 100 -y 30");
  ASSERT_TRUE(eventually([&] {
    type("'stty size' Enter");
    return shows("30 100");
  })) << screen();
  // Ctrl-C reaches the foreground job, and only it.
  type("'sleep 1000; echo after-$?' Enter");
  type("C-c");
  ASSERT_TRUE(eventually([&] {
    type("'echo alive-$((1+1))' Enter");
    return screen().find("alive-2") != std::string::npos;
  })) << screen();
  // Detached by the escape; the shell outside is as it was.
  type("Enter");
  type("'~.'");
  ASSERT_TRUE(shows("[detached from shell]")) << screen();
  type("'clear; echo out-$((3+4))' Enter");
  ASSERT_TRUE(shows("out-7")) << screen();
  EXPECT_EQ(screen().find("in-the-42"), std::string::npos);
  EXPECT_EQ(life("shell"), pod::Life::running);
  // And back: the screen is painted again.
  type("'" SALLYPORT_CLI " pod attach shell; echo status-$?' Enter");
  ASSERT_TRUE(shows("in-the-42")) << screen();
  type("'exit 5' Enter");
  ASSERT_TRUE(shows("status-5")) << screen();
}

TEST_F(PodsInTmux, ViewTakeAndRelease) {
  make("shared", kShell);
  auto controller = attach("shared");
  ASSERT_TRUE(controller && controller->sees("pod>"));
  type("'" SALLYPORT_CLI " pod attach shared' Enter");
  ASSERT_TRUE(shows("somebody controls this pod already")) << screen();
  type("'clear; " SALLYPORT_CLI " pod attach --view shared' Enter");
  ASSERT_TRUE(shows("pod>")) << screen();
  controller->type("echo seen-by-$((2*2))\r");
  ASSERT_TRUE(shows("seen-by-4")) << screen();
  type("'~t'");
  ASSERT_TRUE(shows("[you control the pod]")) << screen();
  type("'echo typed-$((5*5))' Enter");
  ASSERT_TRUE(shows("typed-25")) << screen();
  type("'~r'");
  ASSERT_TRUE(shows("you view]")) << screen();
  type("'~.'");
  ASSERT_TRUE(shows("[detached from shared]")) << screen();
}

TEST_F(PodsInTmux, AskFullScreenProgramsToRedraw) {
  make("drawing",
       "trap 'printf \"\\033[2J\\033[Hdrawn again\"' WINCH; printf 'first'; while :; do read -t 0.05 x; done");
  type("'" SALLYPORT_CLI " pod attach drawing' Enter");
  ASSERT_TRUE(shows("drawn again")) << screen();
}

TEST_F(PodsInTmux, LeaveTheTerminalUsableWhenTheirDaemonIsKilled) {
  make("victim", kShell);
  type("'" SALLYPORT_CLI " pod attach victim' Enter");
  ASSERT_TRUE(shows("pod>")) << screen();
  ::kill(daemon_pid("victim"), SIGKILL);
  ASSERT_TRUE(shows("daemon died")) << screen();
  type("'echo usable-$((6*6))' Enter");
  ASSERT_TRUE(shows("usable-36")) << screen();
}

// ---- what reaches a person's terminal ----

class PodsOnATerminal : public Pods {
 protected:
  // Runs `sallyport pod attach NAME` on a pseudo-terminal of this test and returns what it was sent, up to the
  // pod's end.
  std::string attached_output(const std::string& name) {
    auto terminal = pod::open_terminal({24, 80});
    EXPECT_TRUE(terminal);
    const pid_t child = ::fork();
    if (child == 0) {
      ::setsid();
      for (int fd = 0; fd < 3; ++fd) ::dup2(terminal->slave.get(), fd);
      ::ioctl(0, TIOCSCTTY, 0);
      const std::string command = environment() + "exec " SALLYPORT_CLI " pod attach " + name;
      ::execl("/bin/sh", "sh", "-c", command.c_str(), nullptr);
      ::_exit(127);
    }
    terminal->slave.reset();
    std::string output;
    for (;;) {
      pollfd ready{terminal->master.get(), POLLIN, 0};
      if (::poll(&ready, 1, static_cast<int>(kPatience.count())) <= 0) break;
      char block[4096];
      const ssize_t count = ::read(terminal->master.get(), block, sizeof block);
      if (count <= 0) break;
      output.append(block, static_cast<std::size_t>(count));
    }
    ::waitpid(child, nullptr, 0);
    return output;
  }
};

TEST_F(PodsOnATerminal, ShowNoClipboardReadTitleReportOrPassThrough) {
  make("hostile",
       "printf "
       "'a\\033]52;c;?\\007b\\033[21tc\\033P$q\"p\\033\\\\d\\033Ptmux;\\033\\033]52;c;?\\007\\033\\\\e\\033"
       "]11;?\\007f\\033[>qg\\033_Gt=f;eA==\\033\\\\h\\005i\\302\\235j\\n'; printf "
       "'\\033]0;title\\007\\033[31mred\\033[0m fin\\n'");
  const std::string output = attached_output("hostile");
  EXPECT_NE(output.find("abcdefghi?j"), std::string::npos) << escape_for_display(output);
  EXPECT_NE(output.find("\x1b[31mred\x1b[0m fin"), std::string::npos) << escape_for_display(output);
  EXPECT_NE(output.find("\x1b]0;title\x1b\\"), std::string::npos);
  for (const char* never : {"]52;", "[21t", "\x1bP", "]11;?", "[>q", "\x1b_", "\x05"}) {
    EXPECT_EQ(output.find(never), std::string::npos) << escape_for_display(never);
  }
}

TEST_F(PodsOnATerminal, RepeatNoQueriesInARepaint) {
  make("asked", "printf 'before\\033[c\\033[6nafter\\n'");
  ASSERT_TRUE(attach("asked", R"("role":"view")")->sees("after"));
  const std::string output = attached_output("asked");
  EXPECT_NE(output.find("beforeafter"), std::string::npos) << escape_for_display(output);
}

}  // namespace
}  // namespace sallyport::testing
