// Coroutines for a single-threaded loop.
//
// Task<T> is a lazily started computation that ends with one T; awaiting it starts it. A Task may
// also be born finished (Task<T>::ready), which costs no coroutine frame. Fire is started at once
// and owned by nobody: it runs until it returns. Errors are values here; what a library throws inside a
// Task is handed to whoever awaits it, and ends the process if it leaves a Fire.
#pragma once

#include <array>
#include <coroutine>
#include <cstddef>
#include <exception>
#include <new>
#include <optional>
#include <utility>

#include "base/sanitized.h"

namespace sallyport {

// Memory of coroutines: they come and go with every request, in few sizes. Some of what was given back last is kept for
// the next ones of its thread.
class FrameMemory {
 public:
  static void* operator new(std::size_t size) {
    if (Spares* spares = spares_for(size); spares != nullptr && spares->first != nullptr) {
      --spares->count;
      return std::exchange(spares->first, spares->first->next);
    }
    return make(size);
  }
  static void operator delete(void* frame, std::size_t size) noexcept {
    Spares* spares = spares_for(size);
    if (spares == nullptr || spares->count == kMostSpares) return destroy(frame);
    ++spares->count;
    spares->first = new (frame) Spare{spares->first};
  }

 private:
  static constexpr std::size_t kGrain = 64, kSizes = 32, kMostSpares = 16;
  struct Spare {
    Spare* next;
  };
  struct Spares {
    Spare* first;
    std::size_t count;
  };
  static void* make(std::size_t size);
  static void destroy(void* frame) noexcept;
  // None for large ones, and where a sanitizer watches: it could not see that one is used after its end.
  static Spares* spares_for(std::size_t size) {
    const std::size_t index = (size - 1) / kGrain;
    return kIsSanitized || index >= kSizes ? nullptr : &all_spares[index];
  }
  static inline constinit thread_local std::array<Spares, kSizes> all_spares{};
};

struct Fire {
  struct promise_type : FrameMemory {
    Fire get_return_object() { return {}; }
    std::suspend_never initial_suspend() noexcept { return {}; }
    std::suspend_never final_suspend() noexcept { return {}; }
    void return_void() {}
    void unhandled_exception() { std::terminate(); }
  };
};

template <typename T>
class [[nodiscard]] Task {
 public:
  struct promise_type;
  using Handle = std::coroutine_handle<promise_type>;

  struct promise_type : FrameMemory {
    std::optional<T> value;
    std::exception_ptr thrown;
    std::coroutine_handle<> waiter = std::noop_coroutine();

    Task get_return_object() { return Task(Handle::from_promise(*this)); }
    std::suspend_always initial_suspend() noexcept { return {}; }
    struct ResumeWaiter {
      bool await_ready() noexcept { return false; }
      std::coroutine_handle<> await_suspend(Handle self) noexcept { return self.promise().waiter; }
      void await_resume() noexcept {}
    };
    ResumeWaiter final_suspend() noexcept { return {}; }
    template <typename U>
    void return_value(U&& from) {
      value.emplace(std::forward<U>(from));
    }
    void unhandled_exception() { thrown = std::current_exception(); }
  };

  static Task ready(T value) { return Task(std::move(value)); }

  Task(Task&& other) noexcept : handle_(std::exchange(other.handle_, {})), value_(std::move(other.value_)) {}
  Task& operator=(Task&&) = delete;
  Task(const Task&) = delete;
  Task& operator=(const Task&) = delete;
  ~Task() {
    if (handle_) handle_.destroy();
  }

  bool await_ready() const { return value_.has_value(); }
  std::coroutine_handle<> await_suspend(std::coroutine_handle<> waiter) {
    handle_.promise().waiter = waiter;
    return handle_;
  }
  T await_resume() {
    if (value_) return std::move(*value_);
    if (handle_.promise().thrown) std::rethrow_exception(handle_.promise().thrown);
    return std::move(*handle_.promise().value);
  }

 private:
  explicit Task(Handle handle) : handle_(handle) {}
  explicit Task(T value) : value_(std::move(value)) {}

  Handle handle_;
  std::optional<T> value_;
};

}  // namespace sallyport
