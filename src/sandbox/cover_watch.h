// Notices when the host replaced a pinned or masked file (its mount is lost then) and puts it back.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "sandbox/launch.h"

namespace sallyport::sandbox {

class CoverWatch {
 public:
  explicit CoverWatch(const Running& running) : running_(running) {}

  // Poll for POLLPRI; -1 when there is nothing to watch.
  int poll_fd() const { return running_.covers().empty() ? -1 : running_.mount_info(); }

  // Re-applies what is missing, names it in `lost`, and returns how many could not be put back: the
  // kernel tells of the lost mount before the rename is complete, and a removed file may come back
  // later without any notice, so as long as this is not 0 look again after kRetry. Between the
  // host's change and this call the new file was unprotected: that is reported, not prevented.
  std::size_t check(std::vector<std::string>& lost);
  static constexpr std::chrono::milliseconds kRetry{20};

 private:
  const Running& running_;
};

}  // namespace sallyport::sandbox
