#include "egress/proxy.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>

#include "egress/connection.h"
#include "egress/limits.h"

namespace sallyport::egress {

Proxy::Proxy(ipc::Sessions& sessions, Resolver& resolver, OnReport on_report)
    : sessions_(sessions), resolver_(resolver), on_report_(std::move(on_report)) {
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
  served->id = order.container;
  served->account.policy = std::move(order.policy);
  served->account.used = order.used;
  served->refusal_credit = static_cast<double>(kRefusalBurst);
  served->refusal_time = std::chrono::steady_clock::now();
  const std::weak_ptr<Served> weak = served;
  TRY(served->listener,
      ipc::Listener::open(sessions_, std::move(listener), "egress/" + served->id, [this, weak](UniqueFd fd) {
        if (const auto owner = weak.lock()) accept(owner, std::move(fd));
      }));
  containers_[served->id] = std::move(served);
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
  node.mapped()->listener.reset();
  for (Connection* connection : std::set(node.mapped()->connections)) connection->cancel();
}

void Proxy::accept(const std::shared_ptr<Served>& served, UniqueFd fd) {
  const std::size_t most = std::size_t{served->account.policy.limits.tunnels} + kMaxAsking;
  // Beyond what it may have open, and beyond those that are told so in their own protocol.
  if (served->connections.size() >= most) return;
  const int one = 1;
  ::setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  auto watch = ipc::Watch::open(loop(), std::move(fd));
  if (!watch) return;
  Connection::start(*this, served, std::move(*watch));
}

void Proxy::report(Served& served, Report report) {
  report.container = served.id;
  if (report.kind == Report::Kind::refused) {
    const SteadyTime now = std::chrono::steady_clock::now();
    const std::chrono::duration<double, std::milli> passed = now - std::exchange(served.refusal_time, now);
    served.refusal_credit =
        std::min(static_cast<double>(kRefusalBurst),
                 served.refusal_credit + passed.count() / static_cast<double>(kRefusalEvery.count()));
    if (served.refusal_credit < 1) {
      ++served.suppressed;
      return;
    }
    served.refusal_credit -= 1;
    report.suppressed = std::exchange(served.suppressed, 0);
  }
  on_report_(report);
}

void Proxy::sweep() {
  const SteadyTime now = std::chrono::steady_clock::now();
  for (const auto& [id, served] : containers_) {
    for (Connection* connection : std::set(served->connections)) connection->check_time(now);
  }
  sweep_timer_ = loop().after(kSweepEvery, [this] { sweep(); });
}

}  // namespace sallyport::egress
