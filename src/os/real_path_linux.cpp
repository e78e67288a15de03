#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <memory>
#include <utility>

#include "base/unique_fd.h"
#include "os/paths.h"

namespace sallyport::os {
namespace {

enum class Look { real, absent, unclear };

// One look-up instead of one for each of its parts: most paths have no links in them, and nothing to tidy up. A path of
// which a part is not there has no link in front of that either, or the link would have been told.
Look look_at(const std::string& path) {
  if (!is_tidy(path)) return Look::unclear;
  const open_how how{O_PATH | O_CLOEXEC, 0, RESOLVE_NO_SYMLINKS};
  const UniqueFd found(static_cast<int>(::syscall(SYS_openat2, AT_FDCWD, path.c_str(), &how, sizeof(how))));
  if (found) return Look::real;
  return errno == ENOENT || errno == ENOTDIR ? Look::absent : Look::unclear;
}

}  // namespace

std::optional<std::string> real_path(const std::string& path) {
  const Look look = look_at(path);
  if (look == Look::real) return path;
  if (look == Look::absent) return std::nullopt;
  const std::unique_ptr<char, decltype(&std::free)> real(::realpath(path.c_str(), nullptr), &std::free);
  if (!real) return std::nullopt;
  return std::string(real.get());
}

Walk follow_links(const std::string& path) {
  if (look_at(path) != Look::unclear) return {path, {}};
  constexpr std::size_t kMaxLinks = 40;  // as the kernel
  std::vector<std::string> links;
  std::string done, rest = path;  // what was walked, without links; what is left
  while (links.size() <= kMaxLinks) {
    const std::size_t begin = rest.find_first_not_of('/');
    if (begin == std::string::npos) break;
    const std::size_t end = std::min(rest.find('/', begin), rest.size());
    const std::string name = rest.substr(begin, end - begin);
    rest.erase(0, end);
    if (name == ".") continue;
    if (name == "..") {
      done.resize(done.empty() ? 0 : done.rfind('/'));
      continue;
    }
    const std::string here = done + "/" + name;
    std::array<char, PATH_MAX> text;
    const ssize_t length = ::readlink(here.c_str(), text.data(), text.size());
    if (length <= 0) {
      done = here;
      continue;
    }
    links.push_back(here);
    rest.insert(0, text.data(), static_cast<std::size_t>(length));
    if (text[0] == '/') done.clear();
  }
  return {done.empty() ? "/" : done, std::move(links)};
}

}  // namespace sallyport::os
