// Time that passes when the test says so.
#pragma once

#include "base/clock.h"

namespace sallyport::testing {

class FakeClock final : public Clock {
 public:
  explicit FakeClock(std::int64_t unix_ms = 1'700'000'000'000) : wall_ms(unix_ms) {}
  SteadyTime steady() const override { return steady_now; }
  std::int64_t unix_millis() const override { return wall_ms; }
  void pass(Millis time) {
    steady_now += time;
    wall_ms += time.count();
  }

  SteadyTime steady_now{std::chrono::hours(1)};
  std::int64_t wall_ms;
};

}  // namespace sallyport::testing
