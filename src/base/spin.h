// Waits for an event by looking for it for a moment before sleeping, where that pays.
//
// Waking an idle core costs far more than a small call, so a process whose next event is imminent does
// better to look for it than to sleep. Between two looks it offers the CPU to others, among them those who
// shall bring the event: a chain of processes may look on fewer CPUs than it has links. Beside busy
// neighbours, or for events that do not come, looking only wastes time. No rule knows this beforehand: both
// ways are tried and measured, the better one is kept for a while, then both are tried again. With a single
// CPU to run on there is nothing to try.
#pragma once

#include <sched.h>

#include <chrono>
#include <cstdint>

namespace sallyport {

// Which way to wait, from how long the waits took. Pure.
class SpinChoice {
 public:
  using Nanos = std::chrono::nanoseconds;
  // Of one spin: long enough for an answer that passes several processes which do not spin yet.
  static constexpr Nanos kLongest = std::chrono::microseconds(200);
  // Waits that are tried each way, and how many follow before both are tried again. Few, where sleeping is as good: the
  // next question costs little. Else more, and twice as many each time that the answer is the same.
  static constexpr std::uint32_t kTried = 16, kKeptSoon = 128, kFirstKept = 1024, kLastKept = 64 * 1024;

  SpinChoice() = default;
  // Tries nothing: spins, and sleeps for a while only where neighbours take the CPU.
  static SpinChoice eager() {
    SpinChoice choice;
    choice.is_eager_ = true;
    choice.enter(Stage::keep, true);
    return choice;
  }

  bool should_spin() const { return is_spinning_; }

  // `was_starved`: the event came while somebody else had the CPU, for longer than a whole spin.
  void learn(Nanos waited, bool was_starved = false);

 private:
  static constexpr Nanos kPause = std::chrono::milliseconds(2);
  enum class Stage : std::uint8_t { try_sleeping, try_spinning, keep };

  void enter(Stage stage, bool spins);
  void learn_eagerly(bool was_starved);

  bool is_eager_ = false;
  Stage stage_ = Stage::try_sleeping;
  bool is_spinning_ = false, was_better_ = false;
  std::uint32_t waits_ = 0, pauses_ = 0, starved_ = 0, kept_ = kKeptSoon;
  Nanos total_{0}, slept_{0};
};

class Spinner {
 public:
  // Eager: who waits here keeps a whole chain on its CPUs. Once it sleeps its CPU is idle, the others are moved about
  // and woken there, and all of that is in their waits and not in its own: a trial does not see it.
  enum class Mode : std::uint8_t { adaptive, eager, never };
  explicit Spinner(Mode mode = Mode::adaptive);

  // Returns when look() is true, or when sleep() has returned.
  template <typename Look, typename Sleep>
  void wait(Look&& look, Sleep&& sleep) {
    if (!is_useful_) return static_cast<void>(sleep());
    const auto begin = Clock::now();
    bool was_starved = false;
    if (!choice_.should_spin() || !spin(look, begin, was_starved)) sleep();
    choice_.learn(Clock::now() - begin, was_starved);
  }

 private:
  using Clock = std::chrono::steady_clock;

  template <typename Look>
  static bool spin(Look& look, Clock::time_point begin, bool& was_starved) {
    for (auto last = begin; !look();) {
      ::sched_yield();
      const auto now = Clock::now();
      if (now - begin > SpinChoice::kLongest) {
        const bool is_there = look();
        was_starved = is_there && now - last > SpinChoice::kLongest;
        return is_there;
      }
      last = now;
    }
    return true;
  }

  bool is_useful_;
  SpinChoice choice_;
};

}  // namespace sallyport
