// Decides whether to poll for a moment before sleeping.
//
// Waking an idle core costs far more than a small call, so a process whose next event is imminent does
// better to look for it than to sleep. It must not burn a core for events that do not come: a few
// misses in a row end the spinning, and only one wait in 64 tries again. With a single CPU to run on,
// spinning only keeps the peer from answering: never there.
#pragma once

#include <chrono>
#include <cstdint>

namespace sallyport {

class Spinner {
 public:
  static constexpr std::chrono::microseconds kLongest{50};

  enum class Mode : std::uint8_t { adaptive, never };
  explicit Spinner(Mode mode = Mode::adaptive);

  // Asked once before each wait.
  bool should_spin() {
    if (!is_useful_) return false;
    if (misses_ < kFewMisses) return true;
    return ++skipped_ % kRetryEvery == 0;
  }
  void hit() { misses_ = 0; }
  void miss() {
    if (misses_ < kFewMisses) ++misses_;
  }

 private:
  static constexpr std::uint32_t kFewMisses = 4;
  static constexpr std::uint32_t kRetryEvery = 64;

  bool is_useful_;
  std::uint32_t misses_ = 0;
  std::uint32_t skipped_ = 0;
};

// Tells the CPU that this is a spin loop; never a system call.
inline void cpu_relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

}  // namespace sallyport
