// Opens paths below a directory with the kernel's own checks: openat2, RESOLVE_BENEATH, RESOLVE_NO_MAGICLINKS.
//
// openat2 takes its flags in memory, where no seccomp filter sees them; the mode of a set-user-id file could be among
// them. So that a file worker may use it all the same, what can be asked for is a short table, made once, read-only,
// at an address of its own below everything else. The worker's filter allows openat2 with that table alone and no
// change to memory that low. No row of it creates a file.
#pragma once

#include <cstdint>

#include "base/unique_fd.h"

namespace sallyport::os {

// Where the table is, and below which address a confined process may not change its memory.
constexpr std::uint64_t kOpenTable = 0x10000, kOpenTableEnd = 0x20000;

enum class Links : bool { followed, refused };  // of all components

// Makes the table, which open_beneath otherwise does when it is first called. False, and errno, if its address cannot
// be had: then open_beneath fails with ENOSYS, and a worker must not run, because it could read no ignore files.
bool make_open_table();

// Fails as openat2 does: EXDEV for what leads out of the directory, EAGAIN while names change under it. Flags that are
// in no row are EINVAL. The descriptor is closed at exec.
UniqueFd open_beneath(int directory, const char* path, int flags, Links links = Links::followed);

}  // namespace sallyport::os
