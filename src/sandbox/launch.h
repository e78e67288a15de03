// launch(): from a Spec to a running sandbox.
//
// The calling process must be single-threaded or at least not hold locks that the child would need:
// the child is a copy of it, though it neither allocates nor locks before exec.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"
#include "os/cgroup.h"
#include "sandbox/child.h"
#include "sandbox/exit_scan.h"
#include "sandbox/plan.h"
#include "sandbox/protections.h"
#include "sandbox/spec.h"
#include "sandbox/steps.h"

namespace sallyport::sandbox {

// How an error begins if the command is not there inside, or may not be executed; its name follows.
inline constexpr std::string_view kNoSuchCommand = "command not found: ", kNotExecutable = "may not be executed: ";

struct LaunchOptions {
  int stdio[3] = {0, 1, 2};  // -1: /dev/null
  TerminalMode terminal = TerminalMode::detached;
  bool wants_pid_namespace = false;  // for comparing peers of the container's door
  Machine machine = Machine::probe();
  const os::CgroupParent* cgroups = nullptr;  // null: looked up, which costs two reads of /proc
  Faults faults;
  WorkerEntry worker = nullptr;  // what start_worker() runs
};

// A further command in a running sandbox.
struct Command {
  std::vector<std::string> arguments;
  std::vector<std::string> environment;
  std::string directory;  // "": where the first command started
  // At least three; become 0, 1, 2, ... A file that can only be read is refused, unless the sandbox was launched with
  // one as a stream: a pipe will do.
  std::vector<int> fds;
};

// Something that pid 1 said. `exited` of job 0 means that the sandbox is ending.
struct Event {
  enum class Kind : std::uint8_t { started, failed, exited, stopped, over_memory, went_on, refused, ended } kind;
  std::uint32_t job = 0;
  int value = 0;  // wait status, number of a stop, errno or MiB
  Step step = Step::none;
  std::string target = {};  // of a refused call
  int call = 0;
};

// Owns the sandbox: when this is destroyed, everything in it has been killed and reaped, its
// control group removed and its placeholder taken out of the workspace.
class Running {
 public:
  Running(Running&&) noexcept;
  Running& operator=(Running&&) noexcept;
  ~Running();

  pid_t pid() const;       // of pid 1, in the caller's namespace
  int pidfd() const;       // readable once it has ended
  int control() const;     // readable when next_event() will not block
  int violations() const;  // the seccomp listener, or -1; see violations.h
  int mount_info() const;
  int user_namespace() const;
  int mount_namespace() const;
  int pid_namespace() const;
  int proxy_listener() const;  // with Spec::has_proxy; else -1
  const Protections& protections() const;
  const Findings& findings() const;
  const std::vector<Cover>& covers() const;

  // What scans found that earlier sandboxes of this workspace missed; made up for before this one started.
  std::vector<std::string> missed() const;
  // To be called once everything inside has ended; see exit_scan.h. Whoever calls it tells what was missed too: the
  // next one will not be told again.
  ScanReport scan();
  // A cover was lost for a while: what is there now may be of the sandbox's making, and the scan looks at it.
  void distrust(const std::string& path) const;
  // Nobody could be told what it found: whoever comes next will be.
  void keep_reports(const std::vector<std::string>& reports);

  // Blocks. After `ended` there is nothing more to come.
  Event next_event();
  Status signal(int number, std::uint32_t job = 0);
  // The answer is an event, `started` or `failed`, with this job number (not 0, not one in use).
  Status exec(std::uint32_t job, const Command& command);
  // The same for a worker on this socket; needs LaunchOptions::worker.
  Status start_worker(std::uint32_t job, int socket);
  // All that runs, whatever it thinks of that; the answer is the event `stopped` of job 0 with this number, which is
  // not 0. Weak: only the commands.
  Status stop(int number);
  Status resume();  // and the first command has the foreground again, if it had it
  void kill();      // all of it, now, and waits for its end
  // For a caller that is about to exit: after `exited` of job 0 only pid 1 is left and is ending, and
  // waiting for the kernel to take its namespaces apart would only cost time. Else the same as kill().
  void let_go();

 private:
  struct State;
  explicit Running(std::unique_ptr<State> state);
  // `moved`: set when what was to be covered is not there any more, and a new plan may help.
  static Result<Running> start(const Spec& spec, const LaunchOptions& options, std::string& moved);
  friend Result<Running> launch(const Spec& spec, const LaunchOptions& options);
  std::unique_ptr<State> state_;
};

// Returns when the first command has been executed (or pid 1 waits for requests). On error nothing
// is left: no process, mount, descriptor, directory or control group.
Result<Running> launch(const Spec& spec, const LaunchOptions& options = {});

}  // namespace sallyport::sandbox
