#include "egress/link.h"

#include <sys/socket.h>

#include <algorithm>
#include <deque>

#include "egress/limits.h"
#include "os/packets.h"

namespace sallyport::egress {
namespace {

constexpr Millis kPauseBeforeRestart{100};
constexpr Millis kLongestPause{5'000};
constexpr std::size_t kMostEnded = 256;  // of which it is still known what they came to

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
    OnPolicy on_policy = {};  // of one that is followed
  };

  // The policy that goes along is the one of that moment, so one for each container says all.
  struct Order {
    std::string container;
    What what;
  };

  ipc::Loop& loop;
  const Log& log;
  std::string hosts_file;
  OnReport on_report;
  wire::Decoder decoder;
  std::map<std::string, Kept> containers;
  std::map<std::string, Tally> ended;
  std::deque<std::string> ended_in_order;
  std::unique_ptr<ipc::Watch> watch;
  std::deque<Order> orders = {};
  bool is_sending = false;
  os::Child proxy = {};
  bool is_closed = false;
  bool is_restarting = false;
  bool is_denying = false;

  void add_order(const std::string& container, What what) {
    const auto found =
        std::find_if(orders.begin(), orders.end(), [&](const Order& each) { return each.container == container; });
    if (found == orders.end()) {
      orders.push_back({container, what});
    } else if (what != What::update) {  // what a container is served with, or its last update, is the newest anyway
      found->what = what;
    }
  }
  Status send(const Order& order) const {
    const std::string& container = order.container;
    if (order.what == What::stop) return send(Stop{container});
    const Kept& kept = containers.at(container);
    if (order.what == What::update) return send(Update{container, kept.policy});
    return send(Serve{container, kept.policy, kept.tally.used()}, {kept.listener.get()});
  }
  Status send(const ToProxy& order, const std::vector<int>& fds = {}) const {
    TRY(const Bytes packet, encode(order));
    return os::send_packet(watch->fd(), packet, fds, MSG_DONTWAIT);
  }
  // A proxy that cannot be told what changed must not go on with what it knows.
  void replace_proxy(const Error& error) const {
    log.error("the egress proxy does not take orders and is replaced", {{"error", error.describe()}});
    proxy.kill();
  }
  void take(const Report& report) {
    const auto found = containers.find(report.container);
    const auto over = ended.find(report.container);
    if (found != containers.end()) {
      found->second.tally.add(report);
    } else if (over != ended.end()) {
      over->second.add(report);  // its last connections
    }
    on_report(report);
  }
};

Link::Link(ipc::Loop& loop, const Log& log, std::string hosts_file, OnReport on_report)
    : state_(new State{loop, log, std::move(hosts_file), std::move(on_report), wire::Decoder(), {}, {}, {}, nullptr}) {}

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
  order(state_, container, What::serve);
  return ok();
}

void Link::follow(const std::string& container, policy::NetPolicy policy, OnPolicy on_policy) {
  State::Kept& kept = state_->containers[container];
  kept = {UniqueFd(), std::move(policy), {}, std::move(on_policy)};
  if (!state_->is_denying) return;
  kept.policy.is_faulty = true;
  tell(state_, container);
}

void Link::take(Report report) { state_->take(report); }

void Link::update(const std::string& container, policy::NetPolicy policy) {
  const auto found = state_->containers.find(container);
  if (found == state_->containers.end()) return;
  found->second.policy = std::move(policy);
  tell(state_, container);
}

void Link::trust_again() { state_->is_denying = false; }

void Link::deny_all() {
  state_->is_denying = true;
  for (auto& [container, kept] : state_->containers) {
    kept.policy.is_faulty = true;
    tell(state_, container);
  }
}

void Link::stop(const std::string& container) {
  const auto node = state_->containers.extract(container);
  if (node.empty()) return;
  if (!node.mapped().on_policy) order(state_, container, What::stop);
  state_->ended[container] = std::move(node.mapped().tally);
  state_->ended_in_order.push_back(container);
  if (state_->ended_in_order.size() <= kMostEnded) return;
  state_->ended.erase(state_->ended_in_order.front());
  state_->ended_in_order.pop_front();
}

const Tally* Link::tally(const std::string& container) const {
  const auto found = state_->containers.find(container);
  if (found != state_->containers.end()) return &found->second.tally;
  const auto over = state_->ended.find(container);
  return over == state_->ended.end() ? nullptr : &over->second;
}

void Link::tell(const std::shared_ptr<State>& state, const std::string& container) {
  const State::Kept& kept = state->containers.at(container);
  if (kept.on_policy) return kept.on_policy(kept.policy);
  order(state, container, What::update);
}

void Link::order(const std::shared_ptr<State>& state, const std::string& container, What what) {
  if (state->is_closed || !state->watch) return;  // there is none; the next one is told all of it
  state->add_order(container, what);
  if (!state->is_sending) send_orders(state);
}

// Tried again and again instead of waiting until the socket is writable: the kernel says so only when three quarters of
// it are read, and until then a proxy that is slow would look like one that stands still.
Fire Link::send_orders(std::shared_ptr<State> state) {
  state->is_sending = true;
  SteadyTime last_taken = std::chrono::steady_clock::now();
  while (!state->is_closed && state->watch && !state->orders.empty()) {
    const ::sallyport::Status sent = state->send(state->orders.front());
    const SteadyTime now = std::chrono::steady_clock::now();
    if (sent) {
      state->orders.pop_front();
      last_taken = now;
      continue;
    }
    if (sent.error().code != Code::unavailable || now - last_taken >= kOrderPatience) {
      state->replace_proxy(sent.error());
      co_return;  // nothing more is sent to this one
    }
    co_await state->loop.sleep(kOrderRetry);
  }
  state->is_sending = false;
}

Fire Link::listen(std::shared_ptr<State> state) {
  while (!state->is_closed) {
    const bool is_ready = co_await state->watch->readable();
    if (state->is_closed) co_return;
    auto packet = is_ready ? os::receive_packet(state->watch->fd(), MSG_DONTWAIT) : Result<os::Packet>(os::Packet());
    if (!packet && packet.error().code == Code::unavailable) continue;
    if (packet && !packet->bytes.empty()) {
      const auto report = decode_report(state->decoder, packet->bytes.view());
      if (report) {
        state->take(*report);
        continue;
      }
    }
    // Dead, or talking nonsense, which is as good as dead.
    state->watch.reset();
    state->orders.clear();
    state->is_sending = false;
    state->log.error("the egress proxy died; its connections have ended", {{"pid", state->proxy.pid()}});
    state->proxy.end();
    state->is_restarting = true;
    // One that dies as soon as it lives must not keep the warden busy.
    co_await state->loop.sleep(kPauseBeforeRestart);
    Status restarted = state->is_closed ? ok() : start(state);
    for (Millis pause = kPauseBeforeRestart; !restarted && !state->is_closed;
         pause = std::min(2 * pause, kLongestPause)) {
      state->log.error("cannot restart the egress proxy", {{"error", restarted.error().describe()}});
      co_await state->loop.sleep(pause);
      if (!state->is_closed) restarted = start(state);
    }
    state->is_restarting = false;
    if (state->is_closed) co_return;
    for (const auto& [container, kept] : state->containers) {
      if (!kept.on_policy) order(state, container, What::serve);
    }
    state->log.info("a new egress proxy serves", {{"pid", state->proxy.pid()}});
  }
}

}  // namespace sallyport::egress
