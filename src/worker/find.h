// fs.glob: the paths below a directory that match a pattern, sorted.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "worker/limits.h"
#include "worker/walk.h"

namespace sallyport::worker {

struct GlobRequest {
  enum class Kind : std::uint8_t { file, directory, any };  // file: symlinks too, which are not followed

  std::string pattern;
  std::string root = ".";
  Kind kind = Kind::file;
  std::size_t limit = kDefaultPaths;
  std::size_t max_bytes = kDefaultPageBytes;
  std::string cursor;  // the last path of the page before
  WalkOptions walk;
};

struct GlobAnswer {
  std::vector<std::string> paths;  // as `root` was written, joined with what was found
  Skipped skipped;
  std::uint64_t total = 0;  // matches behind the cursor, on this page or not
  bool truncated = false;
};

Result<GlobAnswer> find_paths(const Roots& roots, const GlobRequest& request, const Stop& stop);

// How paths below `root` begin in answers: "" for the workspace, otherwise root as written and a slash.
std::string display_prefix(std::string_view root);

}  // namespace sallyport::worker
