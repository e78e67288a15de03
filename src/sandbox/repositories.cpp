#include "sandbox/repositories.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "base/unique_fd.h"
#include "os/paths.h"
#include "sandbox/git_config.h"
#include "sandbox/git_files.h"
#include "sandbox/held_directory.h"
#include "sandbox/protected_names.h"
#include "sandbox/walk.h"

namespace sallyport::sandbox {
namespace {

constexpr std::size_t kMaxRepositories = 32;  // pins per launch stay few; the others are only looked at at exit
constexpr std::size_t kMaxChildren = 1024;    // worktrees or submodules of one repository
constexpr std::size_t kMaxConfigs = 64;       // included by one repository
constexpr int kMaxIncludeDepth = 10;          // as git's own
constexpr std::uint64_t kMaxInPins = 4096;    // entries of directories that are pinned

mode_t type_of(const std::string& path) {
  struct stat info{};
  return ::lstat(path.c_str(), &info) == 0 ? info.st_mode & S_IFMT : 0;
}

bool is_plain(const std::string& path) {
  const mode_t type = type_of(path);
  return type == S_IFDIR || type == S_IFREG;
}

bool make_placeholder(const std::string& path) {
  UniqueFd file(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0444));
  return file && ::write(file.get(), kPlaceholderText.data(), kPlaceholderText.size()) ==
                     static_cast<ssize_t>(kPlaceholderText.size());
}

}  // namespace

RepositoryFinder::RepositoryFinder(const std::string& workspace, const std::string& home, Findings& found)
    : workspace_(workspace), home_(home), found_(found) {
  std::vector<std::string> files = {"/etc/gitconfig"};
  for (const char* variable : {"GIT_CONFIG_SYSTEM", "GIT_CONFIG_GLOBAL"}) {
    const char* file = std::getenv(variable);
    if (file == nullptr || file[0] != '/') continue;
    files.emplace_back(file);
    if (os::is_below(os::real_path(file).value_or(file), workspace)) add_configured(Configured::Kind::config, file);
  }
  if (const char* directory = std::getenv("XDG_CONFIG_HOME")) files.push_back(std::string(directory) + "/git/config");
  if (!home.empty()) files.insert(files.end(), {home + "/.config/git/config", home + "/.gitconfig"});
  own_hooks_ = read_configs(files);
  remember_relative("", own_hooks_);
}

void RepositoryFinder::add_top() {
  const std::string git = workspace_ + "/.git";
  add(git, workspace_);
  const std::string directory = directory_behind(git);
  if (directory.empty()) return;
  const std::string commondir = directory + "/commondir";
  // A placeholder that an earlier run left is taken over; it is removed when nobody holds it.
  const bool is_ours = read_small_file(commondir) == kPlaceholderText;
  if (!is_ours && !make_placeholder(commondir)) return;
  found_.placeholder = commondir;
  if (!is_ours) pin(commondir);
}

void RepositoryFinder::add(const std::string& git, const std::string& tree) {
  if (type_of(git) != S_IFDIR) pin(git);
  if (const std::string directory = directory_behind(git); !directory.empty()) use(directory, tree);
}

void RepositoryFinder::add_bare(const std::string& directory) {
  const auto held = HeldDirectory::open(directory);
  if (held && is_bare_repository(held->fd())) use(directory, directory);
}

// Empty: outside, where nothing inside can write, or nowhere.
std::string RepositoryFinder::directory_behind(const std::string& git) {
  auto real = os::real_path(git);
  if (!real) return {};
  if (const auto target = gitdir_target(*real)) real = os::real_path(*target);
  return real && os::is_below(*real, workspace_) && type_of(*real) == S_IFDIR ? *real : std::string();
}

// A worktree's directory leads on to the common one, where hooks and configuration are. Several trees
// may share them, and a relative core.hooksPath is another directory in each.
void RepositoryFinder::use(const std::string& git, const std::string& tree) {
  if (!hooks_of_.contains(git)) add_directory(git);
  if (!hooks_of_.contains(git)) return;
  add_hooks(own_hooks_, tree);
  add_hooks(hooks_of_.at(git), tree);
  const auto target = commondir_target(git);
  const auto common = target ? os::real_path(*target) : std::nullopt;
  if (!common || *common == git || !os::is_below(*common, workspace_)) return;
  if (!hooks_of_.contains(*common)) add_directory(*common);
  if (hooks_of_.contains(*common)) add_hooks(hooks_of_.at(*common), tree);
}

void RepositoryFinder::add_directory(const std::string& git) {
  // Git changes these all the time: a link of the user's in them is known to be old if they are the same.
  for (const char* name : {"/logs", "/objects", "/objects/pack"}) {
    found_.parents.try_emplace(git + name, file_id(git + name));
  }
  if (found_.repositories.size() == kMaxRepositories) {
    has_more_ = true;  // at exit these must not be taken for new ones
    found_.parents.try_emplace(git, file_id(git));
    const std::string config = git + "/config";
    remember_settings(config, read_small_file(config, kMaxGitConfigBytes).value_or(""));
    return;
  }
  found_.repositories.push_back(git);
  if (git != workspace_) found_.pin_writable.push_back(git);
  for (const char* name : {"hooks", "config", "config.worktree", "commondir", "gitdir", kGitSetting}) {
    pin(git + "/" + name);
  }
  hooks_of_[git] = read_configs({git + "/config", git + "/config.worktree"});
  remember_relative(git, hooks_of_[git]);
  for (const std::string& child : children(git + "/worktrees")) {
    for (const char* name : {"/commondir", "/gitdir", "/config.worktree"}) pin(child + name);
    add_modules(child + "/modules", 0);
  }
  add_modules(git + "/modules", 0);
}

// A submodule's name may contain slashes, and submodules have submodules.
void RepositoryFinder::add_modules(const std::string& directory, int depth) {
  const std::vector<std::string> found = children(directory);
  if (depth > 4) {
    has_more_ = has_more_ || !found.empty();
    return;
  }
  for (const std::string& child : found) {
    if (type_of(child) != S_IFDIR) continue;
    if (type_of(child + "/HEAD") == 0) {
      add_modules(child, depth + 1);
      continue;
    }
    found_.pin_writable.push_back(child);
    for (const char* name : {"/config", "/hooks", "/commondir"}) pin(child + name);
    add_modules(child + "/modules", depth + 1);
  }
}

void RepositoryFinder::pin(const std::string& path) {
  if (is_plain(path)) found_.pins.push_back(path);
  if (type_of(path) != S_IFLNK) return;
  if (const std::string target = remember_link(path); !target.empty()) found_.pins.push_back(target);
}

// What is to be pinned in its stead, or nothing. A directory that the link itself is in is more than was meant.
std::string RepositoryFinder::remember_link(const std::string& path) {
  const std::string target = os::real_path(path).value_or("");
  found_.links[path] = {link_text(AT_FDCWD, path), target};
  const bool can_be_pinned = os::is_below(target, workspace_) && is_plain(target) && !os::is_within(path, target);
  return can_be_pinned ? target : std::string();
}

void RepositoryFinder::look_into_pins() {
  std::uint64_t left = kMaxInPins;
  std::set<std::string> seen;
  std::set<std::string> pinned(found_.pins.begin(), found_.pins.end());
  const auto is_held = [&](std::string path) {
    while (!pinned.contains(path) && path != workspace_) path = parent_of(path);
    return path != workspace_;
  };
  for (std::size_t next = 0; next < found_.pins.size(); ++next) {
    const std::string path = found_.pins[next];
    if (!seen.insert(path).second) continue;
    if (type_of(path) != S_IFDIR) {
      note_doubts(path);
      continue;
    }
    const WalkResult walked = walk(path, {.entries = left}, [&](const WalkEntry& entry) {
      if (entry.type == DT_REG && !entry.name.ends_with(".sample")) note_doubts(entry.path);
      const std::string target = entry.type == DT_LNK ? remember_link(entry.path) : std::string();
      if (!target.empty() && !is_held(target)) {
        found_.pins.push_back(target);
        pinned.insert(target);
      }
      return !is_skipped(entry.name);
    });
    left -= std::min(left, walked.entries);
    has_more_ = has_more_ || walked.was_cut;
  }
}

void RepositoryFinder::note_doubts(const std::string& path) {
  struct stat info{};
  if (::lstat(path.c_str(), &info) != 0 || !S_ISREG(info.st_mode)) return;
  const std::int64_t time = changed_at(info);
  if (info.st_nlink > 1 || time >= found_.taken_at) found_.doubtful_pins[path] = {time, info.st_nlink > 1};
}

void RepositoryFinder::add_configured(Configured::Kind kind, const std::string& path) {
  if (path.empty() || !configured_.insert({kind, path}).second) return;
  const std::string target = os::real_path(path).value_or("");
  found_.configured.push_back({kind, path, target});
  if (type_of(path) == S_IFLNK) found_.links.try_emplace(path, Link{link_text(AT_FDCWD, path), target});
  if (os::is_below(target, workspace_) && is_plain(target)) found_.pins.push_back(target);
  if (kind != Configured::Kind::hooks || target != workspace_) return;
  // The workspace itself cannot be read-only; what git would run in it can.
  for (const char* name : kGitHooks) add_configured(Configured::Kind::hook, workspace_ + "/" + name);
}

void RepositoryFinder::add_hooks(const std::vector<std::string>& values, const std::string& tree) {
  for (const std::string& value : values) add_configured(Configured::Kind::hooks, expanded(value, tree));
}

void RepositoryFinder::remember_relative(const std::string& git, const std::vector<std::string>& values) {
  for (const std::string& value : values) {
    if (!value.empty() && value.front() != '/' && value.front() != '~') found_.relative_hooks[git].push_back(value);
  }
}

std::vector<std::string> RepositoryFinder::read_configs(const std::vector<std::string>& files) {
  std::vector<std::string> hooks;
  std::set<std::string> read;
  for (const std::string& file : files) read_config(file, hooks, read, 0);
  return hooks;
}

void RepositoryFinder::read_config(const std::string& file, std::vector<std::string>& hooks,
                                   std::set<std::string>& read, int depth) {
  const auto real = os::real_path(file);
  if (!real || read.contains(*real)) return;
  if (depth > kMaxIncludeDepth || read.size() == kMaxConfigs) {
    has_more_ = true;
    return;
  }
  read.insert(*real);
  const auto text = read_small_file(*real, kMaxGitConfigBytes);
  if (!text) {
    has_more_ = has_more_ || type_of(*real) == S_IFREG;
    return;
  }
  remember_settings(*real, *text);
  for (const GitSetting& setting : read_git_config(*text).settings) {
    if (setting.key == "core.hookspath") hooks.push_back(setting.value);
    if (setting.key != "include.path" && setting.key != "includeif.*.path") continue;
    const std::string included = expanded(setting.value, parent_of(file));
    add_configured(Configured::Kind::config, included);
    if (!included.empty()) read_config(included, hooks, read, depth + 1);
  }
}

void RepositoryFinder::remember_settings(const std::string& file, std::string_view config) {
  if (!os::is_below(file, workspace_)) return;
  if (OwnSettings own = harmful_settings(config); !own.empty()) found_.own_settings[file] = std::move(own);
}

std::string RepositoryFinder::expanded(const std::string& value, const std::string& base) const {
  if (value.empty() || value.front() == '/') return value;
  if (value.front() != '~') return base + "/" + value;
  // Another user's home is not ours to read.
  return value.starts_with("~/") && !home_.empty() ? home_ + value.substr(1) : std::string();
}

std::vector<std::string> RepositoryFinder::children(const std::string& directory) {
  std::vector<std::string> names;
  if (type_of(directory) != S_IFDIR) return names;
  DIR* listing = ::opendir(directory.c_str());
  if (listing == nullptr) return names;
  while (const dirent* entry = ::readdir(listing)) {
    const std::string_view name = entry->d_name;
    if (name == "." || name == "..") continue;
    if (names.size() == kMaxChildren) {
      has_more_ = true;
      break;
    }
    names.push_back(directory + "/" + entry->d_name);
  }
  ::closedir(listing);
  return names;
}

}  // namespace sallyport::sandbox
