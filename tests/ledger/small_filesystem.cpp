#include "small_filesystem.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "base/unique_fd.h"
#include "fixture.h"

namespace sallyport::ledger {
namespace {

std::string enter_namespace(const std::string& mount_point, const std::string& options) {
  const auto problem = [](const char* what) { return std::string("skip: ") + what + ": " + std::strerror(errno); };
  const uid_t uid = ::geteuid();
  if (::unshare(CLONE_NEWNS | (uid == 0 ? 0 : CLONE_NEWUSER)) != 0) return problem("unshare");
  if (uid != 0) {
    write_text("/proc/self/setgroups", "deny");
    write_text("/proc/self/uid_map", std::to_string(uid) + " " + std::to_string(uid) + " 1");
  }
  if (::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) return problem("mount private");
  if (::mount("small", mount_point.c_str(), "tmpfs", 0, (options + ",mode=0700").c_str()) != 0) {
    return problem("mount tmpfs");
  }
  return "";
}

}  // namespace

std::string on_small_filesystem(const std::string& options,
                                const std::function<std::string(const std::string&)>& scenario) {
  const TemporaryDirectory mount_point;
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return "no pipe";
  const UniqueFd read_end{ends[0]};
  UniqueFd write_end{ends[1]};
  const pid_t child = ::fork();
  if (child < 0) return "no child";
  if (child == 0) {
    std::string found = enter_namespace(mount_point.path(), options);
    if (found.empty()) found = scenario(mount_point.path());
    const ssize_t written = ::write(write_end.get(), found.data(), found.size());
    ::_exit(written == static_cast<ssize_t>(found.size()) ? 0 : 1);
  }
  write_end.reset();
  std::string found;
  std::array<char, 4096> block{};
  for (ssize_t count = 0; (count = ::read(read_end.get(), block.data(), block.size())) > 0;) {
    found.append(block.data(), static_cast<std::size_t>(count));
  }
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) found += " the child died";
  return found;
}

}  // namespace sallyport::ledger
