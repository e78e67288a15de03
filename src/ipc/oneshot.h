// One value that comes later, for one coroutine that waits for it.
#pragma once

#include <coroutine>
#include <optional>
#include <utility>

namespace sallyport::ipc {

// The first resolve() counts; later ones are ignored. Resuming happens inside resolve().
template <typename T>
class OneShot {
 public:
  OneShot() = default;
  OneShot(const OneShot&) = delete;
  OneShot& operator=(const OneShot&) = delete;

  void resolve(T value) {
    if (value_) return;
    value_.emplace(std::move(value));
    if (waiter_) std::exchange(waiter_, nullptr).resume();
  }
  bool is_resolved() const { return value_.has_value(); }

  struct Awaiter {
    OneShot& shot;
    bool await_ready() const { return shot.is_resolved(); }
    void await_suspend(std::coroutine_handle<> waiter) { shot.waiter_ = waiter; }
    T await_resume() { return std::move(*shot.value_); }
  };
  Awaiter operator co_await() { return {*this}; }

 private:
  std::optional<T> value_;
  std::coroutine_handle<> waiter_;
};

}  // namespace sallyport::ipc
