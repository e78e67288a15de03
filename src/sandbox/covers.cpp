#include "sandbox/covers.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstring>

#ifndef STATX_ATTR_MOUNT_ROOT
#define STATX_ATTR_MOUNT_ROOT 0x2000
#endif

namespace sallyport::sandbox {
namespace {

// The directory that refuses is another user's, so that no mode can be changed from inside.
bool is_closed_by_another(const char* path) {
  char above[PATH_MAX];
  const std::size_t length = std::strlen(path);
  if (length >= sizeof(above)) return false;
  std::memcpy(above, path, length + 1);
  for (char* slash = std::strrchr(above, '/'); slash != nullptr && slash != above; slash = std::strrchr(above, '/')) {
    *slash = '\0';
    const int fd = open_exactly(above);
    if (fd < 0 && errno != EACCES) return false;
    if (fd < 0) continue;
    struct stat info{};
    const bool is_anothers = ::fstat(fd, &info) == 0 && info.st_uid != ::geteuid();
    ::close(fd);
    return is_anothers;
  }
  return false;
}

const char* mask_of(Cover::Kind kind) {
  switch (kind) {
    case Cover::Kind::mask_file:
      return kEmptyFile;
    case Cover::Kind::mask_closed:
      return kClosedFile;
    case Cover::Kind::mask_directory:
      return kEmptyDirectory;
    case Cover::Kind::pin_writable:
    case Cover::Kind::pin:
      return nullptr;
  }
  return nullptr;
}

bool mount_on(int place, Cover::Kind kind) {
  const char* mask = mask_of(kind);
  const int tree = mask != nullptr
                       ? ::open_tree(AT_FDCWD, mask, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC)
                       : ::open_tree(place, "", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_EMPTY_PATH | AT_RECURSIVE);
  if (tree < 0) return false;
  mount_attr change{};
  change.attr_set = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV |
                    (kind == Cover::Kind::pin_writable ? 0U : static_cast<unsigned>(MOUNT_ATTR_RDONLY));
  const bool is_done = ::mount_setattr(tree, "", AT_EMPTY_PATH | AT_RECURSIVE, &change, sizeof(change)) == 0 &&
                       ::move_mount(tree, "", place, "", MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH) == 0;
  const int error = errno;
  ::close(tree);
  errno = error;
  return is_done;
}

}  // namespace

int open_exactly(const char* path) {
  open_how how{};
  how.flags = O_PATH | O_CLOEXEC | O_NOFOLLOW;
  how.resolve = RESOLVE_NO_SYMLINKS;
  return static_cast<int>(::syscall(SYS_openat2, AT_FDCWD, path, &how, sizeof(how)));
}

Covered put_cover(const Cover& cover) {
  const int place = open_exactly(cover.target.c_str());
  if (place < 0) {
    const int error = errno;
    if (error == EACCES && is_closed_by_another(cover.target.c_str())) return Covered::closed;
    errno = error;
    return Covered::failed;
  }
  const bool is_done = mount_on(place, cover.kind);
  const int error = errno;
  ::close(place);
  errno = error;
  return is_done ? Covered::yes : Covered::failed;
}

bool is_covered(const Cover& cover) {
  struct statx info{};
  if (::statx(AT_FDCWD, cover.target.c_str(), AT_SYMLINK_NOFOLLOW, STATX_TYPE, &info) != 0) {
    const int error = errno;
    if (error == EACCES && is_closed_by_another(cover.target.c_str())) return true;
    errno = error;
    return false;
  }
  errno = ESTALE;
  return (info.stx_attributes & STATX_ATTR_MOUNT_ROOT) != 0;
}

bool is_change(int error) { return error == ENOENT || error == ENOTDIR || error == ELOOP || error == ESTALE; }

}  // namespace sallyport::sandbox
