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
  std::string cursor;  // of the page before
  WalkOptions walk;
};

struct GlobAnswer {
  std::vector<std::string> paths;  // as `root` was written, joined with what was found
  Skipped skipped;                 // symlinks: those that are not in `paths` and might have led to matches
  std::uint64_t total = 0;         // all matches, on this page or not: the same on every page
  std::string cursor;              // where the next page goes on; empty if this is all
};

Result<GlobAnswer> find_paths(const Roots& roots, const GlobRequest& request, const Stop& stop);

// The absolute path of a search's root, with a slash at its end.
std::string absolute_prefix(const Roots& roots, std::string_view root);

// How paths below `root` begin in answers: "" for the workspace, otherwise root as written and a slash.
std::string display_prefix(std::string_view root);

}  // namespace sallyport::worker
