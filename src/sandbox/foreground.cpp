#include "sandbox/foreground.h"

#include <poll.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <optional>

#include "os/process.h"
#include "sandbox/cover_watch.h"
#include "sandbox/tracer.h"

namespace sallyport::sandbox {
namespace {

using Clock = std::chrono::steady_clock;

// SIGTTIN comes to the whole group when one of it reads the terminal in the background: what is inside can bring that
// about, and must not stop only us.
constexpr int kPassedOn[] = {SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGTSTP, SIGTTIN};

// Blocks the signals that are to be read, for as long as it lives.
class SignalReader {
 public:
  SignalReader() {
    ::sigemptyset(&set_);
    for (int number : kPassedOn) ::sigaddset(&set_, number);
    ::sigaddset(&set_, SIGCHLD);  // a caller's handler must not reap our child
    ::sigaddset(&set_, SIGTTOU);  // taking the terminal back comes from the background
    ::sigprocmask(SIG_BLOCK, &set_, &before_);
    sigset_t read = set_;
    ::sigdelset(&read, SIGCHLD);
    ::sigdelset(&read, SIGTTOU);
    fd_ = UniqueFd(::signalfd(-1, &read, SFD_CLOEXEC | SFD_NONBLOCK));
  }
  SignalReader(const SignalReader&) = delete;
  SignalReader& operator=(const SignalReader&) = delete;
  ~SignalReader() {
    fd_.reset();
    ::sigprocmask(SIG_SETMASK, &before_, nullptr);
  }
  int fd() const { return fd_.get(); }

 private:
  sigset_t set_{};
  sigset_t before_{};
  UniqueFd fd_;
};

// Remembers the terminal's state and foreground group, and gives both back.
class Terminal {
 public:
  Terminal() : is_ours_(::isatty(0) != 0 && ::isatty(1) != 0 && ::tcgetpgrp(0) == ::getpgrp()) {
    if (is_ours_) has_modes_ = ::tcgetattr(0, &modes_) == 0;
  }
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;
  ~Terminal() { take_back(); }

  bool is_ours() const { return is_ours_; }
  static bool is_any() { return ::isatty(0) != 0 || ::isatty(1) != 0 || ::isatty(2) != 0; }
  // One of the streams is a terminal that another group has.
  static bool is_others() {
    for (int fd = 0; fd < 3; ++fd) {
      const pid_t group = ::isatty(fd) != 0 ? ::tcgetpgrp(fd) : -1;
      if (group > 0 && group != ::getpgrp()) return true;
    }
    return false;
  }
  // On whichever stream: held, nobody could write to it any more, and kept for one, nobody open it.
  static void let_go() {
    for (int fd = 0; fd < 3; ++fd) {
      if (::isatty(fd) == 0) continue;
      ::tcflow(fd, TCOON);
      ::ioctl(fd, TIOCNXCL);
    }
  }
  void take_back() const {
    if (!is_ours_) return;
    ::tcsetpgrp(0, ::getpgrp());
    if (has_modes_) ::tcsetattr(0, TCSADRAIN, &modes_);
  }

 private:
  bool is_ours_;
  bool has_modes_ = false;
  termios modes_{};
};

// In the caller's own group the command could signal the group, and with it the rest of a pipeline;
// only Landlock's signal scope keeps it from that. Without a stream that is a terminal it has none at all: not by
// /dev/tty either, or it could read what is typed while it is in the background.
TerminalMode choose_mode(const Terminal& terminal, const Machine& machine) {
  constexpr int kScopesSignals = 6;
  if (terminal.is_ours()) return TerminalMode::foreground;
  if (!Terminal::is_any()) return TerminalMode::detached;
  return machine.landlock_abi >= kScopesSignals ? TerminalMode::shared : TerminalMode::own_group;
}

class Supervisor {
 public:
  Supervisor(Running& running, const Spec& spec, const Terminal& terminal, TerminalMode mode,
             const SignalReader& signals, const ForegroundOptions& options)
      : running_(running), terminal_(terminal), mode_(mode), signals_(signals), options_(options), covers_(running) {
    if (spec.limits.duration.count() > 0) deadline_ = Clock::now() + spec.limits.duration;
  }

  void run(ExitReport& report) {
    bool is_over = false;
    int listener = running_.violations();
    CoverWatch::Changes changes;
    while (!is_over) {
      std::vector<pollfd> watched = {{running_.control(), POLLIN, 0},
                                     {signals_.fd(), POLLIN, 0},
                                     {listener, POLLIN, 0},
                                     {covers_.poll_fd(), POLLPRI, 0}};
      const std::size_t own = watched.size();
      for (const auto& other : options_.others) watched.push_back({other.fd(), POLLIN, 0});
      if (::poll(watched.data(), watched.size(), timeout()) < 0 && errno != EINTR) {
        report.wait_status = SIGKILL;
        break;
      }
      for (std::size_t i = own; i < watched.size(); ++i) {
        if (watched[i].revents != 0) options_.others[i - own].on_readable();
      }
      if (watched[2].revents != 0 && !violations_.serve(listener)) listener = -1;
      if (watched[3].revents != 0 || (covers_.next_look() && Clock::now() >= *covers_.next_look())) {
        covers_.check(changes);
      }
      if (watched[1].revents != 0) pass_signals();
      if (watched[0].revents != 0) is_over = handle(running_.next_event(), report);
      if (deadline_ && Clock::now() >= *deadline_) {
        report.was_over_time = true;
        report.wait_status = SIGKILL;
        break;
      }
    }
    if (listener >= 0) violations_.serve(listener);
    report.lost_mounts = std::move(changes.put_back);
    report.uncovered = covers_.uncovered();
    report.removed = std::move(changes.removed);
    report.violations = violations_.entries();
    report.violation_count = violations_.total();
    report.refusals = refusals_.entries();
    report.refusals_dropped = refusals_.dropped();
  }

 private:
  int timeout() const {
    std::optional<Clock::time_point> first = covers_.next_look();
    if (deadline_ && (!first || *deadline_ < *first)) first = deadline_;
    if (!first) return -1;
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(*first - Clock::now()).count();
    return left < 0 ? 0 : left > 60'000 ? 60'000 : static_cast<int>(left) + 1;
  }

  void pass_signals() {
    signalfd_siginfo info;
    while (::read(signals_.fd(), &info, sizeof(info)) == static_cast<ssize_t>(sizeof(info))) {
      if (info.ssi_signo == SIGTTIN && mode_ == TerminalMode::foreground) continue;
      const bool is_stop = info.ssi_signo == SIGTSTP || info.ssi_signo == SIGTTIN;
      if (is_stop && mode_ != TerminalMode::foreground) {
        if (running_.stop(++last_stop_)) awaited_stop_ = last_stop_;
        continue;
      }
      // The terminal sends to the whole group: the command has had it already.
      const bool is_shared_key = info.ssi_code == SI_KERNEL && mode_ == TerminalMode::shared;
      if (!is_shared_key) (void)running_.signal(static_cast<int>(info.ssi_signo));
    }
  }

  bool handle(const Event& event, ExitReport& report) {
    switch (event.kind) {
      case Event::Kind::exited:
        if (event.job != 0) return false;
        report.wait_status = event.value;
        return true;
      case Event::Kind::stopped:
        // Another number: one that stopped itself, or what was answered while we were stopped.
        if (event.job == 0 && (mode_ == TerminalMode::foreground || event.value == awaited_stop_)) stop_with_it();
        return false;
      case Event::Kind::over_memory:
        report.was_over_memory = true;
        return false;
      case Event::Kind::went_on:
        report.went_on = true;
        return false;
      case Event::Kind::refused:
        explain(event);
        return false;
      case Event::Kind::ended:
        report.wait_status = SIGKILL;
        return true;
      case Event::Kind::started:
      case Event::Kind::failed:
        return false;
    }
    return false;
  }

  // "Not there" is a refusal only if the host has it.
  void explain(const Event& event) {
    struct stat info{};
    if (event.value == ENOENT && (event.target.empty() || ::lstat(event.target.c_str(), &info) != 0)) return;
    const char* rule = event.value == ENOENT ? "not mounted" : event.value == EROFS ? "read-only" : "refused";
    refusals_.add({traced_call_name(event.call), event.target, rule, event.value, 0});
  }

  // As if the command were a direct child of the user's shell: Ctrl-Z gives the prompt back. In the background it
  // does not go on. Where nobody would give it the terminal again it goes on at once.
  void stop_with_it() {
    awaited_stop_.reset();
    if (os::is_group_orphaned()) {
      (void)running_.resume();
      return;
    }
    Terminal::let_go();  // before what waits until all is written
    terminal_.take_back();
    // The terminal has stopped the rest of a pipeline itself. Later all of it has to be: a shell takes a job of which
    // one process is stopped for running, and does not continue it.
    for (pid_t whom = mode_ == TerminalMode::foreground ? 0 : ::getpid();; whom = 0) {
      ::kill(whom, SIGSTOP);
      if (!Terminal::is_others()) break;
      if (mode_ != TerminalMode::foreground) (void)running_.stop(++last_stop_);  // continued with us
    }
    (void)running_.resume();
  }

  Running& running_;
  const Terminal& terminal_;
  TerminalMode mode_;
  const SignalReader& signals_;
  const ForegroundOptions& options_;
  CoverWatch covers_;
  ViolationLog violations_;
  ViolationLog refusals_;
  std::optional<Clock::time_point> deadline_;
  int last_stop_ = 0;
  std::optional<int> awaited_stop_;  // all was asked to stop, and we will too
};

// The streams are the caller's own: whoever has them may change the mode of what they lead to, a terminal's for good.
class StreamModes {
 public:
  StreamModes() {
    for (std::size_t i = 0; i < kStreams; ++i) is_known_.at(i) = ::fstat(static_cast<int>(i), &before_.at(i)) == 0;
  }
  void restore(ExitReport& report) const {
    constexpr std::array<const char*, kStreams> kNames = {"input", "output", "error"};
    constexpr mode_t kMode = 07777;
    for (std::size_t i = 0; i < kStreams; ++i) {
      const int fd = static_cast<int>(i);
      struct stat now{};
      const struct stat& old = before_.at(i);
      const bool is_same =
          is_known_.at(i) && ::fstat(fd, &now) == 0 && now.st_dev == old.st_dev && now.st_ino == old.st_ino;
      if (!is_same || ((now.st_mode ^ old.st_mode) & kMode) == 0) continue;
      const bool is_restored = ::fchmod(fd, old.st_mode & kMode) == 0;
      (is_restored ? report.restored : report.unrestored)
          .push_back(std::string("the mode of its standard ") + kNames.at(i));
    }
  }

 private:
  static constexpr std::size_t kStreams = 3;
  std::array<struct stat, kStreams> before_{};
  std::array<bool, kStreams> is_known_{};
};

}  // namespace

bool ExitReport::was_signalled() const { return WIFSIGNALED(wait_status); }

int ExitReport::exit_code() const { return was_signalled() ? 128 + WTERMSIG(wait_status) : WEXITSTATUS(wait_status); }

Result<ExitReport> run_foreground(const Spec& spec, const ForegroundOptions& options) {
  SignalReader signals;
  Terminal terminal;  // given back before SIGTTOU could stop us for it
  if (Terminal::is_others()) {
    return Error::make(Code::conflict,
                       "it would have a terminal that another job uses, and could read what is typed there; start it "
                       "in the foreground, redirect its input, output and errors, or make it a pod");
  }
  const StreamModes streams;
  LaunchOptions launch_options = options.launch;
  launch_options.terminal = choose_mode(terminal, launch_options.machine);
  TRY(Running running, launch(spec, launch_options));
  if (options.on_started) options.on_started(running);
  ExitReport report;
  report.protections = running.protections();
  report.findings = running.findings();
  report.missed = running.missed();
  Supervisor(running, spec, terminal, launch_options.terminal, signals, options).run(report);
  running.let_go();
  streams.restore(report);
  Terminal::let_go();
  report.scan = running.scan();
  return report;
}

}  // namespace sallyport::sandbox
