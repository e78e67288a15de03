#include "pod/daemon.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>

#include "pod/limits.h"
#include "pod/service.h"
#include "sandbox/scan_record.h"

namespace sallyport::pod {
namespace {

UniqueFd copy_of(int fd) { return UniqueFd(::fcntl(fd, F_DUPFD_CLOEXEC, 3)); }

// Said to nobody's request, before the connection ends.
void refuse(int connection, const Error& why) {
  Bytes frame;
  wire::append_error(frame, {}, why);
  [[maybe_unused]] const ssize_t sent = ::send(connection, frame.data(), frame.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
}

}  // namespace

// ---- starting ----

Daemon::Daemon(Startup startup, Claim claim, const Log& log, const Clock& clock)
    : startup_(std::move(startup)),
      claim_(std::move(claim)),
      log_(log),
      clock_(clock),
      sessions_(loop_, log, {}),
      screen_(startup_.ring_bytes),
      reports_(clock),
      size_(startup_.size),
      buffer_(std::make_unique_for_overwrite<std::uint8_t[]>(kReadBytes)) {}

Daemon::~Daemon() = default;

Result<std::unique_ptr<Daemon>> Daemon::start(Startup startup, Claim claim, sandbox::WorkerEntry worker, const Log& log,
                                              const Clock& clock) {
  std::unique_ptr<Daemon> daemon(new Daemon(std::move(startup), std::move(claim), log, clock));
  Status started = daemon->launch(worker);
  if (started) started = daemon->open_door();
  if (started) started = daemon->publish();
  if (started) started = daemon->watch_place();
  if (!started) {
    if (daemon->egress_) daemon->egress_->close();
    daemon->loop_.settle();
    daemon->claim_.place.remove();
    return std::move(started).error();
  }
  Daemon* self = daemon.get();
  self->loop_.on_signals({SIGTERM, SIGINT}, [self](int) {
    self->is_told_to_end_ = true;
    self->stop_agent(kDefaultGrace);
  });
  self->watch_agent();
  self->watch_violations();
  self->watch_covers();
  self->look_at_covers_at_times();
  self->read_terminal();
  self->restore_what_is_removed();
  if (const Millis longest = self->startup_.spec.limits.duration; longest.count() > 0) {
    self->loop_.after(longest, [self] {
      self->log_.warn("killed: it ran longer than its limit");
      self->kill_agent();
    });
  }
  self->last_activity_ = std::chrono::steady_clock::now();
  if (self->startup_.spec.limits.idle.count() > 0) self->watch_idle();
  return daemon;
}

Status Daemon::launch(sandbox::WorkerEntry worker) {
  TRY(Terminal terminal, open_terminal(size_));
  sandbox::LaunchOptions options;
  for (int& fd : options.stdio) fd = terminal.slave.get();
  options.wants_pid_namespace = true;
  options.worker = worker;
  TRY(sandbox::Running running, sandbox::launch(startup_.spec, options));
  protections_ = running.protections().to_json();
  for (const std::string& sentence : running.missed()) log_.warn(sentence);
  running_.emplace(std::move(running));
  terminal.slave.reset();
  TRY(master_, ipc::Watch::open(loop_, std::move(terminal.master)));
  TRY(control_, ipc::Watch::open(loop_, copy_of(running_->control())));
  if (running_->violations() >= 0) {
    TRY(violations_watch_, ipc::Watch::open(loop_, copy_of(running_->violations())));
  }
  covers_.emplace(*running_);
  if (covers_->poll_fd() >= 0) {
    TRY(covers_watch_, ipc::Watch::open(loop_, copy_of(covers_->poll_fd())));
  }
  return open_egress();
}

// A proxy of its own, which lives and ends with the pod and not with the warden.
Status Daemon::open_egress() {
  if (!startup_.net) return ok();
  egress_.emplace(loop_, log_, startup_.hosts_file, [this](const egress::Report& connection) {
    report([&](wire::JsonWriter& json) { egress::write_report(json.key("net"), connection); });
  });
  return egress_->serve(startup_.container, copy_of(running_->proxy_listener()), *startup_.net);
}

void Daemon::accept(UniqueFd connection, pid_t peer) {
  if (sessions_.open_count() >= kMaxConnections) {
    ++sessions_.counters().refused;
    refuse(connection.get(), Error::make(Code::unavailable, "the pod has " + std::to_string(kMaxConnections) +
                                                                " connections already; close one and try again"));
    return log_.warn("connection refused: too many");
  }
  const std::string name = std::to_string(sessions_.counters().accepted);
  auto session = ipc::Session::open(sessions_, std::move(connection), UniqueFd(), wire::Side::accepting, name);
  if (!session) return log_.error("cannot open a session", {{"error", session.error().describe()}});
  (*session)->set_window(wire::kPodWindow);
  peers_[session->get()].pid = peer;
  (*session)->on_close([this, closed = session->get()] {
    const auto outputs = outputs_;
    for (const OutputPtr& output : outputs) {
      if (&output->session() == closed) detach(*output);
    }
    peers_.erase(closed);
    loop_.post([this] { end_if_done(); });
  });
  serve(std::move(*session));
}

Fire Daemon::serve(std::shared_ptr<ipc::Session> session) {
  while (co_await session->receive()) {
    while (auto request = session->next_request()) Service::answer(*this, session, std::move(*request));
    session->end_turn();
  }
  session->finish();
}

void Daemon::run() {
  log_.info("running", {{"pod", startup_.name}, {"address", record_.address}});
  loop_.run();
  sessions_.for_each([](ipc::Session& session) { session.close(); });
  listener_.reset();
  if (egress_) egress_->close();
  loop_.settle();  // also those who wait at the gate
}

// ---- for the warden's records ----

void Daemon::report(const std::function<void(wire::JsonWriter&)>& members) {
  reports_.add(members);
  wake_reporter();
}

void Daemon::wake_reporter() {
  if (const auto waiter = std::exchange(reports_waiter_, nullptr)) waiter->resolve(true);
}

void Daemon::reports_taken(std::uint64_t number) {
  reports_.taken(number);
  stop_if_all_is_told();
}

const Daemon::Peer& Daemon::peer_of(const ipc::Session& session) const {
  static const Peer kNobody;
  const auto found = peers_.find(&session);
  return found == peers_.end() ? kNobody : found->second;
}

// ---- the agent ----

Fire Daemon::watch_agent() {
  while (!wait_status_) {
    const bool is_ready = co_await control_->readable();
    if (!is_ready) co_return;
    const sandbox::Event event = running_->next_event();
    switch (event.kind) {
      case sandbox::Event::Kind::exited:
        if (event.job == 0) agent_ended(event.value);
        break;
      case sandbox::Event::Kind::ended:
        agent_ended(SIGKILL);
        break;
      case sandbox::Event::Kind::started:
        if (const auto node = starting_workers_.extract(event.job); !node.empty()) node.mapped()->resolve(ok());
        break;
      case sandbox::Event::Kind::failed:
        if (const auto node = starting_workers_.extract(event.job); !node.empty()) {
          node.mapped()->resolve(Error::from_errno("cannot start a file worker", event.value));
        }
        break;
      case sandbox::Event::Kind::over_memory:
        log_.warn("killed: it used more memory than its limit", {{"mib", event.value}});
        break;
      default:
        break;
    }
  }
}

Task<Status> Daemon::start_worker(int socket) {
  if (!running_ || wait_status_) co_return Error::make(Code::conflict, "the pod's agent has ended");
  const auto started = std::make_shared<ipc::OneShot<Status>>();
  const std::uint32_t job = ++last_job_;
  CO_TRY(running_->start_worker(job, socket));
  starting_workers_.emplace(job, started);
  const Status outcome = co_await *started;
  co_return outcome;
}

Fire Daemon::watch_violations() {
  if (!violations_watch_) co_return;
  bool goes_on = true;
  while (goes_on) {
    const bool is_ready = co_await violations_watch_->readable();
    goes_on = is_ready && violations_.serve(violations_watch_->fd());
  }
}

void Daemon::look_at_covers() {
  sandbox::CoverWatch::Changes changes;
  covers_->check(changes);
  for (const std::string& path : changes.put_back) log_.warn("protection was put back", {{"path", path}});
  for (const std::string& path : changes.removed) log_.warn("the host removed it", {{"path", path}});
}

// The kernel reports a changed mount table as an error condition.
Fire Daemon::watch_covers() {
  if (!covers_watch_) co_return;
  while (running_) {
    const bool has_changed = co_await covers_watch_->hangup();
    if (!has_changed) break;
    while (running_) {
      look_at_covers();
      if (covers_->is_settled()) break;
      // Not later, since nothing else looks meanwhile for further changes.
      co_await loop_.sleep(sandbox::CoverWatch::kFirstPause);
    }
  }
}

// Of a directory that was moved the kernel tells nothing.
Fire Daemon::look_at_covers_at_times() {
  if (!covers_watch_) co_return;
  while (running_) {
    look_at_covers();
    co_await loop_.sleep(sandbox::CoverWatch::kLongestPause);
  }
}

void Daemon::agent_ended(int wait_status) {
  if (wait_status_) return;
  wait_status_ = wait_status;
  log_.info("agent ended", {{"wait_status", wait_status}});
  for (const auto& [job, started] : std::exchange(starting_workers_, {})) {
    started->resolve(Error::make(Code::conflict, "the pod's agent has ended"));
  }
  loop_.after(kDrainSilence, [this, before = screen_.end()] { check_silence(before); });
  // The terminal's end may have been seen before; else whoever reads it will see it.
  if (is_terminal_closed_ && !pump()) is_drained_ = true;
  maybe_drained();
}

void Daemon::kill_agent() {
  if (running_ && !wait_status_) [[maybe_unused]]
    const Status killed = running_->signal(SIGKILL);
}

// Looks again when the limit could be reached at the earliest.
Fire Daemon::watch_idle() {
  const Millis longest = startup_.spec.limits.idle;
  while (!wait_status_ && !has_ended_) {
    const auto silent = std::chrono::duration_cast<Millis>(std::chrono::steady_clock::now() - last_activity_);
    if (silent >= longest) {
      log_.warn("killed: it neither said nor heard anything for longer than its limit");
      kill_agent();
      break;
    }
    co_await loop_.sleep(longest - silent + Millis(1));
  }
}

void Daemon::check_silence(std::uint64_t output_before) {
  if (is_drained_) return;
  pump();  // a daemon that was held up has not heard all that was said
  if (screen_.end() == output_before) {
    is_drained_ = true;
    return drained();
  }
  loop_.after(kDrainSilence, [this, before = screen_.end()] { check_silence(before); });
}

void Daemon::maybe_drained() {
  if (is_drained_ && wait_status_ && running_) drained();
}

// The agent is gone and all it said is here. What it left in the workspace is looked at before anybody is told: who
// hears of the end may use git there at once. That may take seconds, and whoever asks meanwhile is answered.
void Daemon::drained() {
  if (violations_watch_) violations_.serve(violations_watch_->fd());
  if (violations_.total() > 0) log_.info("refused calls", {{"count", violations_.total()}});
  for (const std::string& path : covers_->uncovered()) log_.warn("protection could not be put back", {{"path", path}});
  covers_.reset();
  ending_ = std::thread([this, running = std::move(*running_)]() mutable {
    running.kill();
    auto told = running.scan().sentences();
    for (std::string& remark : sandbox::remarks(running.findings())) told.push_back(std::move(remark));
    loop_.post([this, told = std::move(told)]() mutable { tell_end(std::move(told)); });
  });
  running_.reset();
}

void Daemon::tell_end(std::vector<std::string> sentences) {
  ending_.join();
  sandbox::shorten(sentences);
  for (const std::string& sentence : sentences) {
    log_.warn(sentence);
    report([&](wire::JsonWriter& json) { json.member("finding", sentence); });
  }
  record_.wait_status = wait_status_;
  record_.exited_unix_ms = clock_.unix_millis();
  if (const Status published = publish(); !published) {
    log_.error("cannot record the exit", {{"error", published.error().describe()}});
  }
  if (hold_timer_ != 0) loop_.cancel(std::exchange(hold_timer_, 0));
  const auto outputs = outputs_;
  for (const OutputPtr& output : outputs) tell_exit(output);
  for (const auto& waiter : std::exchange(waiters_, {})) waiter->resolve(true);
  wake_reporter();
  // What its connections came to is said as they end, which they do with the sandbox.
  if (egress_) loop_.after(kLastWords, [this] { egress_->close(); });
  if (is_told_to_end_) return end(false);
  loop_.after(startup_.keep, [this] { end(true); });
  end_if_done();
}

// A terminal's programs end by SIGHUP, others by SIGTERM; the rest is killed.
void Daemon::stop_agent(Millis grace) {
  if (!running_ || wait_status_) {
    if (is_told_to_end_ && record_.wait_status) end(false);
    return;
  }
  [[maybe_unused]] Status sent = running_->signal(SIGTERM);
  sent = running_->signal(SIGCONT);
  loop_.after(grace / 2, [this] {
    if (running_ && !wait_status_) [[maybe_unused]]
      const Status hung_up = running_->signal(SIGHUP);
  });
  loop_.after(grace, [this] { kill_agent(); });
}

// From now on the name is free. Who is attached may look as long as they like.
void Daemon::collect() {
  // While the lock is held: nobody else can have moved in.
  if (!std::exchange(is_collected_, true)) claim_.place.remove();
}

void Daemon::end_if_done() {
  if (is_collected_ && outputs_.empty()) end(true);
}

void Daemon::end(bool remove) {
  if (std::exchange(has_ended_, true)) return;
  log_.info("gone", {{"collected", is_collected_ ? 1 : 0}});
  if (remove) collect();
  loop_.after(kLastWords, [this] { loop_.stop(); });
  stop_if_all_is_told();
}

// Those who are attached have its last output, and the warden, if one is there, its last reports.
void Daemon::stop_if_all_is_told() {
  const auto warden = warden_.lock();
  const bool is_reported = reports_.is_empty() || !warden || warden->is_closed();
  if (has_ended_ && outputs_.empty() && is_reported) loop_.stop();
}

}  // namespace sallyport::pod
