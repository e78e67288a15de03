// Decides whether to poll for a moment before sleeping.
//
// Waking an idle core costs far more than a small call, so a process whose next event is imminent does
// better to look for it than to sleep. It must not burn a core for events that do not come: a few
// misses end the spinning unless there are many more hits, and then only one wait in 64, later in 1,024,
// tries again. With a single CPU to run on, spinning only keeps the peer from answering: never there.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

namespace sallyport {

// Tells the CPU that this is a spin loop; never a system call.
inline void cpu_relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

class Spinner {
 public:
  static constexpr std::chrono::microseconds kLongest{50};

  enum class Mode : std::uint8_t { adaptive, never };
  explicit Spinner(Mode mode = Mode::adaptive);

  // Asked once before each wait.
  bool should_spin() {
    if (!is_useful_) return false;
    if (doubt_ < kTooMuchDoubt) return true;
    return ++skipped_ >= retry_after_;
  }
  void hit() {
    if (doubt_ > 0 && --doubt_ == 0) retry_after_ = kFirstRetry;
  }
  void miss() {
    if (doubt_ >= kTooMuchDoubt && retry_after_ < kLastRetry) retry_after_ *= 2;
    doubt_ = std::min(doubt_ + kDoubtOfAMiss, kTooMuchDoubt);
    skipped_ = 0;
  }

  // Calls look() until it is true, for kLongest at most; false if it never was. An event that comes later
  // than that, because we lost the CPU meanwhile, is found but counts as a miss: spinning did not help, and
  // may have kept the peer from its turn.
  template <typename Look>
  bool spin(Look&& look) {
    const auto until = std::chrono::steady_clock::now() + kLongest;
    bool is_in_time = true;
    while (is_in_time) {
      const bool has_come = look();
      is_in_time = std::chrono::steady_clock::now() < until;
      if (has_come) {
        is_in_time ? hit() : miss();
        return true;
      }
      cpu_relax();
    }
    miss();
    return false;
  }

 private:
  // A miss costs as much time as several hits save, so most waits must be hits.
  static constexpr std::uint32_t kDoubtOfAMiss = 4, kTooMuchDoubt = 16;
  // Waits without spinning before it is tried again; doubled each time that it does not help.
  static constexpr std::uint32_t kFirstRetry = 64, kLastRetry = 1024;

  bool is_useful_;
  std::uint32_t doubt_ = 0;
  std::uint32_t skipped_ = 0;
  std::uint32_t retry_after_ = kFirstRetry;
};

}  // namespace sallyport
