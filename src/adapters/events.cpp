#include "adapters/events.h"

#include <utility>

#include "adapters/redis.h"
#include "platform/limits.h"
#include "policy/tokens.h"

namespace sallyport::adapters {

using ipc::Call;
using ipc::Reply;
using wire::JsonWriter;

namespace {

bool has_room_for_events(const ipc::Session& warden) { return warden.unsent_bytes() < platform::kMaxUnsentEvents; }

}  // namespace

Task<Reply> Subscriptions::subscribe(Call& call, const std::string& tenant) {
  Subscriber subscriber{&call, tenant, {}};
  for (const wire::Value topic : call.params().get("topics").items()) {
    subscriber.topics.emplace_back(topic.as_string().value_or(""));
  }
  const auto place = subscribers_.insert(subscribers_.end(), std::move(subscriber));
  const auto over = std::make_shared<ipc::OneShot<bool>>();
  call.on_cancel([over] { over->resolve(true); });
  call.session().send_event(call.message().id, "events.subscribed", "{}");
  co_await *over;
  subscribers_.erase(place);
  co_return Error::make(Code::cancelled, "the subscription ended");
}

std::int64_t Subscriptions::publish(const std::string& tenant, const std::string& topic,
                                    std::string_view payload_json) {
  struct Delivery {
    std::string id;
    std::uint64_t lost;
  };
  // First choose, then send: sending can end the session, and with it all subscriptions.
  std::shared_ptr<ipc::Session> warden;
  std::vector<Delivery> deliveries;
  for (Subscriber& subscriber : subscribers_) {
    if (subscriber.tenant != tenant || !policy::matches_any(subscriber.topics, topic)) continue;
    if (subscriber.call->is_answered()) continue;
    if (!has_room_for_events(subscriber.call->session())) {
      ++subscriber.lost;
    } else {
      warden = subscriber.call->share_session();
      deliveries.push_back({std::string(subscriber.call->message().id), std::exchange(subscriber.lost, 0)});
    }
  }
  if (!warden) return 0;
  for (const Delivery& delivery : deliveries) ipc::tell_lost(*warden, delivery.id, delivery.lost);
  warden->send_event({}, "events.message", wire::to_json([&](JsonWriter& json) {
                       json.begin_object().key("to").begin_array();
                       for (const Delivery& delivery : deliveries) json.value(delivery.id);
                       json.end_array().member("topic", topic).key("payload").raw(payload_json).end_object();
                     }));
  return static_cast<std::int64_t>(deliveries.size());
}

namespace {

// A payload lies in the message's `params`.
constexpr std::size_t kDepthInMessage = 2;

Reply receivers(Call& call, std::int64_t count) {
  return call.result([&](JsonWriter& json) { json.begin_object().member("receivers", count).end_object(); });
}

// A payload as it is told to who subscribed, inside of a message.
Result<std::string> payload_of(wire::Value payload) {
  std::string json = payload.to_json();
  if (json.size() <= platform::kMaxEventBytes) return json;
  return Error::make(Code::payload_too_large, "an event's payload must have at most " +
                                                  std::to_string(platform::kMaxEventBytes) + " bytes as JSON");
}

// Who subscribed would take a stream's name for one that follows.
Result<std::string> payload_of(Call& call) {
  if (!call.message().streams.empty()) return Error::invalid_param("params.payload", "must not name a stream");
  return payload_of(call.params().get("payload"));
}

bool names_stream(wire::Value value) {
  if (ipc::is_stream(value)) return true;
  for (const auto& [name, member] : value.members()) {
    if (names_stream(member)) return true;
  }
  for (const wire::Value item : value.items()) {
    if (names_stream(item)) return true;
  }
  return false;
}

// The same of what others than us may have said, as long as they like and in any spelling.
Result<std::string> foreign_payload(wire::Decoder& decoder, std::string_view said) {
  if (said.size() > platform::kMaxEventBytes) return Error::make(Code::payload_too_large, "the event is too large");
  TRY(const wire::Document parsed, decoder.parse(said));
  if (parsed.root().depth() > wire::kMaxDepth - kDepthInMessage || names_stream(parsed.root())) {
    return Error::make(Code::invalid_params, "the event does not fit into a message");
  }
  return payload_of(parsed.root());
}

class EventsInMemory final : public Adapter {
 public:
  Task<Status> probe() override { return Task<Status>::ready(ok()); }
  Task<Reply> handle(std::string_view verb, Call& call) override {
    CO_TRY(const Scope scope, scope_of(call, "topic"));
    if (verb == "subscribe") co_return co_await subscriptions_.subscribe(call, scope.tenant);
    CO_TRY(const std::string payload, payload_of(call));
    if (!has_room_for_events(call.session())) {
      Error error = Error::make(Code::rate_limited, "more is published than can be passed on; try again");
      error.retryable = true;
      co_return error;
    }
    co_return receivers(call, subscriptions_.publish(scope.tenant, scope.name, payload));
  }

 private:
  Subscriptions subscriptions_;
};

constexpr std::string_view kChannel = "sallyport-events:";

// One connection publishes, another hears everything of ours and hands it to who subscribed here.
class EventsInRedis final : public Adapter {
 public:
  EventsInRedis(const platform::Config& config, Machinery& machinery)
      : machinery_(machinery),
        commands_(machinery.redis),
        messages_(std::make_shared<Redis>(config, machinery,
                                          std::vector<std::string>{"PSUBSCRIBE", std::string(kChannel) + "*"})) {
    messages_->on_message([this](const RedisReply& push) { hear(push); });
  }

  Task<Status> probe() override {
    std::vector<std::string> ping(1, "PING");
    CO_TRY(const RedisReply reply, co_await commands_->command(std::move(ping)));
    if (reply.kind == RedisReply::Kind::error) co_return backend_down("Redis: " + reply.text.substr(0, 80));
    co_return ok();
  }

  Task<Reply> handle(std::string_view verb, Call& call) override {
    CO_TRY(const Scope scope, scope_of(call, "topic"));
    if (verb == "subscribe") {
      CO_TRY(co_await messages_->be_connected());
      if (!is_watched_) watch();
      if (call.is_given_up()) co_return Error::make(Code::cancelled, "the subscription ended");
      co_return co_await subscriptions_.subscribe(call, scope.tenant);
    }
    std::vector<std::string> publish;
    publish.emplace_back("PUBLISH");
    publish.push_back(std::string(kChannel) + scope.tenant + ":" + scope.name);
    CO_TRY(std::string payload, payload_of(call));
    publish.push_back(std::move(payload));
    CO_TRY(const RedisReply reply, co_await commands_->command(std::move(publish)));
    if (reply.kind == RedisReply::Kind::error) co_return backend_down("Redis: " + reply.text.substr(0, 80));
    co_return receivers(call, reply.integer);
  }

 private:
  // A connection that broke is made again while somebody listens; what was said meanwhile is lost.
  Fire watch() {
    is_watched_ = true;
    while (subscriptions_.are_any() || messages_->is_connected()) {
      co_await machinery_.sessions.loop().sleep(kWatch);
      if (!messages_->is_connected()) [[maybe_unused]]
        const Status again = co_await messages_->be_connected();
    }
    is_watched_ = false;
  }

  void hear(const RedisReply& push) {
    if (push.items.size() != 4) return;
    std::string_view channel = push.items[2].text;
    if (!channel.starts_with(kChannel)) return;
    channel.remove_prefix(kChannel.size());
    const std::size_t colon = channel.find(':');
    if (colon == std::string_view::npos) return;
    // Others may speak on our channels.
    const std::string_view topic = channel.substr(colon + 1);
    if (std::cmp_greater(topic.size(), platform::kMaxTopicBytes)) return;
    const auto payload = foreign_payload(decoder_, push.items[3].text);
    if (payload) subscriptions_.publish(std::string(channel.substr(0, colon)), std::string(topic), *payload);
  }

  static constexpr Millis kWatch{500};
  Machinery& machinery_;
  std::shared_ptr<Redis> commands_, messages_;
  Subscriptions subscriptions_;
  wire::Decoder decoder_;
  bool is_watched_ = false;
};

}  // namespace

std::unique_ptr<Adapter> make_memory_events() { return std::make_unique<EventsInMemory>(); }

std::unique_ptr<Adapter> make_redis_events(const platform::Config& config, Machinery& machinery) {
  return std::make_unique<EventsInRedis>(config, machinery);
}

}  // namespace sallyport::adapters
