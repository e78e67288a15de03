#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cerrno>
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

Error unidentified(const char* what, int error_number) {
  return Error::make(Code::unauthenticated, "peer identity cannot be verified",
                     std::string(what) + ": " + errno_name(error_number));
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

// Same namespace means same device and inode of the namespace file.
Status compare(int theirs, const char* own_path) {
  struct stat a{}, b{};
  if (::fstat(theirs, &a) != 0) return unidentified("fstat of a namespace", errno);
  if (::stat(own_path, &b) != 0) return unidentified("stat of an own namespace", errno);
  if (a.st_dev == b.st_dev && a.st_ino == b.st_ino) return ok();
  return Error::make(Code::unauthenticated, "peer is not in the host's namespaces", own_path);
}

Status compare_by_pidfd(int pidfd, unsigned long request, const char* own_path, bool& is_supported) {
  const UniqueFd theirs{::ioctl(pidfd, request, 0)};
  if (!theirs) {
    // ENOTTY: a kernel before 6.11. Anything else is an answer, and it is no.
    is_supported = errno != ENOTTY && errno != EINVAL;
    return unidentified("namespace of the peer", errno);
  }
  return compare(theirs.get(), own_path);
}

Status compare_by_proc(const Peer& peer, const char* name, const char* own_path) {
  const std::string path = "/proc/" + std::to_string(peer.identity.pid) + "/ns/" + name;
  const UniqueFd theirs{::open(path.c_str(), O_RDONLY | O_CLOEXEC)};
  if (!theirs) return unidentified("namespace of the peer", errno);
  // The pid may have been reused between the look-ups: the process we hold must still be there.
  if (is_gone(peer.process_fd.get())) return unidentified("peer", ESRCH);
  return compare(theirs.get(), own_path);
}

}  // namespace

std::string_view to_string(IdentityProof proof) { return proof == IdentityProof::pidfd ? "pidfd" : "pid-checked"; }

Result<Peer> identify_peer(int socket) {
  ucred credentials{};
  socklen_t length = sizeof credentials;
  if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &credentials, &length) != 0) {
    return unidentified("SO_PEERCRED", errno);
  }
  // pid 0: a peer in a pid namespace that ours cannot see into.
  if (length != sizeof credentials || credentials.pid <= 0) return unidentified("SO_PEERCRED", ESRCH);

  Peer peer;
  peer.identity = {credentials.pid, credentials.uid, credentials.gid};
  int pidfd = -1;
  length = sizeof pidfd;
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
  struct Check {
    unsigned long request;
    const char* name;
    const char* own_path;
  };
  constexpr Check kChecks[] = {{PIDFD_GET_PID_NAMESPACE, "pid", "/proc/self/ns/pid"},
                               {PIDFD_GET_USER_NAMESPACE, "user", "/proc/self/ns/user"}};
  for (const Check& check : kChecks) {
    bool is_supported = true;
    Status status = compare_by_pidfd(peer.process_fd.get(), check.request, check.own_path, is_supported);
    if (!is_supported) status = compare_by_proc(peer, check.name, check.own_path);
    if (!status) return status;
  }
  return ok();
}

}  // namespace sallyport::os
