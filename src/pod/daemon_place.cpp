// Where a pod is found: its directory, its door, its state file; and that they are there as long as it lives.
#include <fcntl.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "os/files.h"
#include "os/process.h"
#include "os/sockets.h"
#include "pod/daemon.h"
#include "pod/limits.h"

namespace sallyport::pod {
namespace {

// What happens when somebody takes a pod's files away, or all of its directory.
constexpr std::uint32_t kRemovals = IN_DELETE | IN_MOVED_FROM | IN_DELETE_SELF | IN_MOVE_SELF | IN_ONLYDIR;

bool exists(const std::string& path) {
  struct stat info{};
  return ::lstat(path.c_str(), &info) == 0;
}

// Whether the path is that of this very file.
bool is_at(int fd, const std::string& path) {
  struct stat held{}, named{};
  return ::fstat(fd, &held) == 0 && ::lstat(path.c_str(), &named) == 0 && held.st_dev == named.st_dev &&
         held.st_ino == named.st_ino;
}

Result<UniqueFd> open_log(const Place& place, int how) {
  UniqueFd log{::open(place.log_path().c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW | how, 0600)};
  if (!log) return Error::from_errno("cannot open the pod's log", errno);
  return log;
}

}  // namespace

Result<Claim> take_over(const Startup& startup) {
  Claim claim{Place(startup.pods_dir, startup.name), {}, UniqueFd(kLockFd), {}};
  if (::fcntl(kLockFd, F_SETFD, FD_CLOEXEC) != 0) return Error::from_errno("the pod was handed no lock", errno);
  TRY(claim.directory, os::open_private_directory(claim.place.path()));
  TRY(claim.log, open_log(claim.place, O_TRUNC));
  return claim;
}

Status Daemon::open_door() {
  record_.name = startup_.name;
  record_.token = startup_.token;
  record_.command = startup_.spec.command;
  record_.profile = startup_.profile;
  record_.workspace = startup_.spec.workspace;
  record_.container = startup_.container;
  record_.agent_pid = static_cast<std::uint64_t>(running_->pid());
  TRY(record_.pid_namespace, os::namespace_id(running_->pid_namespace()));
  record_.created_unix_ms = clock_.unix_millis();
  TRY(record_.binding.boot_id, os::boot_id());
  record_.binding.pid = static_cast<std::uint64_t>(::getpid());
  TRY(record_.binding.start_time, os::process_start_time(::getpid()));
  verifier_ = ipc::host_verifier(false);
  if (startup_.with_tcp) {
    TRY(os::TcpListener listener, os::listen_loopback());
    record_.address = record_.binding.address = listener.address;
    gate_ = std::make_unique<ipc::LoopbackGate>(sessions_, startup_.token, record_.binding,
                                                [this](UniqueFd proven) { accept(std::move(proven), -1); });
    return listen(std::move(listener.fd));
  }
  record_.address = record_.binding.address = claim_.place.socket_path();
  return listen_unix();
}

Status Daemon::listen_unix() {
  TRY(UniqueFd listening, os::listen_unix(claim_.directory.get(), "pod.sock"));
  return listen(std::move(listening));
}

Status Daemon::listen(UniqueFd listening) {
  TRY(listener_, ipc::Listener::open(sessions_, std::move(listening), "pod", [this](UniqueFd connection) {
        if (gate_) return gate_->admit(std::move(connection));
        const auto peer = verifier_(connection.get());
        if (!peer) {
          ++sessions_.counters().refused;
          return log_.warn("connection refused", {{"error", peer.error().describe()}});
        }
        accept(std::move(connection), peer->identity.pid);
      }));
  return ok();
}

Status Daemon::publish() { return claim_.place.write(record_); }

// ---- what makes it findable ----

Status Daemon::watch_place() {
  UniqueFd events{::inotify_init1(IN_NONBLOCK | IN_CLOEXEC)};
  if (!events || ::inotify_add_watch(events.get(), claim_.place.path().c_str(), kRemovals) < 0) {
    return Error::from_errno("cannot watch the pod's directory", errno);
  }
  TRY(place_watch_, ipc::Watch::open(loop_, std::move(events)));
  return ok();
}

Fire Daemon::restore_what_is_removed() {
  while (!is_collected_) {
    const bool is_ready = co_await place_watch_->readable();
    if (!is_ready || is_collected_) break;
    std::array<char, 4096> events{};
    while (::read(place_watch_->fd(), events.data(), events.size()) > 0) {
    }
    Status restored = restore();
    // Somebody who looks at its life may hold the new lock for an instant.
    for (int i = 0; i < kLockTries && !restored && !is_collected_; ++i) {
      co_await loop_.sleep(kLockPause);
      restored = restore();
    }
    if (!restored && !is_collected_) {
      log_.error("its files were removed and cannot be put back", {{"error", restored.error().describe()}});
    }
    co_await loop_.sleep(kRestorePause);
  }
}

Status Daemon::restore() {
  const Place& place = claim_.place;
  if (!is_at(claim_.lock.get(), place.path())) {
    TRY(UniqueFd directory, os::open_private_directory(place.path()));
    TRY(UniqueFd lock, place.lock());
    if (::inotify_add_watch(place_watch_->fd(), place.path().c_str(), kRemovals) < 0) {
      return Error::from_errno("cannot watch the pod's directory", errno);
    }
    claim_.directory = std::move(directory);
    claim_.lock = std::move(lock);
  }
  if (!exists(place.log_path())) {
    TRY(claim_.log, open_log(place, O_EXCL));
    ::dup2(claim_.log.get(), STDERR_FILENO);
    log_.warn("its log, or all of its directory, was removed, and begins anew");
  }
  if (!record_.is_tcp() && !exists(place.socket_path())) {
    TRY(listen_unix());
    log_.warn("its socket was removed, and made again");
  }
  // Last: whoever reads it can connect.
  if (!exists(place.record_path())) {
    TRY(publish());
    log_.warn("its state file was removed, and written again");
  }
  return ok();
}

}  // namespace sallyport::pod
