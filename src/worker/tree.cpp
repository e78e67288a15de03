#include "worker/tree.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <climits>
#include <cstdio>

#include "worker/file.h"
#include "worker/limits.h"
#include "worker/listing.h"

namespace sallyport::worker {
namespace {

Error exists_already() {
  Error error = Error::make(Code::conflict, "there is something at the new path already");
  error.details_json = R"({"reason":"exists"})";
  return error;
}

// The parts of a path that a root is cannot be copied, moved or removed from under the worker.
Status check_not_root(const Place& place) {
  if (!place.name.empty()) return ok();
  Error error = Error::make(Code::policy_denied, "this is the directory itself, not something in it");
  error.details_json = R"({"reason":"root"})";
  return error;
}

// Nor can what lies above a root.
Status check_not_above_root(const Roots& roots, const Place& place) {
  TRY(check_not_root(place));
  struct stat status{};
  if (::fstatat(place.dir.get(), place.name.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISDIR(status.st_mode) ||
      !roots.is_above_one(status)) {
    return ok();
  }
  Error error = Error::make(Code::policy_denied, "the workspace, or another directory given to this sandbox, is in it");
  error.details_json = R"({"reason":"root"})";
  return error;
}

// A mount point: all that lies above something protected is one.
Error is_protected() {
  Error error =
      Error::make(Code::policy_denied, "it is protected, or something in it is: remove what else is in it one by one");
  error.details_json = R"({"reason":"protected"})";
  return error;
}

UniqueFd open_directory_at(int parent, const char* name) {
  return UniqueFd(::openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
}

// Whether two different names are those of one file.
bool is_other_name(const Place& a, const Place& b) {
  struct stat file_a{}, file_b{}, dir_a{}, dir_b{};
  const auto are_same = [](const struct stat& x, const struct stat& y) {
    return x.st_dev == y.st_dev && x.st_ino == y.st_ino;
  };
  if (::fstatat(a.dir.get(), a.name.c_str(), &file_a, AT_SYMLINK_NOFOLLOW) != 0 ||
      ::fstatat(b.dir.get(), b.name.c_str(), &file_b, AT_SYMLINK_NOFOLLOW) != 0 || ::fstat(a.dir.get(), &dir_a) != 0 ||
      ::fstat(b.dir.get(), &dir_b) != 0) {
    return false;
  }
  return are_same(file_a, file_b) && !(are_same(dir_a, dir_b) && a.name == b.name);
}

Result<Place> place_for(const Roots& roots, const TransferRequest& request) {
  auto place = roots.place(request.to, Follow::no);
  const bool lacks_parent = !place && place.error().details_json == R"({"errno":"ENOENT"})";
  if (lacks_parent && request.create_dirs) {
    std::string_view parent = request.to;
    while (parent.ends_with('/')) parent.remove_suffix(1);
    int made = 0;
    const std::size_t slash = parent.rfind('/');
    if (slash != std::string_view::npos && slash != 0) TRY(roots.make_directories(parent.substr(0, slash), made));
    place = roots.place(request.to, Follow::no);
  }
  if (place) TRY(check_not_root(*place));
  return place;
}

// Copies what is below one directory into another. Both are held by descriptors.
class Copier {
 public:
  Copier(const Roots& roots, const Stop& stop, CopyAnswer& answer) : roots_(roots), stop_(stop), answer_(answer) {}

  Status copy(const Place& from, const Place& to, bool overwrite, bool recursive) {
    struct stat status{};
    if (::fstatat(from.dir.get(), from.name.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0)
      return path_error("copy", errno);
    if (S_ISDIR(status.st_mode)) {
      if (!recursive) return path_error("copy without recursive", EISDIR);
      return copy_directory(from.dir.get(), from.name.c_str(), to.dir.get(), to.name.c_str(), 0);
    }
    if (S_ISLNK(status.st_mode)) return copy_link(from.dir.get(), from.name.c_str(), to.dir.get(), to.name.c_str());
    return copy_file(from, to, overwrite);
  }

 private:
  Status copy_file(const Place& from, const Place& to, bool overwrite) {
    TRY(const UniqueFd source, open_at(roots_, from, O_RDONLY));
    struct stat status{};
    if (::fstat(source.get(), &status) != 0) return path_error("stat", errno);
    std::uint64_t copied = 0;
    const NewContent content{[&](int draft) { return copy_bytes(source.get(), draft, copied); }, status.st_mode & 0777};
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
    if (depth >= kMaxWalkDepth) return path_error("copy so deep a tree", ELOOP);
    TRY(stop_.check());
    const UniqueFd source = open_directory_at(from, from_name);
    if (!source) return path_error("copy", errno);
    struct stat status{};
    if (::fstat(source.get(), &status) != 0) return path_error("stat", errno);
    // A copy into itself would never end: the copy's top is not part of what is copied.
    if (status.st_dev == top_.st_dev && status.st_ino == top_.st_ino) return ok();
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
    return ok();
  }

  static UniqueFd duplicate(const UniqueFd& fd) { return UniqueFd(::fcntl(fd.get(), F_DUPFD_CLOEXEC, 0)); }

  const Roots& roots_;
  const Stop& stop_;
  CopyAnswer& answer_;
  struct stat top_{};
};

Status remove_at(int parent, const char* name, const Stop& stop, std::uint64_t& removed, int depth) {
  if (::unlinkat(parent, name, 0) == 0) {
    ++removed;
    return ok();
  }
  if (errno == EBUSY) return is_protected();
  if (errno != EISDIR && errno != EPERM) return path_error("remove", errno);
  // Before anything in it is removed.
  if (::unlinkat(parent, name, AT_REMOVEDIR) == 0) {
    ++removed;
    return ok();
  }
  if (errno == EBUSY) return is_protected();
  if (errno != ENOTEMPTY && errno != EEXIST) return path_error("remove", errno);
  if (depth >= kMaxWalkDepth) return path_error("remove so deep a tree", ELOOP);
  const UniqueFd directory = open_directory_at(parent, name);
  if (!directory) return path_error("remove", errno);
  Listing listing;
  if (!listing.read(directory.get())) return path_error("remove", errno);
  for (const Listing::Entry& entry : listing.entries()) {
    TRY(stop.check());
    TRY(remove_at(directory.get(), listing.c_name(entry), stop, removed, depth + 1));
  }
  if (::unlinkat(parent, name, AT_REMOVEDIR) != 0) return path_error("remove", errno);
  ++removed;
  return ok();
}

Error with_count(Error error, std::string_view what, std::uint64_t count) {
  const std::string member = "\"" + std::string(what) + "\":" + std::to_string(count) + "}";
  if (error.details_json.empty())
    error.details_json = "{" + member;
  else
    error.details_json.replace(error.details_json.size() - 1, 1, "," + member);
  return error;
}

}  // namespace

Result<CopyAnswer> copy_path(const Roots& roots, const TransferRequest& request, const Stop& stop) {
  TRY(const Place from, roots.place(request.from, Follow::yes));
  TRY(check_not_root(from));
  TRY(const Place to, place_for(roots, request));
  CopyAnswer answer;
  auto done = Copier(roots, stop, answer).copy(from, to, request.overwrite, request.recursive);
  if (!done) return with_count(std::move(done).error(), "copied", answer.files);
  return answer;
}

Status move_path(const Roots& roots, const TransferRequest& request, const Stop& stop) {
  TRY(const Place from, roots.place(request.from, Follow::no));
  TRY(check_not_above_root(roots, from));
  TRY(const Place to, place_for(roots, request));
  struct stat existing{};
  const bool is_directory =
      ::fstatat(to.dir.get(), to.name.c_str(), &existing, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(existing.st_mode);
  if (is_directory) return exists_already();
  if (request.overwrite && is_other_name(from, to)) {
    // To rename one of a file's names to another does nothing.
    if (::unlinkat(from.dir.get(), from.name.c_str(), 0) != 0) return path_error("move", errno);
    return ok();
  }
  const unsigned flags = request.overwrite ? 0 : RENAME_NOREPLACE;
  if (::renameat2(from.dir.get(), from.name.c_str(), to.dir.get(), to.name.c_str(), flags) == 0) return ok();
  if (errno == EEXIST) return exists_already();
  if (errno == EBUSY) return is_protected();
  if (errno != EXDEV) return path_error("move", errno);
  CopyAnswer copied;
  TRY(Copier(roots, stop, copied).copy(from, to, request.overwrite, true));
  if (copied.skipped_special > 0) {
    return Error::make(Code::io_error, "copied, but not removed: the tree holds what cannot be copied");
  }
  std::uint64_t removed = 0;
  return remove_at(from.dir.get(), from.name.c_str(), stop, removed, 0);
}

Result<RemoveAnswer> remove_path(const Roots& roots, std::string_view path, bool recursive, const Stop& stop) {
  TRY(const Place place, roots.place(path, Follow::no));
  TRY(check_not_above_root(roots, place));
  RemoveAnswer answer;
  if (!recursive) {
    if (::unlinkat(place.dir.get(), place.name.c_str(), 0) != 0) {
      if (errno == EBUSY) return is_protected();
      const bool is_directory = errno == EISDIR || errno == EPERM;
      if (!is_directory) return path_error("remove", errno);
      if (::unlinkat(place.dir.get(), place.name.c_str(), AT_REMOVEDIR) != 0) {
        return errno == EBUSY ? is_protected() : path_error("remove", errno);
      }
    }
    answer.removed = 1;
    return answer;
  }
  auto done = remove_at(place.dir.get(), place.name.c_str(), stop, answer.removed, 0);
  if (!done) return with_count(std::move(done).error(), "removed", answer.removed);
  return answer;
}

Result<MkdirAnswer> make_directory(const Roots& roots, std::string_view path, bool parents) {
  MkdirAnswer answer;
  if (parents) {
    TRY(roots.make_directories(path, answer.created));
    return answer;
  }
  TRY(const Place place, roots.place(path, Follow::no));
  if (place.name.empty() || ::mkdirat(place.dir.get(), place.name.c_str(), 0777) != 0) {
    if (place.name.empty() || errno == EEXIST) return exists_already();
    return path_error("create directory", errno);
  }
  answer.created = 1;
  return answer;
}

}  // namespace sallyport::worker
