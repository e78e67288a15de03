#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdlib>
#include <memory>

#include "base/unique_fd.h"
#include "os/paths.h"

namespace sallyport::os {
namespace {

// One look-up instead of one for each of its parts: most paths have no links in them, and nothing to tidy up.
bool is_real_path(const std::string& path) {
  const std::string parts = path + "/";
  const bool is_tidy = path.starts_with('/') && parts.find("//") == std::string::npos &&
                       parts.find("/./") == std::string::npos && parts.find("/../") == std::string::npos;
  if (!is_tidy) return false;
  const open_how how{O_PATH | O_CLOEXEC, 0, RESOLVE_NO_SYMLINKS};
  return static_cast<bool>(
      UniqueFd(static_cast<int>(::syscall(SYS_openat2, AT_FDCWD, path.c_str(), &how, sizeof(how)))));
}

}  // namespace

std::optional<std::string> real_path(const std::string& path) {
  if (is_real_path(path)) return path;
  const std::unique_ptr<char, decltype(&std::free)> real(::realpath(path.c_str(), nullptr), &std::free);
  if (!real) return std::nullopt;
  return std::string(real.get());
}

}  // namespace sallyport::os
