#include "mailbox/box.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "base/fault_point.h"
#include "mailbox/limits.h"

namespace sallyport::mailbox {
namespace {

constexpr const char* kReplyTemporary = ".reply";

UniqueFd open_beneath(int directory, const char* name, std::uint64_t flags) {
  open_how how{};
  how.flags = flags | O_CLOEXEC | O_NOFOLLOW;
  if ((flags & O_PATH) == 0) how.flags |= O_NONBLOCK | O_NOCTTY;  // with it, the kernel takes neither
  how.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS;
  return UniqueFd(static_cast<int>(::syscall(SYS_openat2, directory, name, &how, sizeof how)));
}

// A container has our uid where we are an ordinary user, and can shut its directories to itself and to us. True if it
// had done so.
bool make_usable(int directory) {
  struct stat info{};
  if (::fstat(directory, &info) != 0 || (info.st_mode & S_IRWXU) == S_IRWXU) return false;
  ::chmod(("/proc/self/fd/" + std::to_string(directory)).c_str(), 0700);
  return true;
}

// Whatever its mode is.
UniqueFd open_directory(int parent, const char* name) {
  const UniqueFd place = open_beneath(parent, name, O_PATH | O_DIRECTORY);
  if (!place) return UniqueFd();
  make_usable(place.get());
  return open_beneath(place.get(), ".", O_RDONLY | O_DIRECTORY);
}

Result<UniqueFd> open_own_directory(int parent, const char* name) {
  UniqueFd fd = open_directory(parent, name);
  struct stat info{};
  if (!fd || ::fstat(fd.get(), &info) != 0) return Error::from_errno("cannot open a mailbox's directory", errno, name);
  if (info.st_uid != ::geteuid()) return Error::make(Code::conflict, "a mailbox's directory is another user's", name);
  return fd;
}

bool is_same(int directory, const char* name, int fd) {
  struct stat there{}, here{};
  return ::fstatat(directory, name, &there, AT_SYMLINK_NOFOLLOW) == 0 && ::fstat(fd, &here) == 0 &&
         there.st_ino == here.st_ino && there.st_dev == here.st_dev;
}

Error refused(std::string why) { return Error::make(Code::invalid_request, std::move(why)); }

std::string_view kind_of(mode_t mode) {
  if (S_ISDIR(mode)) return "a directory";
  if (S_ISLNK(mode)) return "a symbolic link";
  if (S_ISFIFO(mode)) return "a FIFO";
  if (S_ISSOCK(mode)) return "a socket";
  return "a device";
}

// Why it could not be opened, in the terms of what it is.
Error open_failure(int directory, const std::string& name, int error) {
  if (error == ENOENT) return Error::make(Code::not_found, "the message is gone");
  struct stat info{};
  if (::fstatat(directory, name.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0) {
    return Error::make(Code::not_found, "the message is gone");
  }
  if (!S_ISREG(info.st_mode)) return refused("not a file but " + std::string(kind_of(info.st_mode)));
  if (error == EACCES || error == EPERM) return refused("the file cannot be read: its mode forbids it");
  // Out of descriptors or memory, or a failing disk: its turn will come.
  return Error::make(Code::unavailable, "the message cannot be opened now", errno_name(error));
}

Status check_file(const struct stat& info, uid_t user) {
  if (!S_ISREG(info.st_mode)) return refused("not a file but " + std::string(kind_of(info.st_mode)));
  if (info.st_nlink == 0) return Error::make(Code::not_found, "the message is gone");
  if (info.st_nlink != 1) return refused("the file has more than one name (hard link)");
  if (info.st_uid != user) return refused("the file belongs to another user");
  if ((info.st_mode & S_IRUSR) == 0) return refused("the file cannot be read: its mode forbids it");
  if (info.st_size == 0) return refused("the file is empty");
  if (info.st_size > static_cast<off_t>(kMaxMessageBytes)) {
    return Error::make(Code::payload_too_large, "the file is larger than 64 KiB");
  }
  return ok();
}

// What lies in a directory and below it, as far as anybody wants to know.
struct Load {
  std::size_t files = 0;
  std::uint64_t bytes = 0;
  bool is_deep = false;
  bool is_shut = false;  // somebody takes care that we cannot look
  ino_t left_out = 0;
};

void weigh(int directory, int depth, Load& load) {
  DIR* stream = ::fdopendir(directory);
  if (stream == nullptr) {
    ::close(directory);
    return;
  }
  while (const dirent* entry = ::readdir(stream)) {
    const std::string_view name = entry->d_name;
    if (name == "." || name == "..") continue;
    if (++load.files > kMaxUnsentFiles) break;
    struct stat info{};
    if (::fstatat(::dirfd(stream), entry->d_name, &info, AT_SYMLINK_NOFOLLOW) != 0) {
      load.is_shut |= errno == EACCES;
      continue;
    }
    if (info.st_ino == load.left_out) continue;
    load.bytes += static_cast<std::uint64_t>(info.st_blocks) * 512;
    if (!S_ISDIR(info.st_mode)) continue;
    if (depth == kMaxUnsentDepth) {
      load.is_deep = true;
      break;
    }
    if (UniqueFd below = open_directory(::dirfd(stream), entry->d_name)) {
      weigh(below.release(), depth + 1, load);
    } else {
      load.is_shut |= errno == EACCES;
    }
  }
  ::closedir(stream);
}

}  // namespace

Result<std::unique_ptr<Box>> Box::open(std::string container, std::string directory) {
  std::unique_ptr<Box> box(new Box(std::move(container), std::move(directory)));
  box->root_ = UniqueFd(::open(box->directory_.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!box->root_) return Error::from_errno("cannot open a mailbox", errno, box->directory_);
  TRY(box->in_, open_own_directory(box->root_.get(), "in"));
  TRY(box->tmp_, open_own_directory(box->in_.get(), "tmp"));
  TRY(box->new_, open_own_directory(box->in_.get(), "new"));
  TRY(box->out_, open_own_directory(box->root_.get(), "out"));
  TRY(box->listing_, open_own_directory(box->in_.get(), "new"));
  return box;
}

Status Box::check() const {
  const bool is_good = is_same(AT_FDCWD, directory_.c_str(), root_.get()) && is_same(root_.get(), "in", in_.get()) &&
                       is_same(in_.get(), "tmp", tmp_.get()) && is_same(in_.get(), "new", new_.get()) &&
                       is_same(root_.get(), "out", out_.get());
  if (!is_good) return Error::make(Code::conflict, "the mailbox's directories were replaced or removed");
  return ok();
}

Result<Taken> Box::take(const std::string& name) const {
  const UniqueFd file = open_beneath(new_.get(), name.c_str(), O_RDONLY);
  if (!file) return open_failure(new_.get(), name, errno);
  struct stat info{};
  if (::fstat(file.get(), &info) != 0) return Error::make(Code::unavailable, "the message cannot be examined now");
  TRY(check_file(info, user_));
  Taken taken;
  taken.inode = info.st_ino;
  taken.changed_ns = info.st_ctim.tv_sec * 1'000'000'000 + info.st_ctim.tv_nsec;
  const auto size = static_cast<std::size_t>(info.st_size);
  // One byte more than it had: whoever changes it meanwhile is found out.
  taken.content.reserve(size + 1);
  const ssize_t count = ::read(file.get(), taken.content.extend(size + 1), size + 1);
  if (count < 0) return Error::make(Code::unavailable, "the message cannot be read now", errno_name(errno));
  if (static_cast<std::size_t>(count) != size) return refused("the file changed while it was read");
  taken.content.resize(size);
  return taken;
}

void Box::discard(const std::string& name, std::uint64_t inode) const {
  struct stat info{};
  if (::fstatat(new_.get(), name.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0 || info.st_ino != inode) return;
  ::unlinkat(new_.get(), name.c_str(), 0);
}

bool Box::reject(const std::string& name) const {
  if (::unlinkat(new_.get(), name.c_str(), 0) == 0 || errno == ENOENT) return true;
  if (::unlinkat(new_.get(), name.c_str(), AT_REMOVEDIR) == 0) return true;
  // Never into a directory of ours: whoever stands in a directory that leaves its mount may see what is
  // around it. A directory that cannot be written cannot be moved either.
  const UniqueFd directory = open_beneath(new_.get(), name.c_str(), O_PATH | O_DIRECTORY);
  if (directory) make_usable(directory.get());
  return ::renameat(new_.get(), name.c_str(), tmp_.get(), (".refused-" + random_hex(8)).c_str()) == 0;
}

std::string Box::overload() const {
  constexpr const char* kChanged = "its mailbox is not as it was made";
  bool was_shut = false;
  for (const UniqueFd* each : {&in_, &tmp_, &new_}) was_shut |= make_usable(each->get());
  if (was_shut || !is_same(in_.get(), "tmp", tmp_.get())) return kChanged;
  UniqueFd directory = open_beneath(in_.get(), ".", O_RDONLY | O_DIRECTORY);
  struct statvfs disk{};
  if (!directory) return errno == EACCES ? kChanged : "";
  if (::fstatvfs(directory.get(), &disk) != 0) return {};
  Load load;
  struct stat messages{};
  if (::fstat(new_.get(), &messages) == 0) load.left_out = messages.st_ino;  // they are taken in, or refused
  weigh(directory.release(), 0, load);
  if (load.is_shut) return kChanged;
  if (load.is_deep || load.files > kMaxUnsentFiles) return "too many files lie in its mailbox unsent";
  const std::uint64_t part = static_cast<std::uint64_t>(disk.f_blocks) * disk.f_frsize / kUnsentPartOfDisk;
  return load.bytes > std::min(kMaxUnsentBytes, part) ? "too much lies in its mailbox unsent" : "";
}

void Box::rewind() { ::lseek(listing_.get(), 0, SEEK_SET); }

std::vector<std::string> Box::next() {
  alignas(dirent64) std::array<char, 16U << 10> block;
  std::vector<std::string> names;
  const auto count = ::syscall(SYS_getdents64, listing_.get(), block.data(), block.size());
  for (std::ptrdiff_t at = 0; at < count;) {
    const auto* entry = reinterpret_cast<const dirent64*>(block.data() + at);
    const std::string_view name = entry->d_name;
    if (name != "." && name != "..") names.emplace_back(name);
    at += entry->d_reclen;
  }
  // A block of nothing but the two dots is not the end.
  if (names.empty() && count > 0) return next();
  return names;
}

Status Box::write_reply(const std::string& request_id, std::string_view json) {
  const std::lock_guard lock(replies_);
  if (!takes_replies_) return ok();
  // Beside `out`, where nobody but the host sees it. There is one writer at a time, so what is left of an earlier one
  // is a crash's.
  UniqueFd file{::openat(root_.get(), kReplyTemporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600)};
  if (!file) return Error::from_errno("cannot write a reply", errno, directory_);
  const ssize_t count = ::write(file.get(), json.data(), json.size());
  if (count != static_cast<ssize_t>(json.size())) {
    return Error::from_errno("cannot write a reply", count < 0 ? errno : ENOSPC, directory_);
  }
  // Closed first: whoever watches `out` is told once, of the whole reply.
  file.reset();
  fault_point("reply_written");
  if (::renameat(root_.get(), kReplyTemporary, out_.get(), (request_id + ".json").c_str()) != 0) {
    return Error::from_errno("cannot write a reply", errno, directory_);
  }
  return ok();
}

void Box::close_replies() {
  const std::lock_guard lock(replies_);
  takes_replies_ = false;
}

void Box::remove_reply(const std::string& request_id) const {
  ::unlinkat(out_.get(), (request_id + ".json").c_str(), 0);
}

bool Box::has_reply(const std::string& request_id, std::string_view json) const {
  const UniqueFd file{::openat(out_.get(), (request_id + ".json").c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW)};
  if (!file) return false;
  std::string content(json.size() + 1, '\0');
  const ssize_t count = ::read(file.get(), content.data(), content.size());
  return count == static_cast<ssize_t>(json.size()) && content.starts_with(json);
}

}  // namespace sallyport::mailbox
