#include "sandbox/protect.h"

#include <dirent.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <ctime>
#include <optional>
#include <set>

#include "base/unique_fd.h"
#include "sandbox/git_files.h"
#include "sandbox/protected_names.h"
#include "sandbox/repositories.h"
#include "sandbox/walk.h"

namespace sallyport::sandbox {
namespace {

template <typename Names>
bool matches(const Names& names, const char* name) {
  return std::any_of(std::begin(names), std::end(names), [&](const auto& pattern) {
    return ::fnmatch(std::string(pattern).c_str(), name, FNM_CASEFOLD) == 0;
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
         const std::vector<std::string>& deny_names)
      : workspace_(workspace), deny_names_(deny_names) {
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
    found_.has_more = repositories_ && repositories_->has_more();
    found_.is_partial = found_.was_cut || found_.has_more;
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
    if (entry.name == "HEAD" && repositories_) repositories_->add_bare(parent_of(entry.path));
    if (entry.name == ".git") {
      if (repositories_ && entry.path != workspace_ + "/.git") repositories_->add(entry.path, parent_of(entry.path));
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
    if (repositories_ && matches(kSettings, name) && (entry.type == DT_DIR || entry.type == DT_REG)) {
      found_.pins.push_back(entry.path);
    }
    if (entry.type == DT_REG && matches(kSecretFiles, name) && !matches(kNoSecrets, name))
      secrets_.push_back(entry.path);
    if (entry.type == DT_LNK && matches(kSecretFiles, name)) add_target(entry.path);
    return !matches(kSkippedDirectories, name);
  }

  void hide(const std::string& directory) {
    struct stat info{};
    if (directory == workspace_) found_.was_cut = true;
    const bool is_own = ::lstat(directory.c_str(), &info) == 0 && info.st_uid == ::geteuid();
    if (is_own && directory != workspace_) found_.mask_directories.push_back(directory);
  }

  // A secret behind a link, if the link stays inside.
  void add_target(const std::string& link) {
    const auto target = resolved(link);
    struct stat info{};
    if (target && is_inside(*target, workspace_) && ::lstat(target->c_str(), &info) == 0 && S_ISREG(info.st_mode)) {
      secrets_.push_back(*target);
    }
  }

  void sort_secrets() {
    if (secrets_.empty()) return;
    std::optional<std::set<std::string>> tracked;
    if (const auto index = read_small_file(workspace_ + "/.git/index")) tracked = tracked_paths(*index);
    sort_each_once(secrets_);
    for (const std::string& path : secrets_) {
      // An index that cannot be read tracks nothing: unknown means masked.
      const bool is_tracked = tracked && tracked->contains(path.substr(workspace_.size() + 1));
      (is_tracked ? found_.tracked_secrets : found_.masks).push_back(path);
    }
  }

  const std::string& workspace_;
  const std::vector<std::string>& deny_names_;
  Findings found_;
  std::optional<RepositoryFinder> repositories_;  // in a writable workspace
  std::vector<std::string> secrets_;
};

}  // namespace

FileId file_id(const std::string& path) {
  struct stat info{};
  if (::lstat(path.c_str(), &info) != 0) return {};
  return {info.st_dev, info.st_ino};
}

void drop_covers(Findings& findings) {
  for (auto* covers : {&findings.pin_writable, &findings.pins, &findings.masks, &findings.mask_directories}) {
    covers->clear();
  }
  findings.is_partial = true;
  if (!findings.placeholder.empty()) remove_placeholder(findings.placeholder);
  findings.placeholder.clear();
}

Findings find_protected(const std::string& workspace, const std::string& home, bool is_writable,
                        const std::vector<std::string>& deny_names, const WalkBounds& bounds) {
  return Finder(workspace, home, is_writable, deny_names).find(bounds);
}

void remove_placeholder(const std::string& path) {
  // Another sandbox in the same workspace holds a shared lock for as long as it needs the file.
  UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (!file || ::flock(file.get(), LOCK_EX | LOCK_NB) != 0) return;
  if (read_small_file(path) == kPlaceholderText) ::unlink(path.c_str());
}

}  // namespace sallyport::sandbox
