#include "containers/launcher_link.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>

#include "os/packets.h"
#include "os/spawn.h"

namespace sallyport::containers {
namespace {

constexpr Millis kPauseBeforeRestart{100};
constexpr Millis kToEnd{10'000};  // most of it for the scans at exit of all containers

int ms_until(std::chrono::steady_clock::time_point deadline) {
  const auto left = std::chrono::duration_cast<Millis>(deadline - std::chrono::steady_clock::now()).count();
  return left < 0 ? 0 : static_cast<int>(left);
}

// One that does not end is killed, and what it made dies with it.
void await_end(pid_t launcher, std::chrono::steady_clock::time_point deadline) {
  const UniqueFd process{static_cast<int>(::syscall(SYS_pidfd_open, launcher, 0))};
  pollfd ended{process.get(), POLLIN, 0};
  if (!process || ::poll(&ended, 1, ms_until(deadline)) <= 0) ::kill(launcher, SIGKILL);
  while (::waitpid(launcher, nullptr, 0) < 0 && errno == EINTR) {
  }
}

}  // namespace

struct LauncherLink::State {
  ipc::Loop& loop;
  const Log& log;
  OnNotice on_notice;
  OnLost on_lost;
  std::unique_ptr<ipc::Watch> watch;
  pid_t pid = -1;
  bool is_closed = false;
};

Result<std::unique_ptr<LauncherLink>> LauncherLink::start(ipc::Loop& loop, const Log& log, OnNotice on_notice,
                                                          OnLost on_lost) {
  auto state = std::make_shared<State>(State{loop, log, std::move(on_notice), std::move(on_lost), nullptr});
  TRY(spawn(*state));
  listen(state);
  return std::unique_ptr<LauncherLink>(new LauncherLink(std::move(state)));
}

LauncherLink::~LauncherLink() { close(); }

void LauncherLink::close() {
  if (std::exchange(state_->is_closed, true) || !state_->watch) return;
  // The end of the socket is the end of the launcher and all it made; what it found then is still heard.
  const auto deadline = std::chrono::steady_clock::now() + kToEnd;
  const int socket = state_->watch->fd();
  ::shutdown(socket, SHUT_WR);
  state_->watch->cancel();
  for (pollfd heard{socket, POLLIN, 0}; ::poll(&heard, 1, ms_until(deadline)) > 0;) {
    auto packet = os::receive_packet(socket, MSG_DONTWAIT);
    if (!packet || packet->bytes.empty()) break;
    if (auto notice = sandbox::decode_notice(packet->bytes.view())) {
      state_->on_notice(std::move(*notice), std::move(packet->fds));
    }
  }
  await_end(state_->pid, deadline);
}

pid_t LauncherLink::pid() const { return state_->pid; }

Status LauncherLink::spawn(State& state) {
  TRY(os::Spawned spawned, os::spawn_helper("sallyport-launcher"));
  state.pid = spawned.pid;
  TRY(state.watch, ipc::Watch::open(state.loop, std::move(spawned.socket)));
  return ok();
}

Status LauncherLink::send(const sandbox::ToLauncher& request, const std::vector<int>& fds) {
  if (!state_->watch) return Error::make(Code::unavailable, "the launcher is being restarted; try again");
  TRY(const Bytes packet, sandbox::encode(request));
  const Status sent = os::send_packet(state_->watch->fd(), packet, fds, MSG_DONTWAIT);
  if (sent) return ok();
  return Error::make(Code::unavailable, "the launcher does not answer; try again", sent.error().message);
}

Fire LauncherLink::listen(std::shared_ptr<State> state) {
  while (!state->is_closed) {
    const bool is_ready = co_await state->watch->readable();
    if (state->is_closed) co_return;
    auto packet = is_ready ? os::receive_packet(state->watch->fd(), MSG_DONTWAIT) : Result<os::Packet>(os::Packet());
    if (!packet && packet.error().code == Code::unavailable) continue;
    if (packet && !packet->bytes.empty()) {
      auto notice = sandbox::decode_notice(packet->bytes.view());
      if (notice) {
        state->on_notice(std::move(*notice), std::move(packet->fds));
        continue;
      }
    }
    // Dead, or talking nonsense, which is as good as dead.
    ::kill(state->pid, SIGKILL);
    while (::waitpid(state->pid, nullptr, 0) < 0 && errno == EINTR) {
    }
    state->watch.reset();
    state->log.error("the launcher died; its containers have ended", {{"pid", state->pid}});
    Status restarted = spawn(*state);
    while (!restarted && !state->is_closed) {
      state->log.error("cannot restart the launcher", {{"error", restarted.error().describe()}});
      co_await state->loop.sleep(kPauseBeforeRestart);
      restarted = spawn(*state);
    }
    if (state->is_closed) co_return;
    state->log.info("a new launcher serves", {{"pid", state->pid}});
    state->on_lost();
  }
}

}  // namespace sallyport::containers
