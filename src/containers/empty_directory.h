// Empties a directory that somebody hostile may be writing to at the same time.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "base/base.h"
#include "base/task.h"
#include "ipc/loop.h"

namespace sallyport::containers {

struct Emptied {
  std::uint64_t removed = 0;
  bool is_complete = false;  // false: it was filled faster than it could be emptied
};

// Removes all that is in it, and not the directory itself, which may be mounted elsewhere. Works by
// descriptors from the directory down, follows no link, lets the loop do other things in between, and gives
// up after kMostRemovals, or when it is not to go on.
inline constexpr std::uint64_t kMostRemovals = 1'000'000;
Task<Result<Emptied>> empty_directory(
    ipc::Loop& loop, std::string path, std::function<bool()> goes_on = [] { return true; });

}  // namespace sallyport::containers
