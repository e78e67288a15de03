#include "ipc/listener.h"

#include <fcntl.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>

namespace sallyport::ipc {
namespace {

constexpr Millis kPauseWhenExhausted{50};

bool is_exhaustion(int error_number) {
  return error_number == EMFILE || error_number == ENFILE || error_number == ENOBUFS || error_number == ENOMEM;
}

// Whoever decides about a connection needs a few more for a moment: the peer's process, its namespace and
// our own to compare.
constexpr std::size_t kDescriptorsToDecide = 4;

bool has_room_beside(int connection) {
  std::array<UniqueFd, kDescriptorsToDecide> probes;
  for (UniqueFd& probe : probes) {
    probe = UniqueFd(::fcntl(connection, F_DUPFD_CLOEXEC, 3));
    if (!probe) return false;
  }
  return true;
}

}  // namespace

struct Listener::State {
  Sessions& shared;
  std::unique_ptr<Watch> watch;
  std::string name;
  Accept accept;
  bool is_closed = false;
};

Result<std::unique_ptr<Listener>> Listener::open(Sessions& shared, UniqueFd listening, std::string name,
                                                 Accept accept) {
  TRY(auto watch, Watch::open(shared.loop(), std::move(listening)));
  auto state = std::make_shared<State>(State{shared, std::move(watch), std::move(name), std::move(accept)});
  accept_all(state);
  return std::unique_ptr<Listener>(new Listener(std::move(state)));
}

Listener::~Listener() {
  state_->is_closed = true;
  state_->watch->cancel();
}

Fire Listener::accept_all(std::shared_ptr<State> state) {
  bool is_exhausted = false;
  UniqueFd connection;
  for (;;) {
    if (!connection && !co_await state->watch->readable()) co_return;
    if (state->is_closed) co_return;
    if (!connection) {
      connection = UniqueFd(::accept4(state->watch->fd(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    }
    const int failure = !connection ? errno : has_room_beside(connection.get()) ? 0 : errno;
    if (failure == 0) {
      if (std::exchange(is_exhausted, false)) state->shared.log().info("accepting again", {{"door", state->name}});
      ++state->shared.counters().accepted;
      state->accept(std::exchange(connection, UniqueFd()));
    } else if (is_exhaustion(failure)) {
      ++state->shared.counters().accept_failures;
      if (!std::exchange(is_exhausted, true)) {
        state->shared.log().warn("cannot accept: out of descriptors; new connections wait",
                                 {{"door", state->name}, {"error", errno_name(failure)}});
      }
      co_await state->shared.loop().sleep(kPauseWhenExhausted);
    }
    // Anything else (a connection that ended before it was accepted) concerns only that connection.
  }
}

}  // namespace sallyport::ipc
