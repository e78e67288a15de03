// File workers, one per container, started when the first call needs one and again after one died.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/base.h"
#include "containers/registry.h"
#include "ipc/ipc.h"

namespace sallyport::containers {

class Workers {
 public:
  explicit Workers(Registry& registry, ipc::Sessions& sessions) : registry_(registry), sessions_(sessions) {}
  ~Workers();
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  // The connection to the container's worker. UNAVAILABLE (retryable) if it cannot be had now.
  Task<Result<std::shared_ptr<ipc::Session>>> of(std::shared_ptr<Container> container);

 private:
  struct Slot {
    std::shared_ptr<ipc::Session> session;
    bool is_starting = false;
    std::vector<std::shared_ptr<ipc::OneShot<bool>>> waiting;  // for the start that is under way
  };
  Task<Status> start(std::shared_ptr<Container> container, std::shared_ptr<Slot> slot);
  Fire listen(std::shared_ptr<ipc::Session> session, std::shared_ptr<Slot> slot);

  Registry& registry_;
  ipc::Sessions& sessions_;
  std::map<std::string, std::shared_ptr<Slot>> slots_;  // by container
};

}  // namespace sallyport::containers
