#include <fcntl.h>
#include <linux/futex.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>

#include "sandbox/child.h"
#include "sandbox/network.h"

namespace sallyport::sandbox {

// Runs on the memory and the descriptors of the process that builds the root, errno included: only a failure writes it,
// and a failure ends the launch anyway.
int Helper::run(void* self) {
  auto* helper = static_cast<Helper*>(self);
  helper->make_network();
  while (helper->is_root_changed_ == 0) {
    ::syscall(SYS_futex, &helper->is_root_changed_, FUTEX_WAIT_PRIVATE, 0, nullptr, nullptr, 0);
  }
  helper->detach_host();
  return 0;
}

void Helper::make_network() {
  has_namespaces_ = ::unshare(CLONE_NEWNET | CLONE_NEWIPC) == 0;
  if (has_namespaces_ && set_up_network(has_proxy_ ? &listener_ : nullptr)) {
    network_ = ::open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
    ipc_ = ::open("/proc/self/ns/ipc", O_RDONLY | O_CLOEXEC);
  }
  if (network_ < 0 || ipc_ < 0) error_ = errno;
}

// By whoever has nothing else to do first. What lies on top of the root is what the path leads to here; everything else
// starts below it, at the new one.
void Helper::detach_host() {
  if (is_host_taken_.exchange(true)) return;
  is_host_detached_ = ::chdir("/") == 0 && ::umount2("/", MNT_DETACH) == 0;
  if (!is_host_detached_) error_ = errno;
}

void Helper::start() {
#ifdef __SANITIZE_THREAD__
  make_network();  // the thread sanitizer cannot follow a process that shares memory with another
#else
  helper_ = ::clone(&Helper::run, stack_ + sizeof(stack_), CLONE_VM | CLONE_FILES | SIGCHLD, this);
  reporter_.must(Step::more_namespaces, helper_);
#endif
}

void Helper::root_is_changed() {
  is_root_changed_ = 1;
  ::syscall(SYS_futex, &is_root_changed_, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
}

int Helper::finish() {
  while (helper_ > 0 && ::waitpid(helper_, nullptr, __WALL) < 0 && errno == EINTR) {
  }
  errno = error_ != 0 ? error_ : ECHILD;
  reporter_.must(Step::more_namespaces, has_namespaces_ ? 0 : -1);
  reporter_.must(Step::loopback, network_ >= 0 && ipc_ >= 0 ? 0 : -1);
  reporter_.must(Step::pivot, is_host_detached_ ? 0 : -1);
  reporter_.must(Step::more_namespaces, ::setns(network_, CLONE_NEWNET));
  reporter_.must(Step::more_namespaces, ::setns(ipc_, CLONE_NEWIPC));
  ::close(network_);
  ::close(ipc_);
  return listener_;
}

}  // namespace sallyport::sandbox
