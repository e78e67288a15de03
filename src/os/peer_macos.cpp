// macOS: LOCAL_PEERCRED and LOCAL_PEERPID behind the same header. There are no pidfds and no
// namespaces: the process is told apart by its start time, and every process is in the one host view.
#include <sys/socket.h>
#include <sys/sysctl.h>
#include <sys/ucred.h>
#include <sys/un.h>

#include <cerrno>

#include "os/peer.h"

namespace sallyport::os {
namespace {

Error unidentified(const char* what, int error_number) {
  return Error::make(Code::unauthenticated, "peer identity cannot be verified",
                     std::string(what) + ": " + errno_name(error_number));
}

Result<std::uint64_t> start_time(pid_t pid) {
  int name[] = {CTL_KERN, KERN_PROC, KERN_PROC_PID, pid};
  kinfo_proc info{};
  size_t length = sizeof info;
  if (::sysctl(name, 4, &info, &length, nullptr, 0) != 0) return unidentified("KERN_PROC_PID", errno);
  if (length == 0) return unidentified("peer", ESRCH);
  const timeval& time = info.kp_proc.p_starttime;
  return static_cast<std::uint64_t>(time.tv_sec) * 1000000U + static_cast<std::uint64_t>(time.tv_usec);
}

Result<xucred> credentials_of(int socket) {
  xucred credentials{};
  socklen_t length = sizeof credentials;
  if (::getsockopt(socket, SOL_LOCAL, LOCAL_PEERCRED, &credentials, &length) != 0) {
    return unidentified("LOCAL_PEERCRED", errno);
  }
  if (credentials.cr_version != XUCRED_VERSION || credentials.cr_ngroups < 1) {
    return unidentified("LOCAL_PEERCRED", EINVAL);
  }
  return credentials;
}

}  // namespace

std::string_view to_string(IdentityProof) { return "pid-checked"; }

Result<uid_t> peer_uid(int socket) {
  TRY(const xucred credentials, credentials_of(socket));
  return credentials.cr_uid;
}

Result<Peer> identify_peer(int socket) {
  TRY(const xucred credentials, credentials_of(socket));
  pid_t pid = -1;
  socklen_t length = sizeof pid;
  if (::getsockopt(socket, SOL_LOCAL, LOCAL_PEERPID, &pid, &length) != 0) return unidentified("LOCAL_PEERPID", errno);
  Peer peer;
  peer.identity = {pid, credentials.cr_uid, credentials.cr_groups[0]};
  TRY(peer.process, start_time(pid));
  return peer;
}

Status require_own_namespaces(const Peer&) { return ok(); }
Status require_server_beside_us(int) { return ok(); }

Result<NamespaceId> namespace_id(int) { return unidentified("namespace", ENOSYS); }
Result<bool> is_in_pid_namespace(const Peer&, NamespaceId) { return unidentified("pid namespace", ENOSYS); }

}  // namespace sallyport::os
