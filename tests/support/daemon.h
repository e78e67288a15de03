// The real sallyportd, started on directories of its own and gone when the test is over.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/sanitized.h"

namespace sallyport::testing {

// Long enough for a loaded machine; every wait ends as soon as it can.
inline constexpr std::chrono::milliseconds kPatience{kIsSanitized ? 90'000 : 30'000};

// Counts that only cost time are a tenth of it under a sanitizer.
constexpr std::size_t scaled(std::size_t count) { return kIsSanitized ? count / 10 : count; }

// Polls until the claim holds; false if it never does.
bool eventually(const std::function<bool()>& claim, std::chrono::milliseconds patience = kPatience);

// A directory that goes, with all that is in it.
class TemporaryDirectory {
 public:
  TemporaryDirectory();
  ~TemporaryDirectory();
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// Runs work in a forked child and returns its exit status, or -signal.
int in_child(const std::function<int()>& work);

// The most memory that a process has had at once; 0 if it is gone.
std::int64_t peak_kib(pid_t pid);
// What it has of its own now: what it shares with others weighs more or less as they come and go.
std::int64_t own_kib(pid_t pid);

struct DaemonOptions {
  std::string program = {};                                    // sallyportd unless said otherwise
  std::string config = "[warden]\ndrain_timeout_ms = 2000\n";  // the text of sallyport.toml
  std::vector<std::string> arguments = {};
  std::string runtime_dir = {};            // beneath the daemon's own directory unless said otherwise
  std::function<void()> before_exec = {};  // in the child
  int stdin_fd = -1, stdout_fd = -1;
};

class Daemon {
 public:
  explicit Daemon(DaemonOptions options = {});
  ~Daemon();  // kills what still runs; shows its last words if the test failed
  Daemon(const Daemon&) = delete;
  Daemon& operator=(const Daemon&) = delete;

  // True once the doors are open; false if it ended instead.
  bool start();
  bool is_running();
  pid_t pid() const { return pid_; }
  void signal(int number) const;
  // The exit status, or -signal; nullopt if it does not end.
  std::optional<int> wait();
  // SIGTERM and wait.
  std::optional<int> stop();
  void kill_now();  // SIGKILL and wait

  const std::string& root() const { return root_.path(); }
  std::string runtime_dir() const;
  std::string socket_path() const { return runtime_dir() + "/warden.sock"; }
  std::string loopback_file() const { return runtime_dir() + "/warden.json"; }
  std::string config_file() const { return root() + "/sallyport.toml"; }
  void write_config(const std::string& text) const;
  std::string log() const;
  bool logs(const std::string& text) const;  // waits for it

 private:
  [[noreturn]] void exec_child(int ready_fd);

  DaemonOptions options_;
  TemporaryDirectory root_;
  std::atomic<pid_t> pid_ = -1;  // tests look at it from other threads
};

}  // namespace sallyport::testing
