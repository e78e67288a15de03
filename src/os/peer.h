// Who is at the other end of a Unix socket, according to the kernel.
//
// Nothing a peer says about itself is used. An identity that cannot be established is an error, never
// a default; on a platform without these facts the build fails (there is no fallback file).
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string_view>

#include "base/result.h"
#include "base/unique_fd.h"

namespace sallyport::os {

struct PeerIdentity {
  pid_t pid = -1;
  uid_t uid = static_cast<uid_t>(-1);
  gid_t gid = static_cast<gid_t>(-1);
};

// How sure we are that `pid` still names the process that connected.
enum class IdentityProof : std::uint8_t {
  pidfd,        // the kernel handed us the process itself (SO_PEERPIDFD)
  pid_checked,  // looked up by pid, start time checked before and after: a narrow race remains
};
std::string_view to_string(IdentityProof proof);

struct Peer {
  PeerIdentity identity;
  IdentityProof proof = IdentityProof::pid_checked;
  std::uint64_t process = 0;   // never reused while the machine runs; tells two lives of a pid apart
  UniqueFd process_fd;         // the pidfd, while anyone needs it
  bool is_place_known = true;  // false: the kernel would not say which namespace it lives in
};

// Facts about the process that called connect() (or socketpair()), taken at that moment. A socket
// passed on to another process keeps the identity of the one that connected.
Result<Peer> identify_peer(int socket);

// Only whom the other end runs as: for the side that connected, who may be unable to see the other's process.
Result<uid_t> peer_uid(int socket);

// Fails unless the peer lives in our own pid and user namespaces: nothing sandboxed passes for the
// host. Also fails when the kernel will not say (the peer is gone, or not dumpable).
Status require_own_namespaces(const Peer& peer);

// The same of who listens, for the side that connected. UNAVAILABLE: it has just ended.
Status require_server_beside_us(int socket);

// Which namespace a descriptor of one names. No other has the same numbers while this one lives.
struct NamespaceId {
  std::uint64_t device = 0, inode = 0;
  bool operator==(const NamespaceId&) const = default;
};
Result<NamespaceId> namespace_id(int fd);

// Whether the peer lives in that pid namespace. Fails when the kernel will not say.
Result<bool> is_in_pid_namespace(const Peer& peer, NamespaceId pid_namespace);

}  // namespace sallyport::os
