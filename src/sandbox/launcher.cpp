#include "sandbox/launcher.h"

#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <map>
#include <memory>
#include <optional>

#include "sandbox/cover_watch.h"
#include "sandbox/exit_scan.h"
#include "sandbox/launcher_wire.h"
#include "sandbox/packet.h"
#include "sandbox/spec_codec.h"
#include "sandbox/violations.h"

namespace sallyport::sandbox {
namespace {

using Clock = std::chrono::steady_clock;
using Kind = LauncherEvent::Kind;

struct Container {
  Container(Spec wanted, Running started) : spec(std::move(wanted)), running(std::move(started)), covers(running) {
    if (spec.limits.duration.count() > 0) deadline = Clock::now() + spec.limits.duration;
    listener = running.violations();
  }
  Spec spec;
  Running running;
  CoverWatch covers;  // refers to running: a Container never moves
  ViolationLog violations;
  std::size_t told_violations = 0;
  int listener;
  bool is_cover_missing = false;
  int status = SIGKILL;  // unless its first command says otherwise
  std::optional<Clock::time_point> deadline;
};

class Launcher {
 public:
  explicit Launcher(UniqueFd socket) : socket_(std::move(socket)), cgroups_(os::CgroupParent::find()) {}

  int run() {
    for (;;) {
      collect();
      if (::poll(watched_.data(), watched_.size(), timeout()) < 0 && errno != EINTR) return 1;
      if (watched_[0].revents != 0 && !serve()) return 0;  // the containers die with containers_
      look_after_containers();
    }
  }

 private:
  // Three descriptors per container, in the order of containers_; -1 is skipped by poll.
  void collect() {
    watched_.assign(1, {socket_.get(), POLLIN, 0});
    for (const auto& [id, container] : containers_) {
      watched_.push_back({container->running.control(), POLLIN, 0});
      watched_.push_back({container->listener, POLLIN, 0});
      watched_.push_back({container->covers.poll_fd(), POLLPRI, 0});
    }
  }

  int timeout() const {
    int least = -1;
    const auto consider = [&](std::int64_t millis) {
      const int bounded = static_cast<int>(std::clamp<std::int64_t>(millis, 0, 60'000));
      least = least < 0 ? bounded : std::min(least, bounded);
    };
    for (const auto& [id, container] : containers_) {
      if (container->is_cover_missing) consider(CoverWatch::kRetry.count());
      if (!container->deadline) continue;
      consider(std::chrono::duration_cast<std::chrono::milliseconds>(*container->deadline - Clock::now()).count() + 1);
    }
    return least;
  }

  void tell(Kind kind, std::uint32_t id, std::uint32_t job, int value, const std::string& text = {}, int fd = -1) {
    const LauncherAnswer head{kind, id, job, value, 0, 0};
    const std::span<const int> fds(&fd, fd >= 0 ? 1 : 0);
    (void)send_packet(socket_.get(), with_head(head, text), fds);  // its end is seen by the next read
  }

  void tell_failure(std::uint32_t id, std::uint32_t job, const Error& error) {
    const LauncherAnswer head{Kind::failed, id, job, 0, static_cast<std::uint32_t>(error.code),
                              static_cast<std::uint32_t>(error.message.size())};
    (void)send_packet(socket_.get(), with_head(head, error.message + error.detail), {});
  }

  bool serve() {
    Result<Packet> packet = receive_packet(socket_.get());
    LauncherRequest head{};
    if (!packet || !take_head(packet->bytes, head)) return false;
    switch (head.kind) {
      case LauncherRequest::Kind::launch: start(head, *packet); break;
      case LauncherRequest::Kind::exec: execute(head, *packet); break;
      case LauncherRequest::Kind::signal:
        if (Container* container = find(head.container)) (void)container->running.signal(head.value, head.job);
        break;
      case LauncherRequest::Kind::kill:
        if (find(head.container) != nullptr) finish(head.container);
        break;
    }
    return true;
  }

  Container* find(std::uint32_t id) {
    const auto at = containers_.find(id);
    return at == containers_.end() ? nullptr : at->second.get();
  }

  void start(const LauncherRequest& head, const Packet& packet) {
    Result<Spec> spec = decode_spec(packet.bytes);
    if (!spec) return tell_failure(head.container, 0, spec.error());
    if (find(head.container) != nullptr || packet.fds.size() != 3) {
      return tell_failure(head.container, 0, Error::make(Code::invalid_params, "number in use, or not three descriptors"));
    }
    LaunchOptions options;
    for (int i = 0; i < 3; ++i) options.stdio[i] = packet.fds[static_cast<std::size_t>(i)].get();
    options.wants_pid_namespace = true;
    options.machine = machine_;
    options.cgroups = &cgroups_;
    Result<Running> running = launch(*spec, options);
    if (!running) return tell_failure(head.container, 0, running.error());
    tell(Kind::launched, head.container, 0, running->pid(), running->protections().to_json(), running->pid_namespace());
    containers_.emplace(head.container, std::make_unique<Container>(std::move(*spec), std::move(*running)));
  }

  void execute(const LauncherRequest& head, const Packet& packet) {
    Container* container = find(head.container);
    if (container == nullptr) return tell_failure(head.container, head.job, Error::make(Code::not_found, "no such container"));
    Result<Command> command = decode_command(packet.bytes);
    if (!command) return tell_failure(head.container, head.job, command.error());
    for (const UniqueFd& fd : packet.fds) command->fds.push_back(fd.get());
    if (head.job == 0) return tell_failure(head.container, 0, Error::invalid_param("job", "0 is the first command"));
    if (Status passed = container->running.exec(head.job, *command); !passed) {
      tell_failure(head.container, head.job, passed.error());
    }
  }

  void look_after_containers() {
    std::vector<std::uint32_t> over;
    std::size_t at = 1;
    for (auto& [id, container] : containers_) {
      // One that was started in this turn was not polled yet.
      const bool was_polled = at + 2 < watched_.size() && watched_[at].fd == container->running.control();
      if (was_polled) {
        if (watched_[at + 1].revents != 0) serve_violations(id, *container);
        if (watched_[at + 2].revents != 0 || container->is_cover_missing) check_covers(id, *container);
        if (watched_[at].revents != 0 && handle(id, *container)) over.push_back(id);
        at += 3;
      }
      if (container->deadline && Clock::now() >= *container->deadline) {
        tell(Kind::over_time, id, 0, 0);
        over.push_back(id);
      }
    }
    for (std::uint32_t id : over) finish(id);
  }

  void serve_violations(std::uint32_t id, Container& container) {
    if (!container.violations.serve(container.listener)) container.listener = -1;
    const auto& entries = container.violations.entries();
    for (; container.told_violations < entries.size(); ++container.told_violations) {
      const Violation& violation = entries[container.told_violations];
      tell(Kind::violation, id, 0, violation.error, violation.operation + "\t" + violation.target + "\t" + violation.rule);
    }
  }

  void check_covers(std::uint32_t id, Container& container) {
    std::vector<std::string> lost;
    container.is_cover_missing = container.covers.check(lost) > 0;
    for (const std::string& path : lost) tell(Kind::lost_cover, id, 0, 0, path);
  }

  // True when the container is ending.
  bool handle(std::uint32_t id, Container& container) {
    const Event event = container.running.next_event();
    switch (event.kind) {
      case Event::Kind::started: tell(Kind::started, id, event.job, event.value); return false;
      case Event::Kind::failed: tell_failure(id, event.job, exec_error(event)); return false;
      case Event::Kind::stopped: return false;
      case Event::Kind::over_memory: tell(Kind::over_memory, id, 0, event.value); return false;
      case Event::Kind::exited:
        tell(Kind::exited, id, event.job, event.value);
        if (event.job == 0) container.status = event.value;
        return event.job == 0;
      case Event::Kind::ended: return true;
    }
    return false;
  }

  static Error exec_error(const Event& event) {
    if (event.step == Step::exec && event.value == ENOENT) return Error::make(Code::not_found, "command not found");
    if (event.step == Step::exec && event.value == EACCES) return Error::make(Code::policy_denied, "may not be executed");
    return Error::from_errno("cannot start the command: " + std::string(to_string(event.step)), event.value);
  }

  void finish(std::uint32_t id) {
    Container* container = find(id);
    if (container == nullptr) return;
    if (container->listener >= 0) serve_violations(id, *container);
    const int status = container->status;
    const Spec spec = container->spec;
    const Findings findings = container->running.findings();
    containers_.erase(id);  // kills, reaps and cleans up before the scan looks
    if (!spec.workspace.empty() && spec.is_workspace_writable && spec.protect_workspace) {
      std::vector<std::string> quarantined;
      std::vector<std::string> suspicious;
      scan_at_exit(spec.workspace, findings, quarantined, suspicious);
      for (const std::string& path : quarantined) tell(Kind::quarantined, id, 0, 0, path);
      for (const std::string& path : suspicious) tell(Kind::suspicious, id, 0, 0, path);
    }
    tell(Kind::ended, id, 0, status);
  }

  UniqueFd socket_;
  os::CgroupParent cgroups_;
  Machine machine_ = Machine::probe();
  std::map<std::uint32_t, std::unique_ptr<Container>> containers_;
  std::vector<pollfd> watched_;
};

}  // namespace

int run_launcher(UniqueFd socket) {
  // The warden's death is seen as the end of the socket, also when it was killed.
  return Launcher(std::move(socket)).run();
}

}  // namespace sallyport::sandbox
