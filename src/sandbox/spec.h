// What a sandbox is to be: a value, without I/O. launch() turns it into processes.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace sallyport::sandbox {

// Accepting less protection takes one of these, so that every such place can be found by its name.
struct Risk {
  std::string reason;
};

// A host path that appears under another path, such as a container's door directory.
struct Bind {
  std::string source;
  std::string target;
  bool is_writable = false;
  bool is_executable = false;
};

// Where a sandbox with Spec::has_proxy finds its proxy, on 127.0.0.1 of its own network namespace.
inline constexpr std::uint16_t kProxyPort = 3128;

// Zero means: no limit of ours.
struct Limits {
  std::uint64_t memory_bytes = 4ULL << 30;
  std::uint32_t processes = 512;
  double cpus = 0;  // needs a control group: see needs_cgroup()
  std::uint64_t open_files = 1024;
  std::uint64_t file_bytes = 2ULL << 30;     // of one file
  std::uint64_t scratch_bytes = 1ULL << 30;  // of /tmp, /dev/shm and the home directory together
  std::chrono::milliseconds duration{0};
  std::chrono::milliseconds idle{0};  // without output or input; enforced by who holds the streams
};

// Paths are absolute host paths; symbolic links in them are resolved at launch, and what they
// resolve to is what is mounted. A path that does not exist is left out, except the workspace.
struct Spec {
  std::string name = "run";              // of the container, for control groups and messages
  std::vector<std::string> command;      // empty: the sandbox waits for exec requests
  std::vector<std::string> environment;  // "KEY=value", all of it: nothing is inherited
  std::string directory;                 // where the command starts; default: the workspace, else /
  std::string hostname = "sallyport";

  std::string workspace;  // at its host path; empty: none
  bool is_workspace_writable = true;
  std::string home;                // private and empty; empty: none
  std::vector<std::string> read;   // mounted read-only
  std::vector<std::string> write;  // mounted read-write
  // Of these, what was named for this very launch, or by the host itself: links on the way are followed wherever they
  // lie. Elsewhere what is behind a link that an earlier sandbox may have made is left out.
  std::vector<std::string> meant;
  std::vector<std::string> deny;  // beats read and write, at the same or any deeper path
  // Hidden in the workspace: relative paths as matches_path() (base/path_pattern.h) takes them.
  std::vector<std::string> deny_patterns;
  std::vector<Bind> binds;

  // Files that may be executed, and directories below which everything may. The dynamic loader is
  // always among them (the kernel opens it for execution), so `ld.so PROGRAM` is not stopped.
  std::vector<std::string> exec;
  bool refuse_hard_links = false;        // the file worker opens no file with more than one name
  bool use_all_landlock_rights = false;  // the mounts' rules a second time, by Landlock

  // Listen on kProxyPort inside, and hand the listener to the maker: the one way out, for whoever accepts there.
  bool has_proxy = false;

  // Where it is written down what the scan at exit needs, in case nobody lives to make it; empty: nowhere.
  std::string scan_records;

  Limits limits;
  bool protect_workspace = true;   // pins and masks inside a writable workspace
  bool report_violations = true;   // needs a supervisor that serves Running::violations
  bool explain = false;            // also report every refused path and address; slow, see tracer.h
  std::optional<Risk> allow_weak;  // without user namespaces: Landlock and seccomp alone
};

}  // namespace sallyport::sandbox
