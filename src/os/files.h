// Small files and private directories, handled so that neither a crash nor a hostile neighbour in a
// shared directory can turn them against us.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/bytes.h"
#include "base/result.h"
#include "base/unique_fd.h"

namespace sallyport::os {

// The whole of a file of at most `most` bytes. Does not follow a symlink in the last component.
Result<std::string> read_small_file(const std::string& path, std::size_t most);

// The same, for a file that must be ours alone: a regular file owned by this user, mode 0600 or less.
Result<std::string> read_private_file(const std::string& path, std::size_t most);

// Replaces or creates `path` with mode 0600: temporary name (O_EXCL), fsync, rename, fsync of the
// directory. Readers see the old content or the new, never a part. Unsynced, it does not wait for the disk:
// for what is worth nothing after the machine itself went down.
enum class Durability : std::uint8_t { synced, unsynced };
Status write_private_file(const std::string& path, std::string_view content,
                          Durability durability = Durability::synced);

// Opens a directory that is ours alone, creating it (and its parents) if absent: owned by this user,
// mode 0700, no symlink in its last component. Anything else is an error that says what to do.
Result<UniqueFd> open_private_directory(const std::string& path);

// All of it to a descriptor that is not ours alone: one that somebody made non-blocking is waited for.
Status write_patiently(int fd, ByteView bytes);

// An exclusive lock that lasts as long as the fd. CONFLICT if another process holds it.
Result<UniqueFd> lock_file(int directory, const char* name);

}  // namespace sallyport::os
