#include "sandbox/job.h"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/ptrace.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <csignal>
#include <cstdlib>
#include <cstring>

#include "base/sanitized.h"
#include "base/unique_fd.h"
#include "sandbox/processes.h"
#include "sandbox/tracer.h"

namespace sallyport::sandbox {
namespace {

constexpr int kAbovePassed = 32;
constexpr int kTickMs = 20;
constexpr int kMaxStops = 50;

int execute_in(const char* directory, std::size_t length, const JobStart& start) {
  const char* name = start.argv[0];
  char path[PATH_MAX];
  const std::size_t name_length = std::strlen(name);
  if (length + 1 + name_length + 1 > sizeof(path)) return ENAMETOOLONG;
  std::memcpy(path, directory, length);
  path[length] = '/';
  std::memcpy(path + length + 1, name, name_length + 1);
  ::execve(path, start.argv, start.envp);
  return errno;
}

// As execvp does it, without its allocation: the last refusal is more telling than "not found".
int execute(const JobStart& start) {
  if (std::strchr(start.argv[0], '/') != nullptr) {
    ::execve(start.argv[0], start.argv, start.envp);
    return errno;
  }
  int found = ENOENT;
  for (const char* at = start.path_list; *at != '\0';) {
    const char* end = std::strchr(at, ':');
    const std::size_t length = end != nullptr ? static_cast<std::size_t>(end - at) : std::strlen(at);
    // An empty entry would mean the working directory, which the command may have written.
    if (length > 0) {
      const int error = execute_in(at, length, start);
      if (error != ENOENT && error != ENOTDIR) found = error;
    }
    at += length + (end != nullptr ? 1 : 0);
  }
  return found;
}

bool arrange(const JobStart& start) {
  if (start.fds == nullptr) return true;
  int waiting[kMaxPassedFds];
  for (std::size_t i = 0; i < start.fd_count; ++i) {
    waiting[i] = ::fcntl(start.fds[i], F_DUPFD_CLOEXEC, kAbovePassed);
    if (waiting[i] < 0) return false;
  }
  for (std::size_t i = 0; i < start.fd_count; ++i) {
    if (::dup2(waiting[i], static_cast<int>(i)) < 0) return false;
  }
  return true;
}

void meet_terminal(TerminalMode mode) {
  switch (mode) {
    case TerminalMode::detached:
      ::setsid();
      ::ioctl(0, TIOCSCTTY, 0);  // a terminal of its own becomes the controlling one; else refused
      break;
    case TerminalMode::foreground:
      ::setpgid(0, 0);
      ::tcsetpgrp(0, ::getpid());  // all signals are still blocked, SIGTTOU too
      break;
    case TerminalMode::own_group:
      ::setpgid(0, 0);
      break;
    case TerminalMode::shared:
      break;
  }
}

// Lets the traced child run until it has become the command, or has given up and ended.
void await_exec(pid_t pid) {
  int status = 0;
  Refusal ignored;
  siginfo_t info{};
  for (;;) {
    // Left in place when it is the end: the caller reaps it.
    if (::waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WSTOPPED | WNOWAIT | __WALL) != 0) return;
    if (info.si_code == CLD_EXITED || info.si_code == CLD_KILLED) return;
    if (::waitpid(pid, &status, __WALL) != pid) return;
    (void)handle_stop(pid, status, ignored);
    if (status >> 16 == PTRACE_EVENT_EXEC) return;
  }
}

// `told` closes at exec; before that the reason for giving up goes through it.
[[noreturn]] void become(const JobStart& start, const Reporter& reporter, int told) {
  const auto give_up = [&](Step step, int error) {
    const Failure failure{step, error};
    [[maybe_unused]] const ssize_t written = ::write(told, &failure, sizeof(failure));
    ::_exit(127);
  };
  if (reporter.is_injected(Step::spawn)) give_up(Step::spawn, reporter.injected_error());
  if (!arrange(start)) give_up(Step::spawn, errno);
  meet_terminal(start.terminal);
  if (reporter.is_injected(Step::directory)) give_up(Step::directory, reporter.injected_error());
  if (start.is_traced && !begin_traced()) give_up(Step::spawn, errno);
  if (::chdir(start.directory) != 0) give_up(Step::directory, errno);
  for (const auto& [resource, limit] : start.limits) {
    if (!is_of_commands_only(resource)) continue;
    if (::setrlimit(static_cast<__rlimit_resource>(resource), &limit) != 0) give_up(Step::limits, errno);
  }
  // Refused below a command of another sandbox, whose mark it then carries.
  const rlimit marked{start.mark, start.mark};
  if (start.mark != 0) ::setrlimit(RLIMIT_LOCKS, &marked);
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  if (load_filter(Filter::start) != 0) give_up(Step::seccomp, errno);
  if (reporter.is_injected(Step::exec)) give_up(Step::exec, reporter.injected_error());
  give_up(Step::exec, execute(start));
  __builtin_unreachable();
}

struct Beginning {
  const JobStart& start;
  const Reporter& reporter;
  int told;
};

int begin(void* given) {
  const auto* beginning = static_cast<const Beginning*>(given);
  become(beginning->start, beginning->reporter, beginning->told);
}

// On pid 1's memory, with a stack of its own, until exec: copying page tables takes longer than all the rest of it.
// Nothing inside can look into it meanwhile, because pid 1's memory is not dumpable. Not by vfork, which would make
// pid 1 sleep until exec, whatever is done to the new process. Pid 1 starts one at a time and waits for its exec or
// its end, so that one stack serves all.
pid_t clone_job(Beginning& beginning) {
  if constexpr (kIsSanitized) {  // their runtimes cannot follow a process that shares memory with another
    const auto pid = static_cast<pid_t>(::syscall(SYS_clone, SIGCHLD, nullptr, nullptr, nullptr, nullptr));
    if (pid == 0) begin(&beginning);
    return pid;
  } else {
    alignas(16) static char stack[32 * 1024];
    return ::clone(&begin, stack + sizeof(stack), CLONE_VM | SIGCHLD, &beginning);
  }
}

// What runs in the sandbox already can stop the new process before it has become the command. It is
// made to go on, and killed if that happens again and again: pid 1 must not wait for it for good.
// False: killed.
bool await_end_of(int told, pid_t pid) {
  for (int stops = 0; stops < kMaxStops;) {
    pollfd watched{told, POLLIN, 0};
    if (::poll(&watched, 1, kTickMs) > 0) return true;
    siginfo_t info{};
    const bool is_stopped =
        ::waitid(P_PID, static_cast<id_t>(pid), &info, WSTOPPED | WNOHANG) == 0 && info.si_pid == pid;
    if (!is_stopped) continue;
    ++stops;
    ::kill(pid, SIGCONT);
  }
  ::kill(pid, SIGKILL);
  return false;
}

}  // namespace

pid_t start_job(const JobStart& start, const Reporter& reporter, Failure& failure) {
  failure = {};
  int low[2];
  if (::pipe2(low, O_CLOEXEC) != 0) {
    failure = {Step::spawn, errno};
    return -1;
  }
  // Above all that the command is given.
  const int told = ::fcntl(low[1], F_DUPFD_CLOEXEC, kAbovePassed);
  ::close(low[1]);
  Beginning beginning{start, reporter, told};
  const pid_t pid = told < 0 ? -1 : clone_job(beginning);
  if (pid < 0) failure = {Step::spawn, errno};
  ::close(told);
  if (pid > 0 && start.is_traced) {
    if (adopt_traced(pid)) await_exec(pid);
  }
  if (pid > 0 && !await_end_of(low[0], pid)) {
    failure = {Step::spawn, EAGAIN};
  } else if (pid > 0 && ::read(low[0], &failure, sizeof(failure)) != sizeof(failure)) {
    failure = {};
  }
  ::close(low[0]);
  if (pid > 0 && failure.step == Step::none) return pid;
  if (pid > 0) ::waitpid(pid, nullptr, __WALL);
  return -1;
}

std::uint64_t make_mark() {
  constexpr std::uint64_t kMost = 1ULL << 62, kLeast = 1ULL << 40;  // no limit that anybody would set
  std::uint64_t random = 0;
  if (::getrandom(&random, sizeof(random), 0) != sizeof(random)) return 0;
  return kLeast + random % (kMost - kLeast);
}

bool kill_marked(std::uint64_t mark, std::uint64_t bits) {
  const int proc = ::open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (proc < 0) return false;
  bool was_there = false;
  for_each_process(proc, [&](const char* process) {
    const auto pid = static_cast<pid_t>(std::strtol(process, nullptr, 10));
    rlimit limit{};
    const bool is_there = ::prlimit(pid, RLIMIT_LOCKS, nullptr, &limit) == 0;
    if (is_there && (limit.rlim_max & bits) != (mark & bits)) return;
    if (!is_there && errno != ESRCH) return;
    // One that has gone since it was listed may have left a child behind that was not.
    was_there = true;
    if (is_there) ::kill(pid, SIGKILL);
  });
  ::close(proc);
  return was_there;
}

void end_weak(pid_t init, std::uint64_t mark) {
  constexpr int kPatienceMs = 5000, kTries = 2000;
  const UniqueFd process(static_cast<int>(::syscall(SYS_pidfd_open, init, 0)));
  pollfd ended{process.get(), POLLIN, 0};
  if (process) ::poll(&ended, 1, kPatienceMs);
  ::kill(init, SIGKILL);
  for (int i = 0; i < kTries && kill_marked(mark, kMarksOfOne); ++i) ::usleep(1000);
}

}  // namespace sallyport::sandbox
