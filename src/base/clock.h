// Time is injected, so that tests can move it. Production uses SystemClock.
#pragma once

#include <chrono>
#include <cstdint>

namespace sallyport {

using Millis = std::chrono::milliseconds;
using SteadyTime = std::chrono::steady_clock::time_point;

class Clock {
 public:
  virtual ~Clock() = default;
  virtual SteadyTime steady() const = 0;         // for durations; never jumps
  virtual std::int64_t unix_millis() const = 0;  // for people and for expiry dates; may jump
};

class SystemClock final : public Clock {
 public:
  SteadyTime steady() const override { return std::chrono::steady_clock::now(); }
  std::int64_t unix_millis() const override {
    return std::chrono::duration_cast<Millis>(std::chrono::system_clock::now().time_since_epoch()).count();
  }
};

}  // namespace sallyport
