#include "os/spawn.h"

#include <spawn.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <csignal>

#include "os/paths.h"
#include "os/sockets.h"

namespace sallyport::os {

Result<Spawned> spawn_helper(const std::string& name, HelperOptions options) {
  TRY(const std::string program, sibling_program(name));
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, options.socket_type | SOCK_CLOEXEC, 0, ends.data()) != 0) {
    return Error::from_errno("cannot make a socket pair", errno);
  }
  Spawned spawned{-1, UniqueFd(ends[0])};
  const UniqueFd theirs{ends[1]};
  enlarge_buffers(spawned.socket.get());
  enlarge_buffers(theirs.get());
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, theirs.get(), kHelperSocket);
  ::posix_spawnattr_init(&attributes);
  // Whatever the starting process ignores or blocks is its own affair.
  sigset_t defaults, none;
  ::sigfillset(&defaults);
  ::sigemptyset(&none);
  ::posix_spawnattr_setsigdefault(&attributes, &defaults);
  ::posix_spawnattr_setsigmask(&attributes, &none);
  // A group of its own: a Ctrl-C meant for the one that started it must let that one stop in order.
  ::posix_spawnattr_setpgroup(&attributes, 0);
  ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETPGROUP);
  options.arguments.insert(options.arguments.begin(), program);
  std::vector<char*> argv;
  for (std::string& word : options.arguments) argv.push_back(word.data());
  argv.push_back(nullptr);
  options.environment.push_back(nullptr);
  const int failed =
      ::posix_spawn(&spawned.pid, program.c_str(), &actions, &attributes, argv.data(), options.environment.data());
  ::posix_spawn_file_actions_destroy(&actions);
  ::posix_spawnattr_destroy(&attributes);
  if (failed != 0) return Error::from_errno("cannot start " + name, failed, program);
  return spawned;
}

}  // namespace sallyport::os
