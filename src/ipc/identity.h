// Who may come in. On a Unix socket the kernel says who the peer is; on loopback TCP the peer proves
// that it holds the token.
#pragma once

#include <deque>
#include <functional>
#include <memory>

#include "base/base.h"
#include "ipc/sessions.h"
#include "os/peer.h"
#include "wire/wire.h"

namespace sallyport::ipc {

// Decides on a connection before a byte of it is read. Injected, so that a test can make it fail.
using PeerVerifier = std::function<Result<os::Peer>(int socket)>;

// For the control door: this very user, in this process's own pid and user namespaces.
PeerVerifier host_verifier(bool require_pidfd);

// Fails where no peer could pass a host_verifier that requires a pidfd.
Status require_peer_pidfd();

// For a container's door: a peer in another pid namespace than the container's is refused. One whose place
// the kernel will not tell (gone already, or not dumpable) comes in with `is_place_known` false.
PeerVerifier container_verifier(os::NamespaceId pid_namespace);

// The gate of a loopback TCP door. At most kMaxHandshakesWaiting connections wait at once (of the
// older half one that has said nothing gives way, else the oldest), each for at most `timeout`, and one that fails is
// kept waiting before it is closed. Costs one small fixed block of memory per waiting connection.
class LoopbackGate {
 public:
  LoopbackGate(Sessions& shared, const wire::Token& token, wire::Binding binding,
               Millis timeout = wire::kHandshakeTimeout);
  ~LoopbackGate();
  LoopbackGate(const LoopbackGate&) = delete;
  LoopbackGate& operator=(const LoopbackGate&) = delete;

  void admit(UniqueFd connection, std::function<void(UniqueFd)> admitted);

 private:
  struct Waiting;
  Fire wait_for_proof(std::shared_ptr<Waiting> waiting, std::function<void(UniqueFd)> admitted);
  Task<Status> exchange_proofs(Waiting& waiting);
  void forget(const std::shared_ptr<Waiting>& waiting);
  void log_refusal(const std::string& why);

  Sessions& shared_;
  wire::Token token_;
  wire::Binding binding_;
  Millis timeout_;
  std::deque<std::shared_ptr<Waiting>> waiting_;
};

}  // namespace sallyport::ipc
