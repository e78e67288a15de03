// The event loop: one thread, readiness of descriptors, timers, signals.
//
// Everything but post() belongs to the thread that runs the loop. Coroutines suspended here are
// resumed by the loop, never destroyed by it: whoever ends a Watch cancels it first and lets its waiter
// run to its end.
#pragma once

#include <coroutine>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>

#include "base/clock.h"
#include "base/result.h"
#include "base/spin.h"
#include "base/unique_fd.h"

namespace sallyport::ipc {

class Loop {
 public:
  explicit Loop(Spinner::Mode spin = Spinner::Mode::adaptive);
  ~Loop();
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;

  void run();   // until stop()
  void stop();  // from a handler: run() returns after it
  // After run(), while all that coroutines refer to is still there: cancels every Watch, wakes every sleeper
  // and runs what that leads to, so that nothing is left suspended.
  void settle();

  void post(std::function<void()> work);  // from any thread; runs on the loop's
  // Counts the rounds in which everything that is ready is dealt with once.
  std::uint64_t turn() const;
  void on_signals(std::initializer_list<int> signals, std::function<void(int)> handle);

  using TimerId = std::uint64_t;  // never 0
  TimerId after(Millis delay, std::function<void()> work);
  void cancel(TimerId timer);  // a timer that fired or was cancelled already is ignored

  // While one lives the loop sleeps at once instead of looking for a moment first: what it waits for takes longer, and
  // needs the CPU.
  class Unhurried {
   public:
    explicit Unhurried(Loop& loop);
    ~Unhurried();
    Unhurried(const Unhurried&) = delete;
    Unhurried& operator=(const Unhurried&) = delete;

   private:
    Loop& loop_;
  };

  // Suspends the caller: co_await loop.sleep(delay).
  struct Sleep {
    Loop& loop;
    Millis delay;
    bool await_ready() const { return false; }
    void await_suspend(std::coroutine_handle<> waiter) { loop.wake_after(delay, waiter); }
    void await_resume() const {}
  };
  Sleep sleep(Millis delay) { return {*this, delay}; }

  struct Impl;
  Impl& impl() { return *impl_; }

 private:
  void wake_after(Millis delay, std::coroutine_handle<> waiter);

  std::unique_ptr<Impl> impl_;
};

// A descriptor whose readiness is awaited. Owns it.
class Watch {
 public:
  // Fails for what cannot be waited on (a regular file, /dev/null), and when the kernel is out of room.
  static Result<std::unique_ptr<Watch>> open(Loop& loop, UniqueFd fd);
  explicit Watch(Loop& loop);  // of nothing yet: whoever waits, waits for what it takes
  ~Watch();
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

  int fd() const;

  // One descriptor after the other, at no cost but the kernel's; waiters stay. Fails as open() does.
  Status take(UniqueFd fd);
  UniqueFd release();

  enum class For : std::uint8_t { read, write, hangup };
  // co_await: true when ready, false when cancelled. At most one waiter per kind.
  struct Wait {
    Watch& watch;
    For what;
    bool is_ready = false;
    std::coroutine_handle<> waiter = nullptr;
    bool await_ready() const { return watch.is_cancelled_; }
    void await_suspend(std::coroutine_handle<> handle);
    bool await_resume() const { return is_ready; }
  };
  Wait readable() { return {*this, For::read}; }
  Wait writable() { return {*this, For::write}; }
  Wait hangup() { return {*this, For::hangup}; }

  // Ends all waiting, now and later. The descriptor stays open until the Watch goes.
  void cancel();

 private:
  friend class Loop;
  struct Impl;

  std::unique_ptr<Impl> impl_;
  bool is_cancelled_ = false;
};

}  // namespace sallyport::ipc
