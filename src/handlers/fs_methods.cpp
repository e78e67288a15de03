// fs.*, env.get, worker.*: done by the container's file worker, inside its walls. The warden decides which
// worker; what the parameters mean is the worker's business, and so is checking them.
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>

#include "base/path_pattern.h"
#include "containers/workers.h"
#include "handlers/method.h"
#include "os/paths.h"
#include "wire/crypto.h"

namespace sallyport::handlers {
namespace {

using containers::Container;
using containers::Workers;
using ipc::Call;
using ipc::Reply;
using wire::Value;

constexpr Millis kStartPoll{2};
constexpr std::string_view kShutdown = "worker.shutdown";
// Which container it is, is decided here: the worker knows only one.
constexpr std::string_view kNotForTheWorker[] = {"container", "workspace", "profile"};
// Of a container that was made for a directory: which one.
constexpr const char* kLabel = "files";
// How long it is kept for the next call, which would wait a few milliseconds for another.
constexpr Millis kKeptWarm = std::chrono::minutes(10);

// A directory by what it is, not by how it is spelled, and the profile of its worker: another one once that says
// something else.
Result<std::string> identify(const Host& host, const std::string& directory, const std::string& profile) {
  if (directory.empty() || directory[0] != '/') {
    return Error::invalid_param("params.workspace", "must be an absolute path; or name a container instead");
  }
  struct stat status{};
  if (::stat(directory.c_str(), &status) != 0) return Error::from_errno("workspace", errno, directory);
  if (!S_ISDIR(status.st_mode)) return Error::from_errno("workspace", ENOTDIR, directory);
  const policy::Profile* known = host.profiles.find(profile);
  const std::string version = to_hex(wire::sha256(as_bytes(known == nullptr ? "" : known->text))).substr(0, 16);
  return std::to_string(status.st_dev) + ":" + std::to_string(status.st_ino) + ":" + profile + ":" + version;
}

// The container a call is about: the caller's own, or for the host the one it names. A host's `workspace`
// gets a container of its own for each profile, which is kept for later calls.
Task<Result<std::shared_ptr<Container>>> choose(Call& call, const RequestContext& context, Host& host) {
  const Value named = call.params().get("container"), workspace = call.params().get("workspace");
  if (!context.principal.is_host()) {
    for (const std::string_view name : kNotForTheWorker) {
      if (call.params().get(name)) {
        co_return Error::invalid_param("params." + std::string(name), "is decided by the door");
      }
    }
    auto own = host.containers.find(context.container_id);
    if (!own) co_return Error::make(Code::not_found, "the container is gone");
    co_return own;
  }
  const Value profile = call.params().get("profile");
  if (named) {
    if (workspace || profile) {
      co_return Error::invalid_param("params.container", "does not go together with a workspace or a profile");
    }
    auto container = host.containers.find(text(named));
    if (!container) co_return Error::make(Code::not_found, "no such container");
    co_return container;
  }
  if (!workspace) {
    co_return Error::invalid_param("params.workspace", "is missing: name a directory, or a container instead");
  }
  containers::Config config;
  if (profile) config.profile = text(profile);
  CO_TRY(const std::string identity, identify(host, text(workspace), config.profile));
  for (const auto& [id, container] : host.containers.all()) {
    const auto label = container->config.labels.find(kLabel);
    if (label == container->config.labels.end() || label->second != identity) continue;
    if (containers::is_over(container->state)) continue;
    const std::shared_ptr<Container> shared = container;
    // Another call is just making it.
    while (shared->state == containers::State::starting && !call.is_answered()) {
      co_await host.sessions.loop().sleep(kStartPoll);
    }
    co_return shared;
  }
  std::error_code failure;
  config.workspace = std::filesystem::canonical(text(workspace), failure);
  if (failure) co_return Error::from_errno("workspace", failure.value(), text(workspace));
  config.labels.emplace(kLabel, identity);
  config.is_temporary = true;
  config.idle = kKeptWarm;
  co_return co_await start_container(host, std::move(config));
}

// Which entry of fs.deny hides what a path names. That it is hidden is not decided here: inside, it is not there.
std::optional<std::string> hidden_by(const Container& container, std::string_view path) {
  const std::filesystem::path whole =
      (std::filesystem::path(container.config.workspace) / std::filesystem::path(path)).lexically_normal();
  for (const std::string& denied : container.denied) {
    if (os::is_within(whole.native(), denied)) return denied;
  }
  if (container.config.workspace.empty()) return std::nullopt;
  std::filesystem::path above;  // each directory on the way hides what is below it
  for (const auto& part : whole.lexically_relative(container.config.workspace)) {
    above /= part;
    for (const std::string& pattern : container.denied_patterns) {
      if (matches_path(pattern, above.native()))
        return pattern.starts_with("**/") ? pattern : "${workspace}/" + pattern;
    }
  }
  return std::nullopt;
}

// The host is told which rule of the profile it was. A container learns no more than it can see.
Status check_hidden(const Call& call, const RequestContext& context, const Container& container) {
  const bool hides_nothing = container.denied.empty() && container.denied_patterns.empty();
  if (!context.principal.is_host() || hides_nothing) return ok();
  for (const char* name : {"path", "from", "to", "root"}) {
    const auto path = call.params().get(name).as_string();
    if (!path) continue;
    if (const auto rule = hidden_by(container, *path)) {
      return Error::make(Code::policy_denied,
                         "the profile '" + container.config.profile + "' hides it (fs.deny: " + *rule + ")");
    }
  }
  return ok();
}

// A worker waits for what it is sent, and for the reader of hits that it sends as they come. (A file that it sends it
// sends in between.)
Workers::Pace pace_of(const Call& call) {
  const bool is_sent_hits = call.message().method == "fs.grep" && call.params().get("stream").as_bool() == true;
  return !call.message().streams.empty() || is_sent_hits ? Workers::Pace::callers : Workers::Pace::its_own;
}

void explain(Error& error, std::string_view method, const RequestContext& context, const Container& container) {
  constexpr std::string_view kReading[] = {"fs.read", "fs.stat", "fs.list", "fs.glob", "fs.grep"};
  if (!context.principal.is_host() || std::ranges::find(kReading, method) != std::end(kReading)) return;
  const auto is = [&](const char* name) { return error.details_json.find(name) != std::string::npos; };
  if (!is("\"EROFS\"") && !is("\"EACCES\"") && !is("\"EBUSY\"") && !is("\"protected\"")) return;
  error.message += "; what can be written is up to fs.write of the profile '" + container.config.profile +
                   "', and in every workspace secrets and what the host would run (.env, .git/config) are protected";
}

// A turn, and room for the answer. Whoever has no room, because what it was answered before is not read, leaves its
// turn to others, such as the host.
Task<Result<Workers::Turn>> turn_with_room(Call& call, Host& host, std::shared_ptr<Container> container) {
  {
    auto turn = co_await host.workers.turn(call, container, pace_of(call));
    if (!turn || call.take_room()) co_return std::move(turn);
  }
  const bool has_room = co_await call.await_room();
  if (!has_room) co_return Error::make(Code::cancelled, "given up before there was room for its answer");
  auto turn = co_await host.workers.turn(call, container, pace_of(call));
  co_return std::move(turn);
}

Task<Reply> forward(const Permit& permit, Call& call, RequestContext& context, Host& host) {
  auto container = co_await choose(call, context, host);
  if (!container) co_return std::move(container).error();
  CO_TRY(check_hidden(call, context, **container));
  auto turn = co_await turn_with_room(call, host, *container);
  if (!turn) co_return std::move(turn).error();
  // Whoever was told that it is too late must not find it done.
  if (call.is_given_up()) co_return Error::make(Code::cancelled, "given up before it began");
  const std::shared_ptr<ipc::Session> session = turn->session();
  auto params = ipc::forward_params(call, *session, kNotForTheWorker);
  if (!params) co_return std::move(params).error();
  if (permit.method() == kShutdown) turn->retire_worker();
  ipc::Asking asking(call, session, permit.method(), *params, ipc::Events::waited_for);
  auto& answer = co_await asking;
  if (!answer) co_return std::move(answer).error();
  if (answer->error) explain(*answer->error, permit.method(), context, **container);
  Reply reply = ipc::forward_result(call, *session, *answer);
  session->shared().decoder().recycle(std::move(answer->document));
  co_return reply;
}

constexpr Method row(std::string_view name, Millis timeout = Millis(30'000)) {
  return {.name = name,
          .handle = forward,
          .params = {},
          .are_params_checked_by_handler = true,
          .timeout = timeout,
          .audit = Audit::buffered};
}

constexpr Millis kSearchTimeout{120'000};

constexpr Method kMethods[] = {
    row("fs.read"),
    row("fs.write"),
    row("fs.edit"),
    row("fs.multi_edit"),
    row("fs.glob", kSearchTimeout),
    row("fs.grep", kSearchTimeout),
    row("fs.stat"),
    row("fs.list"),
    row("fs.copy"),
    row("fs.move"),
    row("fs.remove"),
    row("fs.mkdir"),
    row("env.get"),
    row("worker.ping"),
    row(kShutdown),
};

}  // namespace

std::span<const Method> fs_methods() { return kMethods; }

}  // namespace sallyport::handlers
