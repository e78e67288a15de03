// What the proxy and whoever started it say to each other: one frame per packet of a SOCK_SEQPACKET pair, a listening
// socket beside it where one is handed over. Both are programs of one build; still, what does not parse is refused.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/base.h"
#include "policy/net.h"
#include "wire/wire.h"

namespace sallyport::egress {

// What a container has used so far, of which its limits are counted.
struct Usage {
  std::uint64_t bytes = 0;
  std::uint64_t requests = 0;
};

// ---- to the proxy ----
// Whoever connects to the listener is this container. Beside it: the listener.
struct Serve {
  std::string container;
  policy::NetPolicy policy;
  Usage used;  // counted by a proxy before this one
};
// Another policy from now on; connections that it does not allow end.
struct Update {
  std::string container;
  policy::NetPolicy policy;
};
struct Stop {
  std::string container;
};
using ToProxy = std::variant<Serve, Update, Stop>;

// ---- from the proxy ----
enum class Protocol : std::uint8_t { connect, http, socks };
std::string_view to_string(Protocol protocol);

struct Report;
// Refused by a rule, a limit or for what it said, and not for want of a host that answers; or cut by a quota.
bool is_violation(const Report& report);

// One connection or plain HTTP request: as it is decided, and, if it was allowed, as it ends.
struct Report {
  enum class Kind : std::uint8_t { refused, opened, closed } kind = Kind::refused;
  std::string container;
  std::uint64_t number = 0;  // of the connection, within one proxy's life
  Protocol protocol = Protocol::connect;
  std::string host;        // canonical; where that failed as it came, escaped
  std::uint16_t port = 0;  // 0: none could be read
  // Why it was refused, or cut before either side ended it. None: it was allowed, or ended by itself.
  std::optional<Code> code;
  std::string rule, reason, remedy;
  std::uint64_t sent = 0, received = 0;  // by the container; closed only
  std::uint64_t count = 1;               // like ones that this one stands for; see sums.h

  std::string target() const;  // "HOST:PORT"
};

// As JSON, for whoever passes them on: a policy and a report are one object each.
void write_policy(wire::JsonWriter& json, const policy::NetPolicy& policy);
Result<policy::NetPolicy> read_policy(wire::Value value);
void write_report(wire::JsonWriter& json, const Report& report);
Result<Report> read_report(wire::Value value);

Result<Bytes> encode(const ToProxy& message);
Result<Bytes> encode(const Report& report);
Result<ToProxy> decode_order(wire::Decoder& decoder, ByteView packet);
Result<Report> decode_report(wire::Decoder& decoder, ByteView packet);

}  // namespace sallyport::egress
