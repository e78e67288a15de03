// The warden's end of its launcher.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "base/base.h"
#include "ipc/loop.h"
#include "sandbox/launcher_protocol.h"

namespace sallyport::containers {

// Starts the launcher with an empty environment and starts a new one whenever it dies. Does not block: to a launcher
// that does not keep up, what has no descriptors (to end or signal something) is sent later, and the rest fails.
class LauncherLink {
 public:
  using OnNotice = std::function<void(sandbox::FromLauncher, std::vector<UniqueFd>)>;
  // It died, and with it every container. A new one serves already; if none can be started yet, it is called once more
  // when one does.
  using OnLost = std::function<void()>;

  static Result<std::unique_ptr<LauncherLink>> start(ipc::Loop& loop, const Log& log, OnNotice on_notice,
                                                     OnLost on_lost);
  ~LauncherLink();
  // Ends the launcher and all it made; what is sent later fails.
  void close();
  LauncherLink(const LauncherLink&) = delete;
  LauncherLink& operator=(const LauncherLink&) = delete;

  Status send(const sandbox::ToLauncher& request, const std::vector<int>& fds = {});
  pid_t pid() const;

 private:
  struct State;
  explicit LauncherLink(std::shared_ptr<State> state) : state_(std::move(state)) {}
  static Status spawn(State& state);
  static Fire listen(std::shared_ptr<State> state);
  static Fire send_waiting(std::shared_ptr<State> state);

  std::shared_ptr<State> state_;
};

}  // namespace sallyport::containers
