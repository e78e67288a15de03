#include "policy/net.h"

#include <algorithm>
#include <charconv>

#include "policy/profile.h"
#include "policy/public_suffixes.h"

namespace sallyport::policy {
namespace {

constexpr std::uint16_t kWebPorts[] = {80, 443};

Error fault(std::string_view rule, std::string_view what) {
  return Error::make(Code::invalid_params, "has '" + escape_for_display(rule) + "', which " + std::string(what));
}

// An allowed host without a port means the web; a denied one means all of it.
bool allows_port(const NetRule& rule, std::uint16_t port) {
  if (rule.port != 0) return rule.port == port;
  return std::find(std::begin(kWebPorts), std::end(kWebPorts), port) != std::end(kWebPorts);
}
bool denies_port(const NetRule& rule, std::uint16_t port) { return rule.port == 0 || rule.port == port; }

const NetRule* denied_by(const NetPolicy& policy, const Host& host, std::uint16_t port) {
  const auto found = std::find_if(policy.deny.begin(), policy.deny.end(),
                                  [&](const NetRule& rule) { return rule.names(host) && denies_port(rule, port); });
  return found == policy.deny.end() ? nullptr : &*found;
}

const NetRule* allowed_by(const NetPolicy& policy, const Host& host, std::uint16_t port) {
  const auto found = std::find_if(policy.allow.begin(), policy.allow.end(),
                                  [&](const NetRule& rule) { return rule.names(host) && allows_port(rule, port); });
  return found == policy.allow.end() ? nullptr : &*found;
}

}  // namespace

Result<NetRule> NetRule::parse(std::string_view text) {
  NetRule rule;
  rule.text = text;
  if (text.find("://") != std::string_view::npos)
    return fault(text, "is a URL; name its host, and its port if need be");
  auto [host, port] = split_port(text);
  if (port) {
    const auto number = parse_port(*port);
    if (!number) return fault(text, "has no port from 1 to 65535 behind ':'");
    rule.port = *number;
  }
  if (host == "*") return fault(text, "means every host; name the hosts");
  if (host.starts_with("*.")) {
    rule.is_suffix = true;
    host.remove_prefix(2);
  }
  if (host.empty()) return fault(text, "names no host");
  if (host.find('*') != std::string_view::npos) return fault(text, "has '*' elsewhere than as its first label");
  auto parsed = parse_host(host);
  if (!parsed) return fault(text, parsed.error().message);
  rule.host = std::move(*parsed);
  if (rule.is_suffix && rule.host.address) return fault(text, "is a wildcard of an address");
  if (rule.is_suffix && is_public_suffix(rule.host.name)) {
    return fault(text, "means hosts of anyone: below " + rule.host.name + " everybody may register names");
  }
  return rule;
}

bool NetRule::names(const Host& wanted) const {
  if (!is_suffix) return wanted == host;
  return !wanted.address && wanted.name.size() > host.name.size() + 1 && wanted.name.ends_with(host.name) &&
         wanted.name[wanted.name.size() - host.name.size() - 1] == '.';
}

bool NetRule::is_within(const NetRule& other) const {
  const bool is_host_within =
      other.is_suffix && is_suffix ? other.host == host || other.names(host) : !is_suffix && other.names(host);
  return is_host_within && (port == other.port || (port != 0 && allows_port(other, port)));
}

Status NetLimits::set(const std::string& name, const std::string& value) {
  const auto number = [&](std::uint64_t most) -> Result<std::uint64_t> {
    std::uint64_t parsed = 0;
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), parsed);
    if (error == std::errc() && end == value.data() + value.size() && parsed >= 1 && parsed <= most) return parsed;
    return Error::make(Code::invalid_params, "is no whole number from 1 to " + std::to_string(most) + ": " + value);
  };
  // More would be no limit any more, and overflow where it is compared with a clock.
  constexpr Millis kLongest{std::chrono::hours(24 * 365)};
  const auto time = [&]() -> Result<Millis> {
    TRY(const Millis parsed, parse_duration(value));
    if (parsed >= Millis(1) && parsed <= kLongest) return parsed;
    return Error::make(Code::invalid_params, "is no time from 1ms to 365d: " + value);
  };
  constexpr std::uint64_t kMostTunnels = 16'384;
  if (name == "bytes") {
    TRY(const std::uint64_t size, parse_size(value));
    if (size == 0) return Error::make(Code::invalid_params, "must be at least 1; without it there is no limit");
    bytes = size;
  } else if (name == "requests") {
    TRY(requests, number(UINT64_MAX >> 1));
  } else if (name == "tunnels") {
    TRY(const std::uint64_t count, number(kMostTunnels));
    tunnels = static_cast<std::uint32_t>(count);
  } else if (name == "idle") {
    TRY(idle, time());
  } else if (name == "duration") {
    TRY(duration, time());
  } else {
    return Error::make(Code::invalid_params,
                       "there is no net limit '" + name + "'; there are bytes, requests, tunnels, idle, duration");
  }
  return ok();
}

Result<NetPolicy> NetPolicy::make(const std::vector<std::string>& allow, const std::vector<std::string>& deny,
                                  const NetLimits& limits) {
  NetPolicy policy;
  policy.limits = limits;
  std::size_t rule_bytes = 0;
  for (const auto* rules : {&allow, &deny}) {
    for (const std::string& text : *rules) rule_bytes += text.size() + 3;  // as they are sent
  }
  if (rule_bytes > kMaxRuleBytes) {
    return Error::make(Code::payload_too_large, "net.allow and net.deny come to " + std::to_string(rule_bytes) +
                                                    " bytes of rules, lists included; there may be " +
                                                    std::to_string(kMaxRuleBytes));
  }
  for (const std::string& text : allow) {
    TRY(NetRule rule, NetRule::parse(text));
    policy.allow.push_back(std::move(rule));
  }
  for (const std::string& text : deny) {
    TRY(NetRule rule, NetRule::parse(text));
    policy.deny.push_back(std::move(rule));
  }
  return policy;
}

NetDecision decide(const NetPolicy& policy, const Host& host, std::uint16_t port) {
  if (policy.is_faulty) {
    return {false, "fault", "the host's net policy has a fault, and until it is mended everything is refused", {}};
  }
  if (const NetRule* rule = denied_by(policy, host, port)) {
    return {false, "net.deny " + rule->text, "net.deny names it (" + rule->text + ")", {}};
  }
  if (const NetRule* rule = allowed_by(policy, host, port)) return {true, "net.allow " + rule->text, {}, {}};
  return {false, "default", "no rule of net.allow names it", host.to_string() + ":" + std::to_string(port)};
}

NetDecision decide_address(const NetPolicy& policy, const Host& host, std::uint16_t port, const Address& address) {
  NetDecision named = decide(policy, host, port);
  if (!named.is_allowed) return named;
  const Host literal{{}, address};
  if (const NetRule* rule = denied_by(policy, literal, port)) {
    return {false, "net.deny " + rule->text, "net.deny names its address (" + rule->text + ")", {}};
  }
  const std::string_view special = special_range(address);
  if (!special.empty() && allowed_by(policy, literal, port) == nullptr) {
    return {false, "address filter",
            "it leads to " + literal.to_string() + ", which is " + std::string(special) +
                ": such an address must be named literally",
            literal.to_string() + ":" + std::to_string(port)};
  }
  return named;
}

}  // namespace sallyport::policy
