#include <fcntl.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>

#include "sandbox/child.h"
#include "sandbox/spec.h"

namespace sallyport::sandbox {
namespace {

int bring_loopback_up() {
  const int any = ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (any < 0) return -1;
  ifreq request{};
  std::strcpy(request.ifr_name, "lo");
  request.ifr_flags = IFF_UP | IFF_RUNNING;
  const int result = ::ioctl(any, SIOCSIFFLAGS, &request);
  ::close(any);
  return result;
}

// Without SO_REUSEADDR and SO_REUSEPORT: nobody inside can take the port's place.
int listen_for_proxy() {
  constexpr int kBacklog = 1024;
  const int listener = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(kProxyPort);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (listener < 0 || ::bind(listener, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0 ||
      ::listen(listener, kBacklog) != 0) {
    return -1;
  }
  return listener;
}

union FdSpace {
  cmsghdr header;
  char bytes[CMSG_SPACE(sizeof(int))];
};

// With one byte beside it, which means nothing.
msghdr fd_message(iovec& data, FdSpace& space) {
  static char byte;
  data = {&byte, 1};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = space.bytes;
  message.msg_controllen = sizeof(space.bytes);
  return message;
}

ssize_t send_fd(int socket, int fd) {
  iovec data{};
  FdSpace space{};
  const msghdr message = fd_message(data, space);
  space.header = {CMSG_LEN(sizeof(int)), SOL_SOCKET, SCM_RIGHTS};
  std::memcpy(CMSG_DATA(&space.header), &fd, sizeof(fd));
  return ::sendmsg(socket, &message, MSG_NOSIGNAL);
}

int receive_fd(int socket) {
  iovec data{};
  FdSpace space{};
  msghdr message = fd_message(data, space);
  if (::recvmsg(socket, &message, MSG_CMSG_CLOEXEC) <= 0) return -1;
  const cmsghdr* header = CMSG_FIRSTHDR(&message);
  int fd = -1;
  if (header != nullptr && header->cmsg_type == SCM_RIGHTS) std::memcpy(&fd, CMSG_DATA(header), sizeof(fd));
  return fd;
}

}  // namespace

// Runs beside the process that builds the root, on its memory and its descriptors, errno included: only a failure
// writes it, and a failure ends the launch anyway.
int NetworkMaker::make(void* self) {
  const auto* maker = static_cast<NetworkMaker*>(self);
  const Reporter& reporter = maker->reporter_;
  reporter.must(Step::loopback, ::unshare(CLONE_NEWNET));
  reporter.must(Step::loopback, bring_loopback_up());
  const int made = static_cast<int>(reporter.must(Step::loopback, ::open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC)));
  reporter.must(Step::loopback, send_fd(maker->sender_, made));
  ::close(made);
  return 0;
}

void NetworkMaker::start(Base& base) {
  int pair[2];
  reporter_.must(Step::loopback, ::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair));
  base.network = pair[0];
  base.network_sender = sender_ = pair[1];
#ifdef __SANITIZE_THREAD__
  make(this);  // the thread sanitizer cannot follow a process that shares memory with another
#else
  base.network_maker = ::clone(&NetworkMaker::make, stack_end_, CLONE_VM | CLONE_FILES | flags_ | SIGCHLD, this);
  reporter_.must(Step::loopback, base.network_maker);
#endif
}

int join_network(const Base& base, bool has_proxy, const Reporter& reporter) {
  const int made = receive_fd(base.network);
  if (made < 0) reporter.fail(Step::loopback, ECHILD);  // if its maker said why, that came first
  reporter.must(Step::loopback, ::setns(made, CLONE_NEWNET));
  ::close(made);
  ::close(base.network);
  return has_proxy ? static_cast<int>(reporter.must(Step::loopback, listen_for_proxy())) : -1;
}

}  // namespace sallyport::sandbox
