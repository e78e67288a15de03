#include "worker/entries.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <climits>
#include <string>
#include <vector>

#include "worker/file.h"
#include "worker/limits.h"
#include "worker/listing.h"

namespace sallyport::worker {
namespace {

// Copies what is below one directory into another. Both are held by descriptors.
class Copier {
 public:
  Copier(const Roots& roots, CopyOptions options, const Stop& stop, CopyAnswer& answer)
      : roots_(roots), options_(options), stop_(stop), answer_(answer) {}

  Status copy(const Place& from, const Place& to) {
    TRY(check_not_process(from.dir.get()));  // also for a link, which is not opened
    struct stat status{};
    if (::fstatat(from.dir.get(), from.name.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0)
      return path_error("copy", errno);
    const bool is_directory = S_ISDIR(status.st_mode);
    if (is_directory && !options_.recursive) return path_error("copy without recursive", EISDIR);
    TRY(check_target(to, is_directory, options_.overwrite));
    if (is_directory) return copy_directory(from.dir.get(), from.name.c_str(), to.dir.get(), to.name.c_str(), 0);
    if (S_ISLNK(status.st_mode)) return copy_link(from.dir.get(), from.name.c_str(), to.dir.get(), to.name.c_str());
    return copy_file(from, to, options_.overwrite);
  }

 private:
  static Status check_target(const Place& to, bool is_directory, bool overwrite) {
    struct stat target{};
    if (::fstatat(to.dir.get(), to.name.c_str(), &target, AT_SYMLINK_NOFOLLOW) != 0) return ok();
    if (is_directory || S_ISDIR(target.st_mode)) return exists_for_good(kDirectoriesStay);
    if (!overwrite) return exists_already();
    if (S_ISREG(target.st_mode)) return ok();
    return exists_for_good("there is a symbolic link or another special file with this name, which no copy replaces");
  }

  Status copy_file(const Place& from, const Place& to, bool overwrite) {
    TRY(const UniqueFd source, open_at(roots_, from, O_RDONLY));
    struct stat status{};
    if (::fstat(source.get(), &status) != 0) return path_error("stat", errno);
    std::uint64_t copied = 0;
    const auto fill = [&](int draft) -> Status {
      TRY(copy_bytes(source.get(), draft, copied));
      return keep_times(draft, status);
    };
    const NewContent content{fill, status.st_mode & 0777};
    const std::optional<struct stat> absent;
    WriteOptions options;
    options.stop = &stop_;
    const auto done = replace_file(roots_, to, content, options, overwrite ? nullptr : &absent);
    if (!done && !overwrite && done.error().code == Code::conflict) return exists_already();
    TRY(done);
    ++answer_.files;
    answer_.bytes += copied;
    return ok();
  }

  Status copy_bytes(int from, int to, std::uint64_t& copied) {
    if (::lseek(from, 0, SEEK_SET) != 0) return path_error("copy", errno);
    copied = 0;
    while (true) {
      const ssize_t count = ::copy_file_range(from, nullptr, to, nullptr, 8 << 20, 0);
      if (count == 0) return ok();
      // Some pairs of file systems cannot; plain reads and writes always can.
      if (count < 0 && copied == 0 && (errno == EXDEV || errno == EINVAL || errno == EOPNOTSUPP || errno == ENOSYS))
        break;
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) return path_error("copy", errno);
      copied += static_cast<std::uint64_t>(count);
      TRY(stop_.check());
    }
    std::string buffer(256 << 10, '\0');
    while (true) {
      const ssize_t count = ::read(from, buffer.data(), buffer.size());
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) return path_error("copy", errno);
      if (count == 0) return ok();
      TRY(write_all(to, {buffer.data(), static_cast<std::size_t>(count)}, FileCalls::real()));
      copied += static_cast<std::uint64_t>(count);
      TRY(stop_.check());
    }
  }

  Status copy_link(int from, const char* from_name, int to, const char* to_name) {
    std::array<char, PATH_MAX> text{};
    const ssize_t length = ::readlinkat(from, from_name, text.data(), text.size() - 1);
    if (length < 0) return path_error("copy", errno);
    if (::symlinkat(text.data(), to, to_name) != 0) {
      return errno == EEXIST ? exists_already() : path_error("copy", errno);
    }
    ++answer_.links;
    return ok();
  }

  Status copy_directory(int from, const char* from_name, int to, const char* to_name, int depth) {
    if (depth >= kMaxWalkDepth) return is_too_deep();
    TRY(stop_.check());
    const UniqueFd source = open_directory_at(from, from_name);
    if (!source) return path_error("copy", errno);
    TRY(check_not_process(source.get()));
    struct stat status{};
    if (::fstat(source.get(), &status) != 0) return path_error("stat", errno);
    // A copy into itself would never end: the copy's top is not part of what is copied.
    if (are_same(status, top_)) return ok();
    Listing listing;
    if (!listing.read(source.get())) return path_error("copy", errno);
    if (::mkdirat(to, to_name, 0700) != 0) return errno == EEXIST ? exists_already() : path_error("copy", errno);
    const UniqueFd target = open_directory_at(to, to_name);
    if (!target) return path_error("copy", errno);
    if (depth == 0 && ::fstat(target.get(), &top_) != 0) return path_error("stat", errno);
    ++answer_.directories;
    for (const Listing::Entry& entry : listing.entries()) {
      const char* const name = listing.c_name(entry);
      switch (entry.kind) {
        case EntryKind::directory:
          TRY(copy_directory(source.get(), name, target.get(), name, depth + 1));
          break;
        case EntryKind::symlink:
          TRY(copy_link(source.get(), name, target.get(), name));
          break;
        case EntryKind::special:
          ++answer_.skipped_special;
          break;
        case EntryKind::file:
          TRY(copy_file({duplicate(source), name}, {duplicate(target), name}, false));
          break;
      }
    }
    if (::fchmod(target.get(), status.st_mode & 01777) != 0) return path_error("set mode", errno);
    return keep_times(target.get(), status);
  }

  Status keep_times(int copy, const struct stat& status) const {
    const std::array times = {status.st_atim, status.st_mtim};
    if (options_.keeps_times && ::futimens(copy, times.data()) != 0) return path_error("keep times", errno);
    return ok();
  }

  static UniqueFd duplicate(const UniqueFd& fd) { return UniqueFd(::fcntl(fd.get(), F_DUPFD_CLOEXEC, 0)); }

  const Roots& roots_;
  const CopyOptions options_;
  const Stop& stop_;
  CopyAnswer& answer_;
  struct stat top_{};
};

// Empties directories from the inside out with a handful of descriptors, however deep they are: the way up is `..`,
// which is believed only if it is the directory that was left.
class Remover {
 public:
  Remover(const Place& place, const Stop& stop, std::uint64_t& removed)
      : place_(place), stop_(stop), removed_(removed) {}

  Status run() {
    TRY(take(place_.dir.get(), place_.name));
    while (!levels_.empty()) {
      TRY(stop_.check());
      std::vector<std::string>& left = levels_.back().left;
      if (left.empty()) {
        TRY(leave());
        continue;
      }
      const std::string name = std::move(left.back());
      left.pop_back();
      TRY(take(here_.get(), name));
    }
    return ok();
  }

 private:
  struct Level {
    std::string name;
    struct stat status;
    std::vector<std::string> left;  // in it
  };

  // Removes it, or enters it where it is a directory that is not empty.
  Status take(int dir, const std::string& name) {
    const int error = unlink_any(dir, name.c_str());
    if (error == 0) {
      ++removed_;
      return ok();
    }
    // Said before anything in it is removed.
    if (error == EBUSY) return is_protected();
    if (error != ENOTEMPTY && error != EEXIST) return path_error("remove", error);
    UniqueFd inner = open_directory_at(dir, name.c_str());
    Level level{name, {}, {}};
    if (!inner || ::fstat(inner.get(), &level.status) != 0 || !listing_.read(inner.get()))
      return path_error("remove", errno);
    for (const Listing::Entry& entry : listing_.entries()) level.left.emplace_back(listing_.name(entry));
    levels_.push_back(std::move(level));
    here_ = std::move(inner);
    return ok();
  }

  Status leave() {
    const Level level = std::move(levels_.back());
    levels_.pop_back();
    UniqueFd above;
    struct stat status{};
    if (!levels_.empty()) {
      above = open_directory_at(here_.get(), "..");
      if (!above || ::fstat(above.get(), &status) != 0) return path_error("remove", errno);
      if (!are_same(status, levels_.back().status))
        return Error::make(Code::unavailable, "the tree was moved while it was removed");
    }
    if (::unlinkat(levels_.empty() ? place_.dir.get() : above.get(), level.name.c_str(), AT_REMOVEDIR) != 0)
      return path_error("remove", errno);
    ++removed_;
    here_ = std::move(above);
    return ok();
  }

  const Place& place_;
  const Stop& stop_;
  std::uint64_t& removed_;
  std::vector<Level> levels_;  // directories that are being emptied, outermost first
  UniqueFd here_;              // the last of them
  Listing listing_;
};

}  // namespace

Status copy_entry(const Roots& roots, const Place& from, const Place& to, CopyOptions options, const Stop& stop,
                  CopyAnswer& answer) {
  return Copier(roots, options, stop, answer).copy(from, to);
}

int unlink_any(int dir, const char* name) {
  if (::unlinkat(dir, name, 0) == 0) return 0;
  const int error = errno;
  if (error != EISDIR && error != EPERM) return error;
  if (::unlinkat(dir, name, AT_REMOVEDIR) == 0) return 0;
  return errno == ENOTDIR ? error : errno;
}

Status remove_entry(const Place& place, const Stop& stop, std::uint64_t& removed) {
  return Remover(place, stop, removed).run();
}

bool are_same(const struct stat& a, const struct stat& b) { return a.st_dev == b.st_dev && a.st_ino == b.st_ino; }

UniqueFd open_directory_at(int parent, const char* name) {
  return UniqueFd(::openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
}

Error exists_already() {
  Error error = Error::make(Code::conflict, "there is something with this name already");
  error.details_json = R"({"reason":"exists"})";
  return error;
}

Error exists_for_good(std::string message) {
  Error error = Error::make(Code::conflict, std::move(message));
  error.details_json = R"({"reason":"exists","replaceable":false})";
  return error;
}

Error is_protected() {
  Error error =
      Error::make(Code::policy_denied, "it is protected, or something in it is: remove what else is in it one by one");
  error.details_json = R"({"reason":"protected"})";
  return error;
}

Error is_too_deep() {
  Error error = Error::make(Code::io_error, "the tree has more than " + std::to_string(kMaxWalkDepth) +
                                                " directories in each other: copy a part of it at a time");
  error.details_json = R"({"reason":"too_deep"})";
  return error;
}

}  // namespace sallyport::worker
