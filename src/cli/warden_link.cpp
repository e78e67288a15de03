#include "cli/warden_link.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <thread>

#include "os/files.h"
#include "os/spawn.h"

extern char** environ;

namespace sallyport::cli {
namespace {

constexpr Millis kStartTimeout{10'000};
constexpr Millis kPingTimeout{5'000};
constexpr std::size_t kLastWordsBytes = 4096;
constexpr int kStarts = 2, kTriesAfterLosing = 20;
constexpr Millis kRetryAfterLosing{10};

// The daemon's stderr: appended to a log of ours, whose end tells why it died.
struct LogFile {
  UniqueFd fd;
  off_t before = 0;
};

Result<LogFile> open_log(const os::Paths& paths) {
  TRY(const UniqueFd directory, os::open_private_directory(paths.state_dir));
  LogFile log;
  log.fd = UniqueFd(::open(paths.log_file().c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!log.fd) return Error::from_errno("cannot open " + paths.log_file(), errno);
  log.before = ::lseek(log.fd.get(), 0, SEEK_END);
  return log;
}

std::string last_words(const LogFile& log) {
  std::array<char, kLastWordsBytes> text{};
  const ssize_t count = ::pread(log.fd.get(), text.data(), text.size(), log.before);
  std::string words(text.data(), count > 0 ? static_cast<std::size_t>(count) : 0);
  while (!words.empty() && words.back() == '\n') words.pop_back();
  return words.empty() ? "it said nothing" : words;
}

Result<pid_t> spawn_daemon(const std::string& program, const LogFile& log, int ready) {
  constexpr int kReadyFd = 3;
  os::SpawnPlan plan(os::SpawnPlan::Place::own_session);
  plan.open("/dev/null", O_RDONLY, STDIN_FILENO);
  plan.open("/dev/null", O_WRONLY, STDOUT_FILENO);
  plan.give(log.fd.get(), STDERR_FILENO);
  plan.give(ready, kReadyFd);
  // The caller's current directory must stay removable.
  plan.start_in("/");
  return plan.spawn(program, {program, "--ready-fd", std::to_string(kReadyFd)}, environ);
}

// Waits for the byte that says the doors are open. End of file without it: the daemon is dead.
Status wait_until_ready(int ready, const LogFile& log) {
  const auto until = std::chrono::steady_clock::now() + kStartTimeout;
  for (;;) {
    const auto left = std::chrono::ceil<Millis>(until - std::chrono::steady_clock::now());
    pollfd event{ready, POLLIN, 0};
    const int polled = left.count() > 0 ? ::poll(&event, 1, static_cast<int>(left.count())) : 0;
    if (polled < 0 && errno == EINTR) continue;
    if (polled == 0) return Error::make(Code::timeout, "the warden did not get ready in time: " + last_words(log));
    char byte = 0;
    const ssize_t count = ::read(ready, &byte, 1);
    if (count < 0 && errno == EINTR) continue;
    if (count == 1) return ok();
    return Error::make(Code::unavailable, "the warden died while starting: " + last_words(log));
  }
}

Status check_pong(Client& client) {
  TRY(const Answer answer, client.call("test.ping", {}, {.deadline = kPingTimeout, .token = {}}));
  if (answer.value().get("pong").as_bool() == true) return ok();
  return Error::make(Code::protocol_error, "the warden did not answer a ping with a pong");
}

Status start_warden(const os::Paths& paths) {
  TRY(const std::string program, os::sibling_program("sallyportd"));
  TRY(const LogFile log, open_log(paths));
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return Error::from_errno("cannot make a pipe", errno);
  const UniqueFd read_end{ends[0]};
  UniqueFd write_end{ends[1]};
  TRY(const pid_t pid, spawn_daemon(program, log, write_end.get()));
  write_end.reset();
  const Status ready = wait_until_ready(read_end.get(), log);
  if (!ready) ::waitpid(pid, nullptr, WNOHANG);
  return ready;
}

// One that was killed a moment ago may still let us connect, and never answers.
Result<std::unique_ptr<Client>> reach_warden(const os::Paths& paths) {
  TRY(auto client, connect_warden(paths));
  TRY(check_pong(*client));
  return client;
}

}  // namespace

void tell_of(const wire::Message& event) {
  if (event.method == "approval.asked") {
    const std::string id = escape_for_display(event.params.get("id").as_string().value_or(""));
    std::fprintf(stderr, "waiting for a human: %s; see sallyport approvals show %s\n", id.c_str(), id.c_str());
  } else if (event.method == "audit.delayed") {
    std::fputs("the audit log cannot be written; this is done all the same, and recorded when it can be\n", stderr);
  }
}

Result<std::unique_ptr<Client>> connect_warden(const os::Paths& paths) {
  auto client = Client::connect_unix(paths.control_socket());
  if (client) {
    (*client)->on_event(tell_of);
    return client;
  }
  const Code code = client.error().code;
  if (code != Code::not_found && code != Code::unavailable) return client;
  return Error::make(Code::unavailable, "no warden is running; start one with: sallyport up",
                     "no answer at " + paths.control_socket());
}

Result<Started> ensure_warden(const os::Paths& paths) {
  auto running = reach_warden(paths);
  if (running) return Started{std::move(*running), true};
  if (running.error().code != Code::unavailable) return std::move(running).error();
  Status started = ok();
  for (int attempt = 0; attempt < kStarts; ++attempt) {
    started = start_warden(paths);
    auto client = reach_warden(paths);
    // Whoever else was starting one at the same moment may have been quicker: that one will do, once it has
    // come as far as its socket. Or one that was killed still held the lock: then it is free by the next start.
    for (int i = 0; !started && !client && i < kTriesAfterLosing; ++i) {
      std::this_thread::sleep_for(kRetryAfterLosing);
      client = reach_warden(paths);
    }
    if (client) return Started{std::move(*client), false};
    if (started) return std::move(client).error();
  }
  return started.error();
}

}  // namespace sallyport::cli
