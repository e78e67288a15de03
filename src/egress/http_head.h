// The heads of HTTP/1 messages, read strictly: whatever two implementations could read in two ways is refused.
// No I/O.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/base.h"

namespace sallyport::egress {

struct Header {
  std::string name;  // as it was written
  std::string value;
};

// How a message's body ends.
struct Framing {
  enum class Kind : std::uint8_t { none, length, chunked, until_close } kind = Kind::none;
  std::uint64_t length = 0;
};

struct RequestHead {
  std::string method;
  bool is_connect = false;
  bool is_http_1_0 = false;
  // From the request's target: CONNECT's authority or that of an absolute http:// URL.
  std::string host;  // as it was written, brackets kept
  std::uint16_t port = 0;
  std::string path;  // with its query; of an absolute URL
  std::vector<Header> headers;
  Framing framing;
  bool wants_keep_alive = false;
  bool wants_websocket = false;  // by an upgrade of this connection, which ends here
  std::size_t bytes = 0;         // of the head, empty line included
};

struct ResponseHead {
  int status = 0;
  bool is_http_1_0 = false;
  std::string line;  // without its CRLF
  std::vector<Header> headers;
  Framing framing;  // before what the request's method and the status mean for it
  std::size_t bytes = 0;
};

// nullopt: more bytes are needed. PAYLOAD_TOO_LARGE above `most` bytes or kMaxHeaders; PROTOCOL_ERROR with the
// reason otherwise. Refused of a request: bare CR or LF, folded lines, spaces before ':', control characters, a
// second Host, Content-Length or Transfer-Encoding, both of the last two, another coding than chunked, a target that is
// neither CONNECT's nor an absolute http:// URL, user info, and a Host that is not the URL's.
Result<std::optional<RequestHead>> parse_request_head(std::string_view bytes);
Result<std::optional<ResponseHead>> parse_response_head(std::string_view bytes);

bool equals_ignoring_case(std::string_view a, std::string_view b);

// The head that goes to the server: origin form, its own Host, nothing that belongs to one hop.
std::string to_origin(const RequestHead& request);
// The head that goes to the client: nothing of the other hop, and whether this one stays open.
std::string to_client(const ResponseHead& response, bool keeps_alive);

}  // namespace sallyport::egress
