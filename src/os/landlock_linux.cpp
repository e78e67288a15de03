#include <sys/syscall.h>
#include <unistd.h>

#include <cstddef>

#include "os/landlock.h"

namespace sallyport::os::landlock {
namespace {

constexpr std::uint32_t kVersionFlag = 1;
constexpr int kPathBeneath = 1;

struct __attribute__((packed)) PathBeneath {
  std::uint64_t rights;
  std::int32_t parent_fd;
};

}  // namespace

std::uint64_t all_fs_rights(int abi) {
  std::uint64_t rights = kRefer - 1;
  if (abi >= 2) rights |= kRefer;
  if (abi >= 3) rights |= kTruncate;
  if (abi >= 5) rights |= kIoctlDev;
  return rights;
}

int abi() {
  const long version = ::syscall(SYS_landlock_create_ruleset, nullptr, 0, kVersionFlag);
  return version < 0 ? 0 : static_cast<int>(version);
}

int create(const Ruleset& rules, int abi) {
  Ruleset known = rules;
  known.handled_fs &= all_fs_rights(abi);
  if (abi < 4) known.handled_net = 0;
  if (abi < 6) known.scoped = 0;
  // An old kernel refuses a longer structure than its own if the tail is not zero, and a new one
  // accepts a shorter one; the whole structure with zeroed tail is right for all of them.
  return static_cast<int>(::syscall(SYS_landlock_create_ruleset, &known, sizeof(known), 0));
}

int allow_beneath(int ruleset, int path_fd, std::uint64_t rights) {
  const PathBeneath rule = {rights, path_fd};
  return static_cast<int>(::syscall(SYS_landlock_add_rule, ruleset, kPathBeneath, &rule, 0));
}

int restrict_self(int ruleset) { return static_cast<int>(::syscall(SYS_landlock_restrict_self, ruleset, 0)); }

}  // namespace sallyport::os::landlock
