// What the scan at exit knows of the launch: what was pinned, where links led, what has changed since. Internal to the
// module.
#pragma once

#include <optional>
#include <set>
#include <string>

#include "sandbox/held_directory.h"
#include "sandbox/protect.h"

namespace sallyport::sandbox {

inline FileId id_of(const struct stat& info) { return {info.st_dev, info.st_ino}; }
inline bool is_type(const std::optional<struct stat>& info, mode_t type) {
  return info && (info->st_mode & S_IFMT) == type;
}

class ScanBaseline {
 public:
  ScanBaseline(const Findings& at_launch, const HeldDirectory& root);

  // A place that nothing inside could change.
  bool is_covered(const std::string& path) const { return covered_.contains(path); }
  // Pinned, and still where it was: a pin cannot be moved, but a directory above it can.
  bool is_where_pinned(const HeldDirectory& directory, const std::string& name) const;
  // The same, and no file that was written through another name. What is in a directory is another question.
  bool is_as_pinned(const HeldDirectory& directory, const std::string& name) const;
  // A file that changed since, whatever was to keep it from that.
  bool is_written(const HeldDirectory& directory, const std::string& name) const;
  // The same as a hook of the user's, as in a further work tree of the same repository.
  bool is_like_own_hook(const HeldDirectory& hooks, const std::string& name) const;
  bool was_masked(const std::string& path) const;
  bool had_other_names(const std::string& path) const;

  bool was_link(const std::string& path) const { return at_launch_.links.contains(path); }
  enum class Behind { same, written, other };
  Behind look_behind(const HeldDirectory& directory, const std::string& link) const;
  // Where a link leads, if what is there was to be pinned in its stead.
  std::optional<std::string> target_of(const HeldDirectory& directory, const std::string& link) const;

  bool is_beneath_skipped(const std::string& path) const;
  // Everything that is found there and was not listed at launch is new.
  bool is_listed(const std::string& directory) const;
  bool may_be_new(const HeldDirectory& directory) const;

  enum class Origin { old, unclear, fresh };
  Origin origin_of(const HeldDirectory& directory, const std::string& name) const;
  Origin origin_by_time(const HeldDirectory& directory, const std::string& name) const;

 private:
  bool is_held(std::string path) const;
  bool is_in_place(const HeldDirectory& directory) const;
  bool has_changed(const struct stat& info) const { return changed_at(info) >= at_launch_.taken_at; }

  const Findings& at_launch_;
  const HeldDirectory& root_;
  const std::set<std::string> pins_;
  std::set<std::string> covered_, known_;
};

}  // namespace sallyport::sandbox
