// A Spec made ready for the new process: every path resolved, every string and array in its final
// form. The child only reads it, because between clone and exec nothing may be allocated.
#pragma once

#include <sys/resource.h>

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "sandbox/filters.h"
#include "sandbox/protect.h"
#include "sandbox/spec.h"
#include "sandbox/steps.h"

namespace sallyport::sandbox {

// Of the host's /dev, where it has them.
inline constexpr std::array<const char*, 6> kDevices = {"null", "zero", "full", "random", "urandom", "tty"};

enum class Action : std::uint8_t {
  make_directory,
  make_file,
  make_link,    // source is the link's text
  bind,         // source on the host, recursively
  own_scratch,  // the directory of the new root itself, writable
  new_scratch,  // a tmpfs of its own, where the new root has no directory of its own
};

struct Item {
  Action action;
  std::string source;
  std::string target;            // relative to the new root, without a leading slash
  std::uint64_t attributes = 0;  // MOUNT_ATTR_*
  unsigned mode = 0755;
};

// After the change of root, so that links inside the workspace cannot lead to the host.
struct Cover {
  std::string target;  // absolute, without symbolic links
  // A closed mask cannot be read at all: for what git tracks and would take the empty one for a change.
  enum class Kind : std::uint8_t { pin_writable, pin, mask_directory, mask_file, mask_closed } kind;
};

struct ExecRule {
  std::string path;
  std::uint64_t rights;
};

struct Plan {
  bool is_weak = false;
  std::uint64_t mark = 0;  // of its commands, if it is weak: see job.h
  std::string scratch_size, scratch_files, hostname, directory, path_list, workspace;
  bool is_proc_read_only = false;
  std::span<char> command_line;
  std::vector<Item> items;
  std::vector<Cover> covers;
  int landlock_abi = 0;
  std::uint64_t landlock_handled = 0;
  // Of these, what is only needed where a stream is a file of the host that can only be read: truncate. With it every
  // open walks up its whole path to see what the descriptor may do later, a tenth of a file-heavy command's time.
  std::uint64_t landlock_for_files_to_read = 0;
  std::vector<ExecRule> landlock_rules;
  Filter filter = Filter::command;
  std::vector<std::pair<int, rlimit>> limits;
  std::string pid_max;                  // of the new pid namespace; empty: left alone
  std::uint64_t supervised_memory = 0;  // bytes; 0: not by init
  bool is_traced = false;
  bool has_proxy = false;
  bool refuse_hard_links = false;

  std::vector<std::string> command, environment;
  std::vector<char*> argv, envp;  // into the two above, with a null at the end

  Findings findings;  // for the report
};

// What the machine offers, probed once per process; tests hand in other answers.
struct Machine {
  int landlock_abi = 0;
  bool has_user_namespaces = true;
  bool has_notifications = true;
  std::span<char> command_line;  // of this process, where it would show as pid 1's
  bool has_own_pid_max = false;  // per pid namespace, Linux 6.14
  WalkBounds bounds;             // of the search for what to protect

  static Machine probe();  // user namespaces are assumed: clone3 itself is the proof
};

// One whose findings say that the workspace has changed meanwhile protects nothing.
Result<Plan> make_plan(const Spec& spec, const Machine& machine);

}  // namespace sallyport::sandbox
