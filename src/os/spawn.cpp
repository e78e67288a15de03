#include "os/spawn.h"

#include <poll.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>

#include "os/paths.h"
#include "os/sockets.h"

namespace sallyport::os {

SpawnPlan::SpawnPlan(Place place) {
  ::posix_spawn_file_actions_init(&actions_);
  ::posix_spawnattr_init(&attributes_);
  sigset_t defaults, none;
  ::sigfillset(&defaults);
  ::sigemptyset(&none);
  ::posix_spawnattr_setsigdefault(&attributes_, &defaults);
  ::posix_spawnattr_setsigmask(&attributes_, &none);
  ::posix_spawnattr_setpgroup(&attributes_, 0);
  const int apart = place == Place::own_group ? POSIX_SPAWN_SETPGROUP : POSIX_SPAWN_SETSID;
  ::posix_spawnattr_setflags(&attributes_, static_cast<short>(POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK | apart));
}

SpawnPlan::~SpawnPlan() {
  ::posix_spawn_file_actions_destroy(&actions_);
  ::posix_spawnattr_destroy(&attributes_);
}

void SpawnPlan::give(int fd, int as) { ::posix_spawn_file_actions_adddup2(&actions_, fd, as); }
void SpawnPlan::open(const char* path, int flags, int as) {
  ::posix_spawn_file_actions_addopen(&actions_, as, path, flags, 0);
}
void SpawnPlan::close_from(int first) { ::posix_spawn_file_actions_addclosefrom_np(&actions_, first); }
void SpawnPlan::start_in(const char* directory) { ::posix_spawn_file_actions_addchdir_np(&actions_, directory); }

Result<pid_t> SpawnPlan::spawn(const std::string& program, std::vector<std::string> arguments,
                               char** environment) const {
  std::vector<char*> argv;
  argv.reserve(arguments.size() + 1);
  for (std::string& word : arguments) argv.push_back(word.data());
  argv.push_back(nullptr);
  pid_t pid = -1;
  const int failed = ::posix_spawn(&pid, program.c_str(), &actions_, &attributes_, argv.data(), environment);
  if (failed != 0) return Error::from_errno("cannot start the program", failed, program);
  return pid;
}

Child& Child::operator=(Child&& other) noexcept {
  end();
  pid_ = std::exchange(other.pid_, -1);
  return *this;
}

void Child::kill() const {
  if (pid_ > 0) ::kill(pid_, SIGKILL);
}

void Child::end(Millis patience) {
  if (pid_ <= 0) return;
  const UniqueFd process{static_cast<int>(::syscall(SYS_pidfd_open, pid_, 0))};
  pollfd ended{process.get(), POLLIN, 0};
  if (!process || ::poll(&ended, 1, static_cast<int>(patience.count())) <= 0) kill();
  while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
  pid_ = -1;
}

Result<Spawned> spawn_helper(const std::string& name, HelperOptions options) {
  TRY(const std::string program, sibling_program(name));
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, options.socket_type | SOCK_CLOEXEC, 0, ends.data()) != 0) {
    return Error::from_errno("cannot make a socket pair", errno);
  }
  Spawned spawned{Child(), UniqueFd(ends[0])};
  const UniqueFd theirs{ends[1]};
  enlarge_buffers(spawned.socket.get());
  enlarge_buffers(theirs.get());
  SpawnPlan plan(SpawnPlan::Place::own_group);
  plan.give(theirs.get(), kHelperSocket);
  options.arguments.insert(options.arguments.begin(), program);
  options.environment.push_back(nullptr);
  TRY(const pid_t pid, plan.spawn(program, std::move(options.arguments), options.environment.data()));
  spawned.child = Child(pid);
  return spawned;
}

}  // namespace sallyport::os
