// Who waits for a turn: within one caller the first comes first, and the callers take turns, so that one with many
// requests does not keep out one with few.
#pragma once

#include <deque>
#include <map>
#include <memory>

#include "ipc/oneshot.h"

namespace sallyport::containers {

class WaitingLine {
 public:
  // Resolved with true when it is its turn, by whoever takes it from here; with false when it waits no more.
  using Ticket = std::shared_ptr<ipc::OneShot<bool>>;

  bool is_empty() const { return order_.empty(); }

  void join(const void* caller, Ticket ticket) {
    auto& own = callers_[caller];
    if (own.empty()) order_.push_back(caller);
    own.push_back(std::move(ticket));
  }

  // Null when nobody waits. Those who gave up are passed over.
  Ticket next() {
    while (!order_.empty()) {
      const void* caller = order_.front();
      order_.pop_front();
      const auto found = callers_.find(caller);
      Ticket ticket = std::move(found->second.front());
      found->second.pop_front();
      if (found->second.empty())
        callers_.erase(found);
      else
        order_.push_back(caller);
      if (!ticket->is_resolved()) return ticket;
    }
    return nullptr;
  }

 private:
  std::map<const void*, std::deque<Ticket>> callers_;
  std::deque<const void*> order_;  // each caller that waits, once
};

}  // namespace sallyport::containers
