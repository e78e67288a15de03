#include "sandbox/launcher.h"

#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <map>
#include <optional>

#include "os/packets.h"
#include "sandbox/cover_watch.h"
#include "sandbox/launch.h"
#include "sandbox/launcher_protocol.h"
#include "sandbox/scan_record.h"
#include "sandbox/violations.h"

namespace sallyport::sandbox {
namespace {

using SteadyClock = std::chrono::steady_clock;

struct Container {
  Running running;
  CoverWatch covers;
  ViolationLog violations;
  std::size_t violations_told = 0;
  int listener = -1;
  std::optional<SteadyClock::time_point> deadline;
  Ended ending;

  Container(Handle handle, Running started) : running(std::move(started)), covers(running) {
    listener = running.violations();
    ending.container = handle;
    ending.reports = remarks(running.findings());
  }
  Container(const Container&) = delete;
  Container& operator=(const Container&) = delete;
};

class Launcher {
 public:
  Launcher(int socket, WorkerEntry worker) : socket_(socket), worker_(worker) {}

  int run() {
    while (is_open_) turn();
    end_all();
    return 0;
  }

 private:
  void turn() {
    std::vector<pollfd> watched = {{socket_, POLLIN, 0}};
    std::vector<Handle> handles;
    for (const auto& [handle, container] : containers_) {
      handles.push_back(handle);
      watched.push_back({container->running.control(), POLLIN, 0});
      watched.push_back({container->listener, POLLIN, 0});
      watched.push_back({container->covers.poll_fd(), POLLPRI, 0});
    }
    if (::poll(watched.data(), watched.size(), next_deadline()) < 0 && errno != EINTR) {
      is_open_ = false;
      return;
    }
    for (std::size_t i = 0; i < handles.size(); ++i) {
      Container& container = *containers_.at(handles[i]);
      if (watched[3 * i + 2].revents != 0) serve_violations(container);
      const auto look = container.covers.next_look();
      if (watched[3 * i + 3].revents != 0 || (look && SteadyClock::now() >= *look)) serve_covers(container);
      if (container.deadline && SteadyClock::now() >= *container.deadline) {
        container.ending.was_over_time = true;
        end(handles[i]);
      } else if (watched[3 * i + 1].revents != 0) {
        serve_event(handles[i], container);
      }
    }
    if (watched[0].revents != 0) serve_warden();
  }

  int next_deadline() const {
    std::optional<SteadyClock::time_point> first;
    for (const auto& [handle, container] : containers_) {
      const auto look = container->covers.next_look();
      if (look && (!first || *look < *first)) first = look;
      if (container->deadline && (!first || *container->deadline < *first)) first = container->deadline;
    }
    if (!first) return -1;
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(*first - SteadyClock::now()).count();
    return left < 0 ? 0 : left > 60'000 ? 60'000 : static_cast<int>(left);
  }

  bool tell(const FromLauncher& notice, const std::vector<int>& fds = {}) {
    auto packet = encode(notice);
    // That a container has ended must be told, whatever else there would be to say.
    if (const auto* ended = std::get_if<Ended>(&notice); !packet && ended != nullptr) {
      packet = encode(Ended{ended->container, ended->was_over_memory, ended->was_over_time, {}});
    }
    // A warden that cannot be told is gone or going: the next read says which.
    return packet && os::send_packet(socket_, *packet, fds, 0);
  }

  void fail(Handle container, std::uint32_t job, const Error& error) {
    tell(LaunchFailed{container, job, std::string(to_string(error.code)), error.message, error.detail,
                      error.details_json});
  }

  void serve_warden() {
    auto packet = os::receive_packet(socket_, 0);
    if (!packet || packet->bytes.empty()) {
      is_open_ = false;
      return;
    }
    auto request = decode_request(packet->bytes.view());
    if (!request) {
      // Nobody would ever be answered; ended, the warden knows.
      std::fputs("sallyport-launcher: the warden speaks another version; restart it\n", stderr);
      is_open_ = false;
      return;
    }
    std::visit([&](auto& message) { serve(message, packet->fds); }, *request);
  }

  void serve(const LaunchRequest& request, const std::vector<UniqueFd>& fds) {
    LaunchOptions options{
        .wants_pid_namespace = true, .machine = machine_, .cgroups = &cgroups_, .faults = {}, .worker = worker_};
    for (std::size_t i = 0; i < 3; ++i) options.stdio[i] = i < fds.size() ? fds[i].get() : -1;
    auto running = launch(request.spec, options);
    if (!running) return fail(request.container, 0, running.error());
    auto container = std::make_unique<Container>(request.container, std::move(*running));
    const auto& missed = container->running.missed();
    auto& reports = container->ending.reports;
    reports.insert(reports.end(), missed.begin(), missed.end());
    if (request.spec.limits.duration.count() > 0) {
      container->deadline = SteadyClock::now() + request.spec.limits.duration;
    }
    std::vector<int> beside;
    const int pid_namespace = container->running.pid_namespace(), listener = container->running.proxy_listener();
    if (pid_namespace >= 0) beside.push_back(pid_namespace);
    if (listener >= 0) beside.push_back(listener);
    tell(Launched{request.container, container->running.pid(), container->running.protections().to_json(),
                  pid_namespace >= 0, listener >= 0},
         beside);
    containers_.emplace(request.container, std::move(container));
  }

  void serve(const ExecRequest& request, const std::vector<UniqueFd>& fds) {
    const auto found = containers_.find(request.container);
    if (found == containers_.end()) {
      return fail(request.container, request.job, Error::make(Code::not_found, "the container has ended"));
    }
    Command command{request.arguments, request.environment, request.directory, {}};
    for (const UniqueFd& fd : fds) command.fds.push_back(fd.get());
    const Status asked = found->second->running.exec(request.job, command);
    if (!asked) fail(request.container, request.job, asked.error());
  }

  void serve(const WorkerRequest& request, const std::vector<UniqueFd>& fds) {
    const auto found = containers_.find(request.container);
    if (found == containers_.end() || fds.size() != 1) {
      return fail(request.container, request.job, Error::make(Code::not_found, "the container has ended"));
    }
    const Status asked = found->second->running.start_worker(request.job, fds[0].get());
    if (!asked) fail(request.container, request.job, asked.error());
  }

  void serve(const SignalRequest& request, const std::vector<UniqueFd>&) {
    const auto found = containers_.find(request.container);
    // One that has just ended needs no signal any more.
    if (found != containers_.end()) {
      [[maybe_unused]] const Status sent = found->second->running.signal(request.signal, request.job);
    }
  }

  void serve(const KillRequest& request, const std::vector<UniqueFd>&) {
    if (containers_.contains(request.container)) end(request.container);
  }

  void serve(const MakeUpRequest& request, const std::vector<UniqueFd>&) {
    for (MissedScan& missed : make_up_scans(request.scan_records, "")) {
      shorten(missed.reports);
      if (tell(MadeUp{0, missed.name, missed.reports})) forget(missed);
    }
  }

  void serve_violations(Container& container) {
    if (!container.violations.serve(container.listener)) container.listener = -1;
    const auto& entries = container.violations.entries();
    for (; container.violations_told < entries.size(); ++container.violations_told) {
      const Violation& violation = entries[container.violations_told];
      tell(
          Violated{container.ending.container, violation.operation, violation.target, violation.rule, violation.error});
    }
  }

  void serve_covers(Container& container) {
    CoverWatch::Changes changes;
    container.covers.check(changes);
    auto& reports = container.ending.reports;
    for (const std::string& path : changes.put_back) {
      reports.push_back("the host replaced " + path + "; its protection was put back");
    }
    for (const std::string& path : changes.removed) reports.push_back("the host removed " + path);
  }

  void serve_event(Handle handle, Container& container) {
    const Event event = container.running.next_event();
    switch (event.kind) {
      case Event::Kind::started:
        tell(JobStarted{handle, event.job});
        break;
      case Event::Kind::failed:
        fail(handle, event.job, exec_error(event));
        break;
      case Event::Kind::exited:
        tell(JobExited{handle, event.job, event.value});
        if (event.job == 0) end(handle);
        break;
      case Event::Kind::over_memory:
        container.ending.was_over_memory = true;
        break;
      case Event::Kind::ended:
        end(handle);
        break;
      case Event::Kind::refused:  // only run explains, and stops
      case Event::Kind::stopped:
      case Event::Kind::went_on:
        break;
    }
  }

  static Error exec_error(const Event& event) {
    if (event.step == Step::exec && event.value == ENOENT) return Error::make(Code::not_found, "command not found");
    if (event.step == Step::exec && event.value == EACCES) {
      return Error::make(Code::policy_denied, "the command may not be executed",
                         "not on the exec list, or without the execute permission");
    }
    if (event.step == Step::exec && event.value == ENOEXEC) {
      return Error::make(Code::invalid_params, "no program for this machine, and without a #! line");
    }
    return Error::from_errno("cannot start the command: " + std::string(to_string(event.step)), event.value);
  }

  void end(Handle handle) {
    auto node = containers_.extract(handle);
    Container& container = *node.mapped();
    if (container.listener >= 0) serve_violations(container);
    container.running.kill();
    auto& reports = container.ending.reports;
    for (const std::string& path : container.covers.uncovered()) {
      reports.push_back("the host replaced " + path + "; its protection could not be put back");
    }
    for (std::string& found : container.running.scan().sentences()) reports.push_back(std::move(found));
    shorten(reports);
    if (!tell(container.ending)) container.running.keep_reports(reports);
  }

  // The warden is gone, or waits for nothing but this. Whoever ends the launcher before it is done leaves the rest to
  // the next one: nothing runs any more, and what the scans need is written down.
  void end_all() {
    for (const auto& [handle, container] : containers_) container->running.kill();
    while (!containers_.empty()) end(containers_.begin()->first);
  }

  int socket_;
  WorkerEntry worker_;
  bool is_open_ = true;
  Machine machine_ = Machine::probe();
  os::CgroupParent cgroups_ = os::CgroupParent::find();
  std::map<Handle, std::unique_ptr<Container>> containers_;
};

}  // namespace

int run_launcher(int socket, WorkerEntry worker) { return Launcher(socket, worker).run(); }

}  // namespace sallyport::sandbox
