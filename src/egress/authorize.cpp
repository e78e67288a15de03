#include "egress/authorize.h"

#include <memory>

#include "egress/dial.h"
#include "egress/idn.h"
#include "egress/limits.h"
#include "ipc/oneshot.h"

namespace sallyport::egress {
namespace {

Verdict refuse(Verdict verdict, Outcome outcome, std::string rule, std::string reason) {
  verdict.outcome = outcome;
  verdict.rule = std::move(rule);
  verdict.reason = std::move(reason);
  return verdict;
}

Verdict refuse(Verdict verdict, policy::NetDecision decision) {
  verdict.remedy = std::move(decision.remedy);
  return refuse(std::move(verdict), Outcome::refused, std::move(decision.rule), std::move(decision.reason));
}

std::optional<Verdict> over_limits(const Account& account, const Verdict& verdict) {
  const policy::NetLimits& limits = account.policy.limits;
  const auto over = [&](Outcome outcome, const char* name, const std::string& reason) {
    return refuse(verdict, outcome, std::string("net.limits.") + name, reason);
  };
  if (limits.bytes != 0 && account.used.bytes >= limits.bytes) {
    return over(Outcome::over_quota, "bytes", "the container has used its " + std::to_string(limits.bytes) + " bytes");
  }
  if (limits.requests != 0 && account.used.requests >= limits.requests) {
    return over(Outcome::over_quota, "requests",
                "the container has used its " + std::to_string(limits.requests) + " requests");
  }
  const bool is_at_limit = limits.tunnels != 0 && account.tunnels >= limits.tunnels;
  if (is_at_limit || account.tunnels >= account.share) {
    return over(Outcome::busy, "tunnels",
                "the container has " + std::to_string(account.tunnels) + " connections open, its " +
                    (is_at_limit ? "limit" : "share of what the proxy may have open (ulimit -n)"));
  }
  return std::nullopt;
}

Task<Resolver::Found> look_up(ipc::Loop& loop, Resolver& resolver, const std::string& owner, std::string name) {
  const auto found = std::make_shared<ipc::OneShot<Resolver::Found>>();
  const auto ticket =
      resolver.lookup(owner, name, [found](Resolver::Found answer) { found->resolve(std::move(answer)); });
  if (!ticket) co_return ticket.error();
  const auto deadline =
      loop.after(kResolveTimeout, [found] { found->resolve(Error::make(Code::timeout, "the resolver is silent")); });
  Resolver::Found answer = co_await *found;
  loop.cancel(deadline);
  resolver.forget(*ticket);
  co_return answer;
}

Verdict refuse_name(Verdict verdict, const Error& error) {
  const bool is_absent = error.code == Code::not_found;
  const Outcome outcome = error.code == Code::timeout        ? Outcome::timed_out
                          : error.code == Code::rate_limited ? Outcome::busy
                                                             : Outcome::no_such_name;
  return refuse(verdict, outcome, verdict.rule,
                is_absent ? "there is no such host" : "its name could not be looked up: " + error.message);
}

// Of the addresses that a name led to, those that may be dialled; none: why not.
Verdict check_addresses(Verdict verdict, const Account& account, std::uint16_t port,
                        const std::vector<policy::Address>& found) {
  policy::NetDecision decision;
  // All of them are checked, and one that is forbidden forbids only itself.
  for (const policy::Address& address : found) {
    policy::NetDecision about = policy::decide_address(account.policy, verdict.host, port, address);
    const policy::Host literal{{}, address};
    if (about.is_allowed && !verdict.host.address && is_own_address(address) &&
        !policy::decide(account.policy, literal, port).is_allowed) {
      about = {false, "address filter",
               "it leads to " + literal.to_string() + ", an address of this machine: it must be named literally",
               literal.to_string() + ":" + std::to_string(port)};
    }
    if (about.is_allowed) {
      verdict.addresses.push_back(address);
    } else {
      decision = std::move(about);
    }
  }
  if (verdict.addresses.empty()) return refuse(std::move(verdict), std::move(decision));
  verdict.outcome = Outcome::allowed;
  return verdict;
}

}  // namespace

Code to_code(Outcome outcome) {
  switch (outcome) {
    case Outcome::allowed:
    case Outcome::refused:
      return Code::policy_denied;
    case Outcome::over_quota:
      return Code::quota_exceeded;
    case Outcome::busy:
      return Code::rate_limited;
    case Outcome::no_such_name:
      return Code::not_found;
    case Outcome::unreachable:
      return Code::unavailable;
    case Outcome::timed_out:
      return Code::timeout;
  }
  return Code::internal_error;
}

void Account::take() {
  ++used.requests;
  ++tunnels;
}

void Account::give_back() {
  --used.requests;
  --tunnels;
}

Task<Verdict> authorize(ipc::Loop& loop, Resolver& resolver, Account& account, Intent intent) {
  Verdict verdict;
  auto host = canonical_host(intent.host);
  if (!host) co_return refuse(verdict, Outcome::refused, "host name", "its name " + host.error().message);
  verdict.host = std::move(*host);
  policy::NetDecision decision = policy::decide(account.policy, verdict.host, intent.port);
  if (!decision.is_allowed) co_return refuse(std::move(verdict), std::move(decision));
  verdict.rule = decision.rule;
  if (auto over = over_limits(account, verdict)) co_return std::move(*over);

  account.take();
  if (verdict.host.address) {
    const std::vector<policy::Address> itself{*verdict.host.address};
    verdict = check_addresses(std::move(verdict), account, intent.port, itself);
  } else {
    const auto found = co_await look_up(loop, resolver, account.container, verdict.host.name);
    verdict = found ? check_addresses(std::move(verdict), account, intent.port, *found)
                    : refuse_name(std::move(verdict), found.error());
  }
  if (!verdict.is_allowed()) account.give_back();
  co_return verdict;
}

}  // namespace sallyport::egress
