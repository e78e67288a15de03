#include "cli/warden_link.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cinttypes>
#include <cstdio>
#include <optional>
#include <thread>

#include "os/files.h"
#include "os/peer.h"
#include "os/process.h"
#include "os/spawn.h"

extern char** environ;

namespace sallyport::cli {
namespace {

constexpr Millis kStartTimeout{10'000};
constexpr std::size_t kLastWordsBytes = 4096;
// How long one that stops may take to finish what it has in hand before the next can start, and how often we look.
constexpr Millis kPatienceWithOther{30'000};
constexpr Millis kLookAtOther{20}, kRetryUnknown{250};

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
  // Cut meanwhile: then all of it is new.
  const off_t from = ::lseek(log.fd.get(), 0, SEEK_END) < log.before ? 0 : log.before;
  const ssize_t count = ::pread(log.fd.get(), text.data(), text.size(), from);
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

Error died(const std::string& words) {
  return Error::make(Code::unavailable, "the warden died while starting: " + words, "it ended");
}

// Waits for the byte that says the doors are open. Anything else are its last words; if there are none, its log has
// them.
Status wait_until_ready(int ready, const LogFile& log) {
  const auto until = std::chrono::steady_clock::now() + kStartTimeout;
  std::string words;
  for (;;) {
    const auto left = std::chrono::ceil<Millis>(until - std::chrono::steady_clock::now());
    pollfd event{ready, POLLIN, 0};
    const int polled = left.count() > 0 ? ::poll(&event, 1, static_cast<int>(left.count())) : 0;
    if (polled < 0 && errno == EINTR) continue;
    if (polled == 0) return Error::make(Code::timeout, "the warden did not get ready in time: " + last_words(log));
    std::array<char, kLastWordsBytes> text{};
    const ssize_t count = ::read(ready, text.data(), text.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return died(words.empty() ? last_words(log) : words);
    if (words.empty() && text[0] == '1') return ok();
    words.append(text.data(), std::min(static_cast<std::size_t>(count), kLastWordsBytes - words.size()));
  }
}

Status check_pong(Client& client) {
  TRY(const Answer answer, client.call("test.ping", {}, {.deadline = kQuickAnswer, .token = {}}));
  if (answer.value().get("pong").as_bool() == true) return ok();
  return Error::make(Code::protocol_error, "the warden did not answer a ping with a pong");
}

enum class Start : std::uint8_t { ready, place_is_taken };

Result<Start> start_warden(const os::Paths& paths) {
  TRY(const std::string program, os::sibling_program("sallyportd"));
  TRY(const LogFile log, open_log(paths));
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return Error::from_errno("cannot make a pipe", errno);
  const UniqueFd read_end{ends[0]};
  UniqueFd write_end{ends[1]};
  TRY(const pid_t pid, spawn_daemon(program, log, write_end.get()));
  write_end.reset();
  const Status ready = wait_until_ready(read_end.get(), log);
  int status = 0;
  const bool is_over = !ready && ready.error().code == Code::unavailable;
  if (is_over && ::waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == kExitPlaceTaken) {
    return Start::place_is_taken;
  }
  TRY(ready);
  return Start::ready;
}

// One that was killed a moment ago may still let us connect, and never answers.
Result<std::unique_ptr<Client>> reach_warden(const os::Paths& paths) {
  TRY(auto client, connect_warden(paths));
  const Status pong = check_pong(*client);
  if (pong) return client;
  return explain_silence(pong.error(), *client, paths);
}

// Who wrote its number into the lock; a number alone could be another's by now.
struct Holder {
  pid_t pid = 0;
  std::uint64_t start_time = 0;
};
std::optional<Holder> holder_of(const os::Paths& paths) {
  const auto text = os::read_private_file(paths.lock_file(), 128);
  Holder holder;
  if (!text || std::sscanf(text->c_str(), "%d %" SCNu64, &holder.pid, &holder.start_time) != 2) return std::nullopt;
  if (!os::is_process_alive(holder.pid, holder.start_time)) return std::nullopt;
  return holder;
}

// Another warden has the place: one that was started at the same moment and will answer, or one that stops. Waits for
// either; UNAVAILABLE once the place may be free.
Result<std::unique_ptr<Client>> wait_for_other(const os::Paths& paths, SteadyTime until) {
  const auto holder = holder_of(paths);
  if (!holder) std::this_thread::sleep_for(kRetryUnknown);
  for (;;) {
    auto client = reach_warden(paths);
    if (client || client.error().code != Code::unavailable) return client;
    if (!holder || !os::is_process_alive(holder->pid, holder->start_time)) return client;
    if (std::chrono::steady_clock::now() >= until) {
      const std::string pid = std::to_string(holder->pid);
      return Error::make(Code::conflict, "another warden (pid " + pid + ") holds " + paths.runtime_dir +
                                             " and does not answer: it may still be stopping; if it hangs: kill -9 " +
                                             pid);
    }
    std::this_thread::sleep_for(kLookAtOther);
  }
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

Error explain_silence(Error error, const Client& client, const os::Paths& paths) {
  if (error.code != Code::timeout) return error;
  const auto peer = os::identify_peer(client.fd());
  const std::string pid = peer ? std::to_string(peer->identity.pid) : "?";
  return Error::make(Code::timeout, "the warden (pid " + pid + ") accepts connections and does not answer; see " +
                                        paths.log_file() + ", and if it hangs: kill -9 " + pid);
}

Result<std::unique_ptr<Client>> connect_warden(const os::Paths& paths) {
  auto client = Client::connect_unix(paths.control_socket());
  // A sandbox that could write there may have put a socket of its own in the warden's place.
  const Status own = client ? os::require_server_beside_us((*client)->fd()) : Status(client.error());
  if (own) {
    (*client)->on_event(tell_of);
    return client;
  }
  const Code code = own.error().code;
  if (code == Code::unavailable || (!client && code == Code::not_found)) {
    return Error::make(Code::unavailable, "no warden is running; start one with: sallyport up",
                       "no answer at " + paths.control_socket());
  }
  if (!client) return client;
  return Error::make(code, "what answers at " + paths.control_socket() + " is no warden of this host",
                     own.error().describe());
}

Result<Started> ensure_warden(const os::Paths& paths) {
  auto running = reach_warden(paths);
  if (running) return Started{std::move(*running), true};
  if (running.error().code != Code::unavailable) return std::move(running).error();
  const SteadyTime until = std::chrono::steady_clock::now() + kPatienceWithOther;
  for (;;) {
    TRY(const Start started, start_warden(paths));
    const bool is_taken = started == Start::place_is_taken;
    auto client = is_taken ? wait_for_other(paths, until) : reach_warden(paths);
    if (client) return Started{std::move(*client), false};
    const bool is_free = is_taken && client.error().code == Code::unavailable;
    if (!is_free) return std::move(client).error();
    if (std::chrono::steady_clock::now() >= until) {
      return Error::make(Code::conflict, "another warden is running in " + paths.runtime_dir);
    }
  }
}

Result<wire::Document> call_for_all(Client& client, std::string_view method, std::string_view name,
                                    std::string_view key) {
  std::string after;
  Status status = ok();
  const std::string all = wire::to_json([&](wire::JsonWriter& json) {
    json.begin_object().key(name).begin_array();
    for (bool is_first = true, has_more = true; has_more; is_first = false) {
      auto page = client.call(method, is_first ? "{}" : wire::to_json([&](wire::JsonWriter& params) {
                                params.begin_object().member("after", after).end_object();
                              }));
      if (!page) {
        status = std::move(page).error();
        return;
      }
      const wire::Value items = page->value().get(name);
      for (const wire::Value item : items.items()) {
        json.value(item);
        after = item.get(key).as_string().value_or("");
      }
      has_more = page->value().get("has_more").as_bool().value_or(false) && items.size() != 0;
      if (has_more) continue;
      json.end_array();
      for (const auto& [other, value] : page->value().members()) {
        if (other != name && other != "has_more") json.key(other).value(value);
      }
    }
    json.end_object();
  });
  TRY(std::move(status));
  wire::Decoder decoder;
  return decoder.parse(all);
}

}  // namespace sallyport::cli
