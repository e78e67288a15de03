// Who may come in through a Unix socket: the kernel says who the peer is.
#pragma once

#include <functional>

#include "base/base.h"
#include "os/peer.h"

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

}  // namespace sallyport::ipc
