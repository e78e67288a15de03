// A sandbox that takes over the caller's terminal: what `sallyport run` is made of.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "sandbox/launch.h"
#include "sandbox/violations.h"

namespace sallyport::sandbox {

struct ForegroundOptions {
  LaunchOptions launch;                            // its terminal mode is chosen by run_foreground()
  std::function<void(const Running&)> on_started;  // it runs; called once, may be empty
  // Something else to wait for beside the sandbox: asked for each time, -1 for nothing; called when it is readable.
  struct Other {
    std::function<int()> fd;
    std::function<void()> on_readable;
  };
  std::vector<Other> others;
};

struct ExitReport {
  int wait_status = 0;  // of the command, as waitpid(2) gives it
  Protections protections;
  Findings findings;
  std::vector<Violation> violations;
  std::uint64_t violation_count = 0;
  std::vector<Violation> refusals;     // with Spec::explain: refused paths and addresses, each once
  std::uint64_t refusals_dropped = 0;  // beyond what is kept
  bool was_over_memory = false;
  bool was_over_time = false;
  bool went_on = false;                  // while it was stopped, and was killed for it
  std::vector<std::string> lost_mounts;  // covers that the host's changes removed; put back
  std::vector<std::string> uncovered;    // the same, but not put back at the end
  std::vector<std::string> removed;      // covered files that the host removed
  ScanReport scan;                       // what was found at exit
  std::vector<std::string> missed;       // and before the start, left by sandboxes that were killed
  std::vector<std::string> restored;     // what of the caller's own it had changed
  std::vector<std::string> unrestored;   // the same, but it could not be put back

  bool was_signalled() const;
  int exit_code() const;  // 128 + signal for a command that was killed by one, as shells do
};

// Runs the command to its end. With a terminal on stdin and stdout the command gets a process group
// of its own in the foreground, so that an interactive shell has job control; stopping it stops the
// caller's group too. Otherwise it stays in the caller's group and the terminal's signals reach it
// directly. Signals sent to the caller (HUP, INT, QUIT, TERM, USR1, USR2) are passed on. What has a terminal runs
// only while the caller's group has it in the foreground: with Ctrl-Z all of the sandbox stops until then (where nobody
// would continue it, nothing does), and a start in the background is a CONFLICT, for whoever types there is overheard
// by any process that left the terminal's session. Changes the calling process's signal mask while it runs; the caller
// must have one thread. When it returns, pid 1 may still be ending as an unreaped child of the caller; nothing else is
// left.
Result<ExitReport> run_foreground(const Spec& spec, const ForegroundOptions& options = {});

}  // namespace sallyport::sandbox
