#include "containers/empty_directory.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <memory>
#include <vector>

#include "base/random.h"

namespace sallyport::containers {
namespace {

constexpr std::size_t kSlice = 256;  // attempts in one turn of the loop: a few milliseconds
constexpr std::size_t kDeepest = 32;

// A directory by name, made usable whatever its mode is. Never a link.
UniqueFd open_below(int parent, const std::string& name) {
  constexpr int kFlags = O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
  const UniqueFd place{::openat(parent, name.c_str(), O_PATH | kFlags)};
  if (!place) return UniqueFd();
  const std::string self = "/proc/self/fd/" + std::to_string(place.get());
  ::chmod(self.c_str(), 0700);
  return UniqueFd(::openat(place.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
}

class Emptier {
 public:
  explicit Emptier(UniqueFd root) { stack_.push_back({std::move(root), {}}); }

  bool is_done() const { return stack_.empty(); }
  const Emptied& result() const { return result_; }
  std::uint64_t attempts() const { return attempts_; }

  // Removes up to kSlice entries of the innermost directory, or goes one level down or up.
  void step() {
    const auto names = list();
    ++attempts_;
    if (names.empty()) return leave();
    bool has_progress = false;
    for (const std::string& name : names) {
      if (++attempts_ > kMostRemovals) return give_up();
      if (remove(name)) {
        has_progress = true;
      } else if (auto below = open_below(top(), name); below) {
        return descend(std::move(below), name);
      }
    }
    // What cannot be removed stays; the level above goes on, and finds that it is not empty.
    if (!has_progress) give_up();
  }

 private:
  struct Level {
    UniqueFd directory;
    std::string name;  // in the level above
  };
  int top() const { return stack_.back().directory.get(); }

  std::vector<std::string> list() {
    std::vector<std::string> names;
    const int copy = ::openat(top(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    const std::unique_ptr<DIR, int (*)(DIR*)> listing(copy < 0 ? nullptr : ::fdopendir(copy), &::closedir);
    while (const dirent* entry = listing ? ::readdir(listing.get()) : nullptr) {
      const std::string_view name = entry->d_name;
      if (name != "." && name != "..") names.emplace_back(name);
      if (names.size() == kSlice) break;
    }
    return names;
  }

  bool remove(const std::string& name) {
    // Gone by another hand is gone too.
    if (::unlinkat(top(), name.c_str(), 0) != 0 && errno != ENOENT) {
      if (::unlinkat(top(), name.c_str(), AT_REMOVEDIR) != 0) return false;
    }
    ++result_.removed;
    return true;
  }

  void descend(UniqueFd below, const std::string& name) {
    if (stack_.size() < kDeepest) return stack_.push_back({std::move(below), name});
    // Too deep to hold a descriptor per level: it becomes a child of the root, and is found there.
    // Nobody can have made something of that name before.
    const std::string moved = ".reset-" + random_hex(8);
    if (::renameat(top(), name.c_str(), stack_.front().directory.get(), moved.c_str()) != 0) give_up();
  }

  void leave() {
    const Level left = std::move(stack_.back());
    stack_.pop_back();
    if (stack_.empty()) {
      result_.is_complete = true;
    } else if (::unlinkat(top(), left.name.c_str(), AT_REMOVEDIR) == 0) {
      ++result_.removed;
    } else if (++attempts_ > kMostRemovals) {
      give_up();
    }
  }

  void give_up() { stack_.clear(); }

  std::vector<Level> stack_;
  std::uint64_t attempts_ = 0;
  Emptied result_;
};

}  // namespace

Task<Result<Emptied>> empty_directory(ipc::Loop& loop, std::string path, std::function<bool()> goes_on) {
  UniqueFd root = open_below(AT_FDCWD, path);
  if (!root) co_return Error::from_errno("cannot open the directory", errno, path);
  Emptier emptier(std::move(root));
  while (!emptier.is_done() && goes_on()) {
    const std::uint64_t pause_at = emptier.attempts() + kSlice;
    while (!emptier.is_done() && emptier.attempts() < pause_at) emptier.step();
    co_await loop.sleep(Millis(0));
  }
  co_return emptier.result();
}

}  // namespace sallyport::containers
