// fs.copy, fs.move, fs.remove and fs.mkdir.
//
// Everything below the named path is reached one component at a time from held descriptors and never
// through a link: links are copied, moved and removed as links. A tree is not one step: an error in the
// middle leaves what was done, and its details count it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "worker/root.h"
#include "worker/walk.h"

namespace sallyport::worker {

struct TransferRequest {
  std::string from;
  std::string to;          // the new name itself, not a directory to put it into
  bool overwrite = false;  // replace a file; a directory is never replaced
  bool recursive = false;  // of copy: needed for directories
  bool create_dirs = false;
};
struct CopyAnswer {
  std::uint64_t files = 0;
  std::uint64_t directories = 0;
  std::uint64_t links = 0;
  std::uint64_t bytes = 0;
  std::uint64_t skipped_special = 0;  // FIFOs, sockets and devices are not copied
  bool is_scratch = false;            // see Roots
};
Result<CopyAnswer> copy_path(const Roots& roots, const TransferRequest& request, const Stop& stop);

struct MoveAnswer {
  bool is_scratch = false;
};
// A rename where it can be; between two file systems a copy and then a removal (see move.h).
Result<MoveAnswer> move_path(const Roots& roots, const TransferRequest& request, const Stop& stop);

struct RemoveAnswer {
  std::uint64_t removed = 0;
};
Result<RemoveAnswer> remove_path(const Roots& roots, std::string_view path, bool recursive, const Stop& stop);

struct MkdirAnswer {
  int created = 0;
  bool is_scratch = false;
};
Result<MkdirAnswer> make_directory(const Roots& roots, std::string_view path, bool parents);

}  // namespace sallyport::worker
