#include "handlers/events.h"

#include "policy/tokens.h"
#include "wire/json.h"

namespace sallyport::handlers {
namespace {

// A few thousand events; less than what stops a session from being read.
constexpr std::size_t kMaxQueuedBytes = 1U << 20;

}  // namespace

void EventHub::subscribe(ipc::Session& session, std::string id, std::vector<std::string> patterns) {
  session.set_never_idle(true);
  session.on_close([this, &session] {
    std::erase_if(subscribers_, [&](const Subscriber& subscriber) { return subscriber.session == &session; });
  });
  subscribers_.push_back({&session, std::move(id), std::move(patterns)});
}

void EventHub::publish(std::string_view name, std::string_view params) {
  // Sending can close a session, which removes its subscribers: walk over a copy of the pointers.
  std::vector<std::shared_ptr<ipc::Session>> keep_alive;
  for (const Subscriber& subscriber : subscribers_) keep_alive.push_back(subscriber.session->shared_from_this());
  for (const auto& session : keep_alive) {
    for (std::size_t i = 0; i < subscribers_.size(); ++i) {
      Subscriber& subscriber = subscribers_[i];
      if (subscriber.session != session.get() || !policy::matches_any(subscriber.patterns, name)) continue;
      if (session->unsent_bytes() > kMaxQueuedBytes) {
        ++subscriber.lost;
        continue;
      }
      const std::string id = subscriber.id;
      if (const std::uint64_t lost = std::exchange(subscriber.lost, 0); lost != 0) {
        session->send_event(id, "events.lost", "{\"count\":" + std::to_string(lost) + "}");
      }
      session->send_event(id, name, params);
      if (session->is_closed()) break;
    }
  }
}

}  // namespace sallyport::handlers
