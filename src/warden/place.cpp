// Where the warden is found: its directory, its lock, its control door; and that they are its own.
#include <fcntl.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "os/files.h"
#include "os/process.h"
#include "os/sockets.h"
#include "warden/warden.h"

namespace sallyport::warden {
namespace {

constexpr const char* kSocketName = "warden.sock";
constexpr const char* kLockName = "warden.lock";

constexpr std::uint32_t kRemovals = IN_DELETE | IN_MOVED_FROM | IN_DELETE_SELF | IN_ONLYDIR;

}  // namespace

// First of all: whoever holds the lock is this user's warden, and only it may touch what follows.
Result<Warden::Claim> Warden::claim(const os::Paths& paths) {
  Claim claim;
  TRY(claim.directory, os::open_private_directory(paths.runtime_dir));
  auto lock = os::lock_file(claim.directory.get(), kLockName);
  if (!lock && lock.error().code == Code::conflict) {
    return Error::make(Code::conflict, "another warden is running in " + paths.runtime_dir, std::string(kPlaceTaken));
  }
  TRY(claim.lock, std::move(lock));
  // For those who wait until the place is free again; the lock itself needs no words.
  TRY(const std::uint64_t start_time, os::process_start_time(::getpid()));
  const std::string holder = std::to_string(::getpid()) + " " + std::to_string(start_time) + "\n";
  if (::ftruncate(claim.lock.get(), 0) != 0 ||
      ::pwrite(claim.lock.get(), holder.data(), holder.size(), 0) != static_cast<ssize_t>(holder.size())) {
    return Error::from_errno("cannot write the lock file", errno);
  }
  return claim;
}

Status Warden::open_control_door(std::optional<ipc::PeerVerifier> verifier) {
  // Holding the lock, whatever socket is there belongs to a dead warden.
  TRY(UniqueFd listening, os::listen_unix(claim_.directory.get(), kSocketName));
  verifier_ = verifier ? std::move(*verifier) : ipc::host_verifier(config_.require_pidfd);
  TRY(control_listener_, ipc::Listener::open(sessions_, std::move(listening), control_.name, [this](UniqueFd fd) {
        pipeline_.accept(std::move(fd), control_, verifier_);
      }));
  return ok();
}

// Somebody may remove the directory: the end of a login does, and so does whoever cleans up.
Fire Warden::watch_place() {
  UniqueFd events{::inotify_init1(IN_NONBLOCK | IN_CLOEXEC)};
  if (!events || ::inotify_add_watch(events.get(), options_.paths.runtime_dir.c_str(), kRemovals) < 0) {
    log_.warn("cannot watch the runtime directory", {{"error", Error::from_errno("inotify", errno).describe()}});
  }
  auto watch = ipc::Watch::open(loop_, std::move(events));
  // What was removed before is not told: the first look is the loop's first turn.
  co_await loop_.sleep(Millis(0));
  while (!is_stopping_) {
    if (!holds_place()) {
      log_.error("the lock was removed, so another warden may run here: this one stops");
      shut_down();
      break;
    }
    if (!watch) break;
    const bool is_ready = co_await (*watch)->readable();
    if (!is_ready) break;
    std::array<char, 4096> names{};
    while (::read((*watch)->fd(), names.data(), names.size()) > 0) {
    }
  }
}

bool Warden::holds_place() const {
  struct stat held{}, there{};
  return ::fstat(claim_.lock.get(), &held) == 0 && ::fstatat(claim_.directory.get(), kLockName, &there, 0) == 0 &&
         held.st_ino == there.st_ino && held.st_dev == there.st_dev;
}

void Warden::leave_place() {
  // While the lock is held and in its place, nobody else's files can be there.
  if (!holds_place()) return;
  ::unlinkat(claim_.directory.get(), kSocketName, 0);
  if (options_.with_loopback) ::unlink(options_.paths.loopback_file().c_str());
}

}  // namespace sallyport::warden
