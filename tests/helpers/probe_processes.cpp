// Other processes, their memory and environment; resources without end; what survives.
#include <dirent.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/shm.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "probe.h"

extern char** environ;

namespace probe {
namespace {

pid_t pid_of(const std::string& text) { return static_cast<pid_t>(std::stol(text)); }

int trace(const Arguments& args) { return judge(::ptrace(PTRACE_ATTACH, pid_of(args[0]), nullptr, nullptr)); }
int send_signal(const Arguments& args) { return judge(static_cast<long>(::kill(pid_of(args[0]), SIGCONT))); }
int read_memory(const Arguments& args) {
  char byte = 0;
  iovec local{&byte, 1};
  iovec remote{reinterpret_cast<void*>(0x400000), 1};
  const ssize_t length = ::process_vm_readv(pid_of(args[0]), &local, 1, &remote, 1, 0);
  // An address that is not mapped still means that we were let in.
  return length >= 0 || errno == EFAULT ? judge(0L) : judge(-1L);
}

// Whether pid 1 shows anything of the process it was copied from.
int read_init(const Arguments& args) {
  for (const char* name : {"environ", "mem", "maps", "auxv", "root/etc", "cwd/.", "fd/3", "exe"}) {
    const int file = ::open(("/proc/1/" + std::string(name)).c_str(), O_RDONLY);
    if (file >= 0) return std::printf("%s\n", name), judge(0L);
  }
  const int file = ::open("/proc/1/cmdline", O_RDONLY);
  char text[4096];
  const ssize_t length = file < 0 ? 0 : ::read(file, text, sizeof(text));
  return judge(length > 0 &&
               ::memmem(text, static_cast<std::size_t>(length), args[0].data(), args[0].size()) != nullptr);
}

// Takes from pid 1 what it needs to start and see anything.
int limit_init(const Arguments&) {
  const rlimit none{0, 0};
  return judge(long{::prlimit(1, RLIMIT_NOFILE, &none, nullptr)});
}

// Takes the processor from pid 1, which watches how much memory all of them use.
int slow_init(const Arguments&) {
  constexpr long kOther = 1L << 32;  // the kernel reads only the lower half
  const int idle_class = 3 << 13;
  sched_param none{};
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(0, &one);
  for (const long pid : {1L, kOther | 1}) {
    const long results[] = {::syscall(SYS_sched_setscheduler, pid, SCHED_IDLE, &none),
                            ::syscall(SYS_sched_setparam, pid, &none),
                            ::syscall(SYS_sched_setaffinity, pid, sizeof(one), &one),
                            ::syscall(SYS_setpriority, PRIO_PROCESS, pid, 19),
                            ::syscall(SYS_setpriority, PRIO_PGRP, pid, 19),
                            ::syscall(SYS_setpriority, PRIO_USER, 0, 19),
                            ::syscall(SYS_ioprio_set, 1, pid, idle_class),
                            ::syscall(SYS_ioprio_set, 3, 0, idle_class)};
    for (const long result : results) {
      if (result == 0) return judge(0L);
    }
  }
  return judge(-1L);
}

// What programs do with themselves.
int schedule_itself(const Arguments&) {
  cpu_set_t all;
  sched_param none{};
  const long thread = ::syscall(SYS_gettid);
  const bool has_worked = ::sched_getaffinity(0, sizeof(all), &all) == 0 &&
                          ::sched_setaffinity(static_cast<pid_t>(thread), sizeof(all), &all) == 0 &&
                          ::setpriority(PRIO_PROCESS, 0, 19) == 0 && ::sched_setscheduler(0, SCHED_BATCH, &none) == 0;
  return judge(has_worked);
}

// Whoever opens a file with a lease waits, or fails if it does not wait.
int take_lease(const Arguments&) {
  const int file = ::open("leased", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  return judge(file >= 0 && ::fcntl(file, F_SETLEASE, F_WRLCK) == 0);
}

// Asks for what is refused, in many processes, until it is killed.
int flood(const Arguments& args) {
  for (int i = std::atoi(args[0].c_str()); i > 0; --i) {
    if (::fork() == 0) {
      for (;;) ::unshare(CLONE_NEWNS);
    }
  }
  for (;;) ::pause();
}

int has_variable(const Arguments& args) { return judge(std::getenv(args[0].c_str()) != nullptr); }

int extra_descriptors(const Arguments&) {
  DIR* listing = ::opendir("/proc/self/fd");
  if (listing == nullptr) return kBroken;
  bool found = false;
  while (const dirent* entry = ::readdir(listing)) {
    const int fd = std::atoi(entry->d_name);
    if (fd > 2 && fd != ::dirfd(listing)) found = std::printf("descriptor %d\n", fd) > 0;
  }
  return judge(found);
}

int shared_memory(const Arguments& args) {
  return judge(static_cast<long>(::shmget(static_cast<key_t>(std::stol(args[0])), 0, 0)));
}

int fork_bomb(const Arguments& args) {
  const long wanted = std::stol(args[0]);
  long made = 0;
  for (; made < wanted; ++made) {
    const pid_t pid = ::fork();
    if (pid == 0) {
      ::pause();
      ::_exit(0);
    }
    if (pid < 0) break;
  }
  std::printf("%ld processes\n", made);
  ::signal(SIGTERM, SIG_IGN);
  ::kill(0, SIGTERM);
  while (::wait(nullptr) > 0) {
  }
  return judge(made == wanted);
}

int take_memory(const Arguments& args) {
  const std::size_t wanted = std::stoull(args[0]);
  void* memory = ::mmap(nullptr, wanted, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return judge(-1L);
  std::memset(memory, 1, wanted);
  return judge(0L);
}

// Shared pages, which no per-process data limit counts.
int take_shared_memory(const Arguments& args) {
  const std::size_t wanted = std::stoull(args[0]);
  void* memory = ::mmap(nullptr, wanted, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return judge(-1L);
  std::memset(memory, 1, wanted);
  ::sleep(10);  // the supervisor looks four times a second
  return judge(0L);
}

// Leaves a process behind that holds a lock on the file, in a session of its own.
int leave_daemon(const Arguments& args) {
  int ready[2];
  if (::pipe(ready) != 0) return kBroken;
  if (::fork() == 0) {
    ::setsid();
    if (::fork() == 0) {
      const int file = ::open(args[0].c_str(), O_RDWR | O_CREAT, 0666);
      ::flock(file, LOCK_EX);
      for (int number = 1; number < 32; ++number) ::signal(number, SIG_IGN);
      (void)!::write(ready[1], "x", 1);
      for (;;) ::pause();
    }
    ::_exit(0);
  }
  char byte = 0;
  return ::read(ready[0], &byte, 1) == 1 ? 0 : kBroken;
}

// A new process of the sandbox is stopped before it has become its command.
int stop_everything(const Arguments&) {
  ::alarm(100);
  for (;;) ::kill(-1, SIGSTOP);
}

// The group may hold processes of the host.
int signal_group(const Arguments&) {
  ::signal(SIGUSR1, SIG_IGN);
  ::kill(0, SIGUSR1);
  return 0;
}

int kill_init(const Arguments&) {
  ::kill(1, SIGKILL);
  ::kill(1, SIGSTOP);
  ::kill(1, SIGTERM);
  return 0;  // still here: the sandbox goes on as if nothing had happened
}

int die_by(const Arguments& args) {
  ::raise(std::stoi(args[0]));
  return kBroken;
}

// Not an attack: a debugger on one's own child must work.
int debug_child(const Arguments&) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::ptrace(PTRACE_TRACEME, 0, nullptr, nullptr);
    ::raise(SIGSTOP);
    ::_exit(5);
  }
  int status = 0;
  if (::waitpid(child, &status, 0) != child || !WIFSTOPPED(status)) return kBroken;
  ::ptrace(PTRACE_CONT, child, nullptr, nullptr);
  return ::waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 5 ? 0 : kBroken;
}

// Nor is this: it sleeps where no signal reaches it, for as long as its child does not execute anything.
int wait_for_child(const Arguments&) {
  std::puts("begin");
  std::fflush(stdout);
  if (::vfork() == 0) {
    for (;;) ::pause();
  }
  return kBroken;
}

// From the handler itself: who only notes a signal there, and then reads, may have missed it.
int tell_continued(const Arguments&) {
  struct sigaction action{};
  action.sa_handler = [](int) { [[maybe_unused]] const ssize_t told = ::write(1, "again\n", 6); };
  action.sa_flags = SA_RESTART;
  ::sigaction(SIGCONT, &action, nullptr);
  std::puts("begin");
  std::fflush(stdout);
  char line[256];
  if (std::fgets(line, sizeof line, stdin) == nullptr) return kBroken;
  std::printf("got %s", line);
  return 0;
}

constexpr Attack kAttacks[] = {
    {"ptrace", 1, trace},
    {"kill", 1, send_signal},
    {"process-vm-readv", 1, read_memory},
    {"read-init", 1, read_init},
    {"limit-init", 0, limit_init},
    {"slow-init", 0, slow_init},
    {"schedule-itself", 0, schedule_itself},
    {"lease", 0, take_lease},
    {"flood", 1, flood},
    {"has-variable", 1, has_variable},
    {"extra-descriptors", 0, extra_descriptors},
    {"sysv-shm", 1, shared_memory},
    {"fork-bomb", 1, fork_bomb},
    {"memory", 1, take_memory},
    {"shared-memory", 1, take_shared_memory},
    {"daemon", 1, leave_daemon},
    {"stop-everything", 0, stop_everything},
    {"signal-group", 0, signal_group},
    {"kill-init", 0, kill_init},
    {"die-by", 1, die_by},
    {"debug-child", 0, debug_child},
    {"wait-for-child", 1, wait_for_child},
    {"tell-continued", 1, tell_continued},
};

}  // namespace

std::span<const Attack> process_attacks() { return kAttacks; }

}  // namespace probe
