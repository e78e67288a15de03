// Where something new is to be, with the directories above it that were missing.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "worker/file.h"
#include "worker/root.h"

namespace sallyport::worker {

// Directories that were made for it go again with this object, unless keep() says that they were needed: a call that
// is refused leaves nothing behind.
class NewPlace {
 public:
  // With `create_dirs` missing parents are made. `roots` must outlive it.
  static Result<NewPlace> find(const Roots& roots, std::string_view path, Follow follow, bool create_dirs);

  NewPlace(NewPlace&&) = default;
  NewPlace(const NewPlace&) = delete;
  NewPlace& operator=(NewPlace&&) = delete;
  NewPlace& operator=(const NewPlace&) = delete;
  ~NewPlace();

  const Place& place() const { return place_; }
  // Waits until those directories survive a power cut.
  Status sync(const FileCalls& calls) const;
  void keep() { made_.clear(); }

 private:
  explicit NewPlace(const Roots& roots) : roots_(&roots) {}

  const Roots* roots_;
  Place place_;
  std::vector<std::string> made_;  // paths that were not there before, innermost first
};

// Whether an error says that something on the way to a path is missing.
bool is_absent(const Error& error);
// Of a path whose directory is missing; `flag` is the parameter that makes it.
Error no_parent(std::string_view flag);

}  // namespace sallyport::worker
