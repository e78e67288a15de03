#include "os/files.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "base/random.h"

namespace sallyport::os {
namespace {

Result<std::string> read_all(int fd, std::size_t most, const std::string& path) {
  std::string content;
  char block[4096];
  for (;;) {
    const ssize_t count = ::read(fd, block, sizeof block);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return Error::from_errno("cannot read a file", errno, path);
    if (count == 0) return content;
    content.append(block, static_cast<std::size_t>(count));
    if (content.size() > most) return Error::make(Code::payload_too_large, "file is too large", path);
  }
}

Result<UniqueFd> open_to_read(const std::string& path) {
  UniqueFd fd{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY)};
  if (!fd) return Error::from_errno("cannot open a file", errno, path);
  return fd;
}

Status make_directories(const std::string& path) {
  for (std::size_t slash = path.find('/', 1); slash != std::string::npos; slash = path.find('/', slash + 1)) {
    const std::string parent = path.substr(0, slash);
    if (::mkdir(parent.c_str(), 0700) != 0 && errno != EEXIST) {
      return Error::from_errno("cannot create directory " + parent, errno);
    }
  }
  return ok();
}

Status write_all(int fd, std::string_view content) {
  while (!content.empty()) {
    const ssize_t count = ::write(fd, content.data(), content.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return Error::from_errno("cannot write a file", errno);
    content.remove_prefix(static_cast<std::size_t>(count));
  }
  return ok();
}

}  // namespace

Result<std::string> read_small_file(const std::string& path, std::size_t most) {
  TRY(const UniqueFd fd, open_to_read(path));
  return read_all(fd.get(), most, path);
}

Result<std::string> read_private_file(const std::string& path, std::size_t most) {
  TRY(const UniqueFd fd, open_to_read(path));
  struct stat info{};
  if (::fstat(fd.get(), &info) != 0) return Error::from_errno("cannot stat a file", errno, path);
  if (!S_ISREG(info.st_mode) || info.st_uid != ::geteuid() || (info.st_mode & 077) != 0) {
    return Error::make(Code::unauthenticated, path + " must be a regular file of yours with mode 0600");
  }
  return read_all(fd.get(), most, path);
}

Status write_private_file(const std::string& path, std::string_view content, Durability durability) {
  const bool is_synced = durability == Durability::synced;
  const std::size_t slash = path.rfind('/');
  const std::string parent = slash == std::string::npos ? "." : path.substr(0, slash + 1);
  const UniqueFd directory{::open(parent.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
  if (!directory) return Error::from_errno("cannot open a directory", errno, parent);
  const std::string name = slash == std::string::npos ? path : path.substr(slash + 1);
  const std::string temporary = "." + name + "." + random_hex(8);
  {
    const UniqueFd fd{
        ::openat(directory.get(), temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600)};
    if (!fd) return Error::from_errno("cannot create a file", errno, parent + temporary);
    Status status = write_all(fd.get(), content);
    if (status && is_synced && ::fsync(fd.get()) != 0) status = Error::from_errno("cannot write a file", errno, path);
    if (status && ::renameat(directory.get(), temporary.c_str(), directory.get(), name.c_str()) != 0) {
      status = Error::from_errno("cannot replace a file", errno, path);
    }
    if (!status) {
      ::unlinkat(directory.get(), temporary.c_str(), 0);
      return status;
    }
  }
  if (is_synced && ::fsync(directory.get()) != 0) return Error::from_errno("cannot write a directory", errno, parent);
  return ok();
}

Result<UniqueFd> open_private_directory(const std::string& path) {
  int made = ::mkdir(path.c_str(), 0700);
  if (made != 0 && errno == ENOENT) {
    TRY(make_directories(path));
    made = ::mkdir(path.c_str(), 0700);
  }
  if (made != 0 && errno != EEXIST) return Error::from_errno("cannot create directory " + path, errno);
  UniqueFd fd{::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW)};
  if (!fd) {
    if (errno == ELOOP || errno == ENOTDIR) {
      return Error::make(Code::conflict, path + " is not a directory (a symbolic link is not accepted); remove it");
    }
    return Error::from_errno("cannot open directory " + path, errno);
  }
  struct stat info{};
  if (::fstat(fd.get(), &info) != 0) return Error::from_errno("cannot stat directory " + path, errno);
  if (info.st_uid != ::geteuid()) {
    return Error::make(Code::conflict, path + " belongs to another user (uid " + std::to_string(info.st_uid) +
                                           "); name a directory of your own");
  }
  if ((info.st_mode & 077) != 0) {
    const bool is_everybodys = (info.st_mode & S_ISVTX) != 0;
    return Error::make(Code::conflict,
                       path + (is_everybodys ? " is everybody's; name a directory of your own, such as one in it"
                                             : " is open to other users; run: chmod 700 " + path));
  }
  return fd;
}

Status write_patiently(int fd, ByteView bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::write(fd, bytes.data(), bytes.size());
    if (count >= 0) {
      bytes = bytes.subspan(static_cast<std::size_t>(count));
    } else if (errno == EAGAIN) {
      pollfd room{fd, POLLOUT, 0};
      ::poll(&room, 1, -1);
    } else if (errno != EINTR) {
      return Error::from_errno("the output cannot be written", errno);
    }
  }
  return ok();
}

Result<UniqueFd> lock_file(int directory, const char* name) {
  UniqueFd fd{::openat(directory, name, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600)};
  if (!fd) return Error::from_errno("cannot open the lock file", errno, name);
  if (::flock(fd.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno == EWOULDBLOCK) return Error::make(Code::conflict, "another process holds the lock", name);
    return Error::from_errno("cannot lock", errno, name);
  }
  return fd;
}

}  // namespace sallyport::os
