// One command started by pid 1. Internal to the module; nothing allocates.
#pragma once

#include <sys/resource.h>
#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "sandbox/child.h"
#include "sandbox/steps.h"

namespace sallyport::sandbox {

// Not pid 1's, whose memory may be large by then (a copy of a sanitized program), and who hands descriptors over: how
// many others of the same user have on their way counts against its limit.
constexpr bool is_of_commands_only(int resource) { return resource == RLIMIT_DATA || resource == RLIMIT_NOFILE; }

struct JobStart {
  char* const* argv;
  char* const* envp;
  const char* directory;
  const char* path_list;  // for a command without a slash
  const int* fds;         // become 0, 1, 2, ...; null: those of pid 1
  std::size_t fd_count;
  TerminalMode terminal;
  bool is_traced = false;
  std::span<const std::pair<int, rlimit>> limits;  // of which those are set that are only the commands' own
  std::uint64_t mark = 0;                          // what it and all that comes of it carry; 0: none
};

// Returns the pid once the command has been executed, or -1 with the reason. The command inherits
// every confinement of pid 1: nothing is applied a second time.
pid_t start_job(const JobStart& start, const Reporter& reporter, Failure& failure);

// A mark is a limit that the kernel passes on to every new process and no longer uses for anything itself: that on file
// locks. Raising it needs a capability, and a filter keeps commands from lowering it (filter_rules.h), so that neither
// setsid nor a second fork shakes it off.
std::uint64_t make_mark();
// Those of one sandbox have all but their last bits in common.
inline constexpr std::uint64_t kOneMark = ~0ULL, kMarksOfOne = ~0xffffULL;
// Kills every process that carries it, or one that is the same in these bits. False: for certain there was none. Those
// that are dying count until they are reaped.
bool kill_marked(std::uint64_t mark, std::uint64_t bits = kOneMark);
// For the maker of a sandbox without namespaces: lets its pid 1 end the commands, and ends that and what is left of
// them, since they may have killed it.
void end_weak(pid_t init, std::uint64_t mark);

}  // namespace sallyport::sandbox
