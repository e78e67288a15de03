#include "sandbox/exit_scan.h"

#include <dirent.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <climits>
#include <optional>
#include <set>

#include "base/unique_fd.h"
#include "sandbox/git_files.h"
#include "sandbox/protected_names.h"
#include "sandbox/walk.h"

namespace sallyport::sandbox {
namespace {

bool lstat_type(const std::string& path, mode_t& type) {
  struct stat info{};
  if (::lstat(path.c_str(), &info) != 0) return false;
  type = info.st_mode & S_IFMT;
  return true;
}

// More hooks than this are not a person's: their directory is set aside as a whole.
constexpr std::size_t kMaxHooks = 64;
constexpr std::size_t kMaxChildren = 1024;

class Scanner {
 public:
  Scanner(const std::string& workspace, const Findings& at_launch, std::vector<std::string>& quarantined,
          std::vector<std::string>& suspicious)
      : workspace_(workspace), at_launch_(at_launch), quarantined_(quarantined), suspicious_(suspicious) {
    for (const auto* paths : {&at_launch.pins, &at_launch.pin_writable, &at_launch.mask_directories}) {
      known_.insert(paths->begin(), paths->end());
    }
  }

  // What the host's git is sure to use comes first.
  void scan() {
    for (const Configured& configured : at_launch_.configured) check_configured(configured);
    check_git(workspace_ + "/.git");
    const WalkResult walked = walk(workspace_, bounds_, [&](const WalkEntry& entry) { return visit(entry); });
    for (const std::string& path : walked.unreadable) {
      if (!known_.contains(path)) suspicious_.push_back(path + " cannot be searched");
    }
    if (walked.was_cut || was_cut_) {
      suspicious_.push_back("the scan was cut after " + std::to_string(walked.entries) + " entries");
    }
  }

 private:
  bool visit(const WalkEntry& entry) {
    if (entry.name == ".git") {
      check_git(entry.path);
      return false;
    }
    for (const char* name : kSettings) {
      if (::fnmatch(name, entry.name.data(), FNM_CASEFOLD) == 0 && !is_as_pinned(entry.path)) {
        suspicious_.push_back(entry.path);
      }
    }
    for (const char* name : kSkippedDirectories) {
      if (entry.name == name) return false;
    }
    return true;
  }

  // Pinned, and still where it was: a pin cannot be moved, but a directory above it can.
  bool is_as_pinned(const std::string& path) const {
    if (!known_.contains(path)) return false;
    const auto parent = at_launch_.parents.find(parent_of(path));
    return parent != at_launch_.parents.end() && file_id(parent->first) == parent->second;
  }

  // The target to look at, if it is inside. A link that is new or leads elsewhere than at launch is set aside.
  std::optional<std::string> follow(const std::string& link) {
    const auto then = at_launch_.links.find(link);
    std::array<char, PATH_MAX> buffer{};
    const ssize_t length = ::readlink(link.c_str(), buffer.data(), buffer.size());
    const std::string_view text(buffer.data(), length > 0 ? static_cast<std::size_t>(length) : 0);
    const auto now = resolved(link);
    const bool is_same_text = then != at_launch_.links.end() && then->second.text == text;
    if (is_same_text && now && is_inside(*now, workspace_)) return now;
    if (!is_same_text || now.value_or("") != then->second.resolved) set_aside(link);
    return std::nullopt;
  }

  void check_configured(const Configured& configured) {
    const auto now = resolved(configured.path);
    if (!now || *now == workspace_) return;
    if (!is_inside(*now, workspace_)) {
      if (*now != configured.resolved) set_link_aside(configured.path);
      return;
    }
    switch (configured.kind) {
      case Configured::Kind::hooks:
        return check_hooks(*now);
      case Configured::Kind::hook:
        if (!is_as_pinned(*now)) set_aside(*now);
        return;
      case Configured::Kind::config:
        return check_config(*now);
    }
  }

  // Which of its parts leads out of the workspace? Nothing behind that one may be touched.
  void set_link_aside(const std::string& path) {
    mode_t type = 0;
    for (std::size_t end = workspace_.size(); is_inside(path, workspace_) && end != std::string::npos;) {
      end = path.find('/', end + 1);
      const std::string part = path.substr(0, end);
      if (lstat_type(part, type) && type == S_IFLNK) return set_aside(part);
    }
    suspicious_.push_back(path);
  }

  void check_git(const std::string& path) {
    mode_t type = 0;
    if (!lstat_type(path, type)) return;
    std::string place = path;
    if (type == S_IFLNK) {
      const auto target = follow(path);
      if (!target || !lstat_type(*target, type)) return;
      place = *target;
    }
    if (type == S_IFREG) check_pointer(place);
    if (type == S_IFDIR) check_repository(place, 0);
  }

  // "gitdir: somewhere": the repository there is what the host's git will use.
  void check_pointer(const std::string& path) {
    const auto target = gitdir_target(path);
    const auto real = target ? resolved(*target) : std::nullopt;
    if (!real) return;
    if (is_inside(*real, workspace_)) return check_repository(*real, 0);
    if (!is_as_pinned(path)) set_aside(path);
  }

  // One for all of it: repositories with thousands of submodules count like files.
  bool is_late() {
    was_cut_ = was_cut_ || std::chrono::steady_clock::now() >= deadline_;
    return was_cut_;
  }

  void check_repository(const std::string& git, int depth) {
    if (depth > 4 || is_late() || !checked_.insert(git).second) return;
    check_hooks(git + "/hooks");
    check_commondir(git, depth);
    for (const char* name : {"/config", "/config.worktree"}) check_config(git + name);
    for (const char* kind : {"/modules", "/worktrees"}) check_below(git + kind, depth);
  }

  void check_below(const std::string& directory, int depth) {
    mode_t type = 0;
    if (depth > 4 || !lstat_type(directory, type) || type != S_IFDIR) return;
    const std::vector<std::string> found = children(directory, kMaxChildren);
    was_cut_ = was_cut_ || found.size() == kMaxChildren;
    for (const std::string& child : found) {
      if (is_late()) return;
      if (!lstat_type(child, type) || type != S_IFDIR) continue;
      check_repository(child, depth + 1);
      if (!lstat_type(child + "/HEAD", type)) check_below(child, depth + 1);
    }
  }

  void check_hooks(const std::string& hooks) {
    mode_t type = 0;
    if (is_as_pinned(hooks) || !lstat_type(hooks, type)) return;
    if (type == S_IFLNK) {
      if (const auto target = follow(hooks)) check_hooks(*target);
      return;
    }
    if (type != S_IFDIR) return set_aside(hooks);
    std::vector<std::string> found = children(hooks, kMaxHooks);
    if (found.size() == kMaxHooks) return set_aside(hooks);
    for (const std::string& hook : found) {
      if (!hook.ends_with(".sample") && !hook.ends_with(".quarantined")) set_aside(hook);
    }
  }

  // A worktree's own common directory is "../..", and not ours to judge when it is that; but what it leads
  // to is where git takes hooks and configuration from.
  void check_commondir(const std::string& git, int depth) {
    const std::string path = git + "/commondir";
    mode_t type = 0;
    if (!lstat_type(path, type)) return;
    const bool is_worktree = parent_of(git).ends_with("/worktrees");
    if (!is_as_pinned(path) && !(is_worktree && read_small_file(path) == "../..\n")) return set_aside(path);
    const auto target = commondir_target(git);
    const auto common = target ? resolved(*target) : std::nullopt;
    if (common && is_inside(*common, workspace_)) check_repository(*common, depth + 1);
  }

  void check_config(const std::string& path) {
    mode_t type = 0;
    if (is_as_pinned(path) || !lstat_type(path, type)) return;
    if (type == S_IFLNK) {
      if (const auto target = follow(path)) check_config(*target);
      return;
    }
    if (type != S_IFREG) return set_aside(path);
    const auto config = read_small_file(path);
    const auto safe = config ? without_harmful(*config) : std::optional<std::string>("");
    if (!safe) return;
    if (!may_change(path)) return;
    set_aside(path);
    UniqueFd file(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0644));
    if (file && ::write(file.get(), safe->data(), safe->size()) != static_cast<ssize_t>(safe->size())) {
      suspicious_.push_back(path + " could not be written back");
    }
  }

  bool may_change(const std::string& path) {
    if (!at_launch_.was_cut) return true;
    suspicious_.push_back(path);
    return false;
  }

  void set_aside(const std::string& path) {
    if (!may_change(path)) return;
    // The first name may have been made impossible from inside, by a directory that has it.
    const auto now = std::chrono::steady_clock::now().time_since_epoch().count();
    if (::rename(path.c_str(), (path + ".quarantined").c_str()) == 0 ||
        ::rename(path.c_str(), (path + "." + std::to_string(now) + ".quarantined").c_str()) == 0) {
      quarantined_.push_back(path);
    } else {
      suspicious_.push_back(path);
    }
  }

  static std::vector<std::string> children(const std::string& directory, std::size_t most) {
    std::vector<std::string> paths;
    DIR* listing = ::opendir(directory.c_str());
    if (listing == nullptr) return paths;
    while (paths.size() < most) {
      const dirent* entry = ::readdir(listing);
      if (entry == nullptr) break;
      const std::string_view name = entry->d_name;
      if (name != "." && name != "..") paths.push_back(directory + "/" + entry->d_name);
    }
    ::closedir(listing);
    return paths;
  }

  const std::string& workspace_;
  const Findings& at_launch_;
  std::vector<std::string>& quarantined_;
  std::vector<std::string>& suspicious_;
  // Longer than at launch, where somebody waits: what is not looked at stays.
  const WalkBounds bounds_{std::chrono::seconds(2)};
  const std::chrono::steady_clock::time_point deadline_ = std::chrono::steady_clock::now() + bounds_.time;
  bool was_cut_ = false;
  std::set<std::string> known_;
  std::set<std::string> checked_;
};

}  // namespace

void scan_at_exit(const std::string& workspace, const Findings& at_launch, std::vector<std::string>& quarantined,
                  std::vector<std::string>& suspicious) {
  if (const auto real = resolved(workspace)) Scanner(*real, at_launch, quarantined, suspicious).scan();
}

}  // namespace sallyport::sandbox
