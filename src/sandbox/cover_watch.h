// Notices when the host replaced a pinned or masked file (its mount is lost then) and puts it back.
#pragma once

#include <chrono>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "sandbox/launch.h"

namespace sallyport::sandbox {

class CoverWatch {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::milliseconds kFirstPause{20};
  static constexpr std::chrono::milliseconds kLongestPause{1000};

  explicit CoverWatch(const Running& running) : running_(running) {}

  // Poll for POLLPRI; -1 when there is nothing to watch.
  int poll_fd() const { return running_.covers().empty() ? -1 : running_.mount_info(); }

  // Re-applies what is missing. Between the host's change and this call the new file was unprotected:
  // that is reported, not prevented. Each path is named once in each list.
  struct Changes {
    std::vector<std::string> put_back;
    std::vector<std::string> removed;  // by the host; protected again should it come back
  };
  void check(Changes& changes);

  // When to look again although the kernel tells nothing: it tells of a lost mount before the rename is
  // complete, and of a file that comes back not at all. The pause grows, to one second.
  std::optional<Clock::time_point> next_look() const { return next_look_; }

 private:
  std::vector<const Cover*> missing() const;
  bool put_back(const std::vector<const Cover*>& covers, std::vector<bool>& is_back) const;

  const Running& running_;
  std::set<std::string> told_put_back_, told_removed_;
  std::chrono::milliseconds pause_ = kFirstPause;
  std::optional<Clock::time_point> next_look_;
};

}  // namespace sallyport::sandbox
