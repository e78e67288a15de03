// Sockets, bound and connected without races. All are non-blocking unless said otherwise.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"
#include "base/unique_fd.h"

namespace sallyport::os {

// Listens at `name` in a directory. The socket has mode 0600 from the moment it exists. A socket left
// by a dead process is replaced (the caller holds the lock that says so); a symlink or anything else in
// its place is an error. Works for paths longer than sun_path. Not thread-safe: sets the umask.
Result<UniqueFd> listen_unix(int directory, const std::string& name);

// Connects, blocking; the returned socket blocks. NOT_FOUND if there is no socket, UNAVAILABLE if nobody
// listens on it. Works for paths of any length.
Result<UniqueFd> connect_unix(const std::string& path);

// The same, to a server of this very user and nobody else's: the socket's directory must be ours, writable by us alone
// and no symlink (CONFLICT), and whoever listens must run as us (UNAUTHENTICATED). Uids are those of our own user
// namespace; a container's maps its user to itself, so that the warden is its own user there too.
Result<UniqueFd> connect_own_unix(const std::string& path);

struct TcpListener {
  UniqueFd fd;
  std::string address;  // "127.0.0.1:54213"
};
Result<TcpListener> listen_loopback();                          // the OS assigns the port
Result<UniqueFd> connect_loopback(const std::string& address);  // loopback addresses only; blocks

// Larger buffers than the default: a megabyte should cross in one go.
void enlarge_buffers(int socket);

}  // namespace sallyport::os
