// Walking a tree with several threads, by directory descriptors.
//
// Directories are opened one component below their parent without following links, so a walk never
// leaves the directory it began in, whatever is renamed meanwhile. Nothing is stat'ed that the listing
// already tells. The order in which entries are visited is not fixed; what is visited is. A filter that knows from
// before which files cannot match would stand in front of Visitor::visit, where nothing has been opened yet.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/result.h"
#include "base/unique_fd.h"
#include "worker/ignore.h"
#include "worker/limits.h"
#include "worker/root.h"
#include "worker/stop.h"

namespace sallyport::worker {

// What a walk passed over, by reason. A directory that is not entered counts once.
struct Skipped {
  std::uint64_t ignored = 0;
  std::uint64_t hidden = 0;
  std::uint64_t unreadable = 0;
  std::uint64_t symlinks = 0;
  std::uint64_t special = 0;  // FIFOs, sockets, devices
  std::uint64_t too_deep = 0;
  std::uint64_t binary = 0;
  std::uint64_t too_large = 0;
  std::uint64_t masked = 0;            // files and directories that a cover of the sandbox shows empty
  std::uint64_t long_lines = 0;        // searched in pieces: Effort says what may be missed
  std::uint64_t ignore_files_cut = 0;  // their rules behind kMaxIgnoreFileBytes do not count
  Skipped& operator+=(const Skipped& other);
};

enum class EntryKind : std::uint8_t { file, directory, symlink, special };

struct WalkDirectory {
  UniqueFd fd;
  std::string path;  // relative to the walk's start, with a slash at its end; empty at the start
  int depth = 0;
};

struct WalkOptions {
  bool with_hidden = false;
  bool with_ignored = false;  // also what .gitignore names, and .git itself if hidden is on too
  unsigned threads = 0;       // 0: as many as there are processors, at most kMaxWalkThreads
};

// Called from several threads at once; `worker` tells them apart and is below WalkOptions' threads.
class WalkVisitor {
 public:
  virtual ~WalkVisitor() = default;
  // `name` is followed by a NUL.
  virtual void visit(unsigned worker, const WalkDirectory& directory, std::string_view name, EntryKind kind) = 0;
  // Whether a directory may be passed over; `path` ends with a slash.
  virtual bool wants_directory(std::string_view) { return true; }
  // While true, entries of a directory are visited in the order of their paths.
  virtual bool wants_order() { return false; }
  // If so, reached() is called now and then, by the thread that began the walk.
  virtual bool wants_reached() { return false; }
  // Everything that is still to be visited lies at or behind this path. An error ends the walk with it.
  virtual Status reached(std::string_view) { return ok(); }
};

// How many threads a walk with these options uses.
unsigned walk_threads(const WalkOptions& options);

// Walks below `start`. The ignore files of the directories above it, up to the repository's top or the
// view's root, count too. CANCELLED and TIMEOUT come back as errors; what was visited stays visited.
Result<Skipped> walk(const Roots& roots, std::string_view start, const WalkOptions& options, const Stop& stop,
                     WalkVisitor& visitor);

}  // namespace sallyport::worker
