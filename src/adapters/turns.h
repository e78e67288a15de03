// Who is worked for by an adapter that does one thing after the other: of each tenant's calls a few at once, and others
// when those are through. One that is given up meanwhile is not done at all; one that was begun keeps its place until
// it is through, whoever still waits for it.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <string>

#include "ipc/ipc.h"
#include "ipc/oneshot.h"
#include "platform/limits.h"

namespace sallyport::adapters {

class Turns {
 public:
  // A place, until it goes.
  class Turn {
   public:
    Turn(Turns& turns, std::string tenant) : turns_(turns), tenant_(std::move(tenant)) {}
    ~Turn() { turns_.pass_on(tenant_); }
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;

   private:
    Turns& turns_;
    std::string tenant_;
  };

  // Null: the call was given up before its turn came.
  Task<std::unique_ptr<Turn>> take(ipc::Call& call, std::string tenant) {
    Lane& lane = lanes_[tenant];
    if (lane.running == platform::kMaxTurnsPerTenant) {
      const auto turn = std::make_shared<ipc::OneShot<bool>>();
      lane.waiting.push_back(turn);
      call.on_cancel([turn] { turn->resolve(false); });
      const bool is_there = co_await *turn;
      call.on_cancel(nullptr);
      if (!is_there) {
        // The lane is there: only a running one's end removes it, and hands its place on first.
        std::erase(lanes_[tenant].waiting, turn);
        co_return nullptr;
      }
    } else {
      ++lane.running;
    }
    co_return std::make_unique<Turn>(*this, std::move(tenant));
  }

 private:
  struct Lane {
    std::size_t running = 0;
    std::deque<std::shared_ptr<ipc::OneShot<bool>>> waiting;
  };

  void pass_on(const std::string& tenant) {
    Lane& lane = lanes_.find(tenant)->second;
    if (lane.waiting.empty()) {
      if (--lane.running == 0) lanes_.erase(tenant);
      return;
    }
    const auto next = std::move(lane.waiting.front());
    lane.waiting.pop_front();
    next->resolve(true);
  }

  std::map<std::string, Lane> lanes_;  // of tenants that have something under way
};

}  // namespace sallyport::adapters
