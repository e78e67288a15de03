#include "base/spin.h"

#include <sched.h>

#include <algorithm>
#include <utility>

namespace sallyport {
namespace {

bool has_several_cpus() {
  cpu_set_t cpus;
  return ::sched_getaffinity(0, sizeof cpus, &cpus) == 0 && CPU_COUNT(&cpus) > 1;
}

}  // namespace

void SpinChoice::learn_eagerly(bool was_starved) {
  ++waits_;
  starved_ += was_starved ? 1 : 0;
  if (is_spinning_ && starved_ == 2) return enter(Stage::keep, false);
  if (!is_spinning_ && waits_ == kFirstKept) return enter(Stage::keep, true);
  if (waits_ % kTried == 0) starved_ = 0;
}

void SpinChoice::learn(Nanos waited, bool was_starved) {
  if (is_eager_) return learn_eagerly(was_starved);
  // Nobody hurries during a pause, and its length must not hide what the waits between pauses say.
  if (waited > kPause && !was_starved) {
    if (++pauses_ < kTried / 2) return;
    kept_ = kKeptSoon;
    return enter(Stage::keep, false);
  }
  // One long wait among short ones says little: somebody had the CPU for a moment.
  total_ += std::min(waited, kLongest * 2);
  starved_ += was_starved ? 1 : 0;
  ++waits_;
  // A neighbour that takes the CPU for whole time slices has said enough with two.
  const bool is_settled = is_spinning_ && starved_ == 2;
  if (waits_ % kTried != 0 && !is_settled) return;
  const Nanos mean = std::exchange(total_, Nanos(0)) / kTried;
  pauses_ = starved_ = 0;
  switch (stage_) {
    case Stage::try_sleeping:
      slept_ = mean;
      return enter(Stage::try_spinning, true);
    case Stage::try_spinning: {
      // It burns a CPU, so it must be clearly better.
      const bool is_better = !is_settled && mean * 10 < slept_ * 9;
      const bool was_dear = is_better || is_settled;
      const bool is_same = is_better == was_better_ && kept_ >= kFirstKept;
      kept_ = !was_dear ? kKeptSoon : is_same ? std::min(kept_ * 2, kLastKept) : kFirstKept;
      was_better_ = is_better;
      return enter(Stage::keep, is_better);
    }
    case Stage::keep: {
      // Neighbours came, or the events stay away.
      const bool is_regretted = is_settled || (is_spinning_ && mean > slept_);
      if (is_regretted || waits_ >= kept_) enter(Stage::try_sleeping, false);
    }
  }
}

void SpinChoice::enter(Stage stage, bool spins) {
  stage_ = stage;
  is_spinning_ = spins;
  waits_ = pauses_ = starved_ = 0;
  total_ = Nanos(0);
}

Spinner::Spinner(Mode mode)
    : is_useful_(mode != Mode::never && has_several_cpus()),
      choice_(mode == Mode::eager ? SpinChoice::eager() : SpinChoice()) {}

}  // namespace sallyport
