// fs.stat and fs.list: looking without touching.
#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "worker/limits.h"
#include "worker/root.h"

namespace sallyport::worker {

struct StatAnswer {
  std::string_view kind;    // "file", "directory", "symlink" (one that leads nowhere we may go), "fifo", ...
  bool is_symlink = false;  // the path itself; everything else is about what it leads to, if that is inside
  std::string target;       // of a symlink, as it is written
  std::uint64_t size = 0;   // 0 for directories
  std::uint32_t mode = 0;   // permission bits
  std::uint32_t uid = 0;
  std::uint32_t gid = 0;
  std::uint64_t links = 0;
  std::int64_t mtime_ns = 0;

  bool is_directory() const { return kind == "directory"; }
};
// When it was changed last, since 1970; of what lies beyond the years that 64 bits hold, the last of them.
std::int64_t mtime_ns(const struct stat& status);

Result<StatAnswer> stat_path(const Roots& roots, std::string_view path);

struct ListRequest {
  std::string path = ".";
  bool with_hidden = true;
  std::size_t limit = kDefaultHits;
  std::size_t max_bytes = kDefaultPageBytes;
  std::string cursor;  // of the page before
};
struct ListEntry {
  std::string name;
  StatAnswer status;  // of the entry itself; links are not followed
};
struct ListAnswer {
  std::vector<ListEntry> entries;  // sorted by the bytes of their names
  std::uint64_t total = 0;         // in the directory, without what was hidden
  std::string cursor;              // where the next page goes on; empty if this is all
};
Result<ListAnswer> list_directory(const Roots& roots, const ListRequest& request);

}  // namespace sallyport::worker
