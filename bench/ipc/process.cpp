#include "process.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <ctime>

#include "base/spin.h"
#include "os/process.h"

namespace sallyport::bench {
namespace {

std::chrono::nanoseconds clock_now(clockid_t clock) {
  timespec now{};
  ::clock_gettime(clock, &now);
  return std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec);
}

pid_t fork_child() {
  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid < 0) die("fork failed");
  if (pid == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent) ::_exit(1);
  }
  return pid;
}

void become(int from, int to) {
  if (from < 0) from = ::open("/dev/null", O_RDWR);
  ::dup2(from, to);
}

}  // namespace

void die(const std::string& what) {
  std::fprintf(stderr, "bench ipc: %s\n", what.c_str());
  std::exit(1);
}

Process Process::fork(const std::function<void()>& body) {
  const pid_t pid = fork_child();
  if (pid == 0) {
    body();
    ::_exit(0);
  }
  return Process(pid);
}

Process Process::exec(const std::vector<std::string>& command, Files files, int cpu,
                      const std::vector<std::string>& environment) {
  std::vector<char*> arguments;
  for (const std::string& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  const pid_t pid = fork_child();
  if (pid == 0) {
    pin(0, cpu);
    become(files.in, STDIN_FILENO);
    become(files.out, STDOUT_FILENO);
    if (files.extra >= 0) ::fcntl(files.extra, F_SETFD, 0);
    for (const std::string& variable : environment) ::putenv(const_cast<char*>(variable.c_str()));
    ::execvp(arguments[0], arguments.data());
    ::_exit(127);
  }
  return Process(pid);
}

void Process::stop() {
  if (pid_ <= 0) return;
  ::kill(pid_, SIGKILL);
  ::waitpid(std::exchange(pid_, -1), nullptr, 0);
}

void Process::ask_to_stop() {
  if (pid_ <= 0) return;
  ::kill(pid_, SIGTERM);
  for (int i = 0; i < 300; ++i) {
    if (::waitpid(pid_, nullptr, WNOHANG) == pid_) {
      pid_ = -1;
      return;
    }
    ::usleep(10'000);
  }
}

std::chrono::nanoseconds Process::cpu_time() const {
  clockid_t clock{};
  if (pid_ <= 0 || ::clock_getcpuclockid(pid_, &clock) != 0) return {};
  return clock_now(clock);
}

std::uint64_t Process::pss_kib() const {
  const auto kib = os::memory_pss_kib(pid_);
  if (!kib) die("cannot read the memory of process " + std::to_string(pid_));
  return *kib;
}

void pin(pid_t pid, int cpu) {
  cpu_set_t cpus;
  CPU_ZERO(&cpus);
  for (int i = 0; i < static_cast<int>(::sysconf(_SC_NPROCESSORS_ONLN)); ++i) {
    if (cpu == kAnyCpu || cpu == i) CPU_SET(i, &cpus);
  }
  ::sched_setaffinity(pid, sizeof cpus, &cpus);
}

std::chrono::nanoseconds own_cpu_time() { return clock_now(CLOCK_PROCESS_CPUTIME_ID); }

std::vector<Process> busy_loops(int count) {
  std::vector<Process> loops;
  for (int i = 0; i < count; ++i) {
    loops.push_back(Process::fork([] {
      for (volatile unsigned turns = 0;; turns = turns + 1) {
      }
    }));
  }
  return loops;
}

}  // namespace sallyport::bench
