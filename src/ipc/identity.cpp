#include "ipc/identity.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

namespace sallyport::ipc {
namespace {

constexpr Millis kFailureDelay{500};
constexpr std::size_t kLargestHandshakeBody = 128;

}  // namespace

PeerVerifier host_verifier(bool require_pidfd) {
  return [require_pidfd](int socket) -> Result<os::Peer> {
    TRY(os::Peer peer, os::identify_peer(socket));
    if (require_pidfd && peer.proof != os::IdentityProof::pidfd) {
      return Error::make(Code::unauthenticated, "this kernel cannot prove who the peer is", "require_pidfd is set");
    }
    if (peer.identity.uid != ::geteuid()) {
      return Error::make(Code::unauthenticated, "peer is another user", "uid " + std::to_string(peer.identity.uid));
    }
    TRY(os::require_own_namespaces(peer));
    return peer;
  };
}

Status require_peer_pidfd() {
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0) {
    return Error::from_errno("cannot make a pair of sockets", errno);
  }
  const UniqueFd one{ends[0]}, other{ends[1]};
  TRY(const os::Peer peer, os::identify_peer(one.get()));
  if (peer.proof == os::IdentityProof::pidfd) return ok();
  return Error::make(Code::unimplemented,
                     "require_pidfd is set, and this kernel cannot prove who a peer is: every connection would be "
                     "refused; it takes Linux 6.5, or require_pidfd = false");
}

PeerVerifier container_verifier(os::NamespaceId pid_namespace) {
  return [pid_namespace](int socket) -> Result<os::Peer> {
    TRY(os::Peer peer, os::identify_peer(socket));
    const auto is_inside = os::is_in_pid_namespace(peer, pid_namespace);
    if (is_inside && !*is_inside) {
      return Error::make(Code::unauthenticated, "peer is not in this container");
    }
    peer.is_place_known = is_inside.has_value();
    return peer;
  };
}

struct LoopbackGate::Waiting {
  std::unique_ptr<Watch> watch;
  Loop::TimerId timer = 0;
  bool has_greeted = false;
};

LoopbackGate::LoopbackGate(Sessions& shared, const wire::Token& token, wire::Binding binding, Millis timeout)
    : shared_(shared), token_(token), binding_(std::move(binding)), timeout_(timeout) {}

LoopbackGate::~LoopbackGate() {
  for (const auto& waiting : waiting_) {
    shared_.loop().cancel(waiting->timer);
    waiting->watch->cancel();
  }
}

void LoopbackGate::admit(UniqueFd connection, std::function<void(UniqueFd)> admitted) {
  if (waiting_.size() >= wire::kMaxHandshakesWaiting) {
    ++shared_.counters().refused;
    log_refusal("gave way to a newer one");
    // Of the older half one that only connected, else the oldest: whoever has just come may still be about to speak.
    const auto half = waiting_.begin() + static_cast<std::ptrdiff_t>(waiting_.size() / 2);
    const auto silent = std::find_if(waiting_.begin(), half, [](const auto& waiting) { return !waiting->has_greeted; });
    const auto given_up = silent != half ? *silent : waiting_.front();
    forget(given_up);
    given_up->watch->cancel();
  }
  auto watch = Watch::open(shared_.loop(), std::move(connection));
  if (!watch) return;
  auto waiting = std::make_shared<Waiting>(Waiting{std::move(*watch)});
  waiting->timer = shared_.loop().after(timeout_, [watch_ptr = waiting->watch.get()] { watch_ptr->cancel(); });
  waiting_.push_back(waiting);
  wait_for_proof(std::move(waiting), std::move(admitted));
}

Fire LoopbackGate::wait_for_proof(std::shared_ptr<Waiting> waiting, std::function<void(UniqueFd)> admitted) {
  const Status status = co_await exchange_proofs(*waiting);
  const bool is_still_waiting = std::find(waiting_.begin(), waiting_.end(), waiting) != waiting_.end();
  if (status && is_still_waiting) {
    forget(waiting);
    admitted(UniqueFd(::fcntl(waiting->watch->fd(), F_DUPFD_CLOEXEC, 3)));
    co_return;
  }
  if (!is_still_waiting) co_return;
  ++shared_.counters().refused;
  log_refusal(status.error().describe());
  // Whoever guesses must not guess quickly.
  co_await shared_.loop().sleep(kFailureDelay);
  forget(waiting);
}

void LoopbackGate::log_refusal(const std::string& why) {
  shared_.log_about("loopback", LogLevel::warn, "loopback connection refused", {{"error", why}});
}

void LoopbackGate::forget(const std::shared_ptr<Waiting>& waiting) {
  shared_.loop().cancel(waiting->timer);
  std::erase(waiting_, waiting);
}

Task<Status> LoopbackGate::exchange_proofs(Waiting& waiting) {
  wire::Nonce nonce;
  fill_random(nonce);
  wire::HandshakeServer server(token_, binding_, nonce);
  std::array<std::uint8_t, wire::kHeaderBytes + kLargestHandshakeBody> frame;
  std::size_t have = 0;
  while (!server.is_done()) {
    if (!co_await waiting.watch->readable()) co_return Error::make(Code::unauthenticated, "no proof came in time");
    // Never more than the frame at hand: what follows the proof belongs to the session.
    std::size_t want = wire::kHeaderBytes;
    if (have >= wire::kHeaderBytes) want += wire::load_be32(frame.data());
    const ssize_t count = ::recv(waiting.watch->fd(), frame.data() + have, want - have, MSG_DONTWAIT);
    if (count < 0 && (errno == EAGAIN || errno == EINTR)) continue;
    if (count <= 0) co_return Error::make(Code::unauthenticated, "connection ended during the handshake");
    have += static_cast<std::size_t>(count);
    if (have < wire::kHeaderBytes) continue;
    const std::size_t length = wire::load_be32(frame.data());
    if (length == 0 || length > kLargestHandshakeBody) {
      co_return Error::make(Code::unauthenticated, "handshake refused", "not a handshake frame");
    }
    if (have < wire::kHeaderBytes + length) continue;
    Bytes answer;
    CO_TRY(server.receive({frame.data() + wire::kHeaderBytes, length}, answer));
    have = 0;
    waiting.has_greeted = true;
    if (!answer.empty() && ::send(waiting.watch->fd(), answer.data(), answer.size(), MSG_NOSIGNAL | MSG_DONTWAIT) !=
                               static_cast<ssize_t>(answer.size())) {
      co_return Error::make(Code::unauthenticated, "connection ended during the handshake");
    }
  }
  co_return ok();
}

}  // namespace sallyport::ipc
