// The one way from what a container asks for to addresses that may be dialled, whatever protocol it asked in.
#pragma once

#include <string>
#include <vector>

#include "base/base.h"
#include "egress/protocol.h"
#include "egress/resolver.h"
#include "ipc/loop.h"
#include "policy/net.h"

namespace sallyport::egress {

struct Intent {
  Protocol protocol = Protocol::connect;
  std::string host;  // as it was written
  std::uint16_t port = 0;
};

// Allowed, or why not; what a client is told follows from it alone.
enum class Outcome : std::uint8_t { allowed, refused, over_quota, busy, no_such_name, unreachable, timed_out };

Code to_code(Outcome outcome);

struct Verdict {
  Outcome outcome = Outcome::refused;
  policy::Host host;                       // canonical; empty if it could not be read
  std::string rule, reason, remedy;        // as of a policy::NetDecision
  std::vector<policy::Address> addresses;  // checked, and never empty when allowed

  bool is_allowed() const { return outcome == Outcome::allowed; }
};

// The state that is decided upon; the caller keeps it while the verdict is made.
struct Account {
  std::string container;
  policy::NetPolicy policy;
  Usage used;
  std::uint32_t tunnels = 0;         // open now
  std::uint32_t share = UINT32_MAX;  // of what the proxy can have open

  // One connection more, or one that came to nothing.
  void take();
  void give_back();
};

// Canonicalises, decides, resolves once, checks every address. What it resolved to is what may be dialled: nothing is
// looked up again. What is allowed has been taken from the account, before anything was waited for: of many that ask at
// once, no more than the limits are allowed. Who then does not open it gives it back.
Task<Verdict> authorize(ipc::Loop& loop, Resolver& resolver, Account& account, Intent intent);

}  // namespace sallyport::egress
