#include "pod/roster.h"

#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>

#include "egress/protocol.h"
#include "os/files.h"
#include "pod/limits.h"
#include "pod/methods.h"

namespace sallyport::pod {
namespace {

constexpr Millis kWatchPause{1000};

bool has_daemon(Life life) { return life != Life::lost && life != Life::collectable; }

}  // namespace

Status Roster::open() {
  TRY(const UniqueFd directory, os::open_private_directory(pods_dir_));
  clean_up(pods_dir_, clock_.unix_millis());
  for (const auto& [name, seen] : look_at_all(pods_dir_)) {
    if (seen.life == Life::lost) sessions_.log().warn("a pod was lost", {{"pod", name}});
    if (!has_daemon(seen.life)) continue;
    sessions_.log().info("pod adopted", {{"pod", name}});
    // An end that came before this warden is no news.
    watch(name, From::found, seen.life == Life::exited);
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

Task<Result<UniqueFd>> Roster::claim_for(const Startup& startup) {
  for (int i = 0; i < kLockTries; ++i) {
    CO_TRY(std::optional<UniqueFd> lock, claim(startup));
    if (lock) co_return std::move(*lock);
    co_await sessions_.loop().sleep(kLockPause);
  }
  co_return taken(startup.name, look(Place(pods_dir_, startup.name)).life);
}

Task<Result<Record>> Roster::create(Startup startup, std::function<bool()> is_wanted) {
  clean_up(pods_dir_, clock_.unix_millis());
  fill_random(startup.token);
  auto lock = co_await claim_for(startup);
  if (!lock) co_return std::move(lock).error();
  auto spawned = spawn(startup, *lock);
  if (!spawned) {
    Place(pods_dir_, startup.name).remove();
    co_return std::move(spawned).error();
  }
  // From here on it is the pod that holds it.
  lock->reset();
  auto record = co_await wait_until_ready(startup, std::move(spawned->pipe));
  if (record && !is_wanted()) record = Error::make(Code::cancelled, "given up while the pod started");
  if (!record) {
    const Status ended = co_await end_start(startup, spawned->pid);
    if (!ended) sessions_.log().error("a pod is left over", {{"pod", startup.name}, {"error", ended.error().message}});
  }
  reap(spawned->pid);
  if (record) watch(startup.name, From::created);
  co_return record;
}

Task<Result<Record>> Roster::wait_until_ready(const Startup& startup, UniqueFd said_here) {
  CO_TRY(const auto pipe, ipc::Watch::open(sessions_.loop(), std::move(said_here)));
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
  co_return verify(startup);
}

// By the session that spawn() made for it: its number is in use until its leader is reaped, so nobody else is hit,
// whatever a record says.
Task<Status> Roster::end_start(const Startup& startup, pid_t session) {
  ::kill(-session, SIGKILL);
  const Place place(pods_dir_, startup.name);
  for (int i = 0; i < kEndTries; ++i) {
    const auto lock = place.lock();
    if (lock) place.remove();
    if (lock || lock.error().code == Code::not_found) co_return ok();
    co_await sessions_.loop().sleep(kLockPause);
  }
  co_return Error::make(Code::timeout, "it was killed and still holds its lock");
}

bool Roster::is_starting(const std::string& name) const {
  const auto found = watched_.find(name);
  const auto watched = found == watched_.end() ? nullptr : found->second.lock();
  return watched && !watched->record;
}

Result<Record> Roster::find(const std::string& name) const {
  TRY(check_name(name));
  TRY(auto record, reach(Place(pods_dir_, name)));
  if (!record) return Error::make(Code::unavailable, "the pod is starting");
  return std::move(*record);
}

Task<Result<std::shared_ptr<Link>>> Roster::link(ipc::Session& asker, std::string name) {
  const auto keep = asker.shared_from_this();
  const auto open_link = [&]() -> Linked* {
    const auto links = links_.find(&asker);
    if (links == links_.end()) return nullptr;
    const auto found = links->second.find(name);
    return found != links->second.end() && found->second.link->is_open() ? &found->second : nullptr;
  };
  const Result<Record> named = find(name);
  // One that has no record any more can still be there for who uses it; but another pod may have its name by now.
  const Linked* const known = open_link();
  if (known != nullptr && (!named || named->token == known->token)) co_return known->link;
  if (!named) co_return named.error();
  const Record& record = *named;
  CO_TRY(auto session, co_await connect_session(sessions_, record));
  if (asker.is_closed()) co_return Error::make(Code::cancelled, "nobody asks any more");
  // Another call of this session may have been quicker: they share one.
  const Linked* const quicker = open_link();
  if (quicker != nullptr && quicker->token == record.token) {
    session->close();
    co_return quicker->link;
  }
  vouch(*session, voucher_);
  const auto [links, is_first] = links_.try_emplace(&asker);
  if (is_first) {
    asker.on_close([this, key = &asker] {
      const auto node = links_.extract(key);
      for (const auto& [pod, linked] : node.mapped()) linked.link->close();
    });
  }
  auto made = std::make_shared<Link>(session);
  links->second.insert_or_assign(name, Linked{record.token, made});
  session->on_close([this, key = &asker, name, link = made.get()] {
    // Not now: it may be the link itself that found it closed.
    sessions_.loop().post([this, key, name, link] { unlink(key, name, link); });
  });
  co_return made;
}

void Roster::unlink(const ipc::Session* asker, const std::string& name, const Link* link) {
  const auto links = links_.find(asker);
  if (links == links_.end()) return;
  const auto found = links->second.find(name);
  if (found != links->second.end() && found->second.link.get() == link) links->second.erase(found);
}

Task<Result<std::shared_ptr<ipc::Session>>> Roster::connect_for_worker(std::string name) {
  CO_TRY(const Record record, find(name));
  CO_TRY(auto session, co_await connect_session(sessions_, record));
  session->set_window({});
  vouch(*session, voucher_);
  co_return session;
}

Fire Roster::watch(std::string name, From from, bool has_told_end) {
  const Place place(pods_dir_, name);
  const auto watched = std::make_shared<Watched>(Watched{.name = name, .record = {}, .link = {}});
  watched->has_told_end = has_told_end;
  std::erase_if(watched_, [](const auto& entry) { return entry.second.expired(); });
  watched_[name] = watched;
  while (!is_closed_) {
    Sighting seen = look(place);
    // Another pod may have its name by now.
    const bool is_another = watched->record && seen.record && watched->record->token != seen.record->token;
    if (is_another || !has_daemon(seen.life)) {
      tell_end(*watched, is_another || !seen.record ? std::nullopt : seen.record->wait_status);
      co_return;
    }
    if (seen.record) {
      const bool is_new = !watched->record;
      watched->record = std::move(seen.record);
      if (is_new && from == From::found) hooks_.on_found(*watched->record);
      const bool was_reached = co_await listen(watched);
      if (!was_reached) sessions_.log().warn("cannot reach a pod", {{"pod", name}});
    }
    const bool is_urgent = !watched->record && seen.life != Life::unknown;
    if (!is_closed_) co_await sessions_.loop().sleep(is_urgent ? kFindPause : kWatchPause);
  }
}

// Until the connection ends. False if there was none.
Task<bool> Roster::listen(std::shared_ptr<Watched> watched) {
  auto session = co_await connect_session(sessions_, *watched->record);
  if (!session) co_return false;
  const auto link = std::make_shared<Link>(std::move(*session));
  watched->link = link;
  tell_net_policy(watched);
  while (!is_closed_) {
    const std::string params = wire::to_json([&](wire::JsonWriter& json) {
      json.begin_object()
          .member("voucher", voucher_)
          .member("after", watched->taken)
          .member("knows_exit", watched->has_told_end)
          .end_object();
    });
    const auto answer = co_await link->ask(nullptr, "pod.reports", params);
    if (!answer || is_closed_) break;
    take(*watched, answer->result);
  }
  watched->link.reset();
  co_return true;
}

void Roster::take(Watched& watched, wire::Value answer) {
  if (answer.get("lost").as_uint().value_or(0) != 0) hooks_.on_report(*watched.record, answer);
  for (const wire::Value report : answer.get("reports").items()) {
    hooks_.on_report(*watched.record, report);
    watched.taken = report.get("number").as_uint().value_or(watched.taken);
  }
  if (const wire::Value exit = answer.get("exit")) {
    watched.record->wait_status = static_cast<int>(exit.get("wait_status").as_int().value_or(0));
    tell_end(watched, watched.record->wait_status);
  }
}

void Roster::tell_end(Watched& watched, std::optional<int> wait_status) {
  if (std::exchange(watched.has_told_end, true)) return;
  hooks_.on_event(wait_status ? "pod.exited" : "pod.lost", wire::to_json([&](wire::JsonWriter& json) {
                    json.begin_object().member("pod", watched.name);
                    if (wait_status) write_exit(json, *wait_status);
                    json.end_object();
                  }));
  hooks_.on_end(watched.name, watched.record, wait_status);
}

Fire Roster::tell_net_policy(std::shared_ptr<Watched> watched) {
  const auto link = watched->link;
  const std::string params = wire::to_json([&](wire::JsonWriter& json) {
    json.begin_object();
    egress::write_policy(json.key("policy"), hooks_.net_policy(*watched->record));
    json.end_object();
  });
  const auto told = co_await link->ask(nullptr, "pod.net", params);
  // It is told again whenever it can be reached again.
  if (!told && !is_closed_) {
    sessions_.log().error("a pod was not told its net rules",
                          {{"pod", watched->name}, {"error", told.error().describe()}});
    link->close();
  }
}

void Roster::apply_net_policies() {
  for (const auto& [name, weak] : watched_) {
    const auto watched = weak.lock();
    if (watched && watched->link) tell_net_policy(watched);
  }
}

}  // namespace sallyport::pod
