// A command of the host's shell, run to its end.
#pragma once

#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <string>

namespace sallyport::testing {

struct Ran {
  int status = -1;     // its exit code
  std::string output;  // stdout, and whatever the command sends there
};

inline Ran run_shell(const std::string& command) {
  Ran ran;
  std::FILE* const pipe = ::popen(command.c_str(), "re");
  if (pipe == nullptr) return ran;
  std::array<char, 4096> block{};
  while (const std::size_t count = std::fread(block.data(), 1, block.size(), pipe)) {
    ran.output.append(block.data(), count);
  }
  const int status = ::pclose(pipe);
  if (WIFEXITED(status)) ran.status = WEXITSTATUS(status);
  return ran;
}

// In front of a command of ours: all that it has lies in this directory. Of a variable that is set again behind these,
// the last value counts.
inline std::string places_in(const std::string& root) {
  return "SALLYPORT_RUNTIME_DIR='" + root + "/run' SALLYPORT_STATE_DIR='" + root + "/state' SALLYPORT_CONFIG='" + root +
         "/sallyport.toml' ";
}

}  // namespace sallyport::testing
