#include "sandbox/exit_scan.h"

#include <dirent.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
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

class Scanner {
 public:
  Scanner(const std::string& workspace, const Findings& at_launch, std::vector<std::string>& quarantined,
          std::vector<std::string>& suspicious)
      : workspace_(workspace), at_launch_(at_launch), quarantined_(quarantined), suspicious_(suspicious) {
    for (const auto* paths : {&at_launch.pins, &at_launch.pin_writable, &at_launch.mask_directories}) {
      known_.insert(paths->begin(), paths->end());
    }
  }

  void scan() {
    const WalkResult walked = walk(workspace_, {}, [&](const WalkEntry& entry) { return visit(entry); });
    if (walked.was_cut) suspicious_.push_back("the scan was cut after " + std::to_string(walked.entries) + " entries");
  }

 private:
  bool visit(const WalkEntry& entry) {
    if (entry.name == ".git") {
      check_git(entry);
      return false;
    }
    for (const char* name : kSettings) {
      if (::fnmatch(name, entry.name.data(), FNM_CASEFOLD) == 0 && !known_.contains(entry.path)) {
        suspicious_.push_back(entry.path);
      }
    }
    for (const char* name : kSkippedDirectories) {
      if (entry.name == name) return false;
    }
    return true;
  }

  void check_git(const WalkEntry& entry) {
    if (known_.contains(entry.path) && entry.type != DT_DIR) return;  // pinned as it was
    if (entry.type == DT_LNK) {
      set_aside(entry.path);
    } else if (entry.type == DT_REG) {
      check_pointer(entry.path);
    } else if (entry.type == DT_DIR) {
      check_repository(entry.path, 0);
    }
  }

  // "gitdir: somewhere": the repository there is what the host's git will use.
  void check_pointer(const std::string& path) {
    const std::string text = read_small_file(path).value_or("");
    const std::string prefix = "gitdir: ";
    if (!text.starts_with(prefix)) return;
    std::string target = text.substr(prefix.size(), text.find('\n') - prefix.size());
    if (!target.starts_with('/')) target = path.substr(0, path.rfind('/') + 1) + target;
    char* real = ::realpath(target.c_str(), nullptr);
    if (real == nullptr) return;
    const std::string resolved = real;
    std::free(real);
    if (resolved.starts_with(workspace_ + "/")) {
      check_repository(resolved, 0);
    } else {
      set_aside(path);
    }
  }

  void check_repository(const std::string& git, int depth) {
    if (depth > 4 || !checked_.insert(git).second) return;
    if (!known_.contains(git + "/hooks")) check_hooks(git + "/hooks");
    if (!known_.contains(git + "/commondir")) check_commondir(git);
    for (const char* name : {"/config", "/config.worktree"}) {
      if (!known_.contains(git + name)) check_config(git + name);
    }
    for (const char* kind : {"/modules", "/worktrees"}) check_below(git + kind, depth);
  }

  void check_below(const std::string& directory, int depth) {
    mode_t type = 0;
    if (!lstat_type(directory, type) || type != S_IFDIR) return;
    for (const std::string& child : children(directory)) {
      if (!lstat_type(child, type) || type != S_IFDIR) continue;
      // A worktree's own common directory is "../..", and not ours to judge when it is that.
      check_repository(child, depth + 1);
      if (!lstat_type(child + "/HEAD", type)) check_below(child, depth + 1);
    }
  }

  void check_hooks(const std::string& hooks) {
    mode_t type = 0;
    if (!lstat_type(hooks, type)) return;
    if (type != S_IFDIR) return set_aside(hooks);
    for (const std::string& hook : children(hooks)) {
      if (!hook.ends_with(".sample") && !hook.ends_with(".quarantined")) set_aside(hook);
    }
  }

  void check_commondir(const std::string& git) {
    const auto text = read_small_file(git + "/commondir");
    mode_t type = 0;
    if (!text && !lstat_type(git + "/commondir", type)) return;
    const bool is_worktree = git.find("/worktrees/") != std::string::npos;
    if (is_worktree && text == "../..\n") return;
    set_aside(git + "/commondir");
  }

  void check_config(const std::string& path) {
    mode_t type = 0;
    if (!lstat_type(path, type)) return;
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
    if (::rename(path.c_str(), (path + ".quarantined").c_str()) == 0) {
      quarantined_.push_back(path);
    } else {
      suspicious_.push_back(path);
    }
  }

  static std::vector<std::string> children(const std::string& directory) {
    std::vector<std::string> paths;
    DIR* listing = ::opendir(directory.c_str());
    if (listing == nullptr) return paths;
    while (const dirent* entry = ::readdir(listing)) {
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
  std::set<std::string> known_;
  std::set<std::string> checked_;
};

}  // namespace

void scan_at_exit(const std::string& workspace, const Findings& at_launch, std::vector<std::string>& quarantined,
                  std::vector<std::string>& suspicious) {
  char* real = ::realpath(workspace.c_str(), nullptr);
  if (real == nullptr) return;
  const std::string resolved = real;
  std::free(real);
  Scanner(resolved, at_launch, quarantined, suspicious).scan();
}

}  // namespace sallyport::sandbox
