// The new process from clone to pid 1: builds the walls, then runs init. Internal to the module.
//
// Nothing here allocates, locks or throws: the process is a copy of one that may have been anywhere.
#pragma once

#include <cstdint>
#include <string>

#include "sandbox/control.h"
#include "sandbox/plan.h"
#include "sandbox/steps.h"

namespace sallyport::sandbox {

// How the first command meets its terminal.
enum class TerminalMode : std::uint8_t {
  detached,    // a session of its own
  shared,      // the launcher's own session and process group
  own_group,   // the launcher's session, a process group of its own in the background
  foreground,  // the launcher's session, a process group of its own, in the foreground
};

// Code of the maker's own program that pid 1 can run in a process of its own: a file worker. Confined
// further than commands are: no exec, no network, an allow-list of calls. Gets its socket, the directory that
// relative paths start at ("" if none) and the container's environment; returns its exit status.
using WorkerEntry = int (*)(int socket, const char* workspace, bool refuse_hard_links, char* const* environment);

// The lines of uid_map and gid_map.
struct UserMap {
  std::string user, group;
  static UserMap to_itself();
};

struct ChildContext {
  const Plan* plan;
  int control;
  int stdio[3];
  const int* cgroup_procs;  // opened for writing; joined before anything else
  std::uint32_t cgroup_count;
  TerminalMode terminal;
  std::uint32_t wanted_handover;
  Faults faults;
  WorkerEntry worker;
  UserMap user_map;
};

// What does not depend on the plan; see ahead.h.
struct Base {
  int root = -1;     // of the new mount namespace, attached, with /dev
  int network = -1;  // a socket on which the network namespace arrives
  int network_sender = -1;
  pid_t network_maker = -1;  // to be reaped
};

// Without a base the new process makes it itself.
[[noreturn]] void run_child(const ChildContext& context, const Base* base);

// Ends the launch with a report if the result is an error or the step is to fail; else passes it on.
class Reporter {
 public:
  Reporter(int control, const Faults& faults) : control_(control), faults_(faults) {}
  void moved_to(int control) { control_ = control; }
  int control() const { return control_; }

  long must(Step step, long result, std::size_t index = 0) const;
  [[noreturn]] void fail(Step step, int error, std::size_t index = 0) const;
  bool is_injected(Step step) const { return faults_.fail_at == step; }
  int injected_error() const { return faults_.error; }

 private:
  int control_;
  const Faults& faults_;
};

// network.cpp: the network namespace, made by a helper on another core, on the memory and the descriptors of its maker:
// it takes the kernel longer than all mounts together.
class NetworkMaker {
 public:
  // flags: further ones for clone(). The stack must last as long as the helper.
  NetworkMaker(const Reporter& reporter, int flags, char* stack_end)
      : reporter_(reporter), flags_(flags), stack_end_(stack_end) {}
  void start(Base& base);

 private:
  static int make(void* self);

  const Reporter& reporter_;
  int flags_;
  char* stack_end_;
  int sender_ = -1;
};
// Enters what was made; -> the listener for the proxy, or -1 without one.
int join_network(const Base& base, bool has_proxy, const Reporter& reporter);

// child.cpp: everything of Base, in a new user namespace; the other namespaces are unshared as the flags say.
void make_base(Base& base, const UserMap& map, NetworkMaker& network, int missing_namespaces, const Reporter& reporter);

// mount_tree.cpp: the new root; then all of it, up to and including the change of root and the covers.
int make_root(const Reporter& reporter);
void build_root(const Plan& plan, int root, const Reporter& reporter);
// confine.cpp: no program can get a capability again, which changes nothing for those that run; limits,
// capabilities, no_new_privs, Landlock; then seccomp, which returns the listener or -1.
void empty_bounding_set();
void drop_rights(const Plan& plan, const Reporter& reporter);
int apply_seccomp(const Plan& plan, const Reporter& reporter);
// What a worker gives up beyond that. False: it could not be done, and the worker must not run.
bool confine_worker(int landlock_abi);
// init.cpp
struct InitContext {
  const Plan* plan;
  const Reporter* reporter;
  TerminalMode terminal;
  std::uint32_t handed;
  int handed_fds[kMaxHandover];
  WorkerEntry worker;
};
[[noreturn]] void run_init(InitContext& context);

}  // namespace sallyport::sandbox
