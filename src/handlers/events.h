// Events to subscribers: one way, best effort, in order.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "ipc/session.h"

namespace sallyport::handlers {

// A subscriber that does not read loses events rather than memory: it gets `events.lost {count}` when it
// reads again.
class EventHub {
 public:
  static constexpr std::size_t kMaxPerSession = 16;  // at the same time
  bool has_room_for(const ipc::Session& session) const;
  // Events whose names match a pattern go to the session, carrying the subscription's request id, until the session
  // ends or cancels that request.
  void subscribe(ipc::Session& session, std::string id, std::vector<std::string> patterns);
  // A session that changes sides hears no more.
  void unsubscribe(const ipc::Session& session);
  void publish(std::string_view name, std::string_view params);
  std::size_t subscribers() const { return subscribers_.size(); }

 private:
  struct Subscriber {
    ipc::Session* session;
    std::string id;
    std::vector<std::string> patterns;
    std::uint64_t lost = 0;
  };
  std::vector<Subscriber> subscribers_;
};

}  // namespace sallyport::handlers
