// Copying and removing what a name in a directory is, with all that is below it.
//
// Everything is reached one component at a time from held descriptors and never through a link.
#pragma once

#include "worker/root.h"
#include "worker/stop.h"
#include "worker/tree.h"

namespace sallyport::worker {

struct CopyOptions {
  bool overwrite = false;  // replace a file
  bool recursive = false;
  bool keeps_times = false;  // of files and directories, as a move does
};
Status copy_entry(const Roots& roots, const Place& from, const Place& to, CopyOptions options, const Stop& stop,
                  CopyAnswer& answer);

// A tree of any depth. What holds a mount point is refused before anything directly in it is removed.
Status remove_entry(const Place& place, const Stop& stop, std::uint64_t& removed);

// A file, a link, an empty directory: 0, or an errno.
int unlink_any(int dir, const char* name);

UniqueFd open_directory_at(int parent, const char* name);
bool are_same(const struct stat& a, const struct stat& b);  // one and the same file

Error exists_already();
// The same, of what `overwrite` does not replace: a directory, or anything by a directory.
Error exists_for_good(std::string message);
inline constexpr const char* kDirectoriesStay =
    "there is something with this name already, and directories are neither replaced nor put in the place of something";
// A mount point: all that lies above something protected is one.
Error is_protected();
Error is_too_deep();

}  // namespace sallyport::worker
