// fs.*, env.get, worker.*: done by the container's file worker, inside its walls. The warden decides which
// worker; what the parameters mean is the worker's business, and so is checking them.
#include "containers/workers.h"
#include "handlers/method.h"

namespace sallyport::handlers {
namespace {

using containers::Container;
using ipc::Call;
using ipc::Reply;
using wire::JsonWriter;
using wire::Value;

constexpr std::string_view kStream = "$stream";
constexpr Millis kStartPoll{2};

// Copies a value, giving every {"$stream":n} in it the number that `translate` says.
void copy(JsonWriter& json, Value value, const std::function<std::uint32_t(Value)>& translate) {
  if (value.is_object()) {
    json.begin_object();
    for (const auto& [name, member] : value.members()) {
      json.key(name);
      if (name == kStream && value.size() == 1) {
        json.value(translate(value));
      } else {
        copy(json, member, translate);
      }
    }
    json.end_object();
  } else if (value.is_array()) {
    json.begin_array();
    for (const Value item : value.items()) copy(json, item, translate);
    json.end_array();
  } else {
    json.value(value);
  }
}

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

// Streams that the request carries flow on to the worker.
Result<std::string> translate_params(Call& call, ipc::Session& worker) {
  std::optional<Error> failure;
  const auto translate = [&](Value named) -> std::uint32_t {
    auto from = call.take_stream(named, "params");
    auto to = from ? worker.streams().open() : Result<std::shared_ptr<ipc::OutStream>>(from.error());
    if (!to) {
      failure = to.error();
      return 0;
    }
    // After the request is on its way: chunks follow the message that names them.
    call.session().shared().loop().post([from = *from, to = *to] { ipc::relay(from, to); });
    return (*to)->number();
  };
  std::string params = wire::to_json([&](JsonWriter& json) {
    json.begin_object();
    for (const auto& [name, value] : call.params().members()) {
      if (name == "container" || name == "workspace") continue;
      json.key(name);
      copy(json, value, translate);
    }
    json.end_object();
  });
  if (failure) return *failure;
  return params;
}

Reply translate_result(Call& call, ipc::Session& worker, const wire::Message& answer) {
  if (answer.error) return *answer.error;
  struct Flow {
    std::shared_ptr<ipc::InStream> from;
    std::shared_ptr<ipc::OutStream> to;
  };
  std::vector<Flow> flows;
  std::optional<Error> failure;
  Reply reply = call.result([&](JsonWriter& json) {
    copy(json, answer.result, [&](Value named) -> std::uint32_t {
      const auto number = static_cast<std::uint32_t>(named.get(kStream).as_int().value_or(0));
      auto from = worker.streams().take(number);
      auto to = call.open_stream();
      if (!from || !to) {
        failure = Error::make(Code::internal_error, "a stream of the answer could not be passed on");
        return 0;
      }
      flows.push_back({from, *to});
      return (*to)->number();
    });
  });
  if (failure) return *failure;
  call.after_reply([flows] {
    for (const Flow& flow : flows) ipc::relay(flow.from, flow.to);
  });
  return reply;
}

Task<Reply> forward(const Permit& permit, Call& call, RequestContext& context, Host& host) {
  auto container = co_await choose(call, context, host);
  if (!container) co_return std::move(container).error();
  auto worker = co_await host.workers.of(*container);
  if (!worker) co_return std::move(worker).error();
  const std::shared_ptr<ipc::Session> session = *worker;
  auto params = translate_params(call, *session);
  if (!params) co_return std::move(params).error();
  const auto answered = std::make_shared<ipc::OneShot<Result<wire::Message>>>();
  auto id = session->request(permit.method(), *params, call.message().deadline_ms,
                             [answered](Result<wire::Message> answer) { answered->resolve(std::move(answer)); });
  if (!id) co_return std::move(id).error();
  call.on_cancel([session, id = *id] { session->send_event(id, "cancel", {}); });
  auto answer = co_await *answered;
  call.on_cancel(nullptr);
  if (!answer) co_return std::move(answer).error();
  Reply reply = translate_result(call, *session, *answer);
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
    row("worker.shutdown"),
};

}  // namespace

std::span<const Method> fs_methods() { return kMethods; }

}  // namespace sallyport::handlers
