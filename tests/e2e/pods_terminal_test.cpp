// Pods on real terminals: the command line in tmux, as a person would use it, and on a bare pseudo-terminal,
// where every byte that reaches the terminal can be looked at.
#include <fcntl.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <thread>

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
    return screen().find("30 100") != std::string::npos;
  })) << screen();
  // Ctrl-C reaches the foreground job, and only it.
  type("'sh -c \"echo job-$((6*7)); exec sleep 1000\"; echo after-$?' Enter");
  ASSERT_TRUE(shows("job-42")) << screen();
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
  auto controller = attach("shared", R"("size":{"rows":11,"columns":44})");
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
  // Who controls it brings the size of its terminal.
  ASSERT_TRUE(eventually([&] {
    type("'stty size' Enter");
    return screen().find("24 80") != std::string::npos;
  })) << screen();
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

// tmux answers each question by typing: among the answers, or behind those that nobody reads, are the person's keys.
TEST_F(PodsInTmux, AttackAnAgentThatAsksWithoutEndCanBeLeft) {
  const std::string asking = "while :; do printf '\\033[6n\\033[6n\\033[6n\\033[6n\\033[6n\\033[6n'; done";
  make("deaf", "stty raw -echo; " + asking);
  make("listening", "stty raw -echo; cat >/dev/null & " + asking);
  for (const std::string name : {"deaf", "listening"}) {
    type("'clear; " SALLYPORT_CLI " pod attach " + name + "' Enter");
    std::this_thread::sleep_for(Millis(2000));
    ASSERT_TRUE(eventually([&] {
      for (const char* key : {"Enter", "'~'", "'.'"}) type(key);
      return screen().find("[detached from " + name + "]") != std::string::npos;
    })) << screen();
  }
}

// tmux has no soft reset.
TEST_F(PodsInTmux, GiveBackWhatASoftResetWouldHaveWhereThereIsNone) {
  make("untidy", "printf '\\033[5;10r\\033[4h\\033[?1h\\033=\\033[?7l\\033[?25l\\033(0\\033[Hready'; sleep 1000");
  type("'" SALLYPORT_CLI " pod attach untidy' Enter");
  const auto modes = [&] {
    return tmux(
        "display -p '#{scroll_region_upper} #{scroll_region_lower} #{insert_flag} #{keypad_cursor_flag} "
        "#{keypad_flag} #{wrap_flag} #{cursor_flag}'");
  };
  ASSERT_TRUE(eventually([&] { return modes() == "4 9 1 1 1 0 0\n"; })) << modes();
  type("Enter");
  type("'~.'");
  ASSERT_TRUE(shows("[detached from untidy]")) << screen();
  EXPECT_TRUE(eventually([&] { return modes() == "0 23 0 0 0 1 1\n"; })) << modes();
}

// ---- what reaches a person's terminal ----

class PodsOnATerminal : public Pods {
 protected:
  // `sallyport pod attach NAME`, or another command, with these as its standard descriptors.
  pid_t start_attach(const std::string& name, int in, int out, bool is_terminal,
                     const std::string& subcommand = "attach ") {
    const pid_t child = ::fork();
    if (child == 0) {
      ::setsid();
      ::dup2(in, 0);
      ::dup2(out, 1);
      ::dup2(out, 2);
      if (is_terminal) ::ioctl(0, TIOCSCTTY, 0);
      const std::string command = environment() + "exec " SALLYPORT_CLI " pod " + subcommand + name;
      ::execl("/bin/sh", "sh", "-c", command.c_str(), nullptr);
      ::_exit(127);
    }
    return child;
  }
  // What comes, up to its end or up to this text.
  static std::string read_all(int fd, const std::string& until = "") {
    std::string output;
    for (;;) {
      pollfd ready{fd, POLLIN, 0};
      if (::poll(&ready, 1, static_cast<int>(kPatience.count())) <= 0) break;
      char block[4096];
      const ssize_t count = ::read(fd, block, sizeof block);
      if (count <= 0) break;
      output.append(block, static_cast<std::size_t>(count));
      if (!until.empty() && output.find(until) != std::string::npos) break;
    }
    return output;
  }
  // Runs it on a pseudo-terminal of this test and returns what it was sent, up to the pod's end.
  std::string attached_output(const std::string& name) {
    auto terminal = pod::open_terminal({24, 80});
    EXPECT_TRUE(terminal);
    const pid_t child = start_attach(name, terminal->slave.get(), terminal->slave.get(), true);
    terminal->slave.reset();
    const std::string output = read_all(terminal->master.get());
    ::waitpid(child, nullptr, 0);
    return output;
  }
  // Says this many lines, or lines without end. Interrupted, it notes so beside its script and ends.
  void make_flood(const std::string& name, const std::string& lines) {
    make(name, "trap 'trap - INT; touch " + name +
                   ".interrupted; printf \"the-%s\\n\" prompt; exit 4' INT; i=100000; " +
                   "while [ $i -lt $((100000 + " + lines + ")) ]; do echo \"line $i of a flood that nobody reads for " +
                   "now\"; i=$((i + 1)); done; while :; do sleep 0.1; done");
  }
  bool is_interrupted(const std::string& name) {
    return eventually([&] { return std::filesystem::exists(root_.path() + "/project/" + name + ".interrupted"); });
  }
};

TEST_F(PodsOnATerminal, ShowThePromptSoonAfterCtrlCThoughNothingWasReadForLong) {
  make_flood("flood", "100000000");
  auto terminal = pod::open_terminal({24, 80});
  ASSERT_TRUE(terminal);
  const pid_t child = start_attach("flood", terminal->slave.get(), terminal->slave.get(), true);
  terminal->slave.reset();
  const std::string begun = read_all(terminal->master.get(), "line 100100 ");
  ASSERT_NE(begun.find("line 100100 "), std::string::npos);
  ASSERT_TRUE(has_said("flood", 1U << 20));
  ASSERT_EQ(::write(terminal->master.get(), "\x03", 1), 1);
  ASSERT_TRUE(is_interrupted("flood"));
  const std::string output = read_all(terminal->master.get());
  EXPECT_NE(output.find("the-prompt"), std::string::npos);
  EXPECT_LT(output.find("the-prompt"), 192U << 10) << "what the terminal held, and a repaint";
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(WEXITSTATUS(status), 4);
}

TEST_F(PodsOnATerminal, WriteEachByteOnceIntoAPipeAlsoWhenInterrupted) {
  // Some of it is lost on whoever does not read, and told so; or all of it was on the way already.
  for (const bool is_endless : {true, false}) {
    const std::string name = is_endless ? "endless" : "short";
    make_flood(name, is_endless ? "100000000" : "5000");
    std::array<int, 2> in{}, out{};
    ASSERT_EQ(::pipe2(in.data(), O_CLOEXEC), 0);
    ASSERT_EQ(::pipe2(out.data(), O_CLOEXEC), 0);
    UniqueFd keys{in[1]}, shown{out[0]};
    const pid_t child = start_attach(name, in[0], out[1], false);
    ::close(in[0]);
    ::close(out[1]);
    ASSERT_TRUE(has_said(name, is_endless ? 1'000'000 : 5000 * 50));
    ASSERT_EQ(::write(keys.get(), "\x03", 1), 1);
    ASSERT_TRUE(is_interrupted(name));
    const std::string output = read_all(shown.get());
    ::waitpid(child, nullptr, 0);
    EXPECT_NE(output.find("the-prompt"), std::string::npos);
    long last = 99'999;
    std::size_t lines = 0;
    for (std::size_t at = output.find("line "); at != std::string::npos; at = output.find("line ", at + 1)) {
      const long number = std::strtol(output.c_str() + at + 5, nullptr, 10);
      if (number < 100'000) continue;  // cut where a gap begins
      ASSERT_GT(number, last) << "repeated";
      last = number;
      ++lines;
    }
    EXPECT_GT(lines, 1000U);
    if (!is_endless) {
      EXPECT_EQ(lines, 5000U) << "nothing of it was lost";
    }
  }
}

// The modes of a terminal, as far as they are kept in the kernel.
std::string modes_of(int terminal) {
  termios modes{};
  if (::tcgetattr(terminal, &modes) != 0) return "none";
  std::string text = std::to_string(modes.c_iflag) + " " + std::to_string(modes.c_oflag) + " " +
                     std::to_string(modes.c_cflag) + " " + std::to_string(modes.c_lflag);
  for (const cc_t key : modes.c_cc) text += " " + std::to_string(key);
  return text;
}

TEST_F(PodsOnATerminal, GiveBackEveryModeWhenTheyAreDetachedAndWhenTheyEnd) {
  // What a full-screen program sets, and takes back only if it is let to.
  make("modal",
       "stty raw -echo; printf '\\033[?1049h\\033[?1000h\\033[?1002h\\033[?1003h\\033[?1006h\\033[?1004h\\033[?2004h"
       "\\033[>1u\\033[?25lset'; dd bs=1 count=1 of=/dev/null status=none; exit 5");
  auto terminal = pod::open_terminal({24, 80});
  ASSERT_TRUE(terminal);
  const std::string before = modes_of(terminal->slave.get());
  for (const bool ends : {false, true}) {
    const pid_t child = start_attach("modal", terminal->slave.get(), terminal->slave.get(), true);
    std::string output = read_all(terminal->master.get(), "set");
    ASSERT_NE(output.find("\x1b[?1049h"), std::string::npos) << escape_for_display(output);
    EXPECT_NE(modes_of(terminal->slave.get()), before) << "raw while it is lent";
    const std::string keys = ends ? "x" : "~.";
    ASSERT_EQ(::write(terminal->master.get(), keys.data(), keys.size()), static_cast<ssize_t>(keys.size()));
    // Not before all it writes is read: a terminal that is not read takes no end.
    output = read_all(terminal->master.get(), "\x1b[!p");
    for (const char* mode : {"\x1b[?1049l", "\x1b[?1000l", "\x1b[?1002l", "\x1b[?1003l", "\x1b[?1006l", "\x1b[?1016l",
                             "\x1b[?1004l", "\x1b[?2004l", "\x1b[?2031l", "\x1b[?2048l", "\x1b[<99u", "\x1b[?25h"}) {
      EXPECT_NE(output.find(mode), std::string::npos) << escape_for_display(mode) << " when it ends: " << ends;
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    EXPECT_EQ(WEXITSTATUS(status), ends ? 5 : 0);
    EXPECT_EQ(modes_of(terminal->slave.get()), before);
  }
}

TEST_F(PodsOnATerminal, GiveBackEveryModeWhenTheyAreEndedByASignalOrAClosedPipe) {
  make("ticking", "while :; do echo tick; sleep 0.05; done");
  for (const int signal : {SIGPIPE, SIGINT, SIGQUIT, SIGTERM}) {
    auto terminal = pod::open_terminal({24, 80});
    ASSERT_TRUE(terminal);
    const std::string before = modes_of(terminal->slave.get());
    std::array<int, 2> out{};
    ASSERT_EQ(::pipe2(out.data(), O_CLOEXEC), 0);
    UniqueFd shown{out[0]};
    const pid_t child = start_attach("ticking", terminal->slave.get(), out[1], true);
    ::close(out[1]);
    ASSERT_NE(read_all(shown.get(), "tick").find("tick"), std::string::npos);
    EXPECT_NE(modes_of(terminal->slave.get()), before);
    if (signal == SIGPIPE) {
      shown.reset();
    } else {
      ::kill(child, signal);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    EXPECT_EQ(modes_of(terminal->slave.get()), before) << signal;
    EXPECT_EQ(WIFSIGNALED(status) ? WTERMSIG(status) : 0, signal == SIGPIPE ? SIGPIPE : 0);
  }
}

TEST_F(PodsOnATerminal, GiveItBackWhenAViewerWithoutKeysIsInterrupted) {
  make("viewed", "printf '\\033[?1049h\\033]11;#00ff00\\007set'; sleep 1000");
  auto terminal = pod::open_terminal({24, 80});
  ASSERT_TRUE(terminal);
  const UniqueFd nothing{::open("/dev/null", O_RDONLY | O_CLOEXEC)};
  const pid_t child = start_attach("viewed", nothing.get(), terminal->slave.get(), false, "attach --view ");
  terminal->slave.reset();
  ASSERT_NE(read_all(terminal->master.get(), "set").find("set"), std::string::npos);
  ::kill(child, SIGINT);
  const std::string output = read_all(terminal->master.get());
  EXPECT_NE(output.find("\x1b[?1049l"), std::string::npos) << escape_for_display(output);
  EXPECT_NE(output.find("\x1b]111\x1b\\"), std::string::npos) << escape_for_display(output);
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
}

TEST_F(PodsOnATerminal, AreCollectedByWhoControlsThemAtTheEnd) {
  make("handed", "echo up; read x; exit 5");
  auto terminal = pod::open_terminal({24, 80});
  ASSERT_TRUE(terminal);
  const pid_t child = start_attach("handed", terminal->slave.get(), terminal->slave.get(), true, "attach --view ");
  terminal->slave.reset();
  ASSERT_NE(read_all(terminal->master.get(), "up").find("up"), std::string::npos);
  ASSERT_EQ(::write(terminal->master.get(), "~t", 2), 2);
  ASSERT_NE(read_all(terminal->master.get(), "you control").find("you control"), std::string::npos);
  ASSERT_EQ(::write(terminal->master.get(), "x\r", 2), 2);
  read_all(terminal->master.get());
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(WEXITSTATUS(status), 5);
  EXPECT_TRUE(eventually([&] { return !place("handed").exists(); }));
}

TEST_F(PodsOnATerminal, GiveBackEveryModeWhenALogEndsOrIsInterrupted) {
  make("colourful", "printf '\\033[?1049h\\033[?1000h\\033[31mred\\n'; while :; do sleep 0.1; done");
  ASSERT_TRUE(attach("colourful", R"("role":"view")")->sees("red"));
  for (const bool follows : {false, true}) {
    auto terminal = pod::open_terminal({24, 80});
    ASSERT_TRUE(terminal);
    const pid_t child = start_attach("colourful", terminal->slave.get(), terminal->slave.get(), true,
                                     follows ? "log --follow " : "log ");
    terminal->slave.reset();
    std::string output = read_all(terminal->master.get(), "red\r\r\n");
    if (follows) {
      ASSERT_EQ(::write(terminal->master.get(), "\x03", 1), 1);
    }
    output += read_all(terminal->master.get());
    for (const char* mode : {"\x1b[?1049l", "\x1b[?1000l", "\x1b[?25h", "\x1b[0m", "\x1b[!p"}) {
      EXPECT_NE(output.find(mode), std::string::npos) << escape_for_display(mode) << ": " << escape_for_display(output);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    EXPECT_TRUE(follows ? WIFSIGNALED(status) && WTERMSIG(status) == SIGINT : WIFEXITED(status)) << status;
  }
  EXPECT_EQ(sallyport("pod log colourful").output, "\x1b[?1049h\x1b[?1000h\x1b[31mred\r\n") << "into a pipe as it is";
}

TEST_F(PodsInTmux, ALogGivesTheTerminalBackWhereverItIsStoppedAndGoesOn) {
  make("stopped", "x=nothing; while :; do printf '\\033[?1049hsaid %s' $x; read x; done");
  auto controller = attach("stopped");
  ASSERT_TRUE(controller && controller->sees("said nothing"));
  const auto shows_the_other = [&](const char* is_so) {
    return eventually([&] { return tmux("display-message -p '#{alternate_on}'") == is_so; });
  };
  type("'" SALLYPORT_CLI " pod log --follow stopped' Enter");
  for (const char* word : {"one", "two"}) {
    ASSERT_TRUE(shows_the_other("1\n")) << screen();
    type("C-z");
    EXPECT_TRUE(shows_the_other("0\n")) << screen();
    ASSERT_TRUE(shows("Stopped")) << screen();
    controller->type(std::string(word) + "\r");
    type("'clear; fg' Enter");
    EXPECT_TRUE(shows(std::string("said ") + word)) << screen();
  }
}

TEST_F(PodsInTmux, ALogWithoutAnEndOfATitleHidesNothing) {
  make("titled", "printf 'one\\033ktitle\\033\\\\two\\n\\033[31mred\\n'");
  ASSERT_TRUE(attach("titled", R"("role":"view")")->sees("red"));
  type("'clear; " SALLYPORT_CLI " pod log titled; echo after-$((4+4))' Enter");
  ASSERT_TRUE(shows("after-8")) << screen();
  // In their order, one below the other: the cursor stays where the log ends.
  EXPECT_NE(screen().find("onetwo\nred\nafter-8\n"), std::string::npos) << screen();
}

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
