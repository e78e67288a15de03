// The launcher: a small single-threaded process that builds sandboxes for the warden, which has
// threads and a large address space and must not clone.
//
// One SOCK_SEQPACKET pair, one message per packet. The warden names containers by a number of its
// own. The end of the socket ends the launcher and with it every container.
//
//   warden                               launcher
//   launch(container, spec, 3 fds)  ->
//                                   <-   launched(protections, pid namespace fd) | failed(error)
//   exec(container, job, cmd, fds)  ->
//                                   <-   started(job) | failed(job, error), later exited(job, status)
//   signal(container, job, number)  ->
//   kill(container)                 ->
//                                   <-   violation, lost_cover, over_memory, over_time: as they happen
//                                   <-   quarantined, suspicious: what the scan at exit found
//                                   <-   ended(status of the first command): the last word on it
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"
#include "sandbox/launch.h"
#include "sandbox/spec.h"

namespace sallyport::sandbox {

struct LauncherEvent {
  enum class Kind : std::uint32_t {
    launched,
    failed,
    started,
    exited,
    violation,
    lost_cover,
    over_memory,
    over_time,
    quarantined,
    suspicious,
    ended,
  };
  Kind kind;
  std::uint32_t container = 0;
  std::uint32_t job = 0;  // 0: the container's first command
  std::int32_t value = 0;  // wait status; MiB for over_memory; pid of pid 1 for launched
  std::string text;        // protections as JSON, a path, or "operation\ttarget\trule"
  Error error;             // for failed
  UniqueFd pid_namespace;  // for launched
};

// The warden's end.
class LauncherClient {
 public:
  explicit LauncherClient(UniqueFd socket) : socket_(std::move(socket)) {}

  int fd() const { return socket_.get(); }  // readable: an event, or the launcher's end
  // The descriptors are copied by the kernel: the caller may close its own at once.
  Status launch(std::uint32_t container, const Spec& spec, const std::array<int, 3>& stdio);
  Status exec(std::uint32_t container, std::uint32_t job, const Command& command);
  Status signal(std::uint32_t container, std::uint32_t job, int number);
  Status kill(std::uint32_t container);
  // Blocks for one event unless the fd is non-blocking. UNAVAILABLE: the launcher is gone.
  Result<LauncherEvent> next_event();

 private:
  UniqueFd socket_;
};

// Serves until the other end closes. The exit status for main().
int run_launcher(UniqueFd socket);

}  // namespace sallyport::sandbox
