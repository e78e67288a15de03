// Facts about processes and the running machine, from /proc.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>

#include "base/result.h"

namespace sallyport::os {

// In clock ticks since boot: with the pid it names one process of this boot. NOT_FOUND if there is none.
Result<std::uint64_t> process_start_time(pid_t pid);
// Whether any thread of that very process still runs. A zombie does not, though its pid still answers signals.
bool is_process_alive(pid_t pid, std::uint64_t start_time);

// Whether nobody in its session could continue this process's group, were it stopped: the kernel stops no such group
// for a key. So it is under `ssh -t host CMD`, and for what a terminal starts in place of a shell.
bool is_group_orphaned();

// Differs after every boot.
Result<std::string> boot_id();

// Proportional share of memory in KiB, for status pages and benchmarks.
Result<std::uint64_t> memory_pss_kib(pid_t pid);

// Lets go of the pages of this program's code: those that only its start needed stay away, the others come back from
// the page cache when they are used.
void release_code();

// Opens /dev/null in place of stdin, stdout and stderr where they are closed: otherwise the next file that is opened
// becomes one of them, and gets what was meant for a terminal or a log. First of all in every program.
void open_standard_descriptors();

// Raises the limit on open files as far as this process may; returns what is in force.
std::uint64_t raise_open_files_limit();

}  // namespace sallyport::os
