#include "ipc/identity.h"

#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>

namespace sallyport::ipc {
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

}  // namespace sallyport::ipc
