#include "handlers/events.h"

#include <algorithm>

#include "ipc/forward.h"
#include "policy/tokens.h"
#include "wire/json.h"

namespace sallyport::handlers {
namespace {

// A few thousand events; less than what stops a session from being read.
constexpr std::size_t kMaxQueuedBytes = 1U << 20;

}  // namespace

bool EventHub::has_room_for(const ipc::Session& session) const {
  return std::count_if(subscribers_.begin(), subscribers_.end(), [&](const Subscriber& subscriber) {
           return subscriber.session == &session;
         }) < static_cast<std::ptrdiff_t>(kMaxPerSession);
}

void EventHub::subscribe(ipc::Session& session, std::string id, std::vector<std::string> patterns) {
  // It would never tell us that it goes.
  if (session.is_closed()) return;
  session.set_never_idle(true);
  session.on_close([this, &session] { unsubscribe(session); });
  session.on_late_cancel([this, &session](std::string_view ended) {
    std::erase_if(subscribers_, [&](const Subscriber& each) { return each.session == &session && each.id == ended; });
  });
  subscribers_.push_back({&session, std::move(id), std::move(patterns)});
}

void EventHub::unsubscribe(const ipc::Session& session) {
  std::erase_if(subscribers_, [&](const Subscriber& subscriber) { return subscriber.session == &session; });
}

void EventHub::publish(std::string_view name, std::string_view params) {
  struct Delivery {
    std::shared_ptr<ipc::Session> session;
    std::string id;
    std::uint64_t lost;
  };
  // First choose, then send: sending can end a session, which removes its subscriptions.
  std::vector<Delivery> deliveries;
  for (Subscriber& subscriber : subscribers_) {
    if (!policy::matches_any(subscriber.patterns, name)) continue;
    if (!subscriber.session->takes_events(kMaxQueuedBytes)) {
      ++subscriber.lost;
    } else {
      deliveries.push_back({subscriber.session->shared_from_this(), subscriber.id, std::exchange(subscriber.lost, 0)});
    }
  }
  for (const Delivery& delivery : deliveries) {
    ipc::tell_lost(*delivery.session, delivery.id, delivery.lost);
    delivery.session->send_event(delivery.id, name, params);
  }
}

}  // namespace sallyport::handlers
