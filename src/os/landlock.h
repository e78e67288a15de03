// Landlock without a library: the constants (Debian's header stops at ABI 2) and the three calls.
// Nothing here allocates, so all of it may be used between clone and exec.
#pragma once

#include <cstdint>

namespace sallyport::os::landlock {

enum FsRight : std::uint64_t {
  kExecute = 1ULL << 0,
  kWriteFile = 1ULL << 1,
  kReadFile = 1ULL << 2,
  kReadDir = 1ULL << 3,
  kRemoveDir = 1ULL << 4,
  kRemoveFile = 1ULL << 5,
  kMakeChar = 1ULL << 6,
  kMakeDir = 1ULL << 7,
  kMakeReg = 1ULL << 8,
  kMakeSock = 1ULL << 9,
  kMakeFifo = 1ULL << 10,
  kMakeBlock = 1ULL << 11,
  kMakeSym = 1ULL << 12,
  kRefer = 1ULL << 13,     // ABI 2; refused by every ruleset that does not grant it
  kTruncate = 1ULL << 14,  // ABI 3
  kIoctlDev = 1ULL << 15,  // ABI 5
};

enum NetRight : std::uint64_t {
  kBindTcp = 1ULL << 0,     // ABI 4
  kConnectTcp = 1ULL << 1,  // ABI 4
};

enum Scope : std::uint64_t {
  kAbstractUnixSocket = 1ULL << 0,  // ABI 6
  kSignal = 1ULL << 1,              // ABI 6
};

struct Ruleset {
  std::uint64_t handled_fs = 0;
  std::uint64_t handled_net = 0;
  std::uint64_t scoped = 0;
};

// What rights on a plain file may be granted; the kernel refuses the others with EINVAL.
constexpr std::uint64_t kFileRights = kExecute | kWriteFile | kReadFile | kTruncate | kIoctlDev;
constexpr std::uint64_t kReadRights = kExecute | kReadFile | kReadDir;

// All file-system rights that this ABI knows.
std::uint64_t all_fs_rights(int abi);

int abi();                                                          // 0: the kernel has none, or it is switched off
int create(const Ruleset& rules, int abi);                          // -> fd, or -1 with errno; drops what the ABI lacks
int allow_beneath(int ruleset, int path_fd, std::uint64_t rights);  // 0, or -1 with errno
int restrict_self(int ruleset);                                     // 0, or -1 with errno; needs no_new_privs

}  // namespace sallyport::os::landlock
