#include "egress/connection.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>

#include "egress/client_hello.h"
#include "egress/dial.h"
#include "egress/idn.h"
#include "egress/limits.h"
#include "egress/socks.h"

namespace sallyport::egress {
namespace {

constexpr std::uint16_t kTlsPort = 443;
constexpr std::size_t kReadBytes = 4096;
constexpr std::size_t kMaxLingerBytes = 64U << 10;
constexpr Millis kLinger{1000};
constexpr std::size_t kMaxShownHost = 256;
// A fatal TLS alert, unrecognized_name: what a TLS server would say.
constexpr std::string_view kAlert("\x15\x03\x01\x00\x02\x02\x70", 7);

Outcome outcome_of(const Error& error) {
  return error.code == Code::timeout ? Outcome::timed_out : Outcome::unreachable;
}

std::string shown(Millis time) {
  const auto count = time.count();
  return count % 1000 == 0 ? std::to_string(count / 1000) + " s" : std::to_string(count) + " ms";
}

std::string shown_host(const policy::Host& canonical, const Intent& intent) {
  if (canonical != policy::Host()) return canonical.to_string();
  return escape_for_display(std::string_view(intent.host).substr(0, kMaxShownHost));
}

}  // namespace

void Connection::start(Proxy& proxy, std::shared_ptr<Served> served, std::unique_ptr<ipc::Watch> client) {
  run(std::shared_ptr<Connection>(new Connection(proxy, std::move(served), std::move(client))));
}

Connection::Connection(Proxy& proxy, std::shared_ptr<Served> served, std::unique_ptr<ipc::Watch> client)
    : proxy_(proxy),
      served_(std::move(served)),
      client_(std::move(client)),
      started_(std::chrono::steady_clock::now()) {
  last_activity_ = started_;
  served_->connections.insert(this);
}

Connection::~Connection() {
  close_route();
  served_->connections.erase(this);
}

void Connection::cancel() {
  is_cancelled_ = true;
  client_->cancel();
  if (upstream_) upstream_->cancel();
}

void Connection::check_time(SteadyTime now) {
  const policy::NetLimits& limits = served_->account.policy.limits;
  const bool is_overdue = deadline_ && now >= *deadline_;
  const bool is_idle = limits.idle.count() != 0 && now - last_activity_ >= limits.idle;
  const bool is_too_long = limits.duration.count() != 0 && now - started_ >= limits.duration;
  if (!is_overdue && !is_idle && !is_too_long) return;
  if (is_too_long) {
    cut(Code::quota_exceeded, "duration", "it lasted longer than " + shown(limits.duration));
  } else if (is_idle) {
    cut(Code::timeout, "idle", "no byte passed for " + shown(limits.idle));
  }
  is_late_ = true;
  client_->cancel();
  if (upstream_) upstream_->cancel();
}

void Connection::check_again() {
  if (!route_ || !upstream_) return;  // what is still being decided is decided by the new policy
  const auto decision =
      policy::decide_address(served_->account.policy, route_->host, route_->intent.port, route_->address);
  if (decision.is_allowed) return;
  if (!route_->cut)
    route_->cut = Route::Cut{Code::policy_denied, decision.rule, "the policy changed: " + decision.reason};
  cancel();
}

void Connection::cut(Code code, const char* limit, std::string reason) {
  if (route_ && !route_->cut) route_->cut = Route::Cut{code, std::string("net.limits.") + limit, std::move(reason)};
}

void Connection::start_clock(Millis most) {
  const Millis idle = served_->account.policy.limits.idle;
  deadline_ = std::chrono::steady_clock::now() + (idle.count() != 0 ? std::min(most, idle) : most);
}

Fire Connection::run(std::shared_ptr<Connection> self) {
  [[maybe_unused]] const bool goes_on = co_await self->serve();
  self->close_route();
}

Task<bool> Connection::serve() {
  start_clock(kHeadTimeout);
  if (!co_await read_more()) co_return false;
  if (static_cast<std::uint8_t>(in_[0]) == kSocksVersion) {
    const bool goes_on = co_await serve_socks();
    co_return goes_on;
  }
  const bool goes_on = co_await serve_http();
  co_return goes_on;
}

Task<bool> Connection::read_more() {
  while (has_time()) {
    if (!co_await client_->readable()) co_return false;
    const std::size_t before = in_.size();
    in_.resize(before + kReadBytes);
    const ssize_t count = ::recv(client_->fd(), in_.data() + before, kReadBytes, MSG_DONTWAIT);
    const int error = errno;
    in_.resize(before + (count > 0 ? static_cast<std::size_t>(count) : 0));
    if (count > 0) {
      last_activity_ = std::chrono::steady_clock::now();
      co_return true;
    }
    if (count == 0 || (error != EAGAIN && error != EINTR)) co_return false;
  }
  co_return false;
}

Task<Verdict> Connection::open_route(Intent intent) {
  deadline_.reset();
  number_ = proxy_.next_number();
  Account& account = served_->account;
  Verdict verdict = co_await authorize(proxy_.loop(), proxy_.resolver(), account, intent);
  if (verdict.is_allowed()) {
    const Millis idle = account.policy.limits.idle;
    auto dialled = co_await dial(proxy_.loop(), verdict.addresses, intent.port,
                                 idle.count() != 0 ? std::min(kDialTimeout, idle) : kDialTimeout);
    last_activity_ = std::chrono::steady_clock::now();
    if (!dialled || is_cancelled_) {
      verdict.outcome = dialled ? Outcome::refused : outcome_of(dialled.error());
      verdict.reason = dialled ? "the policy changed" : "the host does not answer: " + dialled.error().message;
      account.give_back();
    } else {
      route_ = Route{intent, verdict.host, dialled->address, verdict.rule};
      upstream_ = std::move(dialled->socket);
    }
  }
  Report report;
  report.kind = verdict.is_allowed() ? Report::Kind::opened : Report::Kind::refused;
  report.number = number_;
  report.protocol = intent.protocol;
  report.host = shown_host(verdict.host, intent);
  report.port = intent.port;
  if (!verdict.is_allowed()) report.code = to_code(verdict.outcome);
  report.rule = verdict.rule;
  report.reason = verdict.reason;
  report.remedy = verdict.remedy;
  proxy_.report(*served_, std::move(report));
  check_again();  // the policy may have changed while it was dialled
  if (verdict.is_allowed() && !has_time()) {
    verdict.outcome = Outcome::refused;
    verdict.reason = "the policy changed, or the time is over";
  }
  co_return verdict;
}

void Connection::report_unread(Code code, std::string rule, std::string reason, const Intent& intent) {
  Report report;
  report.number = proxy_.next_number();
  report.protocol = intent.protocol;
  report.host = intent.host.empty() ? "(unreadable)" : shown_host({}, intent);
  report.port = intent.port;
  report.code = code;
  report.rule = std::move(rule);
  report.reason = std::move(reason);
  proxy_.report(*served_, std::move(report));
}

Report Connection::report_of_route(Report::Kind kind) const {
  Report report;
  report.kind = kind;
  report.number = number_;
  report.protocol = route_->intent.protocol;
  report.host = route_->host.to_string();
  report.port = route_->intent.port;
  return report;
}

void Connection::close_route() {
  upstream_.reset();
  if (!route_) return;
  --served_->account.tunnels;
  Report report = report_of_route(Report::Kind::closed);
  report.rule = route_->rule;
  if (const auto& cut = route_->cut) {
    report.code = cut->code;
    report.rule = cut->rule;
    report.reason = cut->reason;
  }
  report.sent = route_->sent;
  report.received = route_->received;
  route_.reset();
  proxy_.report(*served_, std::move(report));
}

std::uint64_t Connection::bytes_left() const {
  const std::uint64_t most = served_->account.policy.limits.bytes, used = served_->account.used.bytes;
  if (most == 0) return UINT64_MAX;
  return most - std::min(used, most);
}

void Connection::cut_for_bytes() {
  cut(Code::quota_exceeded, "bytes",
      "the container has used its " + std::to_string(served_->account.policy.limits.bytes) + " bytes");
}

void Connection::count_bytes(std::uint64_t& counter, std::size_t bytes) {
  counter += bytes;
  served_->account.used.bytes += bytes;
  last_activity_ = std::chrono::steady_clock::now();
}

bool Connection::pass(std::uint64_t& counter, std::size_t bytes) {
  const bool is_within_limits = bytes <= bytes_left();
  count_bytes(counter, bytes);
  if (!is_within_limits) cut_for_bytes();
  return is_within_limits;
}

Meter Connection::meter(std::uint64_t& counter) {
  return {.allow =
              [this](std::size_t wanted) {
                const std::uint64_t left = bytes_left();
                if (left == 0) cut_for_bytes();
                return static_cast<std::size_t>(std::min<std::uint64_t>(wanted, left));
              },
          .count = [this, &counter](std::size_t bytes) { count_bytes(counter, bytes); }};
}

Task<bool> Connection::tunnel() {
  last_activity_ = std::chrono::steady_clock::now();
  side_ = std::make_shared<Side>();
  const std::shared_ptr<Side> side = side_;
  pump_back(shared_from_this());
  bool is_whole = co_await inspect_greeting();
  const Meter metered = meter(route_->sent);
  if (is_whole) is_whole = co_await relay(*client_, *upstream_, proxy_.block(), metered);
  if (is_whole) {
    ::shutdown(upstream_->fd(), SHUT_WR);
  } else {
    upstream_->cancel();
    client_->cancel();
  }
  co_await side->ended;
  co_return false;
}

Fire Connection::pump_back(std::shared_ptr<Connection> self) {
  const std::shared_ptr<Side> side = self->side_;
  const Meter metered = self->meter(self->route_->received);
  const bool is_whole = co_await relay(*self->upstream_, *self->client_, self->proxy_.block(), metered);
  if (is_whole) {
    ::shutdown(self->client_->fd(), SHUT_WR);
  } else {
    self->upstream_->cancel();
    self->client_->cancel();
  }
  side->ended.resolve(is_whole);
}

// A rule that names a host is about that host: TLS for another one behind the same address is refused. On 443 nothing
// but TLS passes; elsewhere what is not TLS has no name to compare.
Task<bool> Connection::inspect_greeting() {
  if (route_->host.address) {
    if (in_.empty()) co_return true;
  } else {
    const bool must_be_tls = route_->intent.port == kTlsPort;
    if (must_be_tls) start_clock(kHeadTimeout);
    for (;;) {
      const ClientHello hello = read_client_hello(as_bytes(in_));
      using Kind = ClientHello::Kind;
      if (hello.kind == Kind::incomplete) {
        if (!in_.empty() && !deadline_) start_clock(kHeadTimeout);
        if (co_await read_more()) continue;
        if (in_.empty() && !must_be_tls) co_return has_time();  // it ended without a word
        co_return refuse_greeting("no complete TLS greeting came");
      }
      if (hello.kind == Kind::not_tls && !must_be_tls) break;
      if (hello.kind == Kind::not_tls) co_return refuse_greeting("what came is not TLS");
      if (hello.kind == Kind::unnamed) co_return refuse_greeting("the TLS greeting names no server");
      if (hello.kind == Kind::unreadable) {
        co_return refuse_greeting("the TLS greeting is split or malformed, and its server name unreadable");
      }
      const auto named = canonical_host(hello.name);
      if (named && *named == route_->host) break;
      co_return refuse_greeting("the TLS greeting names another server: " +
                                escape_for_display(std::string_view(hello.name).substr(0, kMaxShownHost)));
    }
    deadline_.reset();
  }
  const std::string first = std::exchange(in_, {});
  const bool is_within_limits = pass(route_->sent, first.size());
  if (!is_within_limits) co_return false;
  const bool goes_on = co_await send_all(*upstream_, first);
  co_return goes_on;
}

bool Connection::refuse_greeting(std::string reason) {
  Report report = report_of_route(Report::Kind::refused);
  report.code = Code::policy_denied;
  report.rule = "tls name";
  report.reason = std::move(reason);
  proxy_.report(*served_, std::move(report));
  [[maybe_unused]] const ssize_t sent =
      ::send(client_->fd(), kAlert.data(), kAlert.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  return false;
}

Task<bool> Connection::linger() {
  ::shutdown(client_->fd(), SHUT_WR);
  start_clock(kLinger);
  for (std::size_t left = kMaxLingerBytes; left > 0;) {
    in_.clear();
    if (!co_await read_more()) break;
    left -= std::min(left, in_.size());
  }
  co_return false;
}

}  // namespace sallyport::egress
