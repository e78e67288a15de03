// fs.grep: the lines below a directory, or of one file, that match a pattern.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "worker/limits.h"
#include "worker/pattern.h"
#include "worker/search.h"
#include "worker/walk.h"

namespace sallyport::worker {

struct GrepRequest {
  std::string pattern;
  PatternOptions options;
  std::string root = ".";            // a directory, or a file: that one is searched whatever it is
  std::vector<std::string> include;  // globs; a file must match one of them, if there are any
  std::vector<std::string> exclude;  // globs; a file must match none
  std::vector<std::string> types;    // names of kFileTypes; as more includes
  SearchOptions search;
  std::size_t limit = kDefaultHits;  // matching lines in content mode, files in the others
  std::size_t max_bytes = kDefaultPageBytes;
  std::string cursor;
  WalkOptions walk;
};

struct GrepFile {
  std::string path;
  FileHits found;
};

struct GrepAnswer {
  std::vector<GrepFile> files;  // in the order of their paths, hits in the order of their lines; unless streamed
  std::uint64_t total = 0;      // matching lines in content mode, files in the others: in the answer or streamed
  std::uint64_t pages = 0;      // that were streamed
  Skipped skipped;              // of what was looked at before the page was full
  std::uint64_t searched = 0;   // files that were read
  std::string cursor;           // where to go on; empty if this is all
};

// Takes a page as soon as nothing in front of it is left to search; called by the thread that searches first. An error
// ends the search with it.
using OnPage = std::function<Status(const std::vector<GrepFile>&)>;

// Deterministic: the same tree gives the same answer, whatever the threads do. The counts of what was
// skipped and searched are exact only for an answer without a cursor. With `on_page` the hits go there, in pages of
// at most max_bytes and in the same order, and only `limit` ends the search.
Result<GrepAnswer> grep(const Roots& roots, const GrepRequest& request, const Stop& stop, const OnPage& on_page = {});

}  // namespace sallyport::worker
