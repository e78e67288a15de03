// For --explain: pid 1 traces what it starts and tells which calls that name a path or an address
// were refused, with the error that the caller really got. Internal to the module; x86-64 only.
//
// It costs two stops per such call, no debugger works inside meanwhile, and stopping a command by
// Ctrl-Z has no effect.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>

namespace sallyport::sandbox {

#ifdef __x86_64__
constexpr bool kCanTrace = true;
#else
constexpr bool kCanTrace = false;
#endif

constexpr std::size_t kMaxRefusalText = 512;

struct Refusal {
  int call = 0;
  int error = 0;
  char target[kMaxRefusalText] = {};  // a path, made absolute where it can be, or an address
};

// In the new process, before exec: lets itself be traced, waits for the tracer, loads the filter
// that stops at these calls. False with errno on failure.
bool begin_traced();

// In pid 1, after a traced process stopped for begin_traced().
bool adopt_traced(pid_t pid);

// Handles one stop that waitpid() reported and lets the process go on. True if a call was refused,
// which is then described.
bool handle_stop(pid_t pid, int status, Refusal& refusal);

const char* traced_call_name(int call);

}  // namespace sallyport::sandbox
