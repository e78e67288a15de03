#include "worker/move.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

#include "base/random.h"
#include "worker/entries.h"
#include "worker/limits.h"
#include "worker/listing.h"

namespace sallyport::worker {
namespace {

Error holds_special() {
  Error error = Error::make(Code::io_error,
                            "a FIFO, a socket or a device is in it, which cannot go to another file system: remove it "
                            "first, or copy the tree without it");
  error.details_json = R"({"reason":"special"})";
  return error;
}

// Whether all of a tree could be removed, as far as the kernel tells without trying.
class Survey {
 public:
  // `target` is the directory that the tree is to go to: it must not be in the tree.
  Survey(const struct stat& target, const Stop& stop) : target_(target), stop_(stop) {}

  Status entry(int dir, const char* name, int depth = 0) {
    struct stat parent{};
    if (::fstat(dir, &parent) != 0) return path_error("stat", errno);
    if (::faccessat(dir, ".", W_OK | X_OK, AT_EACCESS) != 0) return path_error("move", errno);
    return entry(dir, parent, name, depth);
  }

 private:
  Status entry(int dir, const struct stat& parent, const char* name, int depth) {
    TRY(stop_.check());
    struct statx status{};
    if (::statx(dir, name, AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT, STATX_TYPE | STATX_UID, &status) != 0)
      return path_error("move", errno);
    if ((status.stx_attributes & STATX_ATTR_MOUNT_ROOT) != 0) return is_protected();
    const uid_t self = ::geteuid();
    const bool is_sticky =
        (parent.st_mode & S_ISVTX) != 0 && self != 0 && self != parent.st_uid && self != status.stx_uid;
    if (is_sticky || (status.stx_attributes & (STATX_ATTR_IMMUTABLE | STATX_ATTR_APPEND)) != 0)
      return path_error("move", EPERM);
    if (S_ISDIR(status.stx_mode)) return directory(dir, name, depth);
    return S_ISREG(status.stx_mode) || S_ISLNK(status.stx_mode) ? ok() : holds_special();
  }

  Status directory(int dir, const char* name, int depth) {
    if (depth >= kMaxWalkDepth) return is_too_deep();
    const UniqueFd inner = open_directory_at(dir, name);
    struct stat status{};
    Listing listing;
    if (!inner || ::fstat(inner.get(), &status) != 0 || !listing.read(inner.get())) return path_error("move", errno);
    // The kernel refuses this itself, but for two mounts of one file system.
    if (are_same(status, target_)) return path_error("move into itself", EINVAL);
    const bool is_closed = !listing.entries().empty() && ::faccessat(inner.get(), ".", W_OK | X_OK, AT_EACCESS) != 0;
    if (is_closed) return path_error("move", errno);
    for (const Listing::Entry& one : listing.entries()) TRY(entry(inner.get(), status, listing.c_name(one), depth + 1));
    return ok();
  }

  const struct stat& target_;
  const Stop& stop_;
};

// A temporary name beside the new one. What it names at the end, the copy or what the copy replaced, goes with it.
class Draft {
 public:
  explicit Draft(const Place& beside)
      : place_{UniqueFd(::fcntl(beside.dir.get(), F_DUPFD_CLOEXEC, 0)), ".sallyport-" + random_hex(8) + ".tmp"} {}
  ~Draft() {
    std::uint64_t removed = 0;
    if (is_ours_) (void)remove_entry(place_, Stop(), removed);
  }
  Draft(const Draft&) = delete;
  Draft& operator=(const Draft&) = delete;

  const Place& place() const { return place_; }
  int swap(const Place& to, unsigned flags) const {
    return ::renameat2(place_.dir.get(), place_.name.c_str(), to.dir.get(), to.name.c_str(), flags);
  }
  // Undoes a swap. Where that fails, both stay: nobody's content is thrown away.
  void take_back(const Place& to, bool is_exchange) {
    const int done = is_exchange ? swap(to, RENAME_EXCHANGE)
                                 : ::renameat2(to.dir.get(), to.name.c_str(), place_.dir.get(), place_.name.c_str(),
                                               RENAME_NOREPLACE);
    is_ours_ = done == 0;
  }

 private:
  Place place_;
  bool is_ours_ = true;
};

Status put_in_place(Draft& draft, const Place& to, const struct stat* old_target) {
  if (draft.swap(to, old_target != nullptr ? RENAME_EXCHANGE : RENAME_NOREPLACE) != 0) {
    if (errno == EEXIST) return exists_already();
    if (errno == EBUSY) return is_protected();
    if (errno == EINVAL)
      return Error::make(Code::io_error,
                         "this file system cannot exchange two files: copy it with overwrite, then remove it");
    return path_error("move", errno);
  }
  struct stat replaced{};
  const bool is_other = old_target != nullptr && (::fstatat(draft.place().dir.get(), draft.place().name.c_str(),
                                                            &replaced, AT_SYMLINK_NOFOLLOW) != 0 ||
                                                  !are_same(replaced, *old_target));
  if (!is_other) return ok();
  draft.take_back(to, true);
  Error error = Error::make(Code::conflict, "what is to be replaced was changed by someone else");
  error.details_json = R"({"reason":"changed"})";
  return error;
}

Status move_between(const Roots& roots, const Place& from, const Place& to, const struct stat* old_target,
                    const Stop& stop) {
  TRY(check_not_process(from.dir.get()));
  struct stat target_dir{};
  if (::fstat(to.dir.get(), &target_dir) != 0) return path_error("stat", errno);
  TRY(Survey(target_dir, stop).entry(from.dir.get(), from.name.c_str()));
  Draft draft(to);
  CopyAnswer copied;
  TRY(copy_entry(roots, from, draft.place(), {.overwrite = false, .recursive = true, .keeps_times = true}, stop,
                 copied));
  if (copied.skipped_special > 0) return holds_special();
  TRY(stop.check_now());
  TRY(put_in_place(draft, to, old_target));
  std::uint64_t removed = 0;
  auto done = remove_entry(from, Stop(), removed);  // no way back from here, so no reason to stop half-way
  if (done) return ok();
  Error error = std::move(done).error();
  if (removed == 0) {
    draft.take_back(to, old_target != nullptr);
  } else {
    error.message += "; the new name has all of it, and the old one what could not be removed";
  }
  return error;
}

}  // namespace

Status move_entry(const Roots& roots, const Place& from, const Place& to, bool overwrite, const Stop& stop) {
  struct stat source{}, target{}, from_dir{}, to_dir{};
  if (::fstatat(from.dir.get(), from.name.c_str(), &source, AT_SYMLINK_NOFOLLOW) != 0) return path_error("move", errno);
  const bool is_there = ::fstatat(to.dir.get(), to.name.c_str(), &target, AT_SYMLINK_NOFOLLOW) == 0;
  if (is_there && (S_ISDIR(target.st_mode) || S_ISDIR(source.st_mode))) return exists_for_good(kDirectoriesStay);
  if (is_there && !overwrite) return exists_already();
  if (::fstat(from.dir.get(), &from_dir) != 0 || ::fstat(to.dir.get(), &to_dir) != 0) return path_error("stat", errno);
  if (is_there && are_same(source, target)) {
    // The very same name, perhaps through another mount; or another name of one file, where a rename does nothing.
    if (are_same(from_dir, to_dir) && from.name == to.name) return ok();
    if (::unlinkat(from.dir.get(), from.name.c_str(), 0) == 0) return ok();
    return errno == EBUSY ? is_protected() : path_error("move", errno);
  }
  const unsigned flags = overwrite ? 0 : RENAME_NOREPLACE;
  if (::renameat2(from.dir.get(), from.name.c_str(), to.dir.get(), to.name.c_str(), flags) == 0) return ok();
  if (errno == EEXIST) return exists_already();
  if (errno == EBUSY) return is_protected();
  if (errno == EINVAL) return path_error("move into itself", errno);
  if (errno != EXDEV) return path_error("move", errno);
  return move_between(roots, from, to, is_there ? &target : nullptr, stop);
}

}  // namespace sallyport::worker
