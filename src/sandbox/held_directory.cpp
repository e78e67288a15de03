#include "sandbox/held_directory.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <climits>
#include <cstdio>

#include "os/paths.h"

namespace sallyport::sandbox {

UniqueFd open_below(int root, std::string_view below, int flags) {
  constexpr std::size_t kMost = PATH_MAX - 1;
  const auto open = [](int from, std::string_view path, int with) {
    const open_how how{static_cast<std::uint64_t>(with | O_CLOEXEC), 0, RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS};
    return UniqueFd(static_cast<int>(::syscall(SYS_openat2, from, std::string(path).c_str(), &how, sizeof how)));
  };
  UniqueFd reached;
  while (below.size() > kMost) {
    const std::size_t end = below.rfind('/', kMost);
    if (end == std::string_view::npos || end == 0) {
      errno = ENAMETOOLONG;
      return {};
    }
    reached = open(reached ? reached.get() : root, below.substr(0, end), O_PATH | O_DIRECTORY);
    if (!reached) return {};
    below.remove_prefix(end + 1);
  }
  return open(reached ? reached.get() : root, below.empty() ? "." : below, flags);
}

std::optional<HeldDirectory> HeldDirectory::open(const std::string& path) {
  const UniqueFd top(::open("/", O_PATH | O_DIRECTORY | O_CLOEXEC));
  UniqueFd fd = open_below(top.get(), std::string_view(path).substr(1), O_PATH | O_DIRECTORY);
  if (!fd) return std::nullopt;
  return HeldDirectory(std::move(fd), path);
}

std::optional<HeldDirectory> HeldDirectory::open_inside(const std::string& path) const {
  if (!os::is_within(path, path_)) {
    errno = EXDEV;
    return std::nullopt;
  }
  const std::size_t prefix = path.size() == path_.size() ? path_.size() : path_.size() + 1;
  UniqueFd fd = open_below(fd_.get(), std::string_view(path).substr(prefix), O_PATH | O_DIRECTORY);
  if (!fd) return std::nullopt;
  return HeldDirectory(std::move(fd), path);
}

std::optional<struct stat> HeldDirectory::look() const {
  struct stat info{};
  if (::fstat(fd_.get(), &info) != 0) return std::nullopt;
  return info;
}

std::optional<struct stat> HeldDirectory::look_at(const std::string& name) const {
  struct stat info{};
  if (::fstatat(fd_.get(), name.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0) return std::nullopt;
  return info;
}

std::string link_text(int directory, const std::string& name) {
  std::array<char, PATH_MAX> text{};
  const ssize_t length = ::readlinkat(directory, name.c_str(), text.data(), text.size());
  return length > 0 ? std::string(text.data(), static_cast<std::size_t>(length)) : std::string();
}

std::optional<std::vector<std::string>> HeldDirectory::list(std::size_t most) const {
  UniqueFd fd(::openat(fd_.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  DIR* const listing = fd ? ::fdopendir(fd.get()) : nullptr;
  if (listing == nullptr) return std::nullopt;
  (void)fd.release();
  std::vector<std::string> names;
  while (names.size() < most) {
    const dirent* entry = ::readdir(listing);
    if (entry == nullptr) break;
    const std::string_view name = entry->d_name;
    if (name != "." && name != "..") names.emplace_back(name);
  }
  ::closedir(listing);
  return names;
}

bool HeldDirectory::open_up() const {
  const auto info = look();
  if (!info) return false;
  // By its descriptor: "." in it cannot be reached before.
  std::array<char, 32> link{};
  std::snprintf(link.data(), link.size(), "/proc/self/fd/%d", fd_.get());
  return ::chmod(link.data(), (info->st_mode & 07777) | S_IRWXU) == 0;
}

std::optional<std::string> HeldDirectory::set_aside(const std::string& name) const {
  const auto now = "." + std::to_string(std::chrono::system_clock::now().time_since_epoch().count()) + ".quarantined";
  // The first name may have been made impossible from inside, by something that has it or by its length.
  for (const std::string& other : {name + ".quarantined", name + now, "name-too-long" + now}) {
    if (::renameat2(fd_.get(), name.c_str(), fd_.get(), other.c_str(), RENAME_NOREPLACE) == 0) return other;
  }
  return std::nullopt;
}

bool HeldDirectory::write_new(const std::string& name, const std::string& text) const {
  const UniqueFd file(::openat(fd_.get(), name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0644));
  return file && ::write(file.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size());
}

}  // namespace sallyport::sandbox
