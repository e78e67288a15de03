// The warden's end of its launcher.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "base/base.h"
#include "ipc/loop.h"
#include "sandbox/launcher_protocol.h"

namespace sallyport::containers {

// Starts the launcher with an empty environment and starts a new one whenever it dies. Does not block:
// a launcher that does not keep up makes send() fail.
class LauncherLink {
 public:
  using OnNotice = std::function<void(sandbox::FromLauncher, std::vector<UniqueFd>)>;
  using OnLost = std::function<void()>;  // it died, and with it every container; a new one serves already

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

  std::shared_ptr<State> state_;
};

}  // namespace sallyport::containers
