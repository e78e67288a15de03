// test.*, warden.*, session.narrow, token.create
#include <unistd.h>

#include "handlers/method.h"
#include "os/process.h"

namespace sallyport::handlers {
namespace {

using ipc::Call;
using ipc::Reply;
using wire::Field;
using wire::JsonWriter;
using wire::Type;

constexpr int kProtocolVersion = 1;
constexpr std::int64_t kLongestSleepMs = 60'000;
constexpr std::int64_t kLongestTokenMs = 60 * 60 * 1000;

Task<Reply> ping(const Permit&, Call& call, RequestContext&, Host&) {
  return now(call.result([](JsonWriter& json) { json.raw(R"({"pong":true})"); }));
}

// Sends back what came, byte for byte: as JSON, or as a stream if `data` names one.
constexpr Field kEcho[] = {{.name = "data", .type = Type::any, .required = true}};

Task<Reply> echo(const Permit&, Call& call, RequestContext&, Host&) {
  const wire::Value data = call.params().get("data");
  if (!data.get("$stream")) {
    return now(call.result([&](JsonWriter& json) { json.begin_object().member("data", data).end_object(); }));
  }
  auto from = call.take_stream(data, "params.data");
  if (!from) return now(std::move(from).error());
  auto to = call.open_stream();
  if (!to) return now(std::move(to).error());
  call.after_reply([from = *from, to = *to] { ipc::relay(from, to); });
  return now(call.result([&](JsonWriter& json) {
    json.begin_object().key("data").begin_object().member("$stream", (*to)->number()).end_object().end_object();
  }));
}

// Takes its time: for clients that want to see their deadlines and cancels work.
constexpr Field kSleep[] = {
    {.name = "ms", .type = Type::integer, .required = true, .least = 0, .most = kLongestSleepMs}};

struct SleepOrCancel {
  Call& call;
  Millis delay;
  bool await_ready() const { return false; }
  void await_suspend(std::coroutine_handle<> waiter) {
    ipc::Loop& loop = call.session().shared().loop();
    const auto timer = loop.after(delay, [this, waiter] {
      call.on_cancel(nullptr);
      waiter.resume();
    });
    call.on_cancel([&loop, timer, waiter] {
      loop.cancel(timer);
      waiter.resume();
    });
  }
  void await_resume() const {}
};

Task<Reply> sleep(const Permit&, Call& call, RequestContext&, Host&) {
  const std::int64_t ms = call.params().get("ms").as_int().value_or(0);
  co_await SleepOrCancel{call, Millis(ms)};
  co_return call.result([&](JsonWriter& json) { json.begin_object().member("slept_ms", ms).end_object(); });
}

Task<Reply> hello(const Permit& permit, Call& call, RequestContext& context, Host& host) {
  return now(call.result([&](JsonWriter& json) {
    json.begin_object()
        .member("name", "sallyport")
        .member("version", host.version)
        .member("protocol", kProtocolVersion)
        .member("principal", permit.principal().to_string())
        .member("identity", context.identity);
    json.key("peer").begin_object();
    // What number the host has for a process of a container is nothing to it.
    if (permit.principal().is_host()) json.member("pid", context.peer.pid);
    json.member("uid", context.peer.uid).member("gid", context.peer.gid).end_object();
    json.member("container_id", context.container_id).member("plugin_name", context.plugin_name);
    json.key("capability_tags").begin_array();
    for (const std::string& tag : context.capability_tags) json.value(tag);
    json.end_array().key("limits").begin_object();
    json.member("frame_bytes", wire::kMaxFrameBytes)
        .member("in_flight", wire::kMaxInFlight)
        .member("stream_credit", wire::kInitialCredit)
        .end_object()
        .end_object();
  }));
}

Task<Reply> status(const Permit&, Call& call, RequestContext&, Host& host) {
  const ipc::Counters& counters = host.sessions.counters();
  const auto memory = os::memory_pss_kib(::getpid());
  const ledger::Health ledger = host.ledger.health();
  return now(call.result([&](JsonWriter& json) {
    json.begin_object()
        .member("version", host.version)
        .member("pid", ::getpid())
        .member("uptime_ms", std::chrono::duration_cast<Millis>(host.clock.steady() - host.started).count())
        .member("memory_kib", memory ? *memory : 0)
        .member("sessions", host.sessions.open_count())
        .member("in_flight", host.sessions.in_flight())
        .member("subscribers", host.events.subscribers());
    json.key("config").begin_object().member("ok", host.config_error.empty());
    if (!host.config_error.empty()) json.member("error", host.config_error);
    if (host.is_net_faulty) json.member("network_denied", true);
    json.end_object().key("ledger").begin_object();
    json.member("ok", ledger.is_good())
        .member("writable", ledger.is_writable)
        .member("last_seq", ledger.last_seq)
        .member("exported_seq", ledger.exported_seq)
        .member("backlog", ledger.backlog)
        .member("failures", ledger.failures)
        .member("dropped", ledger.dropped);
    if (!ledger.is_good()) json.member("error", ledger.error);
    json.end_object().key("counters").begin_object();
    json.member("accepted", counters.accepted)
        .member("refused", counters.refused)
        .member("requests", counters.requests)
        .member("malformed", counters.malformed)
        .member("protocol_closes", counters.protocol_closes)
        .member("descriptors_dropped", counters.descriptors_dropped)
        .member("idle_closes", counters.idle_closes)
        .member("timeouts", counters.timeouts)
        .member("cancelled", counters.cancelled)
        .member("accept_failures", counters.accept_failures)
        .end_object()
        .end_object();
  }));
}

constexpr Field kSubscribe[] = {{.name = "events", .type = Type::string_array, .least = 1, .most = 32}};

Task<Reply> subscribe(const Permit&, Call& call, RequestContext& context, Host& host) {
  // While a human was asked, perhaps.
  if (context.narrowed_to) return now(Error::make(Code::policy_denied, "this session was narrowed meanwhile"));
  if (!host.events.has_room_for(call.session())) {
    return now(Error::make(Code::rate_limited, "too many subscriptions on this connection"));
  }
  std::vector<std::string> patterns = strings(call.params().get("events"));
  if (patterns.empty()) patterns.emplace_back("*");
  Reply reply = call.result([](JsonWriter& json) { json.raw(R"({"subscribed":true})"); });
  // After the reply, so that no event overtakes it.
  call.after_reply([&host, session = call.share_session(), id = std::string(call.message().id),
                    patterns = std::move(patterns)] { host.events.subscribe(*session, id, patterns); });
  return now(std::move(reply));
}

Task<Reply> reload(const Permit&, Call& call, RequestContext&, Host& host) {
  if (Status reloaded = host.reload(); !reloaded) return now(std::move(reloaded).error());
  return now(call.result([](JsonWriter& json) { json.raw(R"({"reloaded":true})"); }));
}

Task<Reply> shutdown(const Permit&, Call& call, RequestContext&, Host& host) {
  Reply reply = call.result([](JsonWriter& json) { json.raw(R"({"stopping":true})"); });
  call.after_reply([&host] { host.shut_down(); });
  return now(std::move(reply));
}

// Turns this session into a container's, for good. It can only lose rights by it, and ends with the container:
// nothing that it may ask for is left then.
constexpr Field kNarrow[] = {{.name = "container", .type = Type::string, .required = true}};

Task<Reply> narrow(const Permit&, Call& call, RequestContext& context, Host& host) {
  // From one container to another it could also gain some.
  if (Status status = require_host(context); !status) return now(std::move(status).error());
  const std::string id(*call.params().get("container").as_string());
  const auto container = host.containers.find(id);
  if (!container || containers::is_over(container->state)) {
    return now(Error::make(Code::not_found, "no container of this id is running"));
  }
  const auto narrowed = std::make_shared<RequestContext>(context);
  narrowed->principal = Principal::container(id);
  narrowed->container_id = id;
  narrowed->plugin_name = container->config.name;
  narrowed->capability_tags = container->tags();
  narrowed->is_narrowed = true;
  context.narrowed_to = narrowed;
  host.events.unsubscribe(call.session());
  const std::uint64_t number = container->when_over([weak = std::weak_ptr(call.share_session())] {
    if (const auto session = weak.lock()) session->close();
  });
  call.session().on_close([weak = std::weak_ptr(container), number] {
    if (const auto still = weak.lock()) still->on_end.erase(number);
  });
  return now(call.result([&](JsonWriter& json) {
    json.begin_object().member("principal", narrowed->principal.to_string()).end_object();
  }));
}

constexpr Field kTokenCreate[] = {
    {.name = "methods", .type = Type::string_array, .required = true, .least = 1, .most = 64},
    {.name = "ttl_ms", .type = Type::integer, .required = true, .least = 1, .most = kLongestTokenMs}};

Task<Reply> create_token(const Permit& permit, Call& call, RequestContext& context, Host& host) {
  // Without a process there is nothing to bind it to.
  if (context.process == 0) {
    return now(Error::make(Code::unauthenticated, "tokens are bound to a process, and this door does not show one"));
  }
  const Millis ttl{*call.params().get("ttl_ms").as_int()};
  const std::string token =
      host.tokens.create(permit.principal(), context.process, strings(call.params().get("methods")), ttl);
  if (token.size() > wire::kMaxTokenBytes) {
    return now(Error::invalid_param("params.methods", "are too many for one token"));
  }
  return now(call.result([&](JsonWriter& json) {
    json.begin_object()
        .member("token", token)
        .member("expires_at", host.clock.unix_millis() + ttl.count())
        .end_object();
  }));
}

constexpr Method kMethods[] = {
    {.name = "test.ping", .handle = ping},
    {.name = "test.echo", .handle = echo, .params = kEcho},
    {.name = "test.sleep", .handle = sleep, .params = kSleep, .timeout = Millis(kLongestSleepMs)},
    {.name = "warden.hello", .handle = hello},
    {.name = "warden.status", .handle = status},
    {.name = "warden.subscribe", .handle = subscribe, .params = kSubscribe},
    {.name = "warden.reload", .handle = reload, .audit = Audit::durable},
    {.name = "warden.shutdown", .handle = shutdown, .audit = Audit::durable, .is_brake = true},
    {.name = "session.narrow", .handle = narrow, .params = kNarrow, .audit = Audit::buffered},
    {.name = "token.create", .handle = create_token, .params = kTokenCreate, .audit = Audit::buffered},
};

}  // namespace

std::span<const Method> warden_methods() { return kMethods; }

}  // namespace sallyport::handlers
