#include "os/sockets.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstring>

#include "os/peer.h"

namespace sallyport::os {
namespace {

constexpr int kBacklog = 4096;
constexpr int kConnectSeconds = 5;
constexpr int kBufferBytes = 4 << 20;

// sun_path holds 107 bytes; through a directory's fd any path fits.
Result<sockaddr_un> address_in(int directory, const std::string& name) {
  const std::string path = "/proc/self/fd/" + std::to_string(directory) + "/" + name;
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) {
    return Error::make(Code::invalid_params, "socket name is too long: " + name);
  }
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  return address;
}

Status remove_stale_socket(int directory, const std::string& name) {
  struct stat info{};
  if (::fstatat(directory, name.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0) {
    if (errno == ENOENT) return ok();
    return Error::from_errno("cannot stat " + name, errno);
  }
  if (!S_ISSOCK(info.st_mode)) {
    return Error::make(Code::conflict, name + " exists and is not a socket; remove it");
  }
  if (::unlinkat(directory, name.c_str(), 0) != 0) return Error::from_errno("cannot remove the old " + name, errno);
  return ok();
}

Result<sockaddr_in> parse_loopback(const std::string& text) {
  const std::size_t colon = text.rfind(':');
  sockaddr_in address{};
  address.sin_family = AF_INET;
  unsigned port = 0;
  if (colon == std::string::npos || ::inet_pton(AF_INET, text.substr(0, colon).c_str(), &address.sin_addr) != 1 ||
      std::from_chars(text.data() + colon + 1, text.data() + text.size(), port).ptr != text.data() + text.size() ||
      port == 0 || port > 65535) {
    return Error::make(Code::invalid_params, "not an address like 127.0.0.1:4000: " + text);
  }
  if ((ntohl(address.sin_addr.s_addr) >> 24) != 127) {
    return Error::make(Code::invalid_params, "not a loopback address: " + text);
  }
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  return address;
}

std::string parent_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : slash == 0 ? "/" : path.substr(0, slash);
}

Result<UniqueFd> open_parent(const std::string& path, int flags) {
  const std::string parent = parent_of(path);
  UniqueFd directory{::open(parent.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC | flags)};
  if (directory) return directory;
  if (errno == ENOENT) return Error::make(Code::not_found, "no such socket: " + path);
  if (errno == ELOOP || errno == ENOTDIR) {
    return Error::make(Code::conflict, parent + " is not a directory (a symbolic link is not accepted)");
  }
  return Error::from_errno("cannot open " + parent, errno);
}

// Whoever may write to the directory could have put a socket of theirs there.
Status require_own_directory(int directory, const std::string& path) {
  struct stat info{};
  if (::fstat(directory, &info) != 0) return Error::from_errno("cannot stat " + path, errno);
  if (info.st_uid != ::geteuid()) {
    return Error::make(Code::conflict, path + " belongs to another user (uid " + std::to_string(info.st_uid) +
                                           "): nothing that listens there is trusted; set SALLYPORT_RUNTIME_DIR to a "
                                           "directory of your own");
  }
  if ((info.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
    const bool is_everybodys = (info.st_mode & S_ISVTX) != 0;
    return Error::make(
        Code::conflict,
        "other users may write to " + path + ": nothing that listens there is trusted; " +
            (is_everybodys ? "set SALLYPORT_RUNTIME_DIR to a directory of your own" : "run: chmod 700 " + path));
  }
  return ok();
}

Result<UniqueFd> connect_in(int directory, const std::string& path) {
  TRY(const sockaddr_un address, address_in(directory, path.substr(path.rfind('/') + 1)));
  UniqueFd fd{::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  if (!fd) return Error::from_errno("cannot create a socket", errno);
  // It waits while the listener's queue is full, which is one that hangs.
  const timeval patience{kConnectSeconds, 0}, none{};
  ::setsockopt(fd.get(), SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
  while (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    if (errno == EINTR) continue;
    if (errno == ENOENT) return Error::make(Code::not_found, "no such socket: " + path);
    if (errno == ECONNREFUSED) return Error::make(Code::unavailable, "nobody listens on " + path);
    if (errno == EAGAIN) return Error::make(Code::timeout, "whoever listens on " + path + " takes no connections");
    return Error::from_errno("cannot connect to " + path, errno);
  }
  ::setsockopt(fd.get(), SOL_SOCKET, SO_SNDTIMEO, &none, sizeof none);
  enlarge_buffers(fd.get());
  return fd;
}

}  // namespace

Result<UniqueFd> listen_unix(int directory, const std::string& name) {
  TRY(remove_stale_socket(directory, name));
  TRY(const sockaddr_un address, address_in(directory, name));
  UniqueFd fd{::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)};
  if (!fd) return Error::from_errno("cannot create a socket", errno);
  const mode_t before = ::umask(0177);
  const int bound = ::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address);
  const int error_number = errno;
  ::umask(before);
  if (bound != 0) return Error::from_errno("cannot bind " + name, error_number);
  if (::listen(fd.get(), kBacklog) != 0) return Error::from_errno("cannot listen on " + name, errno);
  return fd;
}

Result<UniqueFd> connect_unix(const std::string& path) {
  TRY(const UniqueFd directory, open_parent(path, 0));
  return connect_in(directory.get(), path);
}

Result<UniqueFd> connect_own_unix(const std::string& path) {
  TRY(const UniqueFd directory, open_parent(path, O_NOFOLLOW));
  TRY(require_own_directory(directory.get(), parent_of(path)));
  TRY(UniqueFd fd, connect_in(directory.get(), path));
  TRY(const uid_t server, peer_uid(fd.get()));
  if (server == ::geteuid()) return fd;
  return Error::make(Code::unauthenticated, "whoever listens on " + path + " runs as another user",
                     "uid " + std::to_string(server));
}

Result<TcpListener> listen_loopback() {
  TcpListener listener;
  listener.fd = UniqueFd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!listener.fd) return Error::from_errno("cannot create a socket", errno);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  if (::bind(listener.fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
      ::listen(listener.fd.get(), kBacklog) != 0 ||
      ::getsockname(listener.fd.get(), reinterpret_cast<sockaddr*>(&address), &length) != 0) {
    return Error::from_errno("cannot listen on loopback", errno);
  }
  listener.address = "127.0.0.1:" + std::to_string(ntohs(address.sin_port));
  return listener;
}

Result<UniqueFd> connect_loopback(const std::string& text) {
  TRY(const sockaddr_in address, parse_loopback(text));
  UniqueFd fd{::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  if (!fd) return Error::from_errno("cannot create a socket", errno);
  while (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    if (errno == EINTR) continue;
    if (errno == ECONNREFUSED) return Error::make(Code::unavailable, "nobody listens on " + text);
    return Error::from_errno("cannot connect to " + text, errno);
  }
  enlarge_buffers(fd.get());
  return fd;
}

void enlarge_buffers(int socket) {
  // Best effort: the kernel caps them at its own limits. On TCP, small frames must not wait for more.
  const int bytes = kBufferBytes, on = 1;
  ::setsockopt(socket, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes);
  ::setsockopt(socket, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof bytes);
  ::setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

}  // namespace sallyport::os
