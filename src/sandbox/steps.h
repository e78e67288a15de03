// The steps of a launch, in their order. A failure names its step; a test can make any of them fail.
#pragma once

#include <cstdint>
#include <string_view>

namespace sallyport::sandbox {

enum class Step : std::uint8_t {
  none,
  // in the launching process
  plan,
  socket,
  cgroup,
  clone,
  go,
  // in the new process, before any foreign code
  descriptors,
  join_cgroup,
  uid_map,
  private_mounts,
  root,
  directories,
  bind,
  scratch,
  proc,
  devices,
  terminals,
  pivot,
  pin,
  mask,
  seal_root,
  hostname,
  more_namespaces,  // of the network and of IPC
  loopback,
  limits,
  capabilities,
  no_new_privileges,
  landlock,
  hand_over,
  seccomp,
  ready,
  // once per command
  directory,
  spawn,
  exec,
  count,
};

// Not a path or an errno: a few words such as "mount the new root".
std::string_view to_string(Step step);

struct Failure {
  Step step = Step::none;  // none: it did not fail
  int error = 0;
};

// Makes one step fail as if the kernel had answered `error`. The default fails nothing.
struct Faults {
  Step fail_at = Step::none;
  int error = 0;
};

}  // namespace sallyport::sandbox
