#include "sandbox/protect.h"

#include <dirent.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <climits>
#include <ctime>
#include <optional>

#include "base/path_pattern.h"
#include "base/unique_fd.h"
#include "os/paths.h"
#include "sandbox/git_files.h"
#include "sandbox/git_index.h"
#include "sandbox/protected_names.h"
#include "sandbox/repositories.h"
#include "sandbox/walk.h"

namespace sallyport::sandbox {
namespace {

// What the scan has set aside is what it was. Where its name was too long, that is not known: then it is hidden.
constexpr std::string_view kAside = ".quarantined";
std::string name_before_scan(std::string_view name) {
  constexpr std::string_view kLong = "name-too-long.";
  if (!name.ends_with(kAside)) return std::string(name);
  if (name.starts_with(kLong)) return ".env";
  name.remove_suffix(kAside.size());
  const std::size_t dot = name.find_last_not_of("0123456789");
  if (dot != std::string_view::npos && dot + 1 < name.size() && name[dot] == '.') name = name.substr(0, dot);
  return name_before_scan(name);
}

// The lists are in lower case, and begin with themselves or with a star.
template <typename Names>
bool matches(const Names& names, const char* name) {
  const int first = std::tolower(static_cast<unsigned char>(*name));
  return std::any_of(std::begin(names), std::end(names), [&](const char* pattern) {
    // Asked for every entry of the workspace: most lists begin with a dot, most names do not.
    const bool can_match = *pattern == '*' || *pattern == first;
    return can_match && ::fnmatch(pattern, name, FNM_CASEFOLD) == 0;
  });
}

template <typename Paths>
bool is_listed_path(const Paths& paths, std::string_view path) {
  return std::any_of(std::begin(paths), std::end(paths), [&](std::string_view ending) {
    return path.size() > ending.size() && path[path.size() - ending.size() - 1] == '/' && path.ends_with(ending);
  });
}

template <typename T>
void sort_each_once(std::vector<T>& items) {
  std::sort(items.begin(), items.end());
  items.erase(std::unique(items.begin(), items.end()), items.end());
}

class Finder {
 public:
  Finder(const std::string& workspace, const std::string& home, bool is_writable,
         const std::vector<std::string>& deny_patterns)
      : workspace_(workspace), deny_patterns_(deny_patterns) {
    timespec now{};
    ::clock_gettime(CLOCK_REALTIME_COARSE, &now);
    found_.taken_at = now.tv_sec * std::int64_t{1'000'000'000} + now.tv_nsec;
    found_.workspace = workspace_;
    found_.workspace_id = file_id(workspace_);
    found_.needs_scan = is_writable;
    if (is_writable) repositories_.emplace(workspace_, home, found_);
  }

  Findings find(const WalkBounds& bounds) {
    if (repositories_) repositories_->add_top();
    const WalkResult walked = walk(workspace_, bounds, [&](const WalkEntry& entry) { return visit(entry); });
    found_.was_cut = found_.was_cut || walked.was_cut;
    if (repositories_) repositories_->look_into_pins();
    found_.has_more = repositories_ && repositories_->has_more();
    found_.is_partial = found_.was_cut || found_.has_more;
    found_.has_changed = walked.has_changed;
    found_.entries_seen = walked.entries;
    // What is in there is unknown, and one chmod inside would open it again.
    for (const std::string& path : walked.unreadable) hide(path);
    sort_secrets();
    sort_each_once(found_.pin_writable);  // what is above comes first
    sort_each_once(found_.pins);
    for (const auto* paths : {&found_.pin_writable, &found_.pins, &found_.mask_directories}) {
      for (const std::string& path : *paths) found_.parents.try_emplace(parent_of(path), file_id(parent_of(path)));
    }
    return std::move(found_);
  }

 private:
  bool visit(const WalkEntry& entry) {
    const char* name = entry.name.data();
    if (entry.path.size() >= PATH_MAX) {
      found_.was_cut = true;  // no mount can be made there
      return false;
    }
    if (is_denied(entry)) {
      deny(entry);
      return false;
    }
    if (entry.type == DT_SOCK) found_.masks.push_back(entry.path);  // somebody on the host listens there
    // What is denied must be found wherever it is. For the rest there are places with nothing to act on.
    const bool must_see_all = !deny_patterns_.empty();
    if (is_below_skipped(entry)) return must_see_all;
    if (entry.name == "HEAD" && repositories_) repositories_->add_bare(parent_of(entry.path));
    if (entry.name == ".git") {
      if (repositories_ && entry.path != workspace_ + "/.git") repositories_->add(entry.path, parent_of(entry.path));
      return true;  // git's own programs listen in there, not deeper
    }
    const bool is_aside = entry.name.ends_with(kAside);
    const std::string before = is_aside ? name_before_scan(entry.name) : "";
    const char* own_name = is_aside ? before.c_str() : name;
    const bool is_listed = is_listed_path(kSecretPaths, entry.path) ||
                           (is_aside && is_listed_path(kSecretPaths, parent_of(entry.path) + "/" + before));
    if (entry.type == DT_DIR && (is_listed || matches(kSecretDirectories, name))) {
      found_.mask_directories.push_back(entry.path);
      return false;
    }
    if (repositories_ && is_setting(name)) repositories_->pin(entry.path);
    if (repositories_ && entry.name.starts_with('.')) pin_settings_in(entry);
    const bool is_secret = is_listed || (matches(kSecretFiles, own_name) && !matches(kNoSecrets, own_name));
    if (is_secret && entry.type == DT_REG) secrets_.push_back(entry.path);
    if (is_secret && entry.type == DT_LNK) add_target(entry.path);
    return must_see_all || !is_skipped(entry.name);
  }

  // Some of the directories are not walked into.
  void pin_settings_in(const WalkEntry& entry) {
    for (const std::string_view path : kSettingPaths) {
      const std::size_t slash = path.find('/');
      if (path.substr(0, slash) == entry.name) repositories_->pin(entry.path + std::string(path.substr(slash)));
    }
  }

  // The last part of a pattern is the cheap test.
  bool is_denied(const WalkEntry& entry) const {
    const std::string_view path = std::string_view(entry.path).substr(workspace_.size() + 1);
    return std::any_of(deny_patterns_.begin(), deny_patterns_.end(), [&](const std::string& pattern) {
      const std::string last = pattern.substr(pattern.rfind('/') + 1);
      return ::fnmatch(last.c_str(), entry.name.data(), FNM_CASEFOLD) == 0 && matches_path(pattern, path);
    });
  }

  // A link cannot be covered; where it leads can, unless that is all of the workspace.
  void deny(const WalkEntry& entry) {
    std::string path = entry.path;
    if (entry.type == DT_LNK) path = os::real_path(path).value_or("");
    struct stat info{};
    if (!os::is_below(path, workspace_) || ::lstat(path.c_str(), &info) != 0) return;
    (S_ISDIR(info.st_mode) ? found_.mask_directories : found_.masks).push_back(path);
  }

  // Entries come directory by directory.
  bool is_below_skipped(const WalkEntry& entry) {
    const auto directory = std::string_view(entry.path).substr(0, entry.path.size() - entry.name.size() - 1);
    if (directory == directory_) return is_directory_skipped_;
    directory_ = directory;
    is_directory_skipped_ = false;
    for (std::string at = directory_; !is_directory_skipped_ && os::is_below(at, workspace_); at = parent_of(at)) {
      const char* name = at.c_str() + at.rfind('/') + 1;
      is_directory_skipped_ = std::string_view(name) == ".git" || is_skipped(name);
    }
    return is_directory_skipped_;
  }

  void hide(const std::string& directory) {
    struct stat info{};
    if (directory == workspace_) found_.was_cut = true;
    const bool is_own = ::lstat(directory.c_str(), &info) == 0 && info.st_uid == ::geteuid();
    if (is_own && directory != workspace_) found_.mask_directories.push_back(directory);
  }

  // A secret behind a link, if the link stays inside.
  void add_target(const std::string& link) {
    const auto target = os::real_path(link);
    struct stat info{};
    if (target && os::is_below(*target, workspace_) && ::lstat(target->c_str(), &info) == 0 && S_ISREG(info.st_mode)) {
      secrets_.push_back(*target);
    }
  }

  // Unknown means masked. What git has anyway is not: masking it would break or falsify commits.
  void sort_secrets() {
    sort_each_once(secrets_);
    TrackedFiles tracked(workspace_);
    for (const std::string& path : secrets_) {
      const Tracking tracking = tracked.look_up(path);
      (tracking == Tracking::same      ? found_.tracked_secrets
       : tracking == Tracking::changed ? found_.changed_secrets
                                       : found_.masks)
          .push_back(path);
    }
    found_.unread_indexes.assign(tracked.unreadable().begin(), tracked.unreadable().end());
  }

  const std::string& workspace_;
  const std::vector<std::string>& deny_patterns_;
  Findings found_;
  std::optional<RepositoryFinder> repositories_;  // in a writable workspace
  std::vector<std::string> secrets_;
  std::string directory_;  // of the last entry
  bool is_directory_skipped_ = false;
};

}  // namespace

FileId file_id(const std::string& path) {
  struct stat info{};
  if (::lstat(path.c_str(), &info) != 0) return {};
  return {info.st_dev, info.st_ino};
}

std::int64_t changed_at(const struct stat& info) {
  return info.st_ctim.tv_sec * std::int64_t{1'000'000'000} + info.st_ctim.tv_nsec;
}

bool is_setting(const char* name) { return matches(kSettings, name); }

bool is_setting_path(std::string_view path) { return is_listed_path(kSettingPaths, path); }

bool is_project_setting(const char* name) { return matches(kProjectSettings, name); }

bool is_skipped(std::string_view name) { return is_one_of(kSkippedDirectories, name); }

void drop_covers(Findings& findings) {
  for (auto* covers : {&findings.pin_writable, &findings.pins, &findings.masks, &findings.mask_directories,
                       &findings.changed_secrets, &findings.unread_indexes}) {
    covers->clear();
  }
  findings.is_partial = true;
  if (!findings.placeholder.empty()) remove_placeholder(findings.placeholder);
  findings.placeholder.clear();
}

Findings find_protected(const std::string& workspace, const std::string& home, bool is_writable,
                        const std::vector<std::string>& deny_patterns, const WalkBounds& bounds) {
  return Finder(workspace, home, is_writable, deny_patterns).find(bounds);
}

std::vector<std::string> remarks(const Findings& findings) {
  std::vector<std::string> lines;
  lines.reserve(findings.tracked_secrets.size() + findings.changed_secrets.size());
  for (const std::string& path : findings.tracked_secrets) {
    lines.push_back(path + " looks like a secret and is tracked by git: it was readable");
  }
  for (const std::string& path : findings.changed_secrets) {
    lines.push_back(path +
                    " looks like a secret and differs from what git tracks: it was hidden, and git could not add it");
  }
  for (const std::string& path : findings.unread_indexes) {
    lines.push_back(path +
                    "/index could not be read: what looks like a secret was hidden there, even where git tracks it");
  }
  for (const auto& [path, pin] : findings.doubtful_pins) {
    if (!pin.has_other_names) continue;
    lines.push_back(path +
                    " is read-only inside, but has another name (a hard link) through which it could be written");
  }
  for (const auto& [path, real] : findings.left_out) {
    lines.push_back(path + " is behind a link that a sandbox may have made, and was left out; if it is yours, let a " +
                    "profile name where it leads: " + real);
  }
  return lines;
}

void remove_placeholder(const std::string& path) {
  // Another sandbox in the same workspace holds a shared lock for as long as it needs the file.
  UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (!file || ::flock(file.get(), LOCK_EX | LOCK_NB) != 0) return;
  if (read_small_file(path) == kPlaceholderText) ::unlink(path.c_str());
}

}  // namespace sallyport::sandbox
