#include "containers/launcher_link.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <deque>

#include "os/packets.h"
#include "os/spawn.h"

namespace sallyport::containers {
namespace {

constexpr Millis kPauseBeforeRestart{100};
constexpr Millis kLongestPause{5'000};
constexpr Millis kSendRetry{10};
constexpr std::size_t kMostWaiting = 65'536;  // each of them some bytes
constexpr Millis kTimeToEnd{5000};            // for the scans at exit too; the next launcher makes up for the rest

int ms_until(std::chrono::steady_clock::time_point deadline) {
  const auto left = std::chrono::duration_cast<Millis>(deadline - std::chrono::steady_clock::now()).count();
  return left < 0 ? 0 : static_cast<int>(left);
}

}  // namespace

struct LauncherLink::State {
  ipc::Loop& loop;
  const Log& log;
  OnNotice on_notice;
  OnLost on_lost;
  std::unique_ptr<ipc::Watch> watch;
  os::Child launcher = {};
  std::deque<Bytes> waiting = {};  // for a launcher that does not read at the moment
  bool is_sending = false;
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
  const auto deadline = std::chrono::steady_clock::now() + kTimeToEnd;
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
  // One that does not end is killed, and what it made dies with it.
  state_->launcher.end(Millis(ms_until(deadline)));
}

pid_t LauncherLink::pid() const { return state_->launcher.pid(); }

Status LauncherLink::spawn(State& state) {
  TRY(os::Spawned spawned, os::spawn_helper("sallyport-launcher"));
  state.launcher = std::move(spawned.child);
  TRY(state.watch, ipc::Watch::open(state.loop, std::move(spawned.socket)));
  return ok();
}

Status LauncherLink::send(const sandbox::ToLauncher& request, const std::vector<int>& fds) {
  if (!state_->watch) return Error::make(Code::unavailable, "the launcher is being restarted; try again");
  TRY(Bytes packet, sandbox::encode(request));
  // What makes something holds descriptors, and whoever wants it can ask again. What ends something has nobody else to
  // see to it, and waits.
  const bool may_wait = fds.empty() && state_->waiting.size() < kMostWaiting;
  const Status sent = may_wait && !state_->waiting.empty()
                          ? Error::make(Code::unavailable, "others wait before it")
                          : os::send_packet(state_->watch->fd(), packet, fds, MSG_DONTWAIT);
  if (sent) return ok();
  if (!may_wait || sent.error().code != Code::unavailable) {
    return Error::make(Code::unavailable, "the launcher does not answer; try again", sent.error().message);
  }
  state_->waiting.push_back(std::move(packet));
  if (!state_->is_sending) send_waiting(state_);
  return ok();
}

// Tried again and again: the kernel calls a socket writable only when most of it is read.
Fire LauncherLink::send_waiting(std::shared_ptr<State> state) {
  state->is_sending = true;
  while (!state->is_closed && state->watch && !state->waiting.empty()) {
    const Status sent = os::send_packet(state->watch->fd(), state->waiting.front(), {}, MSG_DONTWAIT);
    if (!sent && sent.error().code == Code::unavailable) {
      co_await state->loop.sleep(kSendRetry);
      continue;
    }
    if (!sent) break;  // it is dead, which its reader finds out
    state->waiting.pop_front();
  }
  state->is_sending = false;
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
    state->log.error("the launcher died; its containers have ended", {{"pid", state->launcher.pid()}});
    state->launcher.end();
    state->watch.reset();
    state->waiting.clear();
    Status restarted = spawn(*state);
    // Nobody waits for what has ended until there is a new one: that may be never.
    if (!restarted) state->on_lost();
    for (Millis pause = kPauseBeforeRestart; !restarted && !state->is_closed;
         pause = std::min(2 * pause, kLongestPause)) {
      state->log.error("cannot restart the launcher", {{"error", restarted.error().describe()}});
      co_await state->loop.sleep(pause);
      if (!state->is_closed) restarted = spawn(*state);
    }
    if (state->is_closed) co_return;
    state->log.info("a new launcher serves", {{"pid", state->launcher.pid()}});
    state->on_lost();
  }
}

}  // namespace sallyport::containers
