// Notices when the host replaced a pinned or masked file, or moved a directory above one, and covers what is there now.
#pragma once

#include <chrono>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/unique_fd.h"
#include "sandbox/covers.h"
#include "sandbox/launch.h"

namespace sallyport::sandbox {

// A replaced file takes its mount with it, and the kernel tells of that (mountinfo). A moved directory keeps the mounts
// on and below it under its new name, and where it was there may be another: that is told by inotify.
class CoverWatch {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::milliseconds kFirstPause{20};
  static constexpr std::chrono::milliseconds kLongestPause{1000};

  explicit CoverWatch(const Running& running);

  // Poll the first for POLLPRI, the second for POLLIN; -1 when there is nothing to watch.
  int mounts_fd() const { return running_.covers().empty() ? -1 : running_.mount_info(); }
  int names_fd() const { return names_.get(); }

  // Re-applies what is missing. Between the host's change and this call what is new was unprotected: that is reported,
  // not prevented. Each path is named once in each list.
  struct Changes {
    std::vector<std::string> put_back;
    std::vector<std::string> removed;  // by the host; protected again should it come back
  };
  void check(Changes& changes);
  // What names_fd() has to tell, and the check if it concerns a cover. Whoever works in the workspace causes this
  // often.
  void read_names(Changes& changes);

  // When to look again although the kernel tells nothing: it tells of a lost mount before the rename is complete. The
  // pause grows, to one second. Also a first time, soon: until then nothing waits for names, which would be work for
  // nothing where a command ends at once.
  std::optional<Clock::time_point> next_look() const { return next_look_; }

 private:
  void watch_names();
  std::vector<const Cover*> missing() const;
  std::vector<Covered> put_back(const std::vector<const Cover*>& covers) const;

  const Running& running_;
  UniqueFd names_;
  bool sees_all_names_ = false;
  std::set<std::string_view> covered_names_;
  std::set<std::string> told_put_back_, told_removed_, closed_;
  std::chrono::milliseconds pause_ = kFirstPause;
  std::optional<Clock::time_point> next_look_;
};

}  // namespace sallyport::sandbox
