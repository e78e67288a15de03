// Reading a file as one snapshot, and replacing it as one step.
#pragma once

#include <sys/stat.h>

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "worker/root.h"
#include "worker/stop.h"

namespace sallyport::worker {

struct Snapshot {
  std::string content;
  struct stat status{};
};

// The system calls of a write that can fail half-way, so that tests can make them.
struct FileCalls {
  ssize_t (*write)(int fd, const void* from, std::size_t count);
  int (*fsync)(int fd);
  int (*rename)(int from_dir, const char* from, int to_dir, const char* to);
  static const FileCalls& real();
};

struct WriteOptions {
  bool durable = false;  // fsync of file and directory: the new content survives a power cut
  const FileCalls* calls = &FileCalls::real();
  const Stop* stop = nullptr;  // asked once more before the new content takes its place
};

// Opens what a place names: a regular file, not through a link, without blocking.
Result<UniqueFd> open_at(const Roots& roots, const Place& place, int flags);

// The whole content with the status it had. A file that changes while it is read is read again; one
// above `most` is PAYLOAD_TOO_LARGE.
Result<Snapshot> read_snapshot(int fd, std::uint64_t most);

// Replaces or creates the file at `place`: readers see the old bytes or the new, never a part, and an
// error leaves the old file as it was. Mode (without set-id bits, as any write clears them), owner and
// extended attributes are those of the file that was there, as far as this process can see them; what it sees and
// cannot keep is an error. A process that is killed leaves nothing behind, unless it is killed in the microseconds in
// which a draft has a name beside the old file's (or the file system knows no files without a name).
//
// Two kinds of files stay and get new bytes, because a rename cannot put another in their place: one that is a mount
// point (a profile names it alone), and one whose owner or group this process cannot give to another file. The new
// content is complete, and room for it taken, before the first byte changes; from there on it is not one step.
//
// `expected` is the file the new content was made from (nullptr: whatever is there; a nullopt inside:
// nothing may be there). If another has taken its place, CONFLICT. The check is made immediately
// before the rename; a writer that ignores us can still slip into the microseconds between.
Status replace_file(const Roots& roots, const Place& place, std::string_view content, const WriteOptions& options,
                    const std::optional<struct stat>* expected);

// The same with content that `fill` writes to the draft it is given; for a new file also with a mode.
struct NewContent {
  std::function<Status(int fd)> fill;
  std::optional<mode_t> mode;  // of a file that was not there before; default: by the umask
  bool can_repeat = true;      // false: `fill` may be called only once
};
Status replace_file(const Roots& roots, const Place& place, const NewContent& content, const WriteOptions& options,
                    const std::optional<struct stat>* expected);

// So that the names that were put into it survive a power cut.
Status sync_directory(int dir, const FileCalls& calls);

Status write_all(int fd, std::string_view content, const FileCalls& calls);

// Whether something is mounted at this very name.
bool is_mount_point(int dir, const char* name);

}  // namespace sallyport::worker
