// One command started by pid 1. Internal to the module; nothing allocates.
#pragma once

#include <sys/resource.h>
#include <sys/types.h>

#include <cstddef>

#include "sandbox/child.h"
#include "sandbox/steps.h"

namespace sallyport::sandbox {

struct JobStart {
  char* const* argv;
  char* const* envp;
  const char* directory;
  const char* path_list;  // for a command without a slash
  const int* fds;         // become 0, 1, 2, ...; null: those of pid 1
  std::size_t fd_count;
  TerminalMode terminal;
  bool is_traced = false;
  // Set here and not on pid 1, whose own memory may be large by then: a copy of a sanitized program.
  const rlimit* data_limit = nullptr;
};

struct JobFailure {
  Step step = Step::none;
  int error = 0;
};

// Returns the pid once the command has been executed, or -1 with the reason. The command inherits
// every confinement of pid 1: nothing is applied a second time.
pid_t start_job(const JobStart& start, const Reporter& reporter, JobFailure& failure);

}  // namespace sallyport::sandbox
