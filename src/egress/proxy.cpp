#include "egress/proxy.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <algorithm>

#include "egress/connection.h"
#include "egress/limits.h"

namespace sallyport::egress {

Proxy::Proxy(ipc::Sessions& sessions, Resolver& resolver, OnReport on_report)
    : sessions_(sessions), resolver_(resolver), on_report_(std::move(on_report)) {
  block_.resize(kBlockBytes);
  sweep_timer_ = loop().after(kSweepEvery, [this] { sweep(); });
}

Proxy::~Proxy() { loop().cancel(sweep_timer_); }

Status Proxy::serve(Serve order, UniqueFd listener) {
  int is_listening = 0;
  socklen_t length = sizeof is_listening;
  if (!listener || ::getsockopt(listener.get(), SOL_SOCKET, SO_ACCEPTCONN, &is_listening, &length) != 0 ||
      is_listening == 0) {
    return Error::make(Code::protocol_error, "no listener came along");
  }
  ::fcntl(listener.get(), F_SETFL, ::fcntl(listener.get(), F_GETFL) | O_NONBLOCK);
  stop(order.container);
  auto served = std::make_shared<Served>();
  served->account.container = order.container;
  served->account.policy = std::move(order.policy);
  served->account.used = order.used;
  served->refusal_credit = static_cast<double>(kRefusalBurst);
  served->refusal_time = std::chrono::steady_clock::now();
  const std::weak_ptr<Served> weak = served;
  TRY(served->listener,
      ipc::Listener::open(sessions_, std::move(listener), "egress/" + order.container, [this, weak](UniqueFd fd) {
        if (const auto owner = weak.lock()) accept(owner, std::move(fd));
      }));
  containers_[order.container] = std::move(served);
  share_out();
  return ok();
}

void Proxy::update(Update order) {
  const auto found = containers_.find(order.container);
  if (found == containers_.end()) return;
  Served& served = *found->second;
  served.account.policy = std::move(order.policy);
  for (Connection* connection : std::set(served.connections)) connection->check_again();
}

void Proxy::stop(const std::string& container) {
  const auto node = containers_.extract(container);
  if (node.empty()) return;
  Served& served = *node.mapped();
  served.listener.reset();
  served.is_stopped = true;
  while (!served.refusals.is_empty()) on_report_(served.refusals.take());
  for (Connection* connection : std::set(served.connections)) connection->cancel();
  share_out();
}

void Proxy::finish() {
  while (!containers_.empty()) stop(std::string(containers_.begin()->first));
}

// Descriptors are what containers could take from each other: each has a share of what the process may open, and the
// last quarter is for those that have little.
void Proxy::share_out() {
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  const std::size_t usable = limit.rlim_cur - std::min<std::size_t>(limit.rlim_cur, kOwnDescriptors);
  const std::size_t shared = usable / kDescriptorsEach / 4 * 3;
  const std::size_t share = std::max(kLeastShare, shared / (containers_.size() + 1));
  for (const auto& [id, served] : containers_) {
    served->account.share = static_cast<std::uint32_t>(std::min<std::size_t>(share, UINT32_MAX));
  }
}

void Proxy::accept(const std::shared_ptr<Served>& served, UniqueFd fd) {
  const Account& account = served->account;
  const std::size_t most = std::size_t{std::min(account.policy.limits.tunnels, account.share)} + kMaxAsking;
  // Beyond what it may have open, and beyond those that are told so in their own protocol.
  if (served->connections.size() >= most) return;
  const int one = 1;
  ::setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  auto watch = ipc::Watch::open(loop(), std::move(fd));
  if (!watch) return;
  Connection::start(*this, served, std::move(*watch));
}

void Proxy::report(Served& served, Report report) {
  report.container = served.account.container;
  const bool is_told =
      report.kind != Report::Kind::refused || served.is_stopped || (served.refusals.is_empty() && takes_credit(served));
  if (is_told) return on_report_(report);
  served.refusals.add(std::move(report));
}

bool Proxy::takes_credit(Served& served) {
  const SteadyTime now = std::chrono::steady_clock::now();
  const std::chrono::duration<double, std::milli> passed = now - std::exchange(served.refusal_time, now);
  served.refusal_credit = std::min(static_cast<double>(kRefusalBurst),
                                   served.refusal_credit + passed.count() / static_cast<double>(kRefusalEvery.count()));
  if (served.refusal_credit < 1) return false;
  served.refusal_credit -= 1;
  return true;
}

void Proxy::sweep() {
  const SteadyTime now = std::chrono::steady_clock::now();
  for (const auto& [id, served] : containers_) {
    for (Connection* connection : std::set(served->connections)) connection->check_time(now);
    while (!served->refusals.is_empty() && takes_credit(*served)) on_report_(served->refusals.take());
  }
  sweep_timer_ = loop().after(kSweepEvery, [this] { sweep(); });
}

}  // namespace sallyport::egress
