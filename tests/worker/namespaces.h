// Code that runs in a child with mounts, and perhaps users, of its own.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <string>

namespace sallyport::worker {

inline constexpr int kNoNamespace = 77;

// What the child's exit status says: what `run` answers, 0 if all is well.
template <typename Run>
int in_child(Run run) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(run());
  int status = 0;
  if (child < 0 || ::waitpid(child, &status, 0) != child || !WIFEXITED(status)) return -1;
  return WEXITSTATUS(status);
}

enum class Users { as_they_are, only_root };  // only_root: every other user and group has no number inside

template <typename Run>
int in_namespace(Users users, Run run) {
  return in_child([&]() -> int {
    const bool is_mapped = users == Users::only_root || ::geteuid() != 0;
    const uid_t uid = ::geteuid();
    const gid_t gid = ::getegid();
    if (::unshare(is_mapped ? CLONE_NEWUSER | CLONE_NEWNS : CLONE_NEWNS) != 0) return kNoNamespace;
    if (is_mapped) {
      std::ofstream("/proc/self/setgroups") << "deny";
      std::ofstream("/proc/self/uid_map") << "0 " << uid << " 1";
      std::ofstream("/proc/self/gid_map") << "0 " << gid << " 1";
    }
    if (::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) return kNoNamespace;
    return run();
  });
}

inline bool mount_tmpfs(const std::string& path, const char* options = "") {
  return ::mount("tmpfs", path.c_str(), "tmpfs", 0, options) == 0;
}
inline bool mount_at(const std::string& what, const std::string& where) {
  return ::mount(what.c_str(), where.c_str(), nullptr, MS_BIND, nullptr) == 0;
}
inline bool make_read_only(const std::string& path) {
  return ::mount(nullptr, path.c_str(), nullptr, MS_REMOUNT | MS_BIND | MS_RDONLY, nullptr) == 0;
}

// Fails the child's test with the line that did not hold.
#define CHECK_OR_EXIT(condition)                                           \
  do {                                                                     \
    if (!(condition)) {                                                    \
      std::fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
      return 1;                                                            \
    }                                                                      \
  } while (false)

}  // namespace sallyport::worker
