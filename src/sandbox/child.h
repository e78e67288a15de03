// The new process from clone to pid 1: builds the walls, then runs init. Internal to the module.
//
// Nothing here allocates, locks or throws: the process is a copy of one that may have been anywhere.
#pragma once

#include <atomic>
#include <cstdint>

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

struct ChildContext {
  const Plan* plan;
  int control;
  int stdio[3];
  const int* cgroup_procs;  // opened for writing; joined before anything else
  std::uint32_t cgroup_count;
  TerminalMode terminal;
  std::uint32_t wanted_handover;
  bool waits_to_go;  // for Request::Kind::go, before anything foreign runs
  Faults faults;
  WorkerEntry worker;
};

[[noreturn]] void run_child(const ChildContext& context);

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

// helper.cpp: a process on another core, beside the one that builds its root and bounds its rights. It makes the
// namespace of the network, which takes the kernel about as long as all mounts together, and that of IPC, and then
// detaches the host's root, for which the kernel waits for every core. finish() waits for its end and joins both, which
// takes a capability.
class Helper {
 public:
  Helper(const Reporter& reporter, bool has_proxy) : reporter_(reporter), has_proxy_(has_proxy) {}
  void start();
  void root_is_changed();  // the host's root lies on top of the new one
  void detach_host();      // unless the helper has begun to; not inside a Landlock domain, which forbids it
  int finish();            // the listener for the proxy, or -1

 private:
  static int run(void* self);
  void make_network();

  const Reporter& reporter_;
  bool has_proxy_;
  int helper_ = -1;
  std::atomic<std::uint32_t> is_root_changed_ = 0;
  std::atomic<bool> is_host_taken_ = false;
  // Written by the helper, which shares this memory.
  bool has_namespaces_ = false;
  int listener_ = -1;
  int network_ = -1;
  int ipc_ = -1;
  bool is_host_detached_ = false;
  int error_ = 0;
  alignas(16) char stack_[16 * 1024];
};

// All of a short text in one go, as the files of /proc want it. As write(2) answers, 0 for success.
long write_whole(int directory, const char* path, const char* text);

// mount_tree.cpp: the new root, up to and including the change of root and the covers; the helper detaches the host's.
void build_root(const Plan& plan, const Reporter& reporter, Helper& helper);
// Whether all of them are still where they belong: what happens later is told by mountinfo, once that is open.
void check_covers(const Plan& plan, const Reporter& reporter);
// confine.cpp: limits, no_new_privs, what exec could give; then Landlock; then the capabilities themselves; then
// seccomp, which returns the listener or -1.
void bound_rights(const Plan& plan, const Reporter& reporter);
void apply_landlock(const Plan& plan, const Reporter& reporter);
void drop_capabilities(const Reporter& reporter);
int apply_seccomp(const Plan& plan, const Reporter& reporter);
// Adds one filter to those in force. As seccomp(2) answers.
long load_filter(Filter filter, unsigned flags = 0);
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
