// Notices when the host replaced a pinned or masked file, or moved a directory above one, and covers what is there now.
#pragma once

#include <chrono>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "sandbox/covers.h"
#include "sandbox/launch.h"

namespace sallyport::sandbox {

class CoverWatch {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::milliseconds kFirstPause{20};
  static constexpr std::chrono::milliseconds kLongestPause{1000};

  explicit CoverWatch(const Running& running);

  // Poll for POLLPRI; -1 when there is nothing to watch.
  int poll_fd() const { return running_.covers().empty() ? -1 : running_.mount_info(); }

  // Re-applies what is missing. Between the host's change and this call what is new was unprotected:
  // that is reported, not prevented. Each path is named once in each list.
  struct Changes {
    std::vector<std::string> put_back;
    std::vector<std::string> removed;  // by the host; protected again should it come back
  };
  void check(Changes& changes);

  // When to look again although the kernel tells nothing: it tells of a lost mount before the rename is complete, and
  // of a file that comes back not at all; nor of a directory that was moved, which takes along the mounts on and below
  // it and leaves its name to another. The pause grows, to one second. (inotify would tell at once; but ending it keeps
  // its process waiting for the kernel, ten milliseconds at every end of a sandbox.)
  std::optional<Clock::time_point> next_look() const { return next_look_; }

  // Whether everything that is there was covered when it was looked at last, and what was not.
  bool is_settled() const { return is_settled_; }
  const std::vector<std::string>& uncovered() const { return uncovered_; }

 private:
  std::vector<const Cover*> missing() const;
  std::vector<Covered> put_back(const std::vector<const Cover*>& covers) const;

  const Running& running_;
  std::set<std::string> told_put_back_, told_removed_, closed_;
  std::vector<std::string> uncovered_;
  bool is_settled_ = true;
  std::chrono::milliseconds pause_ = kFirstPause;
  std::optional<Clock::time_point> next_look_;
};

}  // namespace sallyport::sandbox
