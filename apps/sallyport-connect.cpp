// sallyport-connect HOST PORT: joins standard input and output to a host, by HTTP CONNECT through the container's
// proxy. Runs inside containers, as ssh's ProxyCommand; plain system calls, because every start of it counts.
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

namespace {

constexpr unsigned short kProxyPort = 3128;
constexpr const char* kGranted = "HTTP/1.1 200";

bool write_all(int to, const char* bytes, ssize_t count) {
  while (count > 0) {
    const ssize_t written = ::write(to, bytes, static_cast<size_t>(count));
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    bytes += written;
    count -= written;
  }
  return true;
}

// The proxy's answer up to its empty line, byte by byte: what follows is the host's.
bool is_granted(int proxy) {
  char head[4096];
  size_t size = 0;
  while (size < sizeof head - 1 && ::read(proxy, head + size, 1) == 1) {
    head[++size] = '\0';
    if (size < 4 || std::strcmp(head + size - 4, "\r\n\r\n") != 0) continue;
    if (std::strncmp(head, kGranted, std::strlen(kGranted)) == 0) return true;
    break;
  }
  // Why, in the proxy's words.
  ssize_t count = 0;
  while ((count = ::read(proxy, head, sizeof head)) > 0) write_all(STDERR_FILENO, head, count);
  return false;
}

int relay(int proxy) {
  char block[65536];
  pollfd watched[2] = {{STDIN_FILENO, POLLIN, 0}, {proxy, POLLIN, 0}};
  for (;;) {
    if (::poll(watched, 2, -1) < 0) {
      if (errno == EINTR) continue;  // and what it said before is old
      return 1;
    }
    if (watched[0].revents != 0) {
      const ssize_t count = ::read(STDIN_FILENO, block, sizeof block);
      if (count <= 0) {
        ::shutdown(proxy, SHUT_WR);
        watched[0].fd = -1;
      } else if (!write_all(proxy, block, count)) {
        return 1;
      }
    }
    if (watched[1].revents != 0) {
      const ssize_t count = ::read(proxy, block, sizeof block);
      if (count <= 0) return count == 0 ? 0 : 1;
      if (!write_all(STDOUT_FILENO, block, count)) return 1;
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  // What is opened next must not become a standard descriptor that was closed.
  int fd = 0;
  do {
    fd = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  } while (fd >= 0 && fd <= STDERR_FILENO);
  if (argc != 3) {
    std::fputs("usage: sallyport-connect HOST PORT\n", stderr);
    return 2;
  }
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(kProxyPort);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const int proxy = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (proxy < 0 || ::connect(proxy, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) {
    std::fputs("sallyport-connect: this sandbox has no proxy; see --allow-net\n", stderr);
    return 1;
  }
  char request[1024];
  // An IPv6 address, as ssh gives it, has colons of its own.
  const bool is_bare = std::strchr(argv[1], ':') != nullptr && argv[1][0] != '[';
  const char *open = is_bare ? "[" : "", *close = is_bare ? "]" : "";
  const int size = std::snprintf(request, sizeof request, "CONNECT %s%s%s:%s HTTP/1.1\r\nHost: %s%s%s:%s\r\n\r\n", open,
                                 argv[1], close, argv[2], open, argv[1], close, argv[2]);
  if (size <= 0 || static_cast<size_t>(size) >= sizeof request || !write_all(proxy, request, size)) return 1;
  return is_granted(proxy) ? relay(proxy) : 1;
}
