// Why work may end early.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <thread>

#include "base/clock.h"
#include "base/result.h"

namespace sallyport::worker {

// cancel(), should_stop() and is_over() may be called from any thread; the others only from the one that made it.
class Stop {
 public:
  Stop() = default;
  explicit Stop(SteadyTime deadline) : deadline_(deadline) {}
  // Of a request that begins now: what is done within the first few milliseconds never looks.
  Stop(SteadyTime now, std::chrono::milliseconds budget) : deadline_(now + budget), last_look_(now) {}
  // Called by poll() every few milliseconds: a chance to see that a request was cancelled.
  void on_poll(std::function<void()> look) { look_ = std::move(look); }

  void cancel() { is_cancelled_.store(true, std::memory_order_relaxed); }
  bool is_cancelled() const { return is_cancelled_.load(std::memory_order_relaxed); }
  bool is_late() const { return deadline_ != SteadyTime() && std::chrono::steady_clock::now() >= deadline_; }
  bool should_stop() const { return is_cancelled() || is_late(); }
  void poll() const;
  // Polls, on the thread that may; whether to stop. Between any two calls only a fraction of a second may pass.
  bool is_over() const;
  // Polls; CANCELLED or TIMEOUT, if it should stop.
  Status check() const;
  // The same, and looks even if it has just looked: before what cannot be taken back.
  Status check_now() const;

 private:
  Status verdict() const;

  std::atomic<bool> is_cancelled_{false};
  SteadyTime deadline_{};
  std::function<void()> look_;
  std::thread::id owner_ = std::this_thread::get_id();
  mutable SteadyTime last_look_{};
};

}  // namespace sallyport::worker
