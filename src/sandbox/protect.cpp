#include "sandbox/protect.h"

#include <dirent.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <set>

#include "base/unique_fd.h"
#include "sandbox/git_files.h"
#include "sandbox/protected_names.h"
#include "sandbox/walk.h"

namespace sallyport::sandbox {
namespace {

constexpr std::string_view kPlaceholderText = ".";  // "the common directory is this one": no change
constexpr std::size_t kMaxRepositories = 32;        // pins per launch stay few; more are scanned at exit

template <typename Names>
bool matches(const Names& names, const char* name) {
  return std::any_of(std::begin(names), std::end(names), [&](const auto& pattern) {
    return ::fnmatch(std::string(pattern).c_str(), name, FNM_CASEFOLD) == 0;
  });
}

bool exists(const std::string& path) { return ::faccessat(AT_FDCWD, path.c_str(), F_OK, AT_SYMLINK_NOFOLLOW) == 0; }

bool is_real_directory(const std::string& path) {
  struct stat info{};
  return ::lstat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode);
}

bool is_plain(const std::string& path) {
  struct stat info{};
  return ::lstat(path.c_str(), &info) == 0 && (S_ISDIR(info.st_mode) || S_ISREG(info.st_mode));
}

class Finder {
 public:
  Finder(const std::string& workspace, bool is_writable, const std::vector<std::string>& deny_names)
      : workspace_(workspace), is_writable_(is_writable), deny_names_(deny_names) {}

  Findings find(const WalkBounds& bounds) {
    if (is_writable_) add_top_repository();
    const WalkResult walked = walk(workspace_, bounds, [&](const WalkEntry& entry) { return visit(entry); });
    found_.was_cut = walked.was_cut || has_more_;
    found_.entries_seen = walked.entries;
    sort_secrets();
    return std::move(found_);
  }

 private:
  bool visit(const WalkEntry& entry) {
    const char* name = entry.name.data();
    if (entry.name == ".git") {
      if (is_writable_ && entry.path != workspace_ + "/.git")
        add_repository(entry.path, entry.path.substr(0, entry.path.size() - 5));
      return false;
    }
    if (matches(deny_names_, name)) {
      if (entry.type == DT_DIR) found_.mask_directories.push_back(entry.path);
      if (entry.type == DT_REG) found_.masks.push_back(entry.path);
      return false;
    }
    if (entry.type == DT_SOCK) found_.masks.push_back(entry.path);  // somebody on the host listens there
    if (entry.type == DT_DIR && matches(kSecretDirectories, name)) {
      found_.mask_directories.push_back(entry.path);
      return false;
    }
    if (is_writable_ && matches(kSettings, name) && (entry.type == DT_DIR || entry.type == DT_REG)) {
      found_.pins.push_back(entry.path);
    }
    if (entry.type == DT_REG && matches(kSecretFiles, name) && !matches(kNoSecrets, name))
      secrets_.push_back(entry.path);
    if (entry.type == DT_LNK && matches(kSecretFiles, name)) add_target(entry.path);
    return !matches(kSkippedDirectories, name);
  }

  // A secret behind a link, if the link stays inside.
  void add_target(const std::string& link) {
    char* real = ::realpath(link.c_str(), nullptr);
    if (real == nullptr) return;
    const std::string target = real;
    std::free(real);
    struct stat info{};
    if (target.starts_with(workspace_ + "/") && ::lstat(target.c_str(), &info) == 0 && S_ISREG(info.st_mode)) {
      secrets_.push_back(target);
    }
  }

  void pin(const std::string& path) {
    if (is_plain(path)) found_.pins.push_back(path);
  }

  void add_top_repository() {
    const std::string git = workspace_ + "/.git";
    if (!is_real_directory(git)) {
      if (is_plain(git)) pin(git);  // a worktree's or submodule's pointer
      return;
    }
    add_repository(git, workspace_);
    const std::string commondir = git + "/commondir";
    // A placeholder that an earlier run left is taken over; it is removed when nobody holds it.
    const bool is_ours = read_small_file(commondir) == kPlaceholderText;
    if (is_ours || make_placeholder(commondir)) found_.placeholder = commondir;
    pin(commondir);
  }

  static bool make_placeholder(const std::string& path) {
    UniqueFd file(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0444));
    return file && ::write(file.get(), kPlaceholderText.data(), kPlaceholderText.size()) ==
                       static_cast<ssize_t>(kPlaceholderText.size());
  }

  void add_repository(const std::string& git, const std::string& tree) {
    if (!is_real_directory(git)) return pin(git);
    if (found_.repositories.size() == kMaxRepositories) {
      has_more_ = true;  // at exit these must not be taken for new ones
      return;
    }
    found_.repositories.push_back(git);
    found_.pin_writable.push_back(git);
    for (const char* name : {"/hooks", "/config", "/config.worktree"}) pin(git + name);
    if (tree != workspace_) pin(git + "/commondir");
    add_configured(git, tree);
    add_children(git + "/worktrees", {"/commondir", "/gitdir", "/config.worktree"});
    add_modules(git + "/modules", 0);
  }

  // Paths that the configuration itself makes git read programs or more configuration from.
  void add_configured(const std::string& git, const std::string& tree) {
    const auto config = read_small_file(git + "/config");
    if (!config) return;
    for (const GitSetting& setting : git_settings(*config)) {
      const bool is_include = setting.key == "include.path" || setting.key == "includeif.*.path";
      if (!is_include && setting.key != "core.hookspath") continue;
      if (setting.value.empty() || setting.value.front() == '~') continue;  // the home is not mounted
      const std::string base = is_include ? git : tree;
      const std::string path = setting.value.front() == '/' ? setting.value : base + "/" + setting.value;
      char* real = ::realpath(path.c_str(), nullptr);
      if (real == nullptr) continue;
      const std::string resolved = real;
      std::free(real);
      if (resolved.starts_with(workspace_ + "/")) pin(resolved);
    }
  }

  static std::vector<std::string> children(const std::string& directory) {
    std::vector<std::string> names;
    if (!is_real_directory(directory)) return names;
    DIR* listing = ::opendir(directory.c_str());
    if (listing == nullptr) return names;
    while (const dirent* entry = ::readdir(listing)) {
      if (entry->d_name[0] != '.') names.push_back(directory + "/" + entry->d_name);
    }
    ::closedir(listing);
    return names;
  }

  void add_children(const std::string& directory, const std::vector<const char*>& files) {
    for (const std::string& child : children(directory)) {
      for (const char* file : files) pin(child + file);
    }
  }

  // A submodule's name may contain slashes, and submodules have submodules.
  void add_modules(const std::string& directory, int depth) {
    if (depth > 4) return;
    for (const std::string& child : children(directory)) {
      if (!is_real_directory(child)) continue;
      if (!exists(child + "/HEAD")) {
        add_modules(child, depth + 1);
        continue;
      }
      found_.pin_writable.push_back(child);
      for (const char* name : {"/config", "/hooks", "/commondir"}) pin(child + name);
      add_modules(child + "/modules", depth + 1);
    }
  }

  void sort_secrets() {
    if (secrets_.empty()) return;
    std::optional<std::set<std::string>> tracked;
    if (const auto index = read_small_file(workspace_ + "/.git/index")) tracked = tracked_paths(*index);
    std::sort(secrets_.begin(), secrets_.end());
    secrets_.erase(std::unique(secrets_.begin(), secrets_.end()), secrets_.end());
    for (const std::string& path : secrets_) {
      // An index that cannot be read tracks nothing: unknown means masked.
      const bool is_tracked = tracked && tracked->contains(path.substr(workspace_.size() + 1));
      (is_tracked ? found_.tracked_secrets : found_.masks).push_back(path);
    }
  }

  const std::string& workspace_;
  bool is_writable_;
  const std::vector<std::string>& deny_names_;
  Findings found_;
  std::vector<std::string> secrets_;
  bool has_more_ = false;
};

}  // namespace

Findings find_protected(const std::string& workspace, bool is_writable, const std::vector<std::string>& deny_names,
                        const WalkBounds& bounds) {
  return Finder(workspace, is_writable, deny_names).find(bounds);
}

void remove_placeholder(const std::string& path) {
  // Another sandbox in the same workspace holds a shared lock for as long as it needs the file.
  UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (!file || ::flock(file.get(), LOCK_EX | LOCK_NB) != 0) return;
  if (read_small_file(path) == kPlaceholderText) ::unlink(path.c_str());
}

}  // namespace sallyport::sandbox
