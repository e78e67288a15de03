#include "worker/root.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <deque>
#include <memory>

#include "os/beneath.h"
#include "os/paths.h"
#include "worker/limits.h"

namespace sallyport::worker {
namespace {

Error outside() {
  return Error::make(Code::policy_denied, "the path leads outside of the directories this worker serves");
}

// The components of a path, without empty ones and dots.
std::vector<std::string_view> components(std::string_view path) {
  std::vector<std::string_view> parts;
  while (!path.empty()) {
    const std::size_t slash = std::min(path.find('/'), path.size());
    const std::string_view part = path.substr(0, slash);
    if (!part.empty() && part != ".") parts.push_back(part);
    path.remove_prefix(std::min(slash + 1, path.size()));
  }
  return parts;
}

std::string clean(std::string_view path) {
  std::vector<std::string_view> kept;
  for (const std::string_view part : components(path)) {
    if (part != "..") {
      kept.push_back(part);
    } else if (!kept.empty()) {
      kept.pop_back();
    }
  }
  std::string text;
  for (const std::string_view part : kept) text.append("/").append(part);
  return text.empty() ? "/" : text;
}

Result<std::string> read_link(int dir, const std::string& name) {
  std::array<char, PATH_MAX> target{};
  const ssize_t length = ::readlinkat(dir, name.c_str(), target.data(), target.size());
  if (length < 0) return path_error("read link", errno);
  return std::string(target.data(), static_cast<std::size_t>(length));
}

// Links such as /proc/PID/root and /proc/PID/fd/3 lead to what the kernel holds and not to what they say. The others
// on that file system (/proc/self, /proc/net) are relative and name entries of it.
bool is_magic(int link, const std::string& target) {
  return (target.starts_with('/') || target.find('[') != std::string::npos) && is_on_proc(link);
}

bool is_link(int dir, const std::string& name) {
  struct stat status{};
  return ::fstatat(dir, name.c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0 && S_ISLNK(status.st_mode);
}

}  // namespace

bool is_on_proc(int fd) {
  struct statfs status{};
  return ::fstatfs(fd, &status) == 0 && status.f_type == PROC_SUPER_MAGIC;
}

Status check_not_process(int fd) {
  if (!is_on_proc(fd)) return ok();
  const auto path = read_link(AT_FDCWD, "/proc/self/fd/" + std::to_string(fd));
  const std::string own = "/proc/" + std::to_string(::getpid());
  if (path && !os::is_within(*path, own) && !path->ends_with("/mem")) return ok();
  Error error = Error::make(Code::policy_denied,
                            "what the kernel shows of the process that serves files, and the memory "
                            "of a process, is not shown");
  error.details_json = R"({"reason":"process"})";
  return error;
}

Error path_error(std::string_view doing, int error_number) {
  if (error_number == EXDEV) return outside();
  Error error = Error::from_errno(std::string(doing), error_number);
  if (error_number == EROFS) error.code = Code::policy_denied;
  return error;
}

Error not_regular() {
  Error error = Error::make(Code::policy_denied, "not a regular file");
  error.details_json = R"({"reason":"not_regular"})";
  return error;
}

Result<Roots> Roots::open(const std::vector<std::string>& directories, Options options) {
  if (directories.empty()) return Error::make(Code::invalid_params, "a worker needs at least one root");
  Roots roots;
  roots.options_ = options;
  for (const std::string& directory : directories) {
    if (!directory.starts_with('/')) return Error::make(Code::invalid_params, "a root must be an absolute path");
    UniqueFd dir(::open(directory.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
    if (!dir) return Error::from_errno("open root", errno, directory);
    roots.roots_.push_back({clean(directory), std::move(dir)});
  }
  const UniqueFd root(::open("/", O_PATH | O_DIRECTORY | O_CLOEXEC));
  struct stat top{}, workspace{};
  struct statfs kind{};
  const bool has_own_root = ::fstat(root.get(), &top) == 0 && ::fstatfs(root.get(), &kind) == 0 &&
                            kind.f_type == TMPFS_MAGIC && ::fstat(roots.roots_.front().dir.get(), &workspace) == 0 &&
                            workspace.st_dev != top.st_dev;
  if (has_own_root) roots.scratch_ = top.st_dev;
  return roots;
}

bool Roots::is_scratch(int directory) const {
  struct stat status{};
  return scratch_ && ::fstat(directory, &status) == 0 && status.st_dev == *scratch_;
}

std::string Roots::absolute(std::string_view path) const {
  if (path.starts_with('/')) return clean(path);
  return clean(workspace() + "/" + std::string(path));
}

bool Roots::is_above_one(const struct stat& directory) const {
  const auto is_same = [](const struct stat& a, const struct stat& b) {
    return a.st_dev == b.st_dev && a.st_ino == b.st_ino;
  };
  for (const Root& root : roots_) {
    struct stat here{}, above{};
    UniqueFd parent(::openat(root.dir.get(), "..", O_PATH | O_DIRECTORY | O_CLOEXEC));
    if (::fstat(root.dir.get(), &here) != 0) return true;
    while (parent && ::fstat(parent.get(), &above) == 0 && !is_same(here, above)) {
      if (is_same(above, directory)) return true;
      here = above;
      parent = UniqueFd(::openat(parent.get(), "..", O_PATH | O_DIRECTORY | O_CLOEXEC));
    }
  }
  return false;
}

// The deepest root above the path as it is written. `..` is left in the rest for the kernel to
// judge: what it means depends on the symlinks before it.
Result<Roots::Start> Roots::start(std::string_view path) const {
  if (path.empty()) return Error::invalid_param("params.path", "must not be empty");
  if (path.find('\0') != std::string_view::npos) return Error::invalid_param("params.path", "must not contain a NUL");
  if (!path.starts_with('/')) return Start{&roots_.front(), std::string(path)};
  std::string normal;  // single slashes, no dots; `..` kept
  for (const std::string_view part : components(path)) normal.append("/").append(part);
  if (normal.empty()) normal = "/";
  const Root* best = nullptr;
  for (const Root& root : roots_) {
    if (os::is_within(normal, root.path) && (best == nullptr || root.path.size() > best->path.size())) best = &root;
  }
  if (best == nullptr) {
    // Perhaps `..` leads back in: `/usr/../src/x` with the root /src.
    if (normal.find("/..") != std::string::npos && clean(normal) != normal) return start(clean(normal));
    return outside();
  }
  std::string rest = normal.substr(std::min(best->path == "/" ? 1 : best->path.size() + 1, normal.size()));
  if (rest.empty()) rest = ".";
  if (path.ends_with('/') && rest != ".") rest += '/';
  return Start{best, std::move(rest)};
}

Result<UniqueFd> Roots::open_beneath(std::string_view path, int flags) const {
  TRY(const Start from, start(path));
  for (int i = 0; i < kResolveTries; ++i) {
    UniqueFd fd = os::open_beneath(from.root->dir.get(), from.rest.c_str(), flags);
    if (fd) return fd;
    if (errno == EXDEV) break;
    if (errno != EAGAIN) return path_error("open", errno);
  }
  for (int i = 0; i < kRaceTries; ++i) {
    TRY(const Place found, walk(path, (flags & O_NOFOLLOW) != 0 ? Follow::no : Follow::yes));
    const char* name = found.name.empty() ? "." : found.name.c_str();
    UniqueFd fd(::openat(found.dir.get(), name, flags | O_NOFOLLOW | O_CLOEXEC));
    const bool became_link = errno == ELOOP && (flags & O_NOFOLLOW) == 0;
    if (!fd && !became_link) return path_error("open", errno);
    // With O_PATH a link is opened instead of refused.
    if (fd && (flags & O_PATH) != 0 && (flags & O_NOFOLLOW) == 0) {
      struct stat status{};
      if (::fstat(fd.get(), &status) != 0) return path_error("stat", errno);
      if (S_ISLNK(status.st_mode)) continue;
    }
    if (fd) return fd;
  }
  return Error::make(Code::unavailable, "the path keeps changing while it is opened");
}

Status Roots::check_regular(const struct stat& status) const {
  if (S_ISDIR(status.st_mode)) return path_error("open", EISDIR);
  if (!S_ISREG(status.st_mode)) return not_regular();
  if (options_.refuse_hard_links && status.st_nlink > 1) {
    return Error::make(Code::policy_denied, "the file has more than one name, which this profile refuses");
  }
  return ok();
}

Result<UniqueFd> Roots::open_file(std::string_view path, int flags, struct stat& status) const {
  // Non-blocking, so that a FIFO without a writer and a device answer at once; cleared by nobody,
  // because it means nothing for the regular files that get past the check.
  auto fd = open_beneath(path, flags | O_NONBLOCK | O_NOCTTY);
  if (!fd && fd.error().details_json.find("ENXIO") != std::string::npos) {
    return not_regular();
  }
  if (!fd) return fd;
  if (::fstat(fd->get(), &status) != 0) return path_error("stat", errno);
  TRY(check_regular(status));
  if (status.st_size == 0) TRY(check_not_process(fd->get()));
  return fd;
}

Result<UniqueFd> Roots::open_directory(std::string_view path) const {
  TRY(UniqueFd directory, open_beneath(path, O_RDONLY | O_DIRECTORY | O_NONBLOCK));
  TRY(check_not_process(directory.get()));
  return directory;
}

Result<UniqueFd> Roots::open_any(std::string_view path, Follow follow) const {
  TRY(UniqueFd found, open_beneath(path, O_PATH | (follow == Follow::no ? O_NOFOLLOW : 0)));
  TRY(check_not_process(found.get()));
  return found;
}

Result<Place> Roots::place(std::string_view path, Follow follow) const {
  TRY(const Start from, start(path));
  std::string_view rest = from.rest;
  while (rest.ends_with('/')) rest.remove_suffix(1);
  const std::size_t slash = rest.rfind('/');
  const std::string name(slash == std::string_view::npos ? rest : rest.substr(slash + 1));
  if (name.empty() || name == "." || name == "..") return walk(path, follow);
  const std::string parent(slash == std::string_view::npos ? "." : rest.substr(0, slash));
  UniqueFd dir = os::open_beneath(from.root->dir.get(), parent.c_str(), O_PATH | O_DIRECTORY);
  if (!dir && errno != EXDEV && errno != EAGAIN) return path_error("open parent", errno);
  auto found = !dir || (follow == Follow::yes && is_link(dir.get(), name)) ? walk(path, follow)
                                                                           : Result<Place>(Place{std::move(dir), name});
  // A slash behind a name says that it is a directory's.
  struct stat status{};
  if (found && rest.size() < from.rest.size() && !found->name.empty() &&
      ::fstatat(found->dir.get(), found->name.c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0 && !S_ISDIR(status.st_mode)) {
    return path_error("open", ENOTDIR);
  }
  return found;
}

// Component by component. Each is opened without following, so what is opened lies in the directory
// that is held; a link's text is put in front of what is left; an absolute text, and a `..` above the
// root, start again from the root that contains them.
Result<Place> Roots::walk(std::string_view path, Follow follow) const {
  TRY(Start from, start(path));
  int links = 0;
  while (true) {
    std::vector<UniqueFd> held;  // the directories below the root, for `..`
    const auto here = [&] { return held.empty() ? from.root->dir.get() : held.back().get(); };
    std::deque<std::string> left;
    for (const std::string_view part : components(from.rest)) left.emplace_back(part);
    std::string restart;
    while (!left.empty() && restart.empty()) {
      const std::string name = left.front();
      left.pop_front();
      if (name == "..") {
        if (held.empty())
          restart = clean(from.root->path + "/..");
        else
          held.pop_back();
        if (!restart.empty() && from.root->path == "/") restart.clear();  // /.. is /
        continue;
      }
      const bool is_last = left.empty();
      UniqueFd next(::openat(here(), name.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
      if (!next && errno == ENOENT && is_last) return Place{UniqueFd(::fcntl(here(), F_DUPFD_CLOEXEC, 0)), name};
      if (!next) return path_error("open", errno);
      struct stat status{};
      if (::fstat(next.get(), &status) != 0) return path_error("stat", errno);
      if (S_ISLNK(status.st_mode) && (!is_last || follow == Follow::yes)) {
        if (++links > kMaxLinks) return path_error("open", ELOOP);
        TRY(const std::string target, read_link(next.get(), ""));
        if (is_magic(next.get(), target)) return path_error("open", ELOOP);
        if (target.starts_with('/')) {
          restart = target;
        } else {
          const auto parts = components(target);
          left.insert(left.begin(), parts.begin(), parts.end());
        }
        continue;
      }
      if (is_last) return Place{UniqueFd(::fcntl(here(), F_DUPFD_CLOEXEC, 0)), name};
      if (!S_ISDIR(status.st_mode)) return path_error("open", ENOTDIR);
      held.push_back(std::move(next));
    }
    if (restart.empty()) return Place{UniqueFd(::fcntl(here(), F_DUPFD_CLOEXEC, 0)), {}};
    for (const std::string& part : left) restart.append("/").append(part);
    TRY(from, start(restart));
  }
}

Result<UniqueFd> Roots::make_directories(std::string_view path, int& made) const {
  made = 0;
  // The longest part that exists, as the kernel resolves it; below it nothing can be a link.
  std::string existing(path);
  std::vector<std::string> missing;
  auto dir = open_any(existing, Follow::yes);
  while (!dir && dir.error().details_json.find("\"ENOENT\"") != std::string::npos) {
    while (existing.size() > 1 && existing.ends_with('/')) existing.pop_back();
    const std::size_t slash = existing.rfind('/');
    missing.push_back(slash == std::string::npos ? existing : existing.substr(slash + 1));
    if (missing.back() == "..") return path_error("create directory", ENOENT);
    existing = slash == std::string::npos ? "." : existing.substr(0, std::max<std::size_t>(slash, 1));
    dir = open_any(existing, Follow::yes);
  }
  if (!dir) return std::move(dir).error();
  UniqueFd here = *std::move(dir);
  std::reverse(missing.begin(), missing.end());
  for (const std::string& name : missing) {
    if (name == "." || name.empty()) continue;
    if (::mkdirat(here.get(), name.c_str(), 0777) == 0)
      ++made;
    else if (errno != EEXIST)
      return path_error("create directory", errno);
    UniqueFd next(::openat(here.get(), name.c_str(), O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (!next) return path_error("create directory", errno);
    here = std::move(next);
  }
  struct stat status{};
  if (::fstat(here.get(), &status) != 0) return path_error("stat", errno);
  if (!S_ISDIR(status.st_mode)) return path_error("create directory", ENOTDIR);
  return here;
}

}  // namespace sallyport::worker
