// fs.*, env.get, worker.*: done by the container's file worker, inside its walls. The warden decides which
// worker; what the parameters mean is the worker's business, and so is checking them.
#include "containers/workers.h"
#include "handlers/method.h"

namespace sallyport::handlers {
namespace {

using containers::Container;
using ipc::Call;
using ipc::Reply;
using wire::Value;

constexpr Millis kStartPoll{2};
constexpr std::string_view kShutdown = "worker.shutdown";
// Which container it is, is decided here: the worker knows only one.
constexpr std::string_view kNotForTheWorker[] = {"container", "workspace"};

// The container a call is about: the caller's own, or for the host the one it names. A host's `workspace`
// gets a container of its own, which is kept for later calls.
Task<Result<std::shared_ptr<Container>>> choose(Call& call, const RequestContext& context, Host& host) {
  const Value named = call.params().get("container"), workspace = call.params().get("workspace");
  if (!context.principal.is_host()) {
    if (named) co_return Error::invalid_param("params.container", "is decided by the door");
    if (workspace) co_return Error::invalid_param("params.workspace", "is decided by the door");
    auto own = host.containers.find(context.container_id);
    if (!own) co_return Error::make(Code::not_found, "the container is gone");
    co_return own;
  }
  if (named) {
    auto container = host.containers.find(text(named));
    if (!container) co_return Error::make(Code::not_found, "no such container");
    co_return container;
  }
  const std::string directory = text(workspace);
  if (directory.empty() || directory[0] != '/') {
    co_return Error::invalid_param("params.workspace", "must be an absolute path, or name a container instead");
  }
  for (const auto& [id, container] : host.containers.all()) {
    if (container->config.labels.contains("files") && container->config.workspace == directory &&
        !containers::is_over(container->state)) {
      const std::shared_ptr<Container> shared = container;
      // Another call is just making it.
      while (shared->state == containers::State::starting && !call.is_answered()) {
        co_await host.sessions.loop().sleep(kStartPoll);
      }
      co_return shared;
    }
  }
  containers::Config config;
  config.workspace = directory;
  config.labels.emplace("files", directory);
  co_return co_await start_container(host, std::move(config));
}

Task<Reply> forward(const Permit& permit, Call& call, RequestContext& context, Host& host) {
  auto container = co_await choose(call, context, host);
  if (!container) co_return std::move(container).error();
  auto turn = co_await host.workers.turn(call, *container);
  if (!turn) co_return std::move(turn).error();
  const std::shared_ptr<ipc::Session> session = turn->session();
  auto params = ipc::forward_params(call, *session, kNotForTheWorker);
  if (!params) co_return std::move(params).error();
  if (permit.method() == kShutdown) turn->retire_worker();
  auto answer = co_await ipc::ask(call, session, permit.method(), *params, ipc::Events::waited_for);
  if (!answer) co_return std::move(answer).error();
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
