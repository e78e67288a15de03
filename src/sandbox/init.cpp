// Pid 1 of a sandbox: starts commands, reaps, passes signals on, watches memory, and ends with its
// maker. It is under the same Landlock domain and seccomp filter as what it starts, without any
// capability, and its memory cannot be read from inside.
#include <fcntl.h>
#include <poll.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <ctime>
#include <new>
#include <utility>

#include "sandbox/child.h"
#include "sandbox/job.h"
#include "sandbox/memory_watch.h"
#include "sandbox/processes.h"
#include "sandbox/tracer.h"

namespace sallyport::sandbox {
namespace {

constexpr int kMemoryPollMs = 250;
// Between two looks for what a command that is being killed has started. What is still there after the second time
// cannot be killed, or not reaped by us.
constexpr int kSweepMs = 5;
constexpr std::int64_t kLongestSweepMs = 2000;
// While all is being stopped and is stopped, between two looks whether it is. How long it may take to stop, and in how
// many looks what is continued with our maker may run before that says a word.
constexpr int kStoppingMs = 1;
constexpr int kStillMs = 20;
constexpr std::int64_t kLongestStopMs = 500;
constexpr int kContinuedLooks = 200 / kStillMs;
// What reads the terminal and waits for its lock sleeps deep, and takes what is typed before it sees that it is to
// stop: that passes. For good sleeps one whose vfork-ed child is stopped.
constexpr std::int64_t kDeepSleepMs = 100;
// And so many looks: where the whole machine paused, time says nothing.
constexpr int kFewestLooks = 8;

struct Job {
  std::uint32_t id;
  pid_t pid;  // 0: a free place
  TerminalMode terminal;
  bool is_worker = false;
  std::uint64_t mark = 0;        // see job.h
  bool has_ended = false;        // which is still to be told
  int status = 0;                // of its end
  std::int64_t sweep_until = 0;  // by now_ms(), while it is killed with all that it started; else 0
};

class Init {
 public:
  explicit Init(InitContext& context) : context_(context), plan_(*context.plan), mark_(plan_.mark) {}

  [[noreturn]] void run() {
    sigset_t children;
    ::sigemptyset(&children);
    ::sigaddset(&children, SIGCHLD);
    const int deaths = ::signalfd(-1, &children, SFD_CLOEXEC | SFD_NONBLOCK);
    if (deaths < 0) context_.reporter->fail(Step::ready, errno);
    last_memory_check_ = now_ms();
    if (plan_.command.empty()) {
      ::setpgid(0, 0);
      say({Notice::Kind::started, Step::none, 0, 0, 1, 0, 0}, true);
      for (int fd = 0; fd < 3; ++fd) ::close(fd);
    } else {
      start_main();
    }
    for (;;) {
      pollfd watched[2] = {{kControlFd, POLLIN, 0}, {deaths, POLLIN, 0}};
      const int timeout = is_sweeping_                   ? kSweepMs
                          : is_stop_untold_              ? kStoppingMs
                          : stopped_at_ != 0             ? kStillMs
                          : plan_.supervised_memory != 0 ? kMemoryPollMs
                                                         : -1;
      const int ready = ::poll(watched, 2, timeout);
      if (ready < 0 && errno != EINTR) finish();
      if (plan_.supervised_memory != 0) check_memory();
      if (watched[1].revents != 0) {
        signalfd_siginfo info;
        while (::read(deaths, &info, sizeof(info)) > 0) {
        }
        reap();
      }
      if (is_sweeping_) sweep();
      if (watched[0].revents != 0) serve();
      if (stopped_at_ != 0) check_still();
    }
  }

 private:
  // While all is stopped so is our maker, who reads nothing: waiting for it, nobody would watch what is inside.
  void send(const msghdr& message) {
    if (::sendmsg(kControlFd, &message, MSG_NOSIGNAL | (stopped_at_ != 0 ? MSG_DONTWAIT : 0)) < 0) finish();
  }

  void say(const Notice& notice, bool hands_over = false) {
    Notice out = notice;
    iovec data{&out, sizeof(out)};
    msghdr message{};
    message.msg_iov = &data;
    message.msg_iovlen = 1;
    alignas(cmsghdr) char space[CMSG_SPACE(sizeof(int) * kMaxHandover)];
    const auto count = static_cast<std::size_t>(__builtin_popcount(context_.handed));
    if (hands_over && count > 0) {
      out.handed = context_.handed;
      message.msg_control = space;
      message.msg_controllen = CMSG_SPACE(sizeof(int) * count);
      cmsghdr* header = CMSG_FIRSTHDR(&message);
      header->cmsg_level = SOL_SOCKET;
      header->cmsg_type = SCM_RIGHTS;
      header->cmsg_len = CMSG_LEN(sizeof(int) * count);
      std::memcpy(CMSG_DATA(header), context_.handed_fds, sizeof(int) * count);
    }
    send(message);
    if (!hands_over) return;
    for (std::size_t i = 0; i < count; ++i) ::close(context_.handed_fds[i]);
    context_.handed = 0;
  }

  // Whoever lets go of the mount namespace last has to take it apart, which waits for all cores. The maker, who is
  // waited for, closes what it holds of it and then this socket; so it is us.
  [[noreturn]] void finish_last() {
    ::shutdown(kControlFd, SHUT_WR);
    while (!plan_.is_weak && ::recv(kControlFd, buffer_, sizeof(buffer_), 0) > 0) {
    }
    finish();
  }

  [[noreturn]] void finish() {
    // Without a pid namespace the kernel does not do it for us.
    const std::int64_t until = now_ms() + kLongestSweepMs;
    while (plan_.is_weak && mark_ != 0 && kill_marked(mark_, kMarksOfOne) && now_ms() < until) {
      while (::waitpid(-1, nullptr, WNOHANG | __WALL) > 0) {
      }
      ::usleep(1000);
    }
    ::_exit(0);
  }

  void start_main() {
    const JobStart start{plan_.argv.data(),
                         plan_.envp.data(),
                         plan_.directory.c_str(),
                         plan_.path_list.c_str(),
                         nullptr,
                         0,
                         context_.terminal,
                         plan_.is_traced,
                         plan_.limits,
                         plan_.is_weak ? next_mark() : 0};
    Failure failure;
    const pid_t pid = start_job(start, *context_.reporter, failure);
    if (pid < 0) context_.reporter->fail(failure.step, failure.error);
    // Not before: a command that shares a terminal is in our maker's group. With that we are not to be stopped. Nor
    // does the kernel continue, for a terminal that is gone, a group in which one has its parent elsewhere in the
    // session.
    context_.terminal == TerminalMode::shared ? ::setsid() : ::setpgid(0, 0);
    jobs_[0] = {0, pid, context_.terminal};
    say({Notice::Kind::started, Step::none, 0, 0, pid, 0, 0}, true);
    // Only job control still needs the terminal; an open pipe here would keep a reader waiting.
    if (context_.terminal != TerminalMode::foreground) {
      for (int fd = 0; fd < 3; ++fd) ::close(fd);
    }
  }

  void reap() {
    int status = 0;
    pid_t pid = 0;
    while ((pid = ::waitpid(-1, &status, WNOHANG | WUNTRACED | __WALL)) > 0) {
      if (plan_.is_traced && WIFSTOPPED(status)) {
        explain(pid, status);
        continue;
      }
      for (Job& job : jobs_) {
        if (job.pid != pid || job.has_ended) continue;
        // What runs beside a worker may signal it as it may signal itself. One that is stopped answers nobody:
        // it ends, as if it had been killed, and the next call gets a new one.
        if (WIFSTOPPED(status) && job.is_worker) {
          ::kill(pid, SIGKILL);
          break;
        }
        if (WIFSTOPPED(status)) {
          // Its terminal is somebody else's from now on, who must not be overheard by what has left its group. Told
          // once: it may stop and go on as often as it likes.
          const bool is_known = stopped_at_ != 0 && !is_stop_untold_;
          if (job.id == 0 && job.terminal == TerminalMode::foreground && !is_known) {
            stop_all({Notice::Kind::stopped, Step::none, 0, 0, pid, 0, 0});
          }
          break;
        }
        job.has_ended = true;
        job.status = status;
        const bool is_first = job.id == 0;
        if (is_first) end_everything();
        if (job.sweep_until == 0) tell_end(job);
        if (is_first) finish_last();
        break;
      }
    }
  }

  void tell_end(Job& job) {
    say({Notice::Kind::exited, Step::none, job.id, job.status, job.pid, 0, 0});
    job = {};
  }

  // Kills what the commands that are to be killed have started, wherever it went. That they have ended is told once
  // nothing of them is left.
  void sweep() {
    is_sweeping_ = false;
    for (Job& job : jobs_) {
      if (job.pid == 0 || job.sweep_until == 0) continue;
      if (kill_marked(job.mark) && now_ms() < job.sweep_until) {
        is_sweeping_ = true;
        continue;
      }
      job.sweep_until = 0;
      if (job.has_ended) tell_end(job);
    }
  }

  // So that "the first command has exited" means that nothing of the sandbox runs any more.
  void end_everything() {
    if (plan_.is_weak) return;
    // Everything inside is a descendant, and orphans are ours: without a child there is nobody to kill.
    if (::waitpid(-1, nullptr, WNOHANG | __WALL) < 0 && errno == ECHILD) return;
    ::kill(-1, SIGKILL);
    while (::waitpid(-1, nullptr, __WALL) > 0 || errno == EINTR) {
    }
  }

  void explain(pid_t pid, int status) {
    Refusal refusal;
    if (!handle_stop(pid, status, refusal)) return;
    Notice notice{
        Notice::Kind::refused, Step::none, 0, refusal.error, pid, static_cast<std::uint32_t>(refusal.call), 0};
    iovec data[2] = {{&notice, sizeof(notice)}, {refusal.target, std::strlen(refusal.target)}};
    msghdr message{};
    message.msg_iov = data;
    message.msg_iovlen = 2;
    send(message);
  }

  static std::int64_t now_ms() {
    timespec now{};
    ::clock_gettime(CLOCK_MONOTONIC, &now);
    return std::int64_t{now.tv_sec} * 1000 + now.tv_nsec / 1'000'000;
  }

  void check_memory() {
    // By the clock: a sandbox that keeps pid 1 busy must not escape it.
    const std::int64_t millis = now_ms();
    if (millis - last_memory_check_ < kMemoryPollMs) return;
    last_memory_check_ = millis;
    const std::uint64_t used = tree_memory(plan_.supervised_memory);
    if (used <= plan_.supervised_memory) return;
    say({Notice::Kind::over_memory, Step::none, 0, static_cast<std::int32_t>(used >> 20), 0, 0, 0});
    ::kill(-1, SIGKILL);  // everything but ourselves
  }

  static bool is_alive(const Job& job) { return job.pid != 0 && !job.has_ended; }

  Job* find(std::uint32_t id) {
    for (Job& job : jobs_) {
      if (is_alive(job) && job.id == id) return &job;
    }
    return nullptr;
  }

  void serve() {
    iovec data{buffer_, sizeof(buffer_) - 1};
    alignas(cmsghdr) char space[CMSG_SPACE(sizeof(int) * kMaxPassedFds)];
    msghdr message{};
    message.msg_iov = &data;
    message.msg_iovlen = 1;
    message.msg_control = space;
    message.msg_controllen = sizeof(space);
    const ssize_t length = ::recvmsg(kControlFd, &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
    if (length == 0 || (length < 0 && errno != EAGAIN && errno != EINTR)) finish();
    if (length < static_cast<ssize_t>(sizeof(Request))) return;
    int fds[kMaxPassedFds];
    std::size_t fd_count = 0;
    for (cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr; header = CMSG_NXTHDR(&message, header)) {
      if (header->cmsg_type != SCM_RIGHTS) continue;
      fd_count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
      std::memcpy(fds, CMSG_DATA(header), fd_count * sizeof(int));
    }
    buffer_[length] = '\0';
    Request request;
    std::memcpy(&request, buffer_, sizeof(request));
    switch (request.kind) {
      case Request::Kind::exec:
        execute(request, static_cast<std::size_t>(length), fds, fd_count);
        break;
      case Request::Kind::signal:
        pass_signal(request);
        break;
      case Request::Kind::stop:
        restless_looks_ = 0;
        stop_all({Notice::Kind::stopped, Step::none, 0, request.value, 0, 0, 0});
        break;
      case Request::Kind::resume:
        if (const Job* job = find(0); job != nullptr && job->terminal == TerminalMode::foreground) {
          ::tcsetpgrp(0, job->pid);
        }
        stopped_at_ = 0;
        is_stop_untold_ = false;
        signal_all(SIGCONT);
        break;
      case Request::Kind::worker:
        start_worker(request, fds, fd_count);
        break;
      case Request::Kind::go:
        break;
    }
    for (std::size_t i = 0; i < fd_count; ++i) ::close(fds[i]);
  }

  void pass_signal(const Request& request) {
    Job* job = find(request.job);
    if (job == nullptr) return;
    ::kill(job->terminal == TerminalMode::shared ? job->pid : -job->pid, request.value);
    if (request.value != SIGKILL || job->mark == 0) return;
    job->sweep_until = now_ms() + kLongestSweepMs;
    sweep();
  }

  // One for each command.
  std::uint64_t next_mark() {
    if (mark_ == 0) mark_ = make_mark() & kMarksOfOne;
    return mark_ == 0 ? 0 : mark_ | ++marks_;
  }

  // Who hears of it gives the terminal away: not before all of it has stopped.
  void stop_all(const Notice& stopped) {
    signal_all(SIGSTOP);
    if (plan_.is_weak) return say(stopped);
    if (stopped_at_ == 0) {
      stopped_at_ = now_ms();
      was_still_ = false;
      restless_looks_ = 0;
    }
    stop_ = stopped;
    is_stop_untold_ = true;
  }

  // A process can have itself continued, by a timer for one, and then reads what is typed into the terminal that is
  // somebody else's now. What is in our maker's group is continued with it, which then says whether it may go on.
  void check_still() {
    const std::int64_t now = now_ms();
    const bool is_early = restless_looks_ < kFewestLooks || now - stopped_at_ <= kDeepSleepMs;
    if (!does_anything_run(!was_still_ && is_early ? DeepSleep::counts : DeepSleep::is_still)) {
      if (!std::exchange(was_still_, true)) restless_looks_ = 0;
      if (std::exchange(is_stop_untold_, false)) say(stop_);
      return;
    }
    const Job* first = find(0);
    const bool is_shared = first != nullptr && first->terminal == TerminalMode::shared;
    if (!was_still_ || now - restless_at_ >= kStillMs) {
      ++restless_looks_;
      restless_at_ = now;
    }
    const bool takes_too_long = restless_looks_ >= kFewestLooks && now - stopped_at_ > kLongestStopMs;
    // All of the time counts in which it went on since our maker said something, however often it stopped meanwhile.
    const bool went_on = !is_shared || restless_looks_ > kContinuedLooks;
    if (was_still_ ? went_on : takes_too_long) {
      stopped_at_ = 0;
      is_stop_untold_ = false;
      say({Notice::Kind::went_on, Step::none, 0, 0, 0, 0, 0});
      ::kill(-1, SIGKILL);
    } else if (is_stop_untold_) {
      signal_all(SIGSTOP);
    }
  }

  // Without a pid namespace only what is known to be ours.
  void signal_all(int number) {
    if (!plan_.is_weak) {
      ::kill(-1, number);
      return;
    }
    for (const Job& job : jobs_) {
      if (is_alive(job)) ::kill(job.terminal == TerminalMode::shared ? job.pid : -job.pid, number);
    }
  }

  void refuse(const Request& request, Step step, int error) {
    say({Notice::Kind::failed, step, request.job, error, 0, 0, 0});
  }

  Job* free_place() {
    for (Job& job : jobs_) {
      if (job.pid == 0) return &job;
    }
    return nullptr;
  }

  void start_worker(const Request& request, const int* fds, std::size_t fd_count) {
    Job* place = free_place();
    if (place == nullptr || context_.worker == nullptr || fd_count != 1) return refuse(request, Step::spawn, EINVAL);
    const pid_t pid = ::fork();
    if (pid == 0) become_worker(fds[0]);
    if (pid < 0) return refuse(request, Step::spawn, errno);
    *place = {request.job, pid, TerminalMode::shared, true};
    say({Notice::Kind::started, Step::none, request.job, 0, pid, 0, 0});
  }

  // In the new process. It keeps its socket and nothing else of pid 1.
  [[noreturn]] void become_worker(int socket) {
    constexpr int kSocket = 3;
    if (::dup2(socket, kSocket) < 0) ::_exit(126);
    ::close_range(0, kSocket - 1, 0);
    ::close_range(kSocket + 1, ~0U, 0);
    for (int fd = 0; fd < kSocket; ++fd) {
      if (::open("/dev/null", O_RDWR) != fd) ::_exit(126);
    }
    sigset_t none;
    ::sigemptyset(&none);
    ::sigprocmask(SIG_SETMASK, &none, nullptr);
    if (!plan_.directory.empty() && ::chdir(plan_.directory.c_str()) != 0) ::_exit(126);
    if (!confine_worker(plan_.landlock_abi)) ::_exit(126);
    ::_exit(context_.worker(kSocket, plan_.workspace.c_str(), plan_.refuse_hard_links, plan_.envp.data()));
  }

  void execute(const Request& request, std::size_t length, const int* fds, std::size_t fd_count) {
    Job* place = free_place();
    const std::size_t words = std::size_t{request.arguments} + request.variables;
    if (place == nullptr) return refuse(request, Step::spawn, EAGAIN);
    if (request.arguments == 0 || words > kMaxWords || fd_count < 3) return refuse(request, Step::spawn, EINVAL);
    char* at = buffer_ + sizeof(Request);
    char* const end = buffer_ + length;
    const char* directory = at;
    at += std::strlen(at) + 1;
    const char* path_list = plan_.path_list.c_str();
    std::size_t slot = 0;
    for (std::size_t i = 0; i < words; ++i) {
      if (at >= end) return refuse(request, Step::spawn, EINVAL);
      if (i == request.arguments) words_[slot++] = nullptr;
      if (i >= request.arguments && std::strncmp(at, "PATH=", 5) == 0) path_list = at + 5;
      words_[slot++] = at;
      at += std::strlen(at) + 1;
    }
    words_[slot] = nullptr;
    if (request.variables == 0) words_[slot + 1] = nullptr;
    const JobStart start{words_,
                         words_ + request.arguments + 1,
                         directory[0] != '\0' ? directory : plan_.directory.c_str(),
                         path_list,
                         fds,
                         fd_count,
                         TerminalMode::detached,
                         false,
                         plan_.limits,
                         next_mark()};
    Failure failure;
    const pid_t pid = start_job(start, *context_.reporter, failure);
    if (pid < 0) return refuse(request, failure.step, failure.error);
    *place = {request.job, pid, TerminalMode::detached, false, start.mark};
    say({Notice::Kind::started, Step::none, request.job, 0, pid, 0, 0});
  }

  InitContext& context_;
  const Plan& plan_;
  std::int64_t stopped_at_ = 0;   // by now_ms(), while all is stopped; else 0
  bool was_still_ = false;        // since then
  int restless_looks_ = 0;        // since then, or since our maker said something
  std::int64_t restless_at_ = 0;  // when the last of them was
  Notice stop_{};                 // to be told
  bool is_stop_untold_ = false;
  std::int64_t last_memory_check_ = 0;
  bool is_sweeping_ = false;
  std::uint64_t mark_ = 0;   // of this sandbox
  std::uint16_t marks_ = 0;  // given out
  Job jobs_[kMaxJobs] = {};
  char* words_[kMaxWords + 2];
  char buffer_[kMaxRequestBytes + 1];
};

}  // namespace

void run_init(InitContext& context) {
  // Not on the stack, every page of which would be touched for its buffers: most launches need none of them.
  alignas(Init) static char place[sizeof(Init)];
  (new (place) Init(context))->run();
}

}  // namespace sallyport::sandbox
