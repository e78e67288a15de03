#include "warden/warden.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>

#include "handlers/net_reports.h"
#include "handlers/pod_containers.h"
#include "os/files.h"
#include "os/process.h"
#include "os/sockets.h"
#include "scheduler/program.h"
#include "warden/names.h"

namespace sallyport::warden {
namespace {

// What one container may take of the warden; the host's own limits are its configuration's.
constexpr std::size_t kContainerConnections = 256;
constexpr std::size_t kContainerRequests = 1024;
constexpr std::size_t kContainerBytes = 64U << 20;
constexpr std::size_t kContainerStreams = kContainerBytes / wire::kInitialCredit;
// How long those who were cut off have to read why.
constexpr Millis kLastWords{250};

}  // namespace

Warden::Warden(Options options, Config config, Claim claim, std::unique_ptr<ledger::Ledger> ledger, const Log& log,
               const Clock& clock)
    : claim_(std::move(claim)),
      options_(std::move(options)),
      config_(std::move(config)),
      log_(log),
      loop_(options_.spin),
      ledger_(std::move(ledger)),
      sessions_(loop_, log, config_.session),
      tokens_(clock),
      engine_(config_.host, tokens_),
      containers_(
          sessions_, clock,
          {.doors = options_.paths.runtime_dir + "/containers",
           .mailboxes = options_.paths.state_dir + "/mailbox",
           .records = options_.paths.state_dir + "/containers",
           .scans = options_.paths.scan_records()},
          {.on_connection = [this](UniqueFd fd,
                                   const auto& container) { open_container_connection(std::move(fd), container); },
           .on_event = publisher(),
           .on_incident = [this](const containers::Incident& incident) { record(incident); },
           .session_of = [this](const std::string& group) { return groups_.session_dir(group); },
           .on_prepared = [this](const auto& container) { return mailbox_.add(container.id, container.mailbox_dir); },
           .has_asked =
               [this](const std::string& id) {
                 const auto door = container_doors_.find(id);
                 if (door == container_doors_.end()) return false;
                 return std::exchange(door->second->has_asked, door->second->in_flight > 0);
               },
           .on_removed =
               [this](const std::string& id) {
                 mailbox_.remove(id);
                 gate_.withdraw_all(id);
                 engine_.remove_container(id);
               }}),
      workers_(containers_, sessions_, [this](std::string pod) { return pods_.connect_for_worker(std::move(pod)); }),
      pods_(sessions_, clock, options_.paths.state_dir + "/pods",
            {.on_event = publisher(),
             .on_report = [this](const pod::Record& record,
                                 wire::Value report) { handlers::record_pod(host_, record, report); },
             .on_found =
                 [this](const pod::Record& record) {
                   handlers::adopt_pod_again(host_, record);
                   handlers::forget_ended_pods(host_, record.name);
                 },
             .on_end =
                 [this](const std::string& name, const std::optional<pod::Record>& record,
                        std::optional<int> wait_status) {
                   if (!record) return handlers::forget_ended_pods(host_, name);
                   handlers::end_pod(host_, record->container, wait_status.value_or(SIGKILL));
                 },
             .net_policy =
                 [this](const pod::Record& record) { return handlers::net_policy_of(host_, record.container); }}),
      groups_(options_.paths.state_dir),
      output_(containers_, *ledger_, publisher()),
      scheduler_(
          {.loop = loop_,
           .ledger = *ledger_,
           .registry = containers_,
           .profiles = profiles_,
           .output = output_,
           .clock = clock,
           .log = log,
           .launch = [this](containers::Config wanted) { return handlers::start_container(host_, std::move(wanted)); },
           .forget = [this](const std::string& id) { handlers::remove_when_idle(host_, id); },
           .publish = publisher()}),
      signal_host_{.loop = loop_,
                   .registry = containers_,
                   .groups = groups_,
                   .profiles = profiles_,
                   .engine = engine_,
                   .scheduler = scheduler_,
                   .output = output_,
                   .deployments = config_.deployments,
                   .clock = clock,
                   .log = log,
                   .publish = publisher(),
                   .profile_of = [this](const containers::Config& of) { return handlers::profile_of(profiles_, of); },
                   .programs_dir = options_.paths.state_dir + "/programs"},
      egress_(loop_, log, options_.paths.egress_hosts,
              [this](const egress::Report& report) { handlers::record_connection(host_, report); }),
      adapters_(sessions_, config_.platform,
                {.state_dir = options_.paths.state_dir + "/platform",
                 .egress_hosts = options_.paths.egress_hosts,
                 .on_connection = [this](wire::Value said) { handlers::record_adapter_connection(host_, said); }}),
      cells_(loop_, log),
      deputy_(
          sessions_, clock, [this](const std::string& container) { return find_sender(container); },
          [this](const approval::CellCommand& command) {
            return cells_.start({command.argv, command.readable, command.fds, command.lifetime});
          }),
      gate_(*ledger_, loop_, log, {.policy_hash = [this] { return engine_.policy_hash(); }, .publish = publisher()}),
      judge_(engine_),
      mailbox_({.loop = loop_,
                .ledger = *ledger_,
                .clock = clock,
                .log = log,
                .judge = judge_,
                .deputy = options_.deputy ? *options_.deputy : static_cast<approval::Reviewer&>(deputy_),
                .human = options_.human ? *options_.human : static_cast<approval::Reviewer&>(gate_),
                .on_event = publisher(),
                .on_overload = [this](const std::string& id,
                                      const std::string& why) { stop_overloaded(containers_.find(id), why); }},
               all_signals(config_), options_.paths.state_dir + "/quarantine"),
      host_{.sessions = sessions_,
            .engine = engine_,
            .tokens = tokens_,
            .events = events_,
            .containers = containers_,
            .workers = workers_,
            .pods = pods_,
            .groups = groups_,
            .scheduler = scheduler_,
            .egress = egress_,
            .adapters = adapters_,
            .profiles = profiles_,
            .ledger = *ledger_,
            .mailbox = mailbox_,
            .deputy = deputy_,
            .gate = gate_,
            .clock = clock,
            .version = options_.version,
            .started = clock.steady(),
            .config_error = {},
            .is_name = [this](std::string_view name) { return is_name(name, config_, options_.more_signals); },
            .reload = [this] { return reload(); },
            .shut_down = [this] { shut_down(); }},
      pipeline_(host_) {
  apply(config_);
  ledger_->start([this](std::function<void()> work) { loop_.post(std::move(work)); });
}

Warden::~Warden() { close(); }

Result<std::unique_ptr<Warden>> Warden::start(Options options, const Log& log, const Clock& clock,
                                              std::optional<ipc::PeerVerifier> verifier) {
  TRY(Config config, load_config(options.paths.config_file));
  if (config.require_pidfd) TRY(ipc::require_peer_pidfd());
  // A peer that goes away must not take us with it.
  ::signal(SIGPIPE, SIG_IGN);
  os::raise_open_files_limit();
  TRY(Claim held, claim(options.paths));
  auto locked =
      ledger::Ledger::open({.state_dir = options.paths.state_dir, .clock = clock, .place = options.paths.runtime_dir});
  // Somebody took this place away under the other one, which is stopping for it.
  if (!locked && locked.error().code == Code::conflict && locked.error().detail == options.paths.runtime_dir) {
    return Error::make(Code::conflict, "another warden is running in " + options.paths.runtime_dir,
                       std::string(kPlaceTaken));
  }
  TRY(auto ledger, std::move(locked));
  if (const auto health = ledger->health(); !health.is_good()) log.error("ledger", {{"error", health.error}});
  std::unique_ptr<Warden> warden(
      new Warden(std::move(options), std::move(config), std::move(held), std::move(ledger), log, clock));
  // Before anybody can know of us, and so before anybody can send one.
  warden->watch_for_signals();
  if (Status opened = warden->open_doors(std::move(verifier)); !opened) {
    // What was in the way of its socket is not its own to remove.
    if (warden->control_listener_) warden->leave_place();
    return std::move(opened).error();
  }
  warden->watch_place();
  return warden;
}

Status Warden::open_doors(std::optional<ipc::PeerVerifier> verifier) {
  TRY(open_control_door(std::move(verifier)));
  TRY(open_containers());
  if (options_.with_loopback) TRY(open_loopback_door());
  if (options_.with_stdio) TRY(open_stdio_door());
  return ok();
}

Status Warden::open_containers() {
  TRY(profiles_, policy::Profiles::load(options_.paths.profiles_dir()));
  TRY(check_names(config_, profiles_, options_.more_signals));
  TRY(read_groups());
  TRY(const auto lost, containers_.open());
  open_scheduler();
  for (const auto& [id, container] : containers_.all()) take_up_mailbox(*container);
  // Those that lived on are containers again.
  TRY(pods_.open());
  apply(config_);
  record_policy(ok());
  gate_.open();
  for (const auto& [id, container] : containers_.all()) {
    const bool may_come = pods_.is_starting(container->config.pod);
    if (!container->config.is_temporary || !containers::is_over(container->state) || may_come) continue;
    containers_.record_loss(*container);
    handlers::remove_when_idle(host_, id);
  }
  // What an earlier warden's actions left running must not run beside what is done again.
  if (const std::size_t ended = scheduler::end_strays(signal_host_.programs_dir); ended != 0) {
    log_.warn("programs that an earlier warden had started were still running, and are ended", {{"count", ended}});
  }
  mailbox_.start();
  check_ledger();
  for (const auto& container : lost) restart(container);
  return ok();
}

Fire Warden::open_scheduler() {
  const Status opened = co_await scheduler_.open();
  if (!opened && !is_stopping_)
    log_.error("nothing that was scheduled will run", {{"error", opened.error().describe()}});
}

scheduler::Publish Warden::publisher() {
  return [this](std::string_view event, const std::string& params) { events_.publish(event, params); };
}

std::vector<mailbox::Signal> Warden::all_signals(const Config& config) {
  std::vector<mailbox::Signal> signals = scheduler::builtin_signals(signal_host_);
  for (auto& signal : scheduler::declared_signals(signal_host_, config.signals)) signals.push_back(std::move(signal));
  signals.insert(signals.end(), options_.more_signals.begin(), options_.more_signals.end());
  return signals;
}

// What was dropped before the container ended is still decided and answered.
void Warden::take_up_mailbox(const containers::Container& container) {
  if (const Status added = mailbox_.add(container.id, container.mailbox_dir); !added) {
    log_.warn("a mailbox cannot be opened", {{"container", container.id}, {"error", added.error().describe()}});
  }
}

// The record said that it should run: under a new id, with the same configuration. The old one goes when
// nothing of it is left to answer.
Fire Warden::restart(std::shared_ptr<containers::Container> lost) {
  containers::Config config = lost->config;
  config.replaces = lost->id;
  // Whatever its id is: no fresh rates, and no second set of tasks.
  config.origin = containers::owner_of(*lost);
  handlers::remove_when_idle(host_, lost->id);
  const auto restarted = co_await handlers::start_container(host_, config);
  // The next warden's to do.
  if (!restarted && is_stopping_) co_return;
  containers::Incident incident{
      .container = lost->id, .event = "container.restarted", .code = std::nullopt, .what = "the warden was restarted"};
  if (restarted) {
    incident.what += "; it goes on as container/" + (*restarted)->id;
  } else {
    log_.error("cannot restart a container", {{"container", lost->id}, {"error", restarted.error().describe()}});
    incident.code = restarted.error().code;
    incident.what += "; it cannot be started again: " + restarted.error().message;
  }
  record(incident);
}

void Warden::record(const containers::Incident& incident) {
  ledger::Entry entry;
  entry.principal = Principal::container(incident.container).to_string();
  entry.method = incident.event;
  if (incident.code) entry.code = to_string(*incident.code);
  entry.rule = incident.what;
  // If there is no room for it the ledger counts it, and says so when there is.
  [[maybe_unused]] const Status appended = ledger_->append(entry);
}

void Warden::open_container_connection(UniqueFd connection, const std::shared_ptr<containers::Container>& container) {
  if (is_stopping_) return;
  // Doors of containers that are gone, once no session refers to them any more.
  std::erase_if(container_doors_, [this](const auto& entry) {
    return entry.second->connections == 0 && entry.second->in_flight == 0 && !containers_.find(entry.first);
  });
  auto& door = container_doors_[container->id];
  if (!door) {
    door = std::make_unique<Door>(Door{.name = "container/" + container->id,
                                       .principal = Principal::container(container->id),
                                       .plugin_name = container->config.name,
                                       .capability_tags = container->tags(),
                                       .max_in_flight_bytes = kContainerBytes});
  }
  limit(*door, config_);
  pipeline_.accept(std::move(connection), *door, ipc::container_verifier(container->pid_namespace));
}

Status Warden::open_loopback_door() {
  TRY(os::TcpListener listener, os::listen_loopback());
  wire::Token token;
  fill_random(token);
  wire::Binding binding;
  binding.address = listener.address;
  TRY(binding.boot_id, os::boot_id());
  binding.pid = static_cast<std::uint64_t>(::getpid());
  TRY(binding.start_time, os::process_start_time(::getpid()));
  loopback_gate_ = std::make_unique<ipc::LoopbackGate>(sessions_, token, binding, [this](UniqueFd proven) {
    pipeline_.accept_proven(std::move(proven), UniqueFd(), loopback_, "proof");
  });
  TRY(loopback_listener_, ipc::Listener::open(sessions_, std::move(listener.fd), loopback_.name,
                                              [this](UniqueFd fd) { loopback_gate_->admit(std::move(fd)); }));
  // Published last: whoever reads it can connect.
  return os::write_private_file(options_.paths.loopback_file(), wire::to_json([&](wire::JsonWriter& json) {
                                  json.begin_object()
                                      .member("protocol", int{wire::kHandshakeVersion})
                                      .member("address", binding.address)
                                      .member("boot_id", binding.boot_id)
                                      .member("pid", binding.pid)
                                      .member("start_time", binding.start_time)
                                      .member("token", to_hex(token))
                                      .end_object();
                                }));
}

Status Warden::open_stdio_door() {
  UniqueFd in{::fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3)}, out{::fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3)};
  if (!in || !out) return Error::make(Code::invalid_params, "stdin and stdout must be open to serve on them");
  for (const int fd : {in.get(), out.get()}) ::fcntl(fd, F_SETFL, ::fcntl(fd, F_GETFL) | O_NONBLOCK);
  pipeline_.accept_proven(std::move(in), std::move(out), stdio_, "inherited");
  if (stdio_.connections == 0) return Error::make(Code::invalid_params, "stdin and stdout must be pipes or sockets");
  sessions_.for_each([this](ipc::Session& session) { session.on_close([this] { shut_down(); }); });
  return ok();
}

void Warden::watch_for_signals() {
  loop_.on_signals({SIGTERM, SIGINT, SIGHUP}, [this](int signal) {
    log_.info("signal", {{"number", signal}});
    if (signal != SIGHUP) return shut_down();
    // A fault is logged and kept for `status`; the old configuration stays in force.
    [[maybe_unused]] const Status reloaded = reload();
  });
}

void Warden::run() {
  log_.info("ready", {{"socket", options_.paths.control_socket()}, {"pid", ::getpid()}});
  loop_.run();
  close();
  log_.info("stopped", {{"requests", sessions_.counters().requests}});
}

// Everybody who waits is told, while all that they refer to is still there: no coroutine is left behind.
void Warden::close() {
  if (std::exchange(is_closed_, true)) return;
  is_stopping_ = true;
  scheduler_.close();
  mailbox_.close();
  gate_.stop_waiting();
  containers_.close();
  pods_.close();
  egress_.close();
  adapters_.close();
  cells_.close();
  loop_.settle();
  if (const Status closed = ledger_->close(); !closed) {
    log_.error("ledger", {{"error", closed.error().describe()}});
  }
  // Whoever waited for the ledger's last words may ask a human now, who will not be told any more.
  loop_.settle();
  gate_.close();
  // Whoever waited for the ledger's last words.
  loop_.settle();
}

std::optional<approval::Sender> Warden::find_sender(const std::string& id) const {
  approval::Sender sender;
  if (id.empty()) {
    sender.profile.name = "host";
    sender.profile.methods = config_.host.methods;
    return sender;
  }
  const auto container = containers_.find(id);
  if (!container) return std::nullopt;
  auto profile = handlers::profile_of(profiles_, container->config);
  if (!profile) return std::nullopt;
  sender.profile = std::move(*profile);
  sender.workspace = container->config.workspace;
  for (const auto& [name, deployment] : config_.deployments) sender.repositories.emplace(name, deployment.repository);
  return sender;
}

void Warden::apply(const Config& config) {
  sessions_.set_limits(config.session);
  engine_.replace(config.host, config.rules, profiles_, scheduler::commands_json(config.signals, config.deployments));
  for (const auto& [id, container] : containers_.all()) handlers::set_policy(host_, *container);
  scheduler_.set_limits(config.schedule);
  mailbox_.replace_signals(all_signals(config));
  gate_.set_expiry(config.approval_expiry);
  adapters_.set_config(config.platform);
  for (Door* door : {&control_, &loopback_, &stdio_}) limit(*door, config);
  for (const auto& [id, door] : container_doors_) limit(*door, config);
}

void Warden::limit(Door& door, const Config& config) {
  const bool is_host = door.principal.is_host();
  door.max_connections = is_host ? config.max_connections : std::min(config.max_connections, kContainerConnections);
  // Answers that nobody reads cost the same memory as requests, and requests that are not complete too.
  door.account.most_unsent = door.account.most_unread = door.max_in_flight_bytes;
  if (!is_host) door.account.most_streams = kContainerStreams;
  door.max_in_flight = is_host ? config.max_in_flight : std::min(config.max_in_flight, kContainerRequests);
}

Status Warden::read_groups() {
  TRY(groups_.refresh());
  for (const std::string& fault : groups_.faults()) log_.error("unreadable group", {{"error", fault}});
  return ok();
}

Status Warden::reload() {
  auto config = load_config(options_.paths.config_file);
  auto profiles = policy::Profiles::load(options_.paths.profiles_dir());
  // What a container may reach stands in its profile: with a fault there nobody reaches anything, until a whole reload.
  if (!profiles) {
    host_.is_net_faulty = true;
    egress_.deny_all();
    pods_.apply_net_policies();
  }
  if (config && !profiles) config = profiles.error();
  if (config) {
    if (Status known = check_names(*config, *profiles, options_.more_signals); !known)
      config = std::move(known).error();
  }
  if (config) {
    if (Status read = read_groups(); !read) config = std::move(read).error();
  }
  if (!config) {
    host_.config_error = config.error().message;
    record_policy(config.error());
    const std::string instead =
        host_.is_net_faulty
            ? "the network is denied to all containers until it is mended; the rest of the old configuration stays "
              "in force"
            : "the old configuration stays in force";
    log_.error("reload failed; " + instead,
               {{"error", config.error().message},
                {"network", host_.is_net_faulty ? "denied to all containers" : "as before"}});
    Error error = std::move(config).error();
    error.message += "; " + instead;
    return error;
  }
  host_.config_error.clear();
  config_ = std::move(*config);
  profiles_ = std::move(*profiles);
  apply(config_);
  apply_net_policies();
  record_policy(ok());
  gate_.policy_changed();
  log_.info("reloaded");
  events_.publish("warden.reloaded", "{}");
  return ok();
}

// Of containers that run: their network follows their profile, and nothing else of them does.
void Warden::apply_net_policies() {
  host_.is_net_faulty = false;
  egress_.trust_again();
  for (const auto& [id, container] : containers_.all()) egress_.update(id, handlers::net_policy_of(host_, id));
  pods_.apply_net_policies();
}

void Warden::shut_down() {
  if (std::exchange(is_stopping_, true)) return;
  log_.info("stopping", {{"in_flight", sessions_.in_flight()}});
  events_.publish("warden.stopping", "{}");
  control_listener_.reset();
  loopback_listener_.reset();
  leave_place();
  sessions_.for_each([](ipc::Session& session) { session.drain(); });
  sessions_.when_empty([this] { loop_.stop(); });
  loop_.after(config_.drain_timeout, [this] {
    log_.warn("requests in flight were cut off", {{"count", sessions_.in_flight()}});
    // Those who wait for a container are told.
    containers_.close();
    loop_.after(kLastWords, [this] {
      const Error stopped = Error::make(Code::unavailable, "the warden stopped before this was done");
      sessions_.for_each([&](ipc::Session& session) { session.cut_off(stopped); });
    });
  });
}

}  // namespace sallyport::warden
