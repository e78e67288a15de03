#include "pod/roster.h"

#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "os/files.h"
#include "pod/limits.h"
#include "pod/methods.h"

namespace sallyport::pod {
namespace {

constexpr Millis kWatchPause{1000};

}  // namespace

Status Roster::open() {
  TRY(const UniqueFd directory, os::open_private_directory(pods_dir_));
  clean_up(pods_dir_, clock_.unix_millis());
  for (const auto& [name, seen] : look_at_all(pods_dir_)) {
    if (seen.life != Life::running && seen.life != Life::starting) continue;
    sessions_.log().info("pod adopted", {{"pod", name}});
    watch(name);
  }
  return ok();
}

// The intermediate process ends as soon as it has forked the daemon.
Fire Roster::reap(pid_t pid) {
  auto watch = ipc::Watch::open(sessions_.loop(), UniqueFd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0))));
  if (watch) co_await (*watch)->readable();
  while (::waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {
  }
}

Task<Result<Record>> Roster::create(Startup startup) {
  clean_up(pods_dir_, clock_.unix_millis());
  fill_random(startup.token);
  CO_TRY(Launched launched, spawn(startup));
  reap(launched.pid);
  CO_TRY(const auto pipe, ipc::Watch::open(sessions_.loop(), std::move(launched.pipe)));
  const auto timer = sessions_.loop().after(kStartTimeout, [&pipe] { pipe->cancel(); });
  std::string said;
  bool is_whole = false;
  while (!is_whole) {
    const bool is_ready = co_await pipe->readable();
    if (!is_ready) break;
    std::array<char, 4096> text{};
    const ssize_t count = ::read(pipe->fd(), text.data(), text.size());
    if (count < 0 && (errno == EAGAIN || errno == EINTR)) continue;
    if (count > 0 && said.size() < kLastWordsBytes) said.append(text.data(), static_cast<std::size_t>(count));
    is_whole = count <= 0;
  }
  sessions_.loop().cancel(timer);
  if (!is_whole) co_return Error::make(Code::timeout, "the pod's daemon was not ready in time");
  CO_TRY(outcome(said));
  CO_TRY(Record record, verify(startup));
  watch(startup.name);
  co_return record;
}

Result<Record> Roster::find(const std::string& name) const {
  TRY(check_name(name));
  const Place place(pods_dir_, name);
  if (!place.exists()) return Error::make(Code::not_found, "no such pod");
  const Sighting seen = look(place);
  if (!seen.problem.empty()) {
    return Error::make(Code::conflict, "the pod's state file cannot be trusted", seen.problem);
  }
  if (seen.life == Life::lost) {
    return Error::make(Code::unavailable, "the pod's daemon died: " + escape_for_display(place.last_words()));
  }
  if (seen.life == Life::collectable) return Error::make(Code::conflict, "the pod has ended; its status waits");
  if (!seen.record) return Error::make(Code::unavailable, "the pod is starting");
  return *seen.record;
}

Task<Result<std::shared_ptr<Link>>> Roster::link(ipc::Session& asker, std::string name) {
  const auto key = std::pair(static_cast<const ipc::Session*>(&asker), name);
  if (const auto found = links_.find(key); found != links_.end()) {
    if (found->second->is_open()) co_return found->second;
    links_.erase(found);
  }
  CO_TRY(const Record record, find(name));
  const auto keep = asker.shared_from_this();
  CO_TRY(auto session, co_await connect_session(sessions_, record));
  if (asker.is_closed()) co_return Error::make(Code::cancelled, "nobody asks any more");
  auto made = std::make_shared<Link>(std::move(session));
  links_.insert_or_assign(key, made);
  asker.on_close([this, key] {
    if (const auto node = links_.extract(key); !node.empty()) node.mapped()->close();
  });
  co_return made;
}

Fire Roster::watch(std::string name) {
  const Place place(pods_dir_, name);
  while (!is_closed_) {
    const Sighting seen = look(place);
    const bool lives = seen.life == Life::running || seen.life == Life::starting;
    if (!lives) {
      on_event_(seen.record && seen.record->wait_status ? "pod.exited" : "pod.lost",
                wire::to_json([&](wire::JsonWriter& json) {
                  json.begin_object().member("pod", name);
                  if (seen.record && seen.record->wait_status) write_exit(json, *seen.record);
                  json.end_object();
                }));
      co_return;
    }
    if (seen.record) {
      auto session = co_await connect_session(sessions_, *seen.record);
      if (session) {
        const auto link = std::make_shared<Link>(std::move(*session));
        const auto ended = co_await link->ask(nullptr, "pod.wait", "{}");
        if (ended && !is_closed_) {
          on_event_("pod.exited", ended->result.to_json());
          co_return;
        }
      } else {
        sessions_.log().warn("cannot reach a pod", {{"pod", name}, {"error", session.error().describe()}});
      }
    }
    if (!is_closed_) co_await sessions_.loop().sleep(kWatchPause);
  }
}

}  // namespace sallyport::pod
