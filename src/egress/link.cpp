#include "egress/link.h"

#include <sys/socket.h>

#include "os/packets.h"

namespace sallyport::egress {
namespace {

constexpr Millis kPauseBeforeRestart{100};

}  // namespace

Result<os::Spawned> spawn_proxy(const std::string& hosts_file) {
  std::vector<std::string> arguments;
  if (!hosts_file.empty()) arguments = {"--hosts", hosts_file};
  return os::spawn_helper("sallyport-egress", {.arguments = std::move(arguments)});
}

struct Link::State {
  struct Kept {
    UniqueFd listener;
    policy::NetPolicy policy;
    Tally tally;
  };

  ipc::Loop& loop;
  const Log& log;
  std::string hosts_file;
  OnReport on_report;
  wire::Decoder decoder;
  std::map<std::string, Kept> containers;
  std::unique_ptr<ipc::Watch> watch;
  os::Child proxy = {};
  bool is_closed = false;
  bool is_restarting = false;
  bool is_denying = false;

  Status send(const ToProxy& order, const std::vector<int>& fds = {}) const {
    if (!watch) return Error::make(Code::unavailable, "the egress proxy is being restarted; try again");
    TRY(const Bytes packet, encode(order));
    return os::send_packet(watch->fd(), packet, fds, MSG_DONTWAIT);
  }
  Status hand_over(const std::string& container, const Kept& kept) const {
    return send(Serve{container, kept.policy, kept.tally.used()}, {kept.listener.get()});
  }
  // A proxy that cannot be told what changed must not go on with what it knows.
  void must_send(const ToProxy& order) {
    if (is_closed || !watch) return;  // there is none; the next one is told all of it
    if (const Status sent = send(order); !sent) {
      log.error("the egress proxy does not take orders and is replaced", {{"error", sent.error().describe()}});
      proxy.kill();
    }
  }
};

Link::Link(ipc::Loop& loop, const Log& log, std::string hosts_file, OnReport on_report)
    : state_(new State{loop, log, std::move(hosts_file), std::move(on_report), wire::Decoder(), {}, nullptr}) {}

Link::~Link() { close(); }

void Link::close() {
  if (std::exchange(state_->is_closed, true)) return;
  if (state_->watch) state_->watch->cancel();
  state_->proxy.end();
}

pid_t Link::pid() const { return state_->proxy.pid(); }

const std::string& Link::hosts_file() const { return state_->hosts_file; }

Status Link::start(const std::shared_ptr<State>& state) {
  TRY(os::Spawned spawned, spawn_proxy(state->hosts_file));
  state->proxy = std::move(spawned.child);
  TRY(state->watch, ipc::Watch::open(state->loop, std::move(spawned.socket)));
  return ok();
}

Status Link::serve(const std::string& container, UniqueFd listener, policy::NetPolicy policy) {
  if (state_->is_closed || !listener) return Error::make(Code::unavailable, "there is no egress proxy");
  if (!state_->watch && !state_->is_restarting) {
    TRY(start(state_));
    listen(state_);
  }
  State::Kept& kept = state_->containers[container];
  kept = {std::move(listener), std::move(policy), {}};
  kept.policy.is_faulty |= state_->is_denying;
  if (!state_->watch) return ok();  // the one that is being started gets it
  return state_->hand_over(container, kept);
}

void Link::update(const std::string& container, policy::NetPolicy policy) {
  const auto found = state_->containers.find(container);
  if (found == state_->containers.end()) return;
  found->second.policy = std::move(policy);
  state_->must_send(Update{container, found->second.policy});
}

void Link::trust_again() { state_->is_denying = false; }

void Link::deny_all() {
  state_->is_denying = true;
  for (auto& [container, kept] : state_->containers) {
    kept.policy.is_faulty = true;
    state_->must_send(Update{container, kept.policy});
  }
}

void Link::stop(const std::string& container) {
  if (state_->containers.erase(container) != 0) state_->must_send(Stop{container});
}

const Tally* Link::tally(const std::string& container) const {
  const auto found = state_->containers.find(container);
  return found == state_->containers.end() ? nullptr : &found->second.tally;
}

Fire Link::listen(std::shared_ptr<State> state) {
  while (!state->is_closed) {
    const bool is_ready = co_await state->watch->readable();
    if (state->is_closed) co_return;
    auto packet = is_ready ? os::receive_packet(state->watch->fd(), MSG_DONTWAIT) : Result<os::Packet>(os::Packet());
    if (!packet && packet.error().code == Code::unavailable) continue;
    if (packet && !packet->bytes.empty()) {
      const auto report = decode_report(state->decoder, packet->bytes.view());
      const auto found = report ? state->containers.find(report->container) : state->containers.end();
      if (found != state->containers.end()) {
        found->second.tally.add(*report);
        state->on_report(*report);
      }
      if (report) continue;
    }
    // Dead, or talking nonsense, which is as good as dead.
    state->watch.reset();
    state->log.error("the egress proxy died; its connections have ended", {{"pid", state->proxy.pid()}});
    state->proxy.end();
    state->is_restarting = true;
    // One that dies as soon as it lives must not keep the warden busy.
    co_await state->loop.sleep(kPauseBeforeRestart);
    Status restarted = state->is_closed ? ok() : start(state);
    while (!restarted && !state->is_closed) {
      state->log.error("cannot restart the egress proxy", {{"error", restarted.error().describe()}});
      co_await state->loop.sleep(kPauseBeforeRestart);
      restarted = start(state);
    }
    state->is_restarting = false;
    if (state->is_closed) co_return;
    for (const auto& [container, kept] : state->containers) {
      if (const Status handed = state->hand_over(container, kept); !handed) {
        state->log.error("cannot hand a container to the new egress proxy",
                         {{"container", container}, {"error", handed.error().describe()}});
      }
    }
    state->log.info("a new egress proxy serves", {{"pid", state->proxy.pid()}});
  }
}

}  // namespace sallyport::egress
