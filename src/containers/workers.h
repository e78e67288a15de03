// File workers, one per container, started when the first call needs one and again after one died. A call that goes on
// only as fast as its caller sends or reads has one for itself, as long as there are few: a caller that stands still
// does not hold up the others.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "base/base.h"
#include "containers/registry.h"
#include "ipc/ipc.h"

namespace sallyport::containers {

class Workers {
  struct Places;
  struct Slot;

 public:
  // Connects to the daemon of the pod with this name. Its sandbox is its own, so the worker is started by it.
  using ConnectPod = std::function<Task<Result<std::shared_ptr<ipc::Session>>>(std::string pod)>;

  Workers(Registry& registry, ipc::Sessions& sessions, ConnectPod connect_pod)
      : registry_(registry), sessions_(sessions), connect_pod_(std::move(connect_pod)) {}
  ~Workers();
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  enum class Pace : bool { its_own, callers };

  // A place among the few requests that a worker has at once. Dropping it gives it to the next who waits.
  class Turn {
   public:
    Turn(Turn&&) = default;
    Turn& operator=(Turn&&) = delete;
    ~Turn();

    const std::shared_ptr<ipc::Session>& session() const { return session_; }
    // This request is the worker's last: whoever asks from now on gets a new one.
    void retire_worker();

   private:
    friend class Workers;
    Turn(std::shared_ptr<Slot> slot, Pace pace) : slot_(std::move(slot)), pace_(pace) {}
    std::shared_ptr<Slot> slot_;
    Pace pace_;
    std::shared_ptr<ipc::Session> session_;
  };

  // Waits for a turn with the container's worker. Callers take turns, however much each of them asks for; within
  // a session the first comes first. UNAVAILABLE (retryable) if there is no worker to be had, CANCELLED if the
  // call was given up meanwhile.
  Task<Result<Turn>> turn(ipc::Call& call, std::shared_ptr<Container> container, Pace pace);

 private:
  std::shared_ptr<Slot> slot_of(const std::shared_ptr<Container>& container);
  Task<Status> await_session(std::shared_ptr<Container> container, std::shared_ptr<Slot> slot);
  Task<Status> start(std::shared_ptr<Container> container, std::shared_ptr<Slot> slot);
  Task<Status> start_in_pod(std::string pod, std::shared_ptr<Slot> slot);
  static Fire listen(std::shared_ptr<ipc::Session> session, std::shared_ptr<Slot> slot);

  Registry& registry_;
  ipc::Sessions& sessions_;
  ConnectPod connect_pod_;
  std::map<std::string, std::shared_ptr<Slot>> slots_;  // by container
};

}  // namespace sallyport::containers
