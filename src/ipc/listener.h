// Accepts connections on a listening socket and hands each one on.
#pragma once

#include <functional>
#include <memory>

#include "base/base.h"
#include "ipc/loop.h"
#include "ipc/sessions.h"

namespace sallyport::ipc {

// Out of descriptors or memory it pauses, says so, and goes on when there is room again; connections
// wait in the kernel's queue meanwhile, and those already open are served on.
class Listener {
 public:
  using Accept = std::function<void(UniqueFd)>;
  static Result<std::unique_ptr<Listener>> open(Sessions& shared, UniqueFd listening, std::string name, Accept accept);
  ~Listener();
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

 private:
  struct State;
  explicit Listener(std::shared_ptr<State> state) : state_(std::move(state)) {}
  static Fire accept_all(std::shared_ptr<State> state);

  std::shared_ptr<State> state_;
};

}  // namespace sallyport::ipc
