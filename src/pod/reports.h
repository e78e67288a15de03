// What a pod has to say for the warden's records: who used its own door, and whom its agent connected to.
//
// Kept until a warden has taken it, so that what happens while none runs is recorded by the next one. Bounded: the
// oldest give way, and how many did is told.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <string>

#include "base/base.h"
#include "wire/wire.h"

namespace sallyport::pod {

class Reports {
 public:
  explicit Reports(const Clock& clock) : clock_(clock) {}

  // `members` writes the report's own members beside "number" and "time_ms".
  void add(const std::function<void(wire::JsonWriter&)>& members);
  bool is_empty() const { return kept_.empty(); }
  // The warden has all up to this one.
  void taken(std::uint64_t number);
  // "reports", an array of the oldest ones, as many as one answer carries, and "lost": how many gave way.
  void write(wire::JsonWriter& json) const;

 private:
  struct Kept {
    std::uint64_t number = 0;
    std::string json;
  };
  const Clock& clock_;
  std::deque<Kept> kept_;
  std::uint64_t last_ = 0, taken_ = 0;
};

}  // namespace sallyport::pod
