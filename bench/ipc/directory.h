// Where a benchmark's programs keep their files.
#pragma once

#include <cstdint>
#include <string>

namespace sallyport::bench {

// A temporary directory, removed with all that is in it.
class Directory {
 public:
  // A warden's own directories lie below $SALLYPORT_BENCH_DIR, by default on tmpfs: what is compared is the work, not
  // the disk, and file systems without a journal create slowly after mass deletes. A sandbox has a /dev/shm of its own,
  // so that no workspace can lie there.
  enum class For : std::uint8_t { warden, workspace };
  explicit Directory(For whom = For::warden);
  ~Directory();
  Directory(const Directory&) = delete;
  Directory& operator=(const Directory&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace sallyport::bench
