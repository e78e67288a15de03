// Where a container may connect to: net.allow, net.deny and net.limits of its profile. Pure.
//
//   api.example.org          that name, ports 80 and 443
//   api.example.org:8443     that name, that port
//   *.example.org            every name below it (one label or more), not itself
//   192.0.2.7:5432, [::1]:80 that address: the only way to reach what is not public
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/base.h"
#include "policy/host.h"

namespace sallyport::policy {

struct NetRule {
  std::string text;  // as it was written
  Host host;
  bool is_suffix = false;  // names below host, not host itself
  std::uint16_t port = 0;  // 0: none was named

  // Refused: a bare '*', '*' anywhere but in front, a public suffix such as *.co.uk, names that are not ASCII.
  static Result<NetRule> parse(std::string_view text);
  bool names(const Host& wanted) const;
  // Whether whatever this rule allows is allowed by the other one too.
  bool is_within(const NetRule& other) const;
};

// Zero means: no limit of ours.
struct NetLimits {
  std::uint64_t bytes = 0;       // both ways, of all connections of a container
  std::uint64_t requests = 0;    // connections and plain HTTP requests
  std::uint32_t tunnels = 1024;  // at once
  Millis idle{5 * 60 * 1000};    // no byte either way
  Millis duration{0};            // of one connection

  bool operator==(const NetLimits&) const = default;
  // From text such as bytes=1GiB or idle=30s; the error is a sentence.
  Status set(const std::string& name, const std::string& value);
};

struct NetPolicy {
  std::vector<NetRule> allow, deny;
  NetLimits limits;
  // Set when the host's policy cannot be read: everything is refused.
  bool is_faulty = false;

  // `allow` and `deny` without lists: see net_lists.h. PAYLOAD_TOO_LARGE above kMaxRuleBytes: a proxy is told all of a
  // policy in one packet, and each connection is compared with all of it.
  static constexpr std::size_t kMaxRuleBytes = 96U << 10;
  static Result<NetPolicy> make(const std::vector<std::string>& allow, const std::vector<std::string>& deny,
                                const NetLimits& limits);
};

struct NetDecision {
  bool is_allowed = false;
  std::string rule;    // the one that decided, as it was written; "default" where none did
  std::string reason;  // a sentence's end: "no rule of net.allow names it"
  std::string remedy;  // the rule that would allow it, where one could
};

// About a name or a literal address, before anything is resolved.
NetDecision decide(const NetPolicy& policy, const Host& host, std::uint16_t port);
// About an address that an allowed name resolved to, or the literal itself. What is special is refused unless
// net.allow names that very address and port.
NetDecision decide_address(const NetPolicy& policy, const Host& host, std::uint16_t port, const Address& address);

}  // namespace sallyport::policy
