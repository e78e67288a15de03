// Programs that another one starts.
#pragma once

#include <spawn.h>
#include <sys/socket.h>
#include <sys/types.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "base/unique_fd.h"

namespace sallyport::os {

// How a program is to be started: with default signal dispositions, none blocked, whatever the starting process
// ignores or blocks, and with those descriptors that it is given or that are not close-on-exec.
class SpawnPlan {
 public:
  // A group of its own: a Ctrl-C meant for the one that started it must let that one stop in order. A session of its
  // own: it has no terminal either.
  enum class Place : std::uint8_t { own_group, own_session };
  explicit SpawnPlan(Place place);
  ~SpawnPlan();
  SpawnPlan(const SpawnPlan&) = delete;
  SpawnPlan& operator=(const SpawnPlan&) = delete;

  void give(int fd, int as);
  void open(const char* path, int flags, int as);
  void close_from(int first);
  void start_in(const char* directory);

  // `arguments` begin with the program's name. `environment` ends with a null pointer.
  Result<pid_t> spawn(const std::string& program, std::vector<std::string> arguments, char** environment) const;

 private:
  posix_spawn_file_actions_t actions_;
  posix_spawnattr_t attributes_;
};

// A child that was not waited for yet, so that its number is its own. Never anybody else: one that is over, or was
// never started, is not signalled.
class Child {
 public:
  Child() = default;
  explicit Child(pid_t pid) : pid_(pid) {}
  Child(Child&& other) noexcept : pid_(std::exchange(other.pid_, -1)) {}
  Child& operator=(Child&& other) noexcept;
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  ~Child() { end(); }

  pid_t pid() const { return pid_; }  // -1: there is none, or none any more
  void kill() const;
  // Waits for its end; killed if that takes longer.
  void end(Millis patience = Millis(0));

 private:
  pid_t pid_ = -1;
};

// A program of ours that this one talks to.
struct Spawned {
  Child child;
  UniqueFd socket;  // our end
};

struct HelperOptions {
  std::vector<std::string> arguments = {};
  std::vector<char*> environment = {};  // entries of our own that it gets; of others it knows nothing
  int socket_type = SOCK_SEQPACKET;     // with SOCK_NONBLOCK, if both ends want it
};

// Starts a sibling program (see paths.h) in a process group of its own, with the other end of a socket pair as its
// descriptor 3. It is expected to end with the socket.
Result<Spawned> spawn_helper(const std::string& name, HelperOptions options = {});
inline constexpr int kHelperSocket = 3;

}  // namespace sallyport::os
