// Files and directories that are not empty but covered: the sandbox shows an empty one in their place.
#pragma once

#include <sys/stat.h>

#include <mutex>
#include <optional>

#include "worker/root.h"

namespace sallyport::worker {

class Masks {
 public:
  explicit Masks(const Roots& roots) : roots_(roots) {}

  // Whether an open file or directory that was found empty is a mask. From any thread.
  bool is_mask(int fd) const;

 private:
  struct Identity {
    dev_t device;
    ino_t inode;
  };
  std::optional<Identity> identify(const char* path) const;

  const Roots& roots_;
  // Looked up when the first empty one is met: most searches meet none.
  mutable std::once_flag is_known_;
  mutable std::optional<Identity> file_, directory_;
};

}  // namespace sallyport::worker
