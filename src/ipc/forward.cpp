#include "ipc/forward.h"

#include <algorithm>

#include "ipc/streams.h"

namespace sallyport::ipc {
namespace {

using wire::JsonWriter;
using wire::Value;

constexpr std::string_view kStream = "$stream";
constexpr std::string_view kLost = "events.lost";
// Below what keeps a session from being read: a peer that reads slowly can still cancel.
constexpr std::size_t kMostWaitingEvents = 1U << 20;

// Copies a value, giving every {"$stream":n} in it the number that `translate` says.
void copy(JsonWriter& json, Value value, const std::function<std::uint32_t(Value)>& translate) {
  if (is_stream(value)) {
    json.begin_object().member(kStream, translate(value)).end_object();
  } else if (value.is_object()) {
    json.begin_object();
    for (const auto& [name, member] : value.members()) copy(json.key(name), member, translate);
    json.end_object();
  } else if (value.is_array()) {
    json.begin_array();
    for (const Value item : value.items()) copy(json, item, translate);
    json.end_array();
  } else {
    json.value(value);
  }
}

// Whether an event is what one may say who works on the request: "llm.token" for "llm.stream". Of who is asked, and of
// what is recorded, the host tells, and is believed. A stream that it names would be another one on another connection.
bool may_be_said(const Call& call, const wire::Message& event) {
  const auto group_of = [](std::string_view method) { return method.substr(0, method.find('.')); };
  const bool is_of_request =
      event.method == "progress" || event.method == kLost || group_of(event.method) == group_of(call.message().method);
  return is_of_request && event.streams.empty();
}

// Passes events on to the call's peer, and loses those that it has no room for.
Session::OnEvent relay_events(Call& call) {
  return [&call, lost = std::uint64_t{0}](const wire::Message& event) mutable {
    if (call.is_answered() || !may_be_said(call, event)) return;
    // A peer that does not read loses events rather than our memory.
    if (!call.session().takes_events(wire::kMaxUnsentBytes)) {
      lost += event.method == kLost ? event.params.get("count").as_uint().value_or(1) : 1;
      return;
    }
    const std::string_view id = call.message().id;
    tell_lost(call.session(), id, std::exchange(lost, 0));
    call.session().send_event(id, event.method, event.params ? event.params.to_json() : "");
  };
}

// Passes events on, and stops reading where they come from while too many wait to be read.
Session::OnEvent relay_all_events(Call& call, const std::shared_ptr<Session>& from) {
  return [&call, from = std::weak_ptr(from)](const wire::Message& event) {
    if (call.is_answered() || !may_be_said(call, event)) return;
    call.session().send_event(call.message().id, event.method, event.params ? event.params.to_json() : "");
    const auto source = from.lock();
    if (!source || call.session().unsent_bytes() <= kMostWaitingEvents) return;
    source->hold(true);
    call.session().when_sent([from] {
      if (const auto held = from.lock()) held->hold(false);
    });
  };
}

}  // namespace

bool is_stream(Value value) { return value.size() == 1 && value.get(kStream); }

void tell_lost(Session& session, std::string_view id, std::uint64_t count) {
  if (count != 0) session.send_event(id, kLost, "{\"count\":" + std::to_string(count) + "}");
}

Result<std::string> forward_params(Call& call, Session& to, std::span<const std::string_view> without,
                                   const std::function<void(JsonWriter&)>& add) {
  std::optional<Error> failure;
  const auto translate = [&](Value named) -> std::uint32_t {
    auto from = call.take_stream(named, "params");
    auto out = from ? to.streams().open() : Result<std::shared_ptr<OutStream>>(from.error());
    if (!out) {
      failure = out.error();
      return 0;
    }
    // After the request is on its way: chunks follow the message that names them.
    call.session().shared().loop().post([from = *from, out = *out] { relay(from, out); });
    return (*out)->number();
  };
  const bool has_streams = !call.message().streams.empty();
  Bytes params = to.shared().take_buffer();
  JsonWriter json(params);
  json.begin_object();
  if (add) add(json);
  for (const auto& [name, value] : call.params().members()) {
    if (std::find(without.begin(), without.end(), name) != without.end()) continue;
    json.key(name);
    if (has_streams) {
      copy(json, value, std::ref(translate));
    } else {
      json.value(value);
    }
  }
  json.end_object();
  std::string text(as_text(params.view()));
  to.shared().give_buffer(std::move(params));
  if (failure) return *failure;
  return text;
}

Asking::Asking(Call& call, std::shared_ptr<Session> to, std::string_view method, std::string_view params, Events events)
    : call_(call) {
  Session::OnEvent on_event;
  if (events == Events::relayed) on_event = relay_events(call);
  if (events == Events::waited_for) on_event = relay_all_events(call, to);
  auto id = to->request(
      method, params, call.message().deadline_ms, [this](Result<wire::Message> answer) { arrive(std::move(answer)); },
      std::move(on_event));
  if (!id) {
    arrive(std::move(id).error());
    return;
  }
  // With copies: what is done about a call that is given up may have ended this before.
  call.on_cancel([to = std::move(to), id = std::move(*id)] {
    to->send_event(id, "cancel", {});
    to->hold(false);  // its events are for nobody now
  });
}

void Asking::arrive(Result<wire::Message> answer) {
  answer_.emplace(std::move(answer));
  if (waiter_) waiter_.resume();
}

Result<wire::Message>& Asking::await_resume() {
  call_.on_cancel(nullptr);
  return *answer_;
}

Reply forward_result(Call& call, Session& from, const wire::Message& answer) {
  if (answer.error) return *answer.error;
  if (answer.streams.empty()) return call.result([&](JsonWriter& json) { json.value(answer.result); });
  struct Flow {
    std::shared_ptr<InStream> in;
    std::shared_ptr<OutStream> out;
  };
  std::vector<Flow> flows;
  std::optional<Error> failure;
  Reply reply = call.result([&](JsonWriter& json) {
    copy(json, answer.result, [&](Value named) -> std::uint32_t {
      const auto number = static_cast<std::uint32_t>(named.get(kStream).as_int().value_or(0));
      auto in = from.streams().take(number);
      auto out = call.open_stream();
      if (!in || !out) {
        failure =
            out ? Error::make(Code::internal_error, "a stream of the answer could not be passed on") : out.error();
        return 0;
      }
      flows.push_back({in, *out});
      return (*out)->number();
    });
  });
  if (failure) return *failure;
  call.after_reply([flows] {
    for (const Flow& flow : flows) relay(flow.in, flow.out);
  });
  return reply;
}

}  // namespace sallyport::ipc
