#include "worker/file.h"

#include <fcntl.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <vector>

#include "base/random.h"
#include "worker/limits.h"

namespace sallyport::worker {
namespace {

bool is_same_version(const struct stat& a, const struct stat& b) {
  return a.st_dev == b.st_dev && a.st_ino == b.st_ino && a.st_size == b.st_size &&
         a.st_mtim.tv_sec == b.st_mtim.tv_sec && a.st_mtim.tv_nsec == b.st_mtim.tv_nsec &&
         a.st_ctim.tv_sec == b.st_ctim.tv_sec && a.st_ctim.tv_nsec == b.st_ctim.tv_nsec;
}

Error changed() {
  Error error = Error::make(Code::conflict, "the file was changed by someone else");
  error.details_json = R"({"reason":"changed"})";
  return error;
}

// Attributes the kernel or the walls manage themselves are not ours to copy.
bool is_ours_to_keep(std::string_view name) {
  return name.starts_with("user.") || name.starts_with("system.posix_acl");
}

Status copy_attributes(int from, int to) {
  const ssize_t size = ::flistxattr(from, nullptr, 0);
  if (size == 0 || (size < 0 && errno == ENOTSUP)) return ok();
  if (size < 0) return path_error("read attributes", errno);
  std::vector<char> names(static_cast<std::size_t>(size) + 1024);
  const ssize_t listed = ::flistxattr(from, names.data(), names.size());
  if (listed < 0) return path_error("read attributes", errno);
  std::vector<char> value(64 << 10);  // the kernel's own limit
  for (const char* name = names.data(); name < names.data() + listed; name += std::string_view(name).size() + 1) {
    if (!is_ours_to_keep(name)) continue;
    const ssize_t length = ::fgetxattr(from, name, value.data(), value.size());
    if (length < 0 && errno == ENODATA) continue;
    if (length < 0) return path_error("read attributes", errno);
    if (::fsetxattr(to, name, value.data(), static_cast<std::size_t>(length), 0) != 0)
      return path_error("keep attributes", errno);
  }
  return ok();
}

// False if this process may not, or has no number for them: a user namespace maps only some.
Result<bool> keep_owner(const struct stat& old_status, int new_file) {
  struct stat fresh{};
  if (::fstat(new_file, &fresh) != 0) return path_error("stat", errno);
  if (fresh.st_uid == old_status.st_uid && fresh.st_gid == old_status.st_gid) return true;
  if (::fchown(new_file, old_status.st_uid, old_status.st_gid) == 0) return true;
  if (errno == EPERM || errno == EINVAL) return false;
  return path_error("keep owner", errno);
}

Status keep_mode_and_attributes(int old_file, const struct stat& old_status, int new_file) {
  // What a directory grants to others in each file that is made there; the old file's own list follows, if it has one.
  constexpr const char* kList = "system.posix_acl_access";
  if (::fgetxattr(new_file, kList, nullptr, 0) >= 0 && ::fremovexattr(new_file, kList) != 0)
    return path_error("keep mode", errno);
  if (::fchmod(new_file, old_status.st_mode & 01777) != 0) return path_error("keep mode", errno);
  return copy_attributes(old_file, new_file);
}

// A file that has no name yet where the file system can do that, so that a crash leaves nothing
// behind; one with a temporary name elsewhere.
class Draft {
 public:
  explicit Draft(int dir) : dir_(dir), name_(".sallyport-" + random_hex(8) + ".tmp") {}
  ~Draft() {
    if (is_named_) ::unlinkat(dir_, name_.c_str(), 0);
  }
  Draft(const Draft&) = delete;
  Draft& operator=(const Draft&) = delete;

  Status open() {
    fd_ = UniqueFd(::openat(dir_, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0666));
    if (fd_) return ok();
    if (errno == ENOSPC || errno == EDQUOT || errno == EROFS || errno == EACCES) return path_error("create", errno);
    return open_named();
  }
  Status open_named() {
    fd_ = UniqueFd(::openat(dir_, name_.c_str(), O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666));
    if (!fd_) return path_error("create", errno);
    is_named_ = true;
    return ok();
  }
  int fd() const { return fd_.get(); }
  bool has_name() const { return is_named_; }

  // Gives a nameless draft a name; EEXIST if it is taken. Needs /proc; without it the answer is
  // another errno and the caller starts over with a named draft.
  int link_as(const char* name) const {
    return ::linkat(AT_FDCWD, self().c_str(), dir_, name, AT_SYMLINK_FOLLOW) == 0 ? 0 : errno;
  }
  bool can_be_named() const { return ::faccessat(AT_FDCWD, self().c_str(), F_OK, 0) == 0; }
  int take_temporary_name() {
    if (is_named_) return 0;
    const int error = link_as(name_.c_str());
    is_named_ = error == 0;
    return error;
  }
  Status rename_to(const std::string& name, const FileCalls& calls) {
    if (calls.rename(dir_, name_.c_str(), dir_, name.c_str()) != 0) return path_error("replace", errno);
    is_named_ = false;
    return ok();
  }

 private:
  std::string self() const { return "/proc/self/fd/" + std::to_string(fd_.get()); }

  int dir_;
  std::string name_;
  UniqueFd fd_;
  bool is_named_ = false;
};

// For a step that fails before the new content has taken its place.
Status unchanged(Status step) {
  if (step || step.error().code != Code::io_error) return step;
  Error error = std::move(step).error();
  error.message += "; nothing was changed";
  return error;
}

Error is_too_large(std::uint64_t size, std::uint64_t most) {
  return Error::make(Code::payload_too_large, "the file has " + std::to_string(size) + " bytes, and no more than " +
                                                  std::to_string(most) + " can be edited: write it anew instead");
}

Status copy_over(int draft, int file, const FileCalls& calls) {
  std::string buffer(256 << 10, '\0');
  for (off_t at = 0;;) {
    const ssize_t count = ::pread(draft, buffer.data(), buffer.size(), at);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return path_error("write", errno);
    if (count == 0) return ::ftruncate(file, at) == 0 ? ok() : path_error("write", errno);
    TRY(write_all(file, {buffer.data(), static_cast<std::size_t>(count)}, calls));
    at += count;
  }
}

// Gives the file that is there a draft's bytes.
Status write_in_place(const Place& place, const struct stat& old_status, int draft, const WriteOptions& options,
                      const std::optional<struct stat>* expected) {
  if (options.stop != nullptr) TRY(options.stop->check_now());
  const UniqueFd file(
      ::openat(place.dir.get(), place.name.c_str(), O_WRONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
  struct stat now{}, fresh{};
  if (!file || ::fstat(file.get(), &now) != 0 || ::fstat(draft, &fresh) != 0)
    return unchanged(path_error("write", errno));
  const bool is_other = now.st_dev != old_status.st_dev || now.st_ino != old_status.st_ino;
  if (is_other || (expected != nullptr && !is_same_version(now, **expected))) return changed();
  // Some file systems cannot take room in advance; that a disk is full must be known before a byte changes.
  const bool is_full = ::fallocate(file.get(), FALLOC_FL_KEEP_SIZE, 0, fresh.st_size) != 0 &&
                       (errno == ENOSPC || errno == EDQUOT || errno == EFBIG);
  if (is_full) return unchanged(path_error("write", errno));
  auto done = copy_over(draft, file.get(), *options.calls);
  if (done && options.durable && options.calls->fsync(file.get()) != 0) done = path_error("sync", errno);
  if (done) return ok();
  Error error = std::move(done).error();
  error.message += "; the file may hold a part of the new content";
  return error;
}

// Nothing can be renamed to a mount point. The directory around it may well be one that cannot be written; what the
// container has for temporary files then holds the draft.
Status replace_mounted(const Roots& roots, const Place& place, const struct stat& old_status, const NewContent& content,
                       const WriteOptions& options, const std::optional<struct stat>* expected) {
  UniqueFd elsewhere;
  Draft beside(place.dir.get());
  Draft* draft = &beside;
  std::optional<Draft> other;
  if (!beside.open()) {
    TRY(elsewhere, roots.open_directory("/tmp"));
    draft = &other.emplace(elsewhere.get());
    TRY(unchanged(draft->open()));
  }
  TRY(unchanged(content.fill(draft->fd())));
  return write_in_place(place, old_status, draft->fd(), options, expected);
}

Error has_foreign_owner() {
  Error error = Error::make(Code::io_error,
                            "the file has an owner or group that cannot be kept in a new file, and other names that "
                            "writing into it would change: give it another owner, or a copy of its own");
  error.details_json = R"({"errno":"EPERM","reason":"owner"})";
  return error;
}

}  // namespace

Status sync_directory(int dir, const FileCalls& calls) {
  const UniqueFd readable(::openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (readable && calls.fsync(readable.get()) == 0) return ok();
  Error error = path_error("sync directory", errno);
  error.message += "; the new content is there, but a power cut may undo that";
  return error;
}

const FileCalls& FileCalls::real() {
  static constexpr FileCalls kReal = {::write, ::fsync, ::renameat};
  return kReal;
}

Result<UniqueFd> open_at(const Roots& roots, const Place& place, int flags) {
  if (place.name.empty()) return path_error("open", EISDIR);
  UniqueFd fd(::openat(place.dir.get(), place.name.c_str(), flags | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
  if (!fd && errno == ENXIO) return not_regular();
  if (!fd) return path_error("open", errno);
  struct stat status{};
  if (::fstat(fd.get(), &status) != 0) return path_error("stat", errno);
  TRY(roots.check_regular(status));
  if (status.st_size == 0) TRY(check_not_process(fd.get()));
  return fd;
}

bool is_mount_point(int dir, const char* name) {
  struct statx status{};
  return ::statx(dir, name, AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT, STATX_TYPE, &status) == 0 &&
         (status.stx_attributes & STATX_ATTR_MOUNT_ROOT) != 0;
}

Result<Snapshot> read_snapshot(int fd, std::uint64_t most) {
  for (int i = 0; i < kRaceTries; ++i) {
    Snapshot snapshot;
    if (::fstat(fd, &snapshot.status) != 0) return path_error("stat", errno);
    if (static_cast<std::uint64_t>(snapshot.status.st_size) > most) {
      return is_too_large(static_cast<std::uint64_t>(snapshot.status.st_size), most);
    }
    snapshot.content.resize(static_cast<std::size_t>(snapshot.status.st_size));
    std::size_t filled = 0;
    while (filled < snapshot.content.size()) {
      const ssize_t count =
          ::pread(fd, snapshot.content.data() + filled, snapshot.content.size() - filled, static_cast<off_t>(filled));
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) return path_error("read", errno);
      if (count == 0) break;
      filled += static_cast<std::size_t>(count);
    }
    struct stat after{};
    if (::fstat(fd, &after) != 0) return path_error("stat", errno);
    // The link count changes ctime without changing a byte; only what the content shows counts here.
    const bool is_still = after.st_size == snapshot.status.st_size &&
                          after.st_mtim.tv_sec == snapshot.status.st_mtim.tv_sec &&
                          after.st_mtim.tv_nsec == snapshot.status.st_mtim.tv_nsec;
    if (is_still && filled == snapshot.content.size()) return snapshot;
  }
  return Error::make(Code::unavailable, "the file keeps changing while it is read");
}

Status write_all(int fd, std::string_view content, const FileCalls& calls) {
  while (!content.empty()) {
    const ssize_t count = calls.write(fd, content.data(), content.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return path_error("write", errno);
    content.remove_prefix(static_cast<std::size_t>(count));
  }
  return ok();
}

Status replace_file(const Roots& roots, const Place& place, std::string_view content, const WriteOptions& options,
                    const std::optional<struct stat>* expected) {
  const NewContent whole{[&](int fd) { return write_all(fd, content, *options.calls); }, std::nullopt};
  return replace_file(roots, place, whole, options, expected);
}

Status replace_file(const Roots& roots, const Place& place, const NewContent& content, const WriteOptions& options,
                    const std::optional<struct stat>* expected) {
  const int dir = place.dir.get();
  auto old_file = open_at(roots, place, O_RDONLY);
  const bool is_new = !old_file && old_file.error().details_json == R"({"errno":"ENOENT"})";
  if (!old_file && !is_new) return std::move(old_file).error();
  struct stat old_status{};
  if (!is_new && ::fstat(old_file->get(), &old_status) != 0) return path_error("stat", errno);
  // A rename asks only the directory; a file that may not be written must stay as it is.
  if (!is_new && ::faccessat(dir, place.name.c_str(), W_OK, AT_EACCESS | AT_SYMLINK_NOFOLLOW) != 0)
    return path_error("write", errno);
  if (expected != nullptr && expected->has_value() != !is_new) return changed();
  if (!is_new && is_mount_point(dir, place.name.c_str()))
    return replace_mounted(roots, place, old_status, content, options, expected);

  for (const bool nameless : {true, false}) {
    Draft draft(dir);
    TRY(unchanged(nameless ? draft.open() : draft.open_named()));
    // A nameless draft may turn out useless only after it was filled.
    if (!content.can_repeat && !draft.has_name() && !draft.can_be_named()) continue;
    TRY(unchanged(content.fill(draft.fd())));
    if (is_new && content.mode && ::fchmod(draft.fd(), *content.mode & 01777) != 0)
      return path_error("set mode", errno);
    if (!is_new) {
      TRY(const bool is_kept, keep_owner(old_status, draft.fd()));
      if (!is_kept && old_status.st_nlink > 1) return has_foreign_owner();
      if (!is_kept) return write_in_place(place, old_status, draft.fd(), options, expected);
      TRY(unchanged(keep_mode_and_attributes(old_file->get(), old_status, draft.fd())));
    }
    if (options.durable && options.calls->fsync(draft.fd()) != 0) return unchanged(path_error("sync", errno));
    if (options.stop != nullptr) TRY(options.stop->check_now());
    if (is_new && !draft.has_name()) {
      const int error = draft.link_as(place.name.c_str());
      if (error == 0) return options.durable ? sync_directory(dir, *options.calls) : ok();
      if (error == EEXIST && expected != nullptr) return changed();
      if (error == ENOSPC || error == EDQUOT) return unchanged(path_error("create", error));
    }
    const int error = draft.take_temporary_name();
    const bool is_full = error == ENOSPC || error == EDQUOT;
    if (is_full || (error != 0 && !content.can_repeat)) return unchanged(path_error("create", error));
    if (error != 0) continue;
    struct stat now{};
    const bool is_there = ::fstatat(dir, place.name.c_str(), &now, AT_SYMLINK_NOFOLLOW) == 0;
    if (expected != nullptr && (is_there != expected->has_value() || (is_there && !is_same_version(now, **expected))))
      return changed();
    TRY(unchanged(draft.rename_to(place.name, *options.calls)));
    return options.durable ? sync_directory(dir, *options.calls) : ok();
  }
  return Error::make(Code::io_error, "no temporary file can be made here");
}

}  // namespace sallyport::worker
