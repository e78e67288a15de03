// A program of the host's own, run to its end: never through a shell, with an environment of our making.
#pragma once

#include <string>
#include <vector>

#include "base/base.h"
#include "base/task.h"
#include "containers/log_ring.h"
#include "ipc/loop.h"

namespace sallyport::scheduler {

struct Program {
  std::vector<std::string> arguments;  // the first is an absolute path
  std::vector<std::string> environment = {};
  std::string directory = "/";
  std::string input = {};  // on its stdin; empty: /dev/null
  Millis timeout{60'000};
};

struct ProgramEnd {
  int wait_status = 0;
  bool was_over_time = false;
  containers::LogRing out, err;

  bool is_good() const { return wait_status == 0 && !was_over_time; }
  int exit_code() const;                // 128 + n if signal n ended it
  std::string_view last_words() const;  // of its stderr, for a log
};

// It gets a session and process group of its own, and no descriptor but the three. After its timeout the whole
// group is killed. UNAVAILABLE if the warden stops first: then it is killed as well. While it runs, a file in
// `programs_dir` names it (empty: none does), so that the next warden finds it if this one is killed.
Task<Result<ProgramEnd>> run_program(ipc::Loop& loop, Program program, std::string programs_dir = {});

// Kills all that programs of an earlier warden left running: every process of their sessions. How many there were. What
// has made a session of its own is not found.
std::size_t end_strays(const std::string& programs_dir);

// PATH, HOME and LANG, for what the host configured.
std::vector<std::string> plain_environment();

}  // namespace sallyport::scheduler
