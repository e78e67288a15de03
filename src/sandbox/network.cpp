#include <fcntl.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
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

}  // namespace

// Runs beside the process that builds the root, on its memory and its descriptors, errno included:
// only a failure writes it, and a failure ends the launch anyway.
int NetworkMaker::make(void* self) {
  auto* maker = static_cast<NetworkMaker*>(self);
  if (::unshare(CLONE_NEWNET) != 0 || bring_loopback_up() != 0) {
    maker->error_ = errno;
    return 1;
  }
  if (maker->has_proxy_) {
    maker->listener_ = listen_for_proxy();
    if (maker->listener_ < 0) {
      maker->error_ = errno;
      return 1;
    }
  }
  const int made = ::open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
  if (made < 0) maker->error_ = errno;
  maker->namespace_ = made;
  return 0;
}

void NetworkMaker::start() {
#ifdef __SANITIZE_THREAD__
  make(this);  // the thread sanitizer cannot follow a process that shares memory with another
#else
  helper_ = ::clone(&NetworkMaker::make, stack_ + sizeof(stack_), CLONE_VM | CLONE_FILES | SIGCHLD, this);
  reporter_.must(Step::loopback, helper_);
#endif
}

int NetworkMaker::finish() {
  while (helper_ > 0 && ::waitpid(helper_, nullptr, __WALL) < 0 && errno == EINTR) {
  }
  if (namespace_ < 0) reporter_.fail(Step::loopback, error_ != 0 ? error_ : ECHILD);
  reporter_.must(Step::loopback, ::setns(namespace_, CLONE_NEWNET));
  ::close(namespace_);
  return listener_;
}

}  // namespace sallyport::sandbox
