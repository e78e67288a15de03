#include "containers/registry.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <filesystem>
#include <set>

#include "containers/empty_directory.h"
#include "containers/record.h"
#include "os/files.h"
#include "os/memory_file.h"
#include "os/paths.h"
#include "os/sockets.h"
#include "permit/permit.h"

namespace sallyport::containers {
namespace {

constexpr const char* kDoorInside = "/run/sallyport";
constexpr std::size_t kReadBytes = 64U << 10;
// What is being deleted, beside the mailboxes.
constexpr const char* kGonePrefix = ".gone-";
// A container that runs means after a crash what one that was starting means: its record may wait for a quieter moment.
constexpr Millis kSaveRunningAfter{20};
// What it begins with, such as a worker's first calls, is over by then.
constexpr Millis kSettledAfter{2};
// What a container takes while it starts (door, mailbox, pipes, namespace), and what the host needs beside all of them
// to come in, look, and stop some.
constexpr std::size_t kDescriptorsToStart = 16 + 32;
constexpr const char* kStopping = "the warden is stopping; ask again later";

std::string make_id(const Config& config) {
  std::string base = !config.pod.empty() ? "pod-" + config.pod : !config.name.empty() ? config.name : config.profile;
  std::transform(base.begin(), base.end(), base.begin(), [](char c) {
    const bool is_plain = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
    return is_plain ? c : (c >= 'A' && c <= 'Z') ? static_cast<char>(c - 'A' + 'a') : '-';
  });
  if (base.empty() || base[0] == '-' || base[0] == '_') base.insert(0, "c");
  return base.substr(0, 48) + "-" + random_hex(4);
}

bool has_descriptors(std::size_t count) {
  std::vector<UniqueFd> probes;
  do {
    probes.emplace_back(::fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3));
  } while (probes.back() && probes.size() < count);
  return static_cast<bool>(probes.back());
}

// A prompt and the like, or nothing.
Result<UniqueFd> open_input(const std::string& input) {
  if (input.empty()) return UniqueFd(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  return os::sealed_file(input);
}

// Some of what a pipe holds, into the ring. False at its end.
bool read_some(int pipe, LogRing& ring, std::size_t& count) {
  thread_local std::string block(kReadBytes, '\0');
  const ssize_t got = ::read(pipe, block.data(), block.size());
  count = got > 0 ? static_cast<std::size_t>(got) : 0;
  if (got < 0) return errno == EAGAIN || errno == EINTR;
  ring.append({block.data(), count});
  return got > 0;
}

Status make_directory(const std::string& path) {
  TRY(os::open_private_directory(path));
  return ok();
}

}  // namespace

Registry::Registry(ipc::Sessions& sessions, const Clock& clock, Directories directories, Hooks hooks)
    : sessions_(sessions),
      clock_(clock),
      directories_(std::move(directories)),
      hooks_(std::move(hooks)),
      places_(sessions.loop(), directories_.doors, directories_.mailboxes) {}

Registry::~Registry() { close(); }

void Registry::close() {
  if (std::exchange(is_closed_, true)) return;
  // Listeners and waiters first: nobody may come in while the containers go.
  for (const auto& [id, container] : containers_) {
    if (is_over(container->state)) continue;
    container->listener.reset();
    save(*container);
  }
  places_.close();
  if (launcher_) launcher_->close();
  const Error stopping = Error::make(Code::unavailable, kStopping);
  fail_launches(stopping);
  for (const auto& [id, container] : std::map(containers_)) end_jobs(*container, stopping);
}

Result<std::vector<std::shared_ptr<Container>>> Registry::open() {
  for (const std::string* path :
       {&directories_.doors, &directories_.mailboxes, &directories_.records, &directories_.scans}) {
    TRY(make_directory(*path));
  }
  TRY(launcher_, LauncherLink::start(
                     sessions_.loop(), sessions_.log(),
                     [this](sandbox::FromLauncher notice, std::vector<UniqueFd> fds) {
                       on_notice(std::move(notice), std::move(fds));
                     },
                     [this] { on_launcher_lost(); }));
  places_.open();
  std::vector<std::string> faults;
  std::vector<std::shared_ptr<Container>> to_restart;
  auto records = read_records(directories_.records, faults);
  std::set<std::string> replaced;
  for (const auto& container : records) replaced.insert(container->config.replaces);
  for (auto& container : records) {
    std::error_code ignored;
    if (replaced.contains(container->id)) {
      // The last warden came so far: another goes on for it, and it only waits to be forgotten.
      container->config.should_restart = false;
      container->config.is_temporary = true;
    }
    // A pod may have outlived the last warden, and its sandbox has this very directory mounted.
    if (container->config.pod.empty()) {
      std::filesystem::remove_all(directories_.doors + "/" + container->id, ignored);
    } else {
      container->door_dir = directories_.doors + "/" + container->id;
    }
    container->mailbox_dir = directories_.mailboxes + "/" + container->id;
    if (container->config.group.empty()) container->session_dir = container->mailbox_dir + "/session";
    if (container->state == State::lost && container->config.should_restart) to_restart.push_back(container);
    if (container->config.pod.empty()) record_loss(*container);
    containers_.emplace(container->id, std::move(container));
  }
  make_up_scans();
  for (const std::string& fault : faults) sessions_.log().warn("unreadable container record", {{"error", fault}});
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(directories_.mailboxes, ignored)) {
    if (entry.path().filename().string().starts_with(kGonePrefix)) delete_slowly(entry.path());
  }
  return to_restart;
}

void Registry::record_loss(Container& container) {
  if (container.state != State::lost || container.ended_unix_ms != 0) return;
  container.ended_unix_ms = clock_.unix_millis();
  save(container);
  hooks_.on_incident(end_of(container));
}

// ---- making ----

Result<std::shared_ptr<Container>> Registry::prepare(Config config) {
  if (is_closed_) return Error::make(Code::unavailable, kStopping);
  TRY(check_config(config));
  if (!has_descriptors(kDescriptorsToStart)) {
    return Error::make(Code::unavailable,
                       "the warden may open too few files for another container: remove some that have ended, or raise "
                       "its limit (ulimit -n)");
  }
  for (const auto& [id, other] : containers_) {
    if (!config.name.empty() && other->config.name == config.name && !is_over(other->state)) {
      return Error::make(Code::conflict, "a container of this name is running");
    }
  }
  auto container = std::make_shared<Container>();
  container->id = make_id(config);
  container->config = std::move(config);
  container->created_unix_ms = clock_.unix_millis();
  container->last_activity = clock_.steady();
  container->door_dir = directories_.doors + "/" + container->id;
  container->mailbox_dir = directories_.mailboxes + "/" + container->id;
  if (const Status placed = make_place(*container); !placed) {
    remove_record(directories_.records, container->id);
    places_.remove(container->id);
    return placed.error();
  }
  containers_.emplace(container->id, container);
  return container;
}

Status Registry::make_place(Container& container) {
  TRY(container.listening, places_.make(container.id));
  if (container.config.group.empty()) {
    container.session_dir = container.mailbox_dir + "/session";
  } else {
    TRY(container.session_dir, hooks_.session_of(container.config.group));
  }
  // One of which the next warden could not know is none: nobody would list it, start it again or tidy up after it.
  TRY(write_record(directories_.records, container));
  return hooks_.on_prepared(container);
}

Status Registry::bind_door(Container& container) {
  TRY(const UniqueFd directory, os::open_private_directory(container.door_dir));
  TRY(container.listening, os::listen_unix(directory.get(), kDoorName));
  return ok();
}

Status Registry::open_door(Container& container) {
  const std::weak_ptr<Container> weak = find(container.id);
  TRY(container.listener, ipc::Listener::open(sessions_, std::move(container.listening), "container/" + container.id,
                                              [this, weak](UniqueFd fd) {
                                                const auto owner = weak.lock();
                                                if (!owner) return;
                                                owner->last_activity = clock_.steady();
                                                hooks_.on_connection(std::move(fd), owner);
                                              }));
  return ok();
}

void Registry::add_door(const Container& container, sandbox::Spec& spec) {
  const std::string inside = kDoorInside;
  spec.binds.push_back({container.door_dir, inside, false, false});
  spec.binds.push_back({container.mailbox_dir + "/in", inside + "/mailbox/in", true, false});
  spec.binds.push_back({container.mailbox_dir + "/out", inside + "/mailbox/out", false, false});
  spec.binds.push_back({container.session_dir, inside + "/session", true, false});
  spec.environment.push_back("SALLYPORT_DOOR=" + inside + "/" + kDoorName);
  spec.environment.push_back("SALLYPORT_MAILBOX=" + inside + "/mailbox");
  spec.environment.push_back("SALLYPORT_CONTAINER=" + container.id);
  const auto program = os::sibling_program(kSignalProgram);
  if (!program) return;
  spec.binds.push_back({*program, inside + "/bin/" + kSignalProgram, false, true});
  spec.exec.push_back(inside + "/bin/" + kSignalProgram);
  for (std::string& variable : spec.environment) {
    if (variable.starts_with("PATH=")) variable += ":" + inside + "/bin";
  }
}

Result<std::vector<UniqueFd>> Registry::capture_output(const std::shared_ptr<Container>& container) {
  std::vector<UniqueFd> child;
  TRY(UniqueFd input, open_input(std::exchange(container->config.input, {})));
  child.push_back(std::move(input));
  for (LogRing* ring : {&container->out, &container->err}) {
    std::array<int, 2> ends{};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0) return Error::from_errno("cannot make a pipe", errno);
    UniqueFd read_end{ends[0]};
    child.emplace_back(ends[1]);
    ::fcntl(read_end.get(), F_SETFL, O_NONBLOCK);
    TRY(std::shared_ptr<ipc::Watch> pipe, ipc::Watch::open(sessions_.loop(), std::move(read_end)));
    if (ring == &container->out) container->out_pipe = pipe;
    read_log(container, std::move(pipe), *ring);
  }
  container->is_output_captured = true;
  return child;
}

Fire Registry::read_log(std::shared_ptr<Container> container, std::shared_ptr<ipc::Watch> pipe, LogRing& ring) {
  std::size_t count = 0;
  while (co_await pipe->readable() && read_some(pipe->fd(), ring, count)) {
    if (count > 0) container->last_activity = std::chrono::steady_clock::now();
  }
  ring.settle();
  if (container->out_pipe == pipe) container->out_pipe.reset();
}

void Registry::drain_output(Container& container) {
  if (!container.out_pipe) return;
  // A writer that does not stop must not keep the loop: a full ring is all that anybody can take.
  std::size_t count = 1;
  for (std::size_t total = 0; count > 0 && total < LogRing::kMostBytes; total += count) {
    if (!read_some(container.out_pipe->fd(), container.out, count)) return;
  }
}

Task<Status> Registry::launch(std::shared_ptr<Container> container, sandbox::Spec spec) {
  add_door(*container, spec);
  spec.name = container->id;
  spec.scan_records = directories_.scans;
  spec.command = container->config.command;
  set_pairs(spec.environment, container->config.environment);
  container->environment = spec.environment;
  container->idle_limit = spec.limits.idle.count() != 0 ? spec.limits.idle : container->config.idle;
  container->handle = ++last_handle_;
  const auto launched = std::make_shared<ipc::OneShot<Status>>();
  launching_.emplace(container->handle, launched);
  Status status = ok();
  {
    auto stdio = capture_output(container);
    std::vector<int> fds;
    if (stdio) {
      for (const UniqueFd& fd : *stdio) fds.push_back(fd.get());
      status = launcher_->send(sandbox::LaunchRequest{container->handle, std::move(spec)}, fds);
    } else {
      status = stdio.error();
    }
  }
  if (status) {
    const ipc::Loop::Unhurried sleeping(sessions_.loop());
    status = co_await *launched;
  }
  places_.refill_later(kSettledAfter);
  launching_.erase(container->handle);
  // Nothing is wrong with it, and no more is known of it.
  if (is_closed_) co_return Error::make(Code::unavailable, kStopping);
  if (!status) {
    container->failure = status.error().message;
    end(container, State::failed);
    co_return status;
  }
  watch_idle(container);
  publish("container.started", *container);
  sessions_.loop().after(kSaveRunningAfter, [this, weak = std::weak_ptr(container)] {
    const auto still = weak.lock();
    if (still && !is_over(still->state)) save(*still);
  });
  co_return ok();
}

Status Registry::adopt(Container& container, const Adopted& adopted) {
  container.process = UniqueFd(static_cast<int>(::syscall(SYS_pidfd_open, adopted.pid, 0)));
  container.maker = UniqueFd(static_cast<int>(::syscall(SYS_pidfd_open, adopted.maker, 0)));
  if (!container.process || !container.maker) return Error::make(Code::not_found, "no such process");
  container.pid_namespace = adopted.pid_namespace;
  container.pid = adopted.pid;
  container.state = State::running;
  TRY(open_door(container));
  publish("container.started", container);
  save(container);
  return ok();
}

Status Registry::adopt_again(Container& container, const Adopted& adopted) {
  struct stat info{};
  // Made anew it would not be the one that the sandbox has mounted.
  if (::stat(container.door_dir.c_str(), &info) != 0) {
    return Error::make(Code::not_found, "its door's directory is gone", container.door_dir);
  }
  TRY(bind_door(container));
  return adopt(container, adopted);
}

void Registry::release(Container& container, int wait_status) {
  if (is_over(container.state)) return;
  container.wait_status = wait_status;
  end(find(container.id), State::exited);
}

// ---- while it runs ----

Result<std::shared_ptr<Job>> Registry::exec(Container& container, const sandbox::Command& command) {
  if (container.state != State::running || container.handle == 0) {
    return Error::make(Code::conflict,
                       "the container is " + std::string(to_string(container.state)) + " and takes no commands");
  }
  const auto job = std::make_shared<Job>();
  job->number = ++container.last_job;
  TRY(launcher_->send(
      sandbox::ExecRequest{container.handle, job->number, command.arguments, command.environment, command.directory},
      command.fds));
  container.jobs.emplace(job->number, job);
  container.last_activity = clock_.steady();
  return job;
}

Result<std::shared_ptr<Job>> Registry::start_worker(Container& container, int socket) {
  const auto job = std::make_shared<Job>();
  job->number = ++container.last_job;
  job->is_worker = true;
  TRY(launcher_->send(sandbox::WorkerRequest{container.handle, job->number}, {socket}));
  container.jobs.emplace(job->number, job);
  return job;
}

Status Registry::signal(Container& container, std::uint32_t job, int signal) {
  if (container.state != State::running) return Error::make(Code::conflict, "the container is not running");
  if (job != 0 && !container.jobs.contains(job)) return Error::make(Code::not_found, "no such job runs in it");
  if (container.handle != 0) return launcher_->send(sandbox::SignalRequest{container.handle, job, signal});
  // Adopted: its pid 1 listens to nobody but its maker, who passes signals on.
  const UniqueFd& to = signal == SIGKILL ? container.process : container.maker;
  if (::syscall(SYS_pidfd_send_signal, to.get(), signal, nullptr, 0) != 0) {
    return Error::from_errno("cannot signal the container", errno);
  }
  return ok();
}

void Registry::stop(const std::shared_ptr<Container>& container, Millis grace) {
  if (is_over(container->state)) return;
  const auto kill = [this, weak = std::weak_ptr(container)] {
    const auto still = weak.lock();
    if (!still || is_over(still->state)) return;
    const Status sent =
        still->handle != 0 ? launcher_->send(sandbox::KillRequest{still->handle}) : signal(*still, 0, SIGKILL);
    if (!sent) sessions_.log().warn("cannot kill a container", {{"container", still->id}});
  };
  const bool has_command = container->handle == 0 || !container->config.command.empty();
  if (!has_command || grace.count() == 0 || !signal(*container, 0, SIGTERM)) return kill();
  sessions_.loop().after(grace, kill);
}

Status Registry::remove(const std::string& id) {
  const auto container = find(id);
  if (!container) return Error::make(Code::not_found, "no such container");
  if (!is_over(container->state)) return Error::make(Code::conflict, "the container is running; stop it first");
  hooks_.on_removed(id);
  std::error_code ignored;
  std::filesystem::remove_all(directories_.doors + "/" + id, ignored);
  const std::string gone = directories_.mailboxes + "/" + kGonePrefix + id;
  std::filesystem::rename(directories_.mailboxes + "/" + id, gone, ignored);
  delete_slowly(gone);
  remove_record(directories_.records, id);
  containers_.erase(id);
  return ok();
}

// What cannot be removed now stays until a warden starts again.
Fire Registry::delete_slowly(std::string path) {
  std::function<bool()> goes_on = [this] { return !is_closed_; };
  const auto emptied = co_await empty_directory(sessions_.loop(), path, std::move(goes_on));
  if (emptied) ::rmdir(path.c_str());
}

std::shared_ptr<Container> Registry::find(const std::string& id) const {
  const auto found = containers_.find(id);
  return found == containers_.end() ? nullptr : found->second;
}

std::shared_ptr<Container> Registry::by_handle(sandbox::Handle handle) const {
  for (const auto& [id, container] : containers_) {
    if (container->handle == handle && handle != 0) return container;
  }
  return nullptr;
}

void Registry::publish(std::string_view event, const Container& container) {
  hooks_.on_event(event, wire::to_json([&](wire::JsonWriter& json) {
                    json.begin_object();
                    describe(json, container);
                    json.end_object();
                  }));
}

void Registry::save(const Container& container) {
  if (const Status saved = write_record(directories_.records, container); !saved) {
    sessions_.log().error("cannot write a container's record",
                          {{"container", container.id}, {"error", saved.error().describe()}});
  }
}

}  // namespace sallyport::containers
