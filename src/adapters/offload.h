// A thread for what blocks: files and SQLite. Work is done in order, one at a time.
#pragma once

#include <condition_variable>
#include <coroutine>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "ipc/loop.h"

namespace sallyport::adapters {

class Offload {
 public:
  explicit Offload(ipc::Loop& loop) : loop_(loop), thread_([this] { run(); }) {}
  ~Offload();
  Offload(const Offload&) = delete;
  Offload& operator=(const Offload&) = delete;

  // co_await: runs `work` on the thread and returns what it returned, on the loop.
  template <typename Work>
  auto run(Work work) {
    using Value = decltype(work());
    struct Awaiter {
      Offload& offload;
      Work work;
      std::optional<Value> value = {};
      bool await_ready() const { return false; }
      void await_suspend(std::coroutine_handle<> waiter) {
        offload.push([this, waiter] {
          value.emplace(work());
          offload.loop_.post([waiter] { waiter.resume(); });
        });
      }
      Value await_resume() { return std::move(*value); }
    };
    return Awaiter{*this, std::move(work)};
  }

 private:
  void push(std::function<void()> job);
  void run();

  ipc::Loop& loop_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> jobs_;
  bool is_ending_ = false;
  std::thread thread_;
};

}  // namespace sallyport::adapters
