#include "sandbox/launch.h"

#include <fcntl.h>
#include <linux/sched.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <iterator>
#include <optional>

#include "os/paths.h"
#include "sandbox/ahead.h"
#include "sandbox/covers.h"
#include "sandbox/git_files.h"
#include "sandbox/job.h"
#include "sandbox/launch_errors.h"
#include "sandbox/scan_record.h"
#include "sandbox/tracer.h"

namespace sallyport::sandbox {
namespace {

// Pid 1 of a sandbox without namespaces.
Ahead::Made make_weak(ChildContext& context) {
  Ahead::Made made;
  if (context.faults.fail_at == Step::clone) {
    made.failed = {Step::clone, context.faults.error};
    return made;
  }
  std::array<int, 2> pair{-1, -1};
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair.data()) != 0) {
    made.failed = {Step::socket, errno};
    return made;
  }
  made.control = UniqueFd(pair[0]);
  const UniqueFd far_end(pair[1]);
  context.control = far_end.get();
  clone_args arguments{};
  arguments.flags = CLONE_CLEAR_SIGHAND;
  arguments.exit_signal = SIGCHLD;
  made.pid = static_cast<pid_t>(::syscall(SYS_clone3, &arguments, sizeof(arguments)));
  if (made.pid == 0) run_child(context, nullptr);
  if (made.pid < 0) made.failed = {Step::clone, errno};
  return made;
}

// The kernel's ways to say that this user has no more of a kind, or none at all.
bool is_refusal_of_namespaces(int error) {
  return error == EPERM || error == ENOSPC || error == EUSERS || error == EINVAL;
}

constexpr int kAnswerMs = 100;

// One sandbox whose pid 1 does not read must not keep its maker from all the others.
Status send_to_init(int control, const std::string& bytes, const std::vector<int>& fds = {}) {
  iovec data{const_cast<char*>(bytes.data()), bytes.size()};  // NOLINT(*-const-cast): only read
  alignas(cmsghdr) char space[CMSG_SPACE(sizeof(int) * kMaxPassedFds)];
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  if (!fds.empty()) {
    message.msg_control = space;
    message.msg_controllen = CMSG_SPACE(sizeof(int) * fds.size());
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int) * fds.size());
    std::memcpy(CMSG_DATA(header), fds.data(), sizeof(int) * fds.size());
  }
  constexpr int kFlags = MSG_NOSIGNAL | MSG_DONTWAIT;
  ssize_t sent = ::sendmsg(control, &message, kFlags);
  if (sent < 0 && errno == EAGAIN) {
    pollfd writable{control, POLLOUT, 0};
    ::poll(&writable, 1, kAnswerMs);
    sent = ::sendmsg(control, &message, kFlags);
  }
  if (sent >= 0) return ok();
  if (errno == EAGAIN) return Error::make(Code::unavailable, "the sandbox does not answer; try again, or stop it");
  return Error::from_errno("cannot reach the sandbox", errno);
}

std::string bytes_of(const Request& request) { return {reinterpret_cast<const char*>(&request), sizeof(request)}; }

}  // namespace

struct Running::State {
  Plan plan;
  Protections protections;
  os::Cgroup cgroup;
  UniqueFd control, pidfd, violations, mount_info, user_namespace, mount_namespace, pid_namespace, proxy_listener,
      network_namespace;  // the last one until pid 1 has it
  ScanRecord record;
  std::vector<MissedScan> missed;
  std::vector<Beside> beside;
  UniqueFd placeholder;  // see hold_placeholder()
  pid_t pid = -1;

  std::string last_target;   // what followed the last notice
  bool is_all_dead = false;  // but for pid 1 itself

  ~State() { end(); }
  void let_go() {
    // A control group can only be removed when pid 1 is gone from it too.
    if (is_all_dead && cgroup.join_fds().empty() && !plan.is_weak) {
      pid = -1;
      for (UniqueFd* fd : {&violations, &mount_info, &mount_namespace, &user_namespace, &pid_namespace}) fd->reset();
      // Left to the caller's exit: pid 1 waits for its end, and then takes apart what nobody else holds any more.
      (void)control.release();
    }
    end();
  }
  void end() {
    if (pid > 0) {
      control.reset();
      if (plan.is_weak) end_weak(pid, plan.mark);
      ::kill(pid, SIGKILL);  // not yet reaped, so the number is still this process's
      violations.reset();    // calls that wait for an answer get an error, and can die
      while (::waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {
      }
      pid = -1;
    }
    cgroup.remove();
    placeholder.reset();
    if (!plan.findings.placeholder.empty()) remove_placeholder(plan.findings.placeholder);
    plan.findings.placeholder.clear();
  }

  void write_record(const Spec& spec) {
    auto written = ScanRecord::write(spec.scan_records, spec.name, plan.findings, beside);
    if (written) record = std::move(*written);
  }
  Status let_go_on() {
    std::vector<int> network;
    if (network_namespace) network.push_back(network_namespace.get());
    // The kernel counts descriptors on their way for all processes of a user, against the limit of who sends.
    rlimit limit{};
    ::getrlimit(RLIMIT_NOFILE, &limit);
    const rlimit raised{limit.rlim_max, limit.rlim_max};
    ::setrlimit(RLIMIT_NOFILE, &raised);
    Status sent = send_to_init(control.get(), bytes_of({Request::Kind::go, 0, 0, 0, 0}), network);
    ::setrlimit(RLIMIT_NOFILE, &limit);
    network_namespace.reset();
    return sent;
  }

  std::optional<Notice> receive(int flags = 0) {
    Notice notice{};
    char tail[kMaxRefusalText];
    iovec data[2] = {{&notice, sizeof(notice)}, {tail, sizeof(tail)}};
    alignas(cmsghdr) char space[CMSG_SPACE(sizeof(int) * kMaxHandover)];
    msghdr message{};
    message.msg_iov = data;
    message.msg_iovlen = 2;
    message.msg_control = space;
    message.msg_controllen = sizeof(space);
    ssize_t length = 0;
    // That pid 1 has not read all when it ended is told first, once; what it said before comes after that.
    do {
      length = ::recvmsg(control.get(), &message, MSG_CMSG_CLOEXEC | flags);
    } while (length < 0 && (errno == EINTR || errno == ECONNRESET));
    if (length < static_cast<ssize_t>(sizeof(notice))) return std::nullopt;
    last_target.assign(tail, static_cast<std::size_t>(length) - sizeof(notice));
    if (cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr && header->cmsg_type == SCM_RIGHTS) {
      int fds[kMaxHandover];
      const std::size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
      std::memcpy(fds, CMSG_DATA(header), count * sizeof(int));
      take(notice.handed, fds, count);
    }
    return notice;
  }

  void take(std::uint32_t bits, const int* fds, std::size_t count) {
    struct Place {
      Handover bit;
      UniqueFd& fd;
    };
    const Place places[] = {{kUserNamespace, user_namespace},
                            {kMountNamespace, mount_namespace},
                            {kPidNamespace, pid_namespace},
                            {kMountInfo, mount_info},
                            {kViolations, violations},
                            {kProxyListener, proxy_listener},
                            {kNetworkNamespace, network_namespace}};
    std::size_t next = 0;
    for (const Place& place : places) {
      if ((bits & place.bit) != 0 && next < count) place.fd = UniqueFd(fds[next++]);
    }
    while (next < count) ::close(fds[next++]);
  }
};

namespace {

// Whether nothing cheaper would hold: joining a control group waits for an RCU grace period, milliseconds at every
// start. Without one memory is supervised by pid 1.
bool needs_cgroup(const Limits& limits, const Plan& plan) {
  const bool is_uncounted_root = ::geteuid() == 0 && limits.processes != 0 && plan.pid_max.empty() && !plan.is_weak;
  return limits.cpus > 0 || is_uncounted_root;
}

Status make_cgroup(const Spec& spec, const LaunchOptions& options, os::Cgroup& cgroup) {
  const os::CgroupLimits wanted{spec.limits.memory_bytes, spec.limits.processes, spec.limits.cpus};
  if (options.faults.fail_at == Step::cgroup)
    return Error::from_errno("cannot make a control group", options.faults.error);
  const os::CgroupParent found = options.cgroups != nullptr ? os::CgroupParent() : os::CgroupParent::find();
  static std::atomic<unsigned> counter{0};  // names only have to differ within this process
  TRY(cgroup, os::Cgroup::create(options.cgroups != nullptr ? *options.cgroups : found,
                                 spec.name + "-" + std::to_string(counter++), wanted));
  return ok();
}

// A directory as a stream would be a way around every mount: openat(0, "../..").
Status check_streams(const LaunchOptions& options) {
  for (int stream : options.stdio) {
    struct stat info{};
    if (stream < 0 || ::fstat(stream, &info) != 0) continue;
    const int flags = ::fcntl(stream, F_GETFL);
    if (S_ISDIR(info.st_mode) || (flags >= 0 && (flags & O_PATH) != 0)) {
      return Error::make(Code::invalid_params, "a directory cannot be a command's standard stream");
    }
  }
  return ok();
}

// Through /proc/self/fd it could be opened again, or be cut, on the host's own mount.
bool is_file_to_read(int fd) {
  struct stat info{};
  const bool is_file = fd >= 0 && ::fstat(fd, &info) == 0 && (S_ISREG(info.st_mode) || S_ISBLK(info.st_mode));
  return is_file && (::fcntl(fd, F_GETFL) & O_ACCMODE) == O_RDONLY;
}

// For as long as it is held with a shared lock, other sandboxes of this workspace leave the file. False: one of them
// was about to take it away, or has.
bool hold_placeholder(const std::string& path, UniqueFd& held) {
  if (path.empty()) return true;
  // Not waiting: another sandbox may have put a pipe there.
  held = UniqueFd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY));
  struct stat info{};
  return held && ::flock(held.get(), LOCK_SH | LOCK_NB) == 0 && ::fstat(held.get(), &info) == 0 &&
         S_ISREG(info.st_mode) && info.st_nlink != 0;
}

// Before the plan: what another sandbox left, or leaves, must not pass for the user's own.
void look_at_others(const Spec& spec, std::vector<MissedScan>& missed, std::vector<Beside>& beside) {
  const auto workspace = spec.scan_records.empty() ? std::nullopt : os::real_path(spec.workspace);
  if (!workspace) return;
  missed = make_up_scans(spec.scan_records, *workspace);
  beside = running_beside(spec.scan_records, *workspace);
}

}  // namespace

// Between the search for what to protect and its protection the host, or another sandbox, may have moved it: then all
// of it is done again, a few times. One search may take long, and whoever launches waits for all of them.
Result<Running> launch(const Spec& spec, const LaunchOptions& options) {
  constexpr int kMaxTries = 20;
  constexpr std::chrono::seconds kMostTime{2};
  const auto last_try = std::chrono::steady_clock::now() + kMostTime;
  std::string moved;
  for (int tries = 1;; ++tries) {
    moved.clear();
    auto running = Running::start(spec, options, moved);
    const bool is_last = tries == kMaxTries || std::chrono::steady_clock::now() >= last_try;
    if (running || moved.empty() || is_last) return running;
  }
}

Result<Running> Running::start(const Spec& spec, const LaunchOptions& options, std::string& moved) {
  if (options.faults.fail_at == Step::plan) return Error::from_errno("cannot plan the sandbox", options.faults.error);
  if (options.faults.fail_at == Step::socket) return no_socket(options.faults.error);
  TRY(check_streams(options));
  if (!options.machine.has_user_namespaces && !spec.allow_weak) {
    return not_accepted(options.machine, "user namespaces are not available");
  }
  auto state = std::make_unique<Running::State>();
  Ahead ahead;  // ends before all that it may hold, such as the placeholder, is taken down
  if (options.machine.has_user_namespaces) ahead.begin(spec.has_proxy, options.faults);
  look_at_others(spec, state->missed, state->beside);
  TRY(state->plan, make_plan(spec, options.machine));
  Plan& plan = state->plan;
  if (plan.findings.has_changed) moved = "a directory that was to be searched";
  if (!hold_placeholder(plan.findings.placeholder, state->placeholder)) moved = plan.findings.placeholder;
  if (!moved.empty()) return workspace_changes(moved);
  if (std::none_of(std::begin(options.stdio), std::end(options.stdio), is_file_to_read)) {
    plan.landlock_handled &= ~plan.landlock_for_files_to_read;
  }
  if (needs_cgroup(spec.limits, plan)) TRY(make_cgroup(spec, options, state->cgroup));
  if (state->cgroup.in_force().memory_bytes == 0 && !plan.is_weak) plan.supervised_memory = spec.limits.memory_bytes;

  ChildContext context{&plan,
                       -1,
                       {options.stdio[0], options.stdio[1], options.stdio[2]},
                       state->cgroup.join_fds().data(),
                       static_cast<std::uint32_t>(state->cgroup.join_fds().size()),
                       options.terminal,
                       0,
                       options.faults,
                       options.worker};
  if (options.wants_pid_namespace) context.wanted_handover |= kPidNamespace;
  if (!plan.covers.empty()) context.wanted_handover |= kUserNamespace | kMountNamespace | kMountInfo;
  if (context.cgroup_count > 0) ahead.give_up();  // it does not have what joins the group
  const bool is_recorded = plan.findings.needs_scan && !spec.scan_records.empty();
  if (is_recorded) state->write_record(spec);
  Ahead::Made made = plan.is_weak ? make_weak(context) : ahead.make(context);
  if (made.failed.step == Step::socket) return no_socket(made.failed.error);
  const auto do_without = [&](const std::string& what, int error) -> Result<Running> {
    if (!spec.allow_weak || options.faults.fail_at == Step::clone) {
      return not_accepted(options.machine,
                          what + " are not available: " + errno_name(error) + ", see /proc/sys/user/max_*_namespaces");
    }
    LaunchOptions weak = options;
    weak.machine.has_user_namespaces = false;
    ahead.give_up();
    state.reset();
    return start(spec, weak, moved);
  };
  const auto fail = [&](const Notice& notice) -> Result<Running> {
    if (!plan.is_weak && is_refusal_of_namespaces(notice.value)) {
      if (notice.step == Step::clone) return do_without("user namespaces", notice.value);
      if (notice.step == Step::more_namespaces) return do_without("namespaces of network and IPC", notice.value);
    }
    const bool is_cover = notice.step == Step::pin || notice.step == Step::mask;
    if (!is_cover || !is_change(notice.value)) return launch_error(plan, notice);
    moved = item_name(plan, notice.step, notice.index);
    return workspace_changes(moved);
  };
  if (made.failed.step != Step::none) {
    return fail({Notice::Kind::failed, made.failed.step, 0, made.failed.error, 0, 0, 0});
  }
  state->control = std::move(made.control);
  state->pid = made.pid;
  if (made.pid > 0) state->pidfd = UniqueFd(static_cast<int>(::syscall(SYS_pidfd_open, made.pid, 0)));
  ahead.release();  // nothing foreign runs beside what made its walls
  if (made.pid > 0) state->record.belongs_to(made.pid);
  const auto ended = [] { return Error::make(Code::unavailable, "the sandbox ended while it was being built"); };
  if (!plan.is_weak) {
    // Said before its end, or never.
    const std::optional<Notice> network = state->receive(MSG_DONTWAIT);
    if (!network) return ended();
    if (network->kind == Notice::Kind::failed) return fail(*network);
  }
  // Where it could not be told pid 1 has ended, and has said why; or it would wait for ever.
  const bool is_untold = options.faults.fail_at == Step::go;
  const Status told = is_untold ? Error::from_errno("not told", options.faults.error) : state->let_go_on();
  const std::optional<Notice> first = state->receive(told ? 0 : MSG_DONTWAIT);
  if (first && first->kind == Notice::Kind::failed) return fail(*first);
  if (!told) {
    Error failed = told.error();
    failed.message = "cannot start the sandbox: " + std::string(to_string(Step::go)) + ": " + failed.message;
    return failed;
  }
  if (!first) return ended();
  state->protections = describe(spec, plan, state->cgroup, options.machine);
  if (is_recorded && !state->record.is_written()) {
    state->protections.lost.emplace_back(
        "the state directory cannot be written: should this be killed, nobody will look at what it left");
  }
  state->record.must_stay();
  return Running(std::move(state));
}

Running::Running(std::unique_ptr<State> state) : state_(std::move(state)) {}
Running::Running(Running&&) noexcept = default;
Running& Running::operator=(Running&&) noexcept = default;
Running::~Running() = default;

pid_t Running::pid() const { return state_->pid; }
int Running::pidfd() const { return state_->pidfd.get(); }
int Running::control() const { return state_->control.get(); }
int Running::violations() const { return state_->violations.get(); }
int Running::mount_info() const { return state_->mount_info.get(); }
int Running::user_namespace() const { return state_->user_namespace.get(); }
int Running::mount_namespace() const { return state_->mount_namespace.get(); }
int Running::pid_namespace() const { return state_->pid_namespace.get(); }
int Running::proxy_listener() const { return state_->proxy_listener.get(); }
const Protections& Running::protections() const { return state_->protections; }
const Findings& Running::findings() const { return state_->plan.findings; }
const std::vector<Cover>& Running::covers() const { return state_->plan.covers; }

Event Running::next_event() {
  const std::optional<Notice> notice = state_->receive();
  if (!notice) return {Event::Kind::ended};
  switch (notice->kind) {
    case Notice::Kind::failed:
      return {Event::Kind::failed, notice->job, notice->value, notice->step};
    case Notice::Kind::started:
      return {Event::Kind::started, notice->job, notice->pid};
    case Notice::Kind::exited:
      state_->is_all_dead |= notice->job == 0;
      return {Event::Kind::exited, notice->job, notice->value};
    case Notice::Kind::stopped:
      return {Event::Kind::stopped, notice->job, notice->value};
    case Notice::Kind::refused:
      return {Event::Kind::refused, 0, notice->value, Step::none, state_->last_target, static_cast<int>(notice->index)};
    case Notice::Kind::over_memory:
      return {Event::Kind::over_memory, notice->job, notice->value};
    case Notice::Kind::went_on:
      return {Event::Kind::went_on};
    case Notice::Kind::network:  // only before the start
      break;
  }
  return {Event::Kind::ended};
}

Status Running::signal(int number, std::uint32_t job) {
  return send_to_init(state_->control.get(), bytes_of({Request::Kind::signal, job, number, 0, 0}));
}

Status Running::stop(int number) {
  return send_to_init(state_->control.get(), bytes_of({Request::Kind::stop, 0, number, 0, 0}));
}

Status Running::resume() { return send_to_init(state_->control.get(), bytes_of({Request::Kind::resume, 0, 0, 0, 0})); }

Status Running::exec(std::uint32_t job, const Command& command) {
  if (command.arguments.empty()) return Error::invalid_param("command", "is empty");
  if (command.fds.size() < 3 || command.fds.size() > kMaxPassedFds) return Error::invalid_param("fds", "wrong number");
  const Plan& plan = state_->plan;
  const bool is_unguarded = (plan.landlock_for_files_to_read & ~plan.landlock_handled) != 0;
  if (is_unguarded && std::any_of(command.fds.begin(), command.fds.end(), is_file_to_read)) {
    return Error::invalid_param("fds",
                                "a file that can only be read: the sandbox was not made to guard one, use a pipe");
  }
  std::string bytes = bytes_of({Request::Kind::exec, job, 0, static_cast<std::uint32_t>(command.arguments.size()),
                                static_cast<std::uint32_t>(command.environment.size())});
  bytes.append(command.directory).push_back('\0');
  for (const auto* words : {&command.arguments, &command.environment}) {
    for (const std::string& word : *words) bytes.append(word).push_back('\0');
  }
  if (bytes.size() > kMaxRequestBytes || command.arguments.size() + command.environment.size() > kMaxWords) {
    return Error::make(Code::payload_too_large, "the command line and environment are too long");
  }
  return send_to_init(state_->control.get(), bytes, command.fds);
}

Status Running::start_worker(std::uint32_t job, int socket) {
  return send_to_init(state_->control.get(), bytes_of({Request::Kind::worker, job, 0, 0, 0}), {socket});
}

std::vector<std::string> Running::missed() const {
  std::vector<std::string> all;
  for (const MissedScan& missed : state_->missed) {
    for (const std::string& report : missed.reports) {
      all.push_back("left by an earlier sandbox (" + missed.name + ") that was killed: " + report);
    }
  }
  return all;
}

void Running::distrust(const std::string& path) const {
  Findings& findings = state_->plan.findings;
  for (auto* paths : {&findings.pins, &findings.pin_writable, &findings.mask_directories}) std::erase(*paths, path);
}

ScanReport Running::scan() {
  ScanReport report = scan_at_exit(state_->plan.findings, state_->beside);
  state_->record.scan_is_made();
  for (const MissedScan& missed : state_->missed) forget(missed);
  return report;
}

void Running::keep_reports(const std::vector<std::string>& reports) { state_->record.keep_reports(reports); }

void Running::kill() { state_->end(); }
void Running::let_go() { state_->let_go(); }

}  // namespace sallyport::sandbox
