// Processes of the benchmark: started, pinned, measured, and stopped by their own pid.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/unique_fd.h"

namespace sallyport::bench {

// A mistake of the benchmark or a contender that does not answer: says so and ends the run.
[[noreturn]] void die(const std::string& what);

class Process {
 public:
  Process() = default;
  // Runs a function in a forked child, which dies with us.
  static Process fork(const std::function<void()>& body);
  struct Files {
    int in = -1, out = -1;  // become stdin and stdout; -1: /dev/null
    int extra = -1;         // kept open under its own number
  };
  static Process exec(const std::vector<std::string>& command, Files files, int cpu,
                      const std::vector<std::string>& environment = {});

  Process(Process&& other) noexcept : pid_(std::exchange(other.pid_, -1)) {}
  Process& operator=(Process&& other) noexcept {
    stop();
    pid_ = std::exchange(other.pid_, -1);
    return *this;
  }
  ~Process() { stop(); }

  pid_t pid() const { return pid_; }
  explicit operator bool() const { return pid_ > 0; }
  void stop();                                // at once
  void ask_to_stop();                         // SIGTERM, and a few seconds for it
  std::chrono::nanoseconds cpu_time() const;  // of all its threads
  std::uint64_t pss_kib() const;

 private:
  explicit Process(pid_t pid) : pid_(pid) {}
  pid_t pid_ = -1;
};

inline constexpr int kAnyCpu = -1;
void pin(pid_t pid, int cpu);  // pid 0: this process; kAnyCpu: all of them
std::chrono::nanoseconds own_cpu_time();

// Pins this process while it lives.
class Pinned {
 public:
  explicit Pinned(int cpu) { pin(0, cpu); }
  ~Pinned() { pin(0, kAnyCpu); }
  Pinned(const Pinned&) = delete;
  Pinned& operator=(const Pinned&) = delete;
};

// Neighbours that take all the CPU they get.
std::vector<Process> busy_loops(int count);

}  // namespace sallyport::bench
