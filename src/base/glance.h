// Looks for an answer that is due at once, for a moment, before whoever waits for it goes to sleep.
//
// The echo of a key is there some microseconds after the key: less than it takes to fall asleep and be woken. Unlike a
// Spinner, which learns from a rush of waits, this is for a single event now and then, as a person's typing is. Between
// two looks it offers the CPU to whoever brings the event. One who looks in vain looks less and less often.
#pragma once

#include <sched.h>

#include <algorithm>
#include <chrono>
#include <cstdint>

namespace sallyport {

class Glance {
 public:
  static constexpr std::chrono::microseconds kLongest{60};
  static constexpr std::uint32_t kMostSkipped = 64;

  // True as soon as look() is.
  template <typename Look>
  bool wait(Look&& look) {
    if (left_to_skip_ > 0) {
      --left_to_skip_;
      return false;
    }
    const auto until = std::chrono::steady_clock::now() + kLongest;
    do {
      if (look()) {
        skips_ = 0;
        return true;
      }
      ::sched_yield();
    } while (std::chrono::steady_clock::now() < until);
    skips_ = std::min(2 * skips_ + 1, kMostSkipped);
    left_to_skip_ = skips_;
    return false;
  }

 private:
  std::uint32_t skips_ = 0, left_to_skip_ = 0;
};

}  // namespace sallyport
