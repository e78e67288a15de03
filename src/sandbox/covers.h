// One cover, put on its place in the mount namespace of the sandbox that it is for. Internal to the module.
//
// Nothing here allocates: the new process calls it between clone and exec.
#pragma once

#include <cstdint>

#include "os/mask_names.h"
#include "sandbox/plan.h"

namespace sallyport::sandbox {

// What masks are mounted from, in the sandbox's own root.
constexpr const char* kEmptyFile = os::kMaskFile;
constexpr const char* kEmptyDirectory = os::kMaskDirectory;
constexpr const char* kClosedFile = "/run/.masked-closed";  // of mode 0, for Cover::Kind::mask_closed

// The path itself (O_PATH), refusing to pass through any symbolic link; -1 with errno.
int open_exactly(const char* path);

enum class Covered : std::uint8_t {
  yes,
  closed,  // needs none: nobody inside can get there, nor change that
  failed,  // errno says why
};

Covered put_cover(const Cover& cover);

// Whether what is at the path now is a cover, or closed; false with errno otherwise.
bool is_covered(const Cover& cover);

// Whether this is what happens when the path leads elsewhere than when the cover was planned.
bool is_change(int error);

}  // namespace sallyport::sandbox
