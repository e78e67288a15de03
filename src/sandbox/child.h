// The new process from clone to pid 1: builds the walls, then runs init. Internal to the module.
//
// Nothing here allocates, locks or throws: the process is a copy of one that may have been anywhere. Nor does what the
// helper of ahead.h calls touch errno.
#pragma once

#include <sched.h>

#include <cstdint>
#include <string>

#include "sandbox/control.h"
#include "sandbox/plan.h"
#include "sandbox/raw_call.h"
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
  Faults faults;
  WorkerEntry worker;
};

// The lines of uid_map and gid_map.
struct UserMap {
  std::string user, group;
  static UserMap to_itself();
};

// What was made before there was a plan: see ahead.h.
struct Base {
  int root = -1;           // of the new mount namespace, attached, with its /dev
  const cpu_set_t* cores;  // that the sandbox may use, if its walls are made on fewer; else null
};

// A weak sandbox has no base.
[[noreturn]] void run_child(const ChildContext& context, const Base* base);

// Ends the launch with a report if the result is an error or the step is to fail; else passes it on.
class Reporter {
 public:
  Reporter(int control, const Faults& faults) : control_(control), faults_(faults) {}
  void moved_to(int control) { control_ = control; }
  int control() const { return control_; }

  long must(Step step, long result, std::size_t index = 0) const;  // as errno says
  long must(Step step, Answer answer, std::size_t index = 0) const;
  [[noreturn]] void fail(Step step, int error, std::size_t index = 0) const;
  bool is_injected(Step step) const { return faults_.fail_at == step; }
  int injected_error() const { return faults_.error; }

 private:
  int control_;
  const Faults& faults_;
};

void map_user(const UserMap& map, const Reporter& reporter);

// All of a short text in one go, as the files of /proc want it.
Answer write_whole(int directory, const char* path, const char* text);

// mount_tree.cpp: the new root; then all of it, up to and including the change of root, from where nothing leads to the
// host's any more, and the covers.
int make_root(const Reporter& reporter);
void build_root(const Plan& plan, int root, const Reporter& reporter);
// Whether all of them are still where they belong: what happens later is told by mountinfo, once that is open.
void check_covers(const Plan& plan, const Reporter& reporter);
// confine.cpp: what exec could give; limits, no_new_privs; then Landlock; then the capabilities themselves; then
// seccomp, which returns the listener or -1.
void bound_capabilities(const Reporter& reporter);
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
