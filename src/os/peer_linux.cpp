#include <fcntl.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <string>

#include "os/peer.h"
#include "os/process.h"

// Newer than Debian 12's headers.
#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77
#endif
#ifndef PIDFD_GET_PID_NAMESPACE
#define PIDFD_GET_PID_NAMESPACE _IO(0xFF, 6)
#endif
#ifndef PIDFD_GET_USER_NAMESPACE
#define PIDFD_GET_USER_NAMESPACE _IO(0xFF, 9)
#endif

namespace sallyport::os {
namespace {

constexpr long kPidfsMagic = 0x50494446;
constexpr int kEndingMs = 1000;  // what a killed process may take to end: some tens, more on a busy machine

constexpr const char* kUnidentified = "peer identity cannot be verified";

Error unidentified(const char* what, int error_number) {
  return Error::make(Code::unauthenticated, kUnidentified, std::string(what) + ": " + errno_name(error_number));
}

Result<ucred> credentials_of(int socket) {
  ucred credentials{};
  socklen_t length = sizeof credentials;
  if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &credentials, &length) != 0) {
    return unidentified("SO_PEERCRED", errno);
  }
  if (length != sizeof credentials) return unidentified("SO_PEERCRED", EINVAL);
  return credentials;
}

// On pidfs (6.9) a pidfd's inode number is unique per process for the whole boot. Before it, the
// start time in clock ticks tells two lives of one pid apart.
Result<std::uint64_t> process_number(int pidfd, pid_t pid) {
  struct statfs fs{};
  if (::fstatfs(pidfd, &fs) == 0 && fs.f_type == kPidfsMagic) {
    struct stat info{};
    if (::fstat(pidfd, &info) == 0) return static_cast<std::uint64_t>(info.st_ino);
  }
  return process_start_time(pid);
}

bool is_gone(int pidfd) { return ::syscall(SYS_pidfd_send_signal, pidfd, 0, nullptr, 0) != 0 && errno == ESRCH; }

struct NamespaceKind {
  unsigned long request;
  const char* name;
};
constexpr NamespaceKind kPidNamespace{PIDFD_GET_PID_NAMESPACE, "pid"};
constexpr NamespaceKind kUserNamespace{PIDFD_GET_USER_NAMESPACE, "user"};

Result<UniqueFd> namespace_of(const Peer& peer, const NamespaceKind& kind) {
  UniqueFd found{::ioctl(peer.process_fd.get(), kind.request, 0)};
  if (found) return found;
  // ENOTTY: a kernel before 6.11. Anything else is an answer, and it is no.
  if (errno != ENOTTY && errno != EINVAL) return unidentified("namespace of the peer", errno);
  const std::string path = "/proc/" + std::to_string(peer.identity.pid) + "/ns/" + kind.name;
  found = UniqueFd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!found) return unidentified("namespace of the peer", errno);
  // The pid may have been reused between the look-ups: the process we hold must still be there.
  if (is_gone(peer.process_fd.get())) return unidentified("peer", ESRCH);
  return found;
}

// Same namespace means same device and inode of the namespace file.
Result<bool> are_same(int a, int b) {
  struct stat first{}, second{};
  if (::fstat(a, &first) != 0 || ::fstat(b, &second) != 0) return unidentified("fstat of a namespace", errno);
  return first.st_dev == second.st_dev && first.st_ino == second.st_ino;
}

}  // namespace

std::string_view to_string(IdentityProof proof) { return proof == IdentityProof::pidfd ? "pidfd" : "pid-checked"; }

Result<uid_t> peer_uid(int socket) {
  TRY(const ucred credentials, credentials_of(socket));
  return credentials.uid;
}

Result<Peer> identify_peer(int socket) {
  TRY(const ucred credentials, credentials_of(socket));
  // pid 0: a peer in a pid namespace that ours cannot see into.
  if (credentials.pid <= 0) return unidentified("SO_PEERCRED", ESRCH);

  Peer peer;
  peer.identity = {credentials.pid, credentials.uid, credentials.gid};
  int pidfd = -1;
  socklen_t length = sizeof pidfd;
  if (::getsockopt(socket, SOL_SOCKET, SO_PEERPIDFD, &pidfd, &length) == 0) {
    peer.process_fd = UniqueFd(pidfd);
    peer.proof = IdentityProof::pidfd;
  } else if (errno == ENOPROTOOPT) {
    // Before 6.5. The start time must be the same before and after the process is pinned.
    TRY(const std::uint64_t before, process_start_time(peer.identity.pid));
    peer.process_fd = UniqueFd(static_cast<int>(::syscall(SYS_pidfd_open, peer.identity.pid, 0)));
    if (!peer.process_fd) return unidentified("pidfd_open", errno);
    TRY(const std::uint64_t after, process_start_time(peer.identity.pid));
    if (before != after || is_gone(peer.process_fd.get())) return unidentified("peer", ESRCH);
  } else {
    return unidentified("SO_PEERPIDFD", errno);
  }
  TRY(peer.process, process_number(peer.process_fd.get(), peer.identity.pid));
  return peer;
}

Status require_own_namespaces(const Peer& peer) {
  for (const NamespaceKind& kind : {kPidNamespace, kUserNamespace}) {
    TRY(const UniqueFd theirs, namespace_of(peer, kind));
    const UniqueFd ours{::open((std::string("/proc/self/ns/") + kind.name).c_str(), O_RDONLY | O_CLOEXEC)};
    if (!ours) return unidentified("own namespace", errno);
    TRY(const bool is_same, are_same(theirs.get(), ours.get()));
    if (!is_same) return Error::make(Code::unauthenticated, "peer is not in the host's namespaces", kind.name);
  }
  return ok();
}

Status require_server_beside_us(int socket) {
  TRY(const ucred credentials, credentials_of(socket));
  // In a pid namespace that ours cannot see into.
  if (credentials.pid <= 0) return Error::make(Code::unauthenticated, "peer is not in the host's namespaces", "pid");
  const auto server = identify_peer(socket);
  Status own = server ? require_own_namespaces(*server) : Status(server.error());
  if (own) return own;
  // One that is ending has no namespaces any more, a moment before the kernel says that it has ended.
  const bool may_be_ending = own.error().message == kUnidentified;
  pollfd ended{server ? server->process_fd.get() : -1, POLLIN, 0};
  const bool has_ended =
      server ? ::poll(&ended, 1, may_be_ending ? kEndingMs : 0) > 0 : ::kill(credentials.pid, 0) != 0 && errno == ESRCH;
  return has_ended ? Error::make(Code::unavailable, "it has just ended", own.error().describe())
                   : std::move(own).error();
}

Result<NamespaceId> namespace_id(int fd) {
  struct stat info{};
  if (::fstat(fd, &info) != 0) return unidentified("namespace", errno);
  return NamespaceId{info.st_dev, info.st_ino};
}

Result<bool> is_in_pid_namespace(const Peer& peer, NamespaceId pid_namespace) {
  TRY(const UniqueFd theirs, namespace_of(peer, kPidNamespace));
  TRY(const NamespaceId id, namespace_id(theirs.get()));
  return id == pid_namespace;
}

}  // namespace sallyport::os
