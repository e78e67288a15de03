// The server name in a TLS client's first message. No I/O.
#pragma once

#include <cstdint>
#include <string>

#include "base/base.h"

namespace sallyport::egress {

struct ClientHello {
  enum class Kind : std::uint8_t {
    incomplete,  // more bytes are needed
    not_tls,     // the first byte says so
    named,       // `name` is its one server name
    unnamed,     // complete, without a server name
    unreadable,  // split over several records, malformed, or with several names
  } kind = Kind::incomplete;
  std::string name = {};
};

// Looks at what a client sent first, TLS 1.0 to 1.3; never needs more than kMaxClientHelloBytes. A greeting that is
// split over several TLS records is `unreadable`: that is what evasion looks like, and no common client does it.
ClientHello read_client_hello(ByteView bytes);

}  // namespace sallyport::egress
