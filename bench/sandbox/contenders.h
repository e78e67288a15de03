// Ways to run a command, each timed from before its start to after its exit.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/unique_fd.h"
#include "sandbox/launcher_protocol.h"

namespace sallyport::bench {

using Words = std::vector<std::string>;

// Microseconds from before the spawn to after the wait; ends the program if the command fails.
double time_spawn(const Words& command);

// A launcher process of ours, spoken to as the warden does.
class LauncherUnderTest {
 public:
  explicit LauncherUnderTest(const std::string& program);
  ~LauncherUnderTest();
  LauncherUnderTest(const LauncherUnderTest&) = delete;
  LauncherUnderTest& operator=(const LauncherUnderTest&) = delete;

  double time_launch(const sandbox::Spec& spec);  // a sandbox for one command
  void start(const sandbox::Spec& spec);          // one that waits; for time_exec
  void stop();
  double time_exec(const Words& command);
  long init_pss_kib() const;  // of the waiting sandbox's pid 1; -1 where it may not be read

 private:
  sandbox::FromLauncher next();
  void ask(const sandbox::ToLauncher& request, bool with_streams);

  UniqueFd socket_, null_;
  pid_t pid_ = -1;
  pid_t init_ = -1;
  std::uint32_t last_ = 0;
};

}  // namespace sallyport::bench
