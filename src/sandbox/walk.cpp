#include "sandbox/walk.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <deque>

#include "base/unique_fd.h"

namespace sallyport::sandbox {
namespace {

constexpr std::uint64_t kEntriesPerClockRead = 64;

unsigned char type_of(int directory, const dirent& entry) {
  if (entry.d_type != DT_UNKNOWN) return entry.d_type;
  struct stat info{};
  if (::fstatat(directory, entry.d_name, &info, AT_SYMLINK_NOFOLLOW) != 0) return DT_UNKNOWN;
  return static_cast<unsigned char>(IFTODT(info.st_mode));
}

}  // namespace

WalkResult walk(const std::string& root, const WalkBounds& bounds, const std::function<bool(const WalkEntry&)>& visit) {
  const auto held = HeldDirectory::open(root);
  if (held) return walk(*held, root, bounds, visit);
  WalkResult nothing;
  nothing.was_cut = true;
  return nothing;
}

WalkResult walk(const HeldDirectory& root, const std::string& from, const WalkBounds& bounds,
                const std::function<bool(const WalkEntry&)>& visit) {
  using Clock = std::chrono::steady_clock;
  const auto deadline = Clock::now() + bounds.time;
  WalkResult result;
  std::deque<std::string> waiting = {from};  // what is near the root is seen before the bound is met
  while (!waiting.empty()) {
    const std::string path = std::move(waiting.front());
    waiting.pop_front();
    const std::size_t prefix = std::min(path.size(), root.path().size() + 1);
    UniqueFd fd = open_below(root.fd(), std::string_view(path).substr(prefix), O_RDONLY | O_DIRECTORY);
    // Names that can be listed but not reached are of no use either.
    const bool is_open = fd && ::faccessat(fd.get(), ".", F_OK, 0) == 0;
    if (!is_open) {
      const bool is_gone = errno == ENOENT || errno == ENOTDIR || errno == ELOOP;
      if (errno == EACCES) {
        result.unreadable.push_back(path);
      } else if (is_gone) {
        result.has_changed = true;
      } else {
        result.was_cut = true;
      }
      continue;
    }
    DIR* listing = ::fdopendir(fd.get());
    if (listing == nullptr) {
      result.was_cut = true;
      continue;
    }
    const int directory = fd.release();
    while (const dirent* entry = ::readdir(listing)) {
      const std::string_view name = entry->d_name;
      if (name == "." || name == "..") continue;
      ++result.entries;
      result.path_bytes += path.size() + 1 + name.size();
      if (result.entries > bounds.entries || result.path_bytes > bounds.path_bytes ||
          (result.entries % kEntriesPerClockRead == 0 && Clock::now() >= deadline)) {
        ::closedir(listing);
        result.was_cut = true;
        return result;
      }
      const WalkEntry seen{path + "/" + entry->d_name, name, type_of(directory, *entry)};
      if (visit(seen) && seen.type == DT_DIR) waiting.push_back(seen.path);
    }
    ::closedir(listing);
  }
  return result;
}

}  // namespace sallyport::sandbox
