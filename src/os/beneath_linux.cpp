#include "os/beneath.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

namespace sallyport::os {
namespace {

constexpr open_how row(int flags, Links links = Links::followed) {
  const std::uint64_t resolve = links == Links::refused ? RESOLVE_NO_SYMLINKS : RESOLVE_NO_MAGICLINKS;
  return {static_cast<std::uint64_t>(flags | O_CLOEXEC), 0, RESOLVE_BENEATH | resolve};
}

constexpr int kFile = O_NONBLOCK | O_NOCTTY;
constexpr auto kRows = std::to_array<open_how>({
    row(O_RDONLY | kFile),
    row(O_RDWR | kFile),
    row(O_RDONLY | kFile | O_NOFOLLOW),
    row(O_RDWR | kFile | O_NOFOLLOW),
    row(O_RDONLY | kFile, Links::refused),
    row(O_RDONLY | O_DIRECTORY | O_NONBLOCK),
    row(O_PATH),
    row(O_PATH | O_NOFOLLOW),
    row(O_PATH | O_DIRECTORY),
});

const open_how* make_table() {
  void* const wanted = reinterpret_cast<void*>(kOpenTable);
  void* const place =
      ::mmap(wanted, sizeof kRows, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
  if (place == MAP_FAILED) return nullptr;
  std::memcpy(place, kRows.data(), sizeof kRows);
  // Kernels before 4.17 know no MAP_FIXED_NOREPLACE and take the address for a wish.
  if (place != wanted || ::mprotect(place, sizeof kRows, PROT_READ) != 0) {
    ::munmap(place, sizeof kRows);
    return nullptr;
  }
  return static_cast<const open_how*>(place);
}

const open_how* table() {
  static const open_how* const kMade = make_table();
  return kMade;
}

}  // namespace

bool make_open_table() { return table() != nullptr; }

UniqueFd open_beneath(int directory, const char* path, int flags, Links links) {
  if (table() == nullptr) {
    errno = ENOSYS;
    return {};
  }
  const open_how asked = row(flags, links);
  const auto found = std::find_if(kRows.begin(), kRows.end(), [&](const open_how& each) {
    return each.flags == asked.flags && each.resolve == asked.resolve;
  });
  if (found == kRows.end()) {
    errno = EINVAL;
    return {};
  }
  const open_how* how = table() + (found - kRows.begin());
  return UniqueFd(static_cast<int>(::syscall(SYS_openat2, directory, path, how, sizeof *how)));
}

}  // namespace sallyport::os
