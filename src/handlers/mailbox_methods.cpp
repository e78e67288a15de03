// signal.raise, mailbox.status, mailbox.resolve
#include "handlers/method.h"
#include "mailbox/mailbox.h"
#include "wire/page.h"

namespace sallyport::handlers {
namespace {

using ipc::Call;
using ipc::Reply;
using wire::Field;
using wire::JsonWriter;
using wire::Type;

constexpr Field kRaise[] = {{.name = "signal", .type = Type::string, .required = true, .least = 1, .most = 64},
                            {.name = "request_id", .type = Type::string, .most = 64},
                            {.name = "payload", .type = Type::object},
                            {.name = "wait", .type = Type::boolean}};

Task<Reply> raise(const Permit&, Call& call, RequestContext& context, Host& host) {
  if (context.principal.is_host()) {
    co_return Error::make(Code::invalid_request, "signals are raised by containers, through their own doors");
  }
  if (!context.is_place_known) {
    co_return Error::make(Code::policy_denied, "policy does not allow this method", "the peer's namespace is unknown");
  }
  const wire::Value params = call.params();
  const bool should_wait = params.get("wait").as_bool().value_or(true);
  std::string request_id = text(params.get("request_id"));
  if (params.get("request_id") && !mailbox::is_request_id(request_id)) {
    co_return Error::invalid_param("params.request_id", "must be a UUID in lower case");
  }
  if (params.get("payload") && request_id.empty()) {
    if (!should_wait) co_return Error::invalid_param("params.request_id", "is needed to ask for the answer later");
    request_id = mailbox::make_request_id();
  }
  mailbox::Origin origin;
  origin.session = call.session().name();
  origin.peer_pid = context.peer.pid;
  const std::string signal = text(params.get("signal"));
  const auto awaited = std::make_shared<ipc::OneShot<std::string>>();
  call.on_cancel([awaited] { awaited->resolve(R"({"result":null})"); });
  auto answer = co_await host.mailbox.raise(context.container_id, signal, std::move(request_id), params.get("payload"),
                                            !should_wait, std::move(origin), awaited);
  call.on_cancel(nullptr);
  if (!answer) co_return std::move(answer).error();
  // The very response that lies in the mailbox, under the id of this call.
  wire::Decoder decoder;
  auto response = decoder.parse(*answer);
  if (!response) co_return std::move(response).error();
  if (const wire::Value error = response->root().get("error")) co_return wire::read_error(error);
  co_return call.result([&](JsonWriter& json) { json.value(response->root().get("result")); });
}

constexpr Field kStatus[] = {{.name = "container", .type = Type::string, .most = 64}, wire::kAfter};

Task<Reply> status(const Permit&, Call& call, RequestContext& context, Host& host) {
  std::string container = text(call.params().get("container"));
  if (!context.principal.is_host()) {
    if (!container.empty()) return now(Error::invalid_param("params.container", "a container sees its own mailbox"));
    container = context.container_id;
  }
  if (!container.empty() && !host.mailbox.has(container)) {
    return now(Error::make(Code::not_found, "no such container"));
  }
  if (!container.empty() && call.params().get("after")) {
    return now(Error::invalid_param("params.after", "is for the list of all mailboxes"));
  }
  const std::string json = host.mailbox.status(container, text(call.params().get("after")));
  return now(call.result([&](JsonWriter& writer) { writer.raw(json); }));
}

constexpr Field kResolve[] = {{.name = "container", .type = Type::string, .required = true, .most = 64},
                              {.name = "request_id", .type = Type::string, .required = true, .most = 128},
                              {.name = "outcome", .type = Type::string, .required = true, .most = 16}};

Task<Reply> resolve(const Permit&, Call& call, RequestContext& context, Host& host) {
  if (!context.principal.is_host() || context.is_narrowed) {
    co_return Error::make(Code::policy_denied, "only the host says what came of a request");
  }
  const std::string outcome = text(call.params().get("outcome"));
  if (outcome != "done" && outcome != "failed") {
    co_return Error::invalid_param("params.outcome", "must be done or failed");
  }
  const std::string by = "host/uid " + std::to_string(context.peer.uid);
  const std::string container = text(call.params().get("container"));
  const std::string request_id = text(call.params().get("request_id"));
  CO_TRY(co_await host.mailbox.resolve(container, request_id, outcome == "done", by));
  co_return call.result([](JsonWriter& json) { json.begin_object().member("resolved", true).end_object(); });
}

constexpr Method kMethods[] = {
    // The journal records every signal, whichever way it came: a second record of the call would say less.
    {.name = "signal.raise", .handle = raise, .params = kRaise, .timeout = Millis(0)},
    {.name = "mailbox.status", .handle = status, .params = kStatus},
    {.name = "mailbox.resolve", .handle = resolve, .params = kResolve, .audit = Audit::durable},
};

}  // namespace

std::span<const Method> mailbox_methods() { return kMethods; }

}  // namespace sallyport::handlers
