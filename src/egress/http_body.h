// Where an HTTP/1 body ends, found while its bytes pass. No I/O.
#pragma once

#include <cstdint>
#include <string_view>

#include "egress/http_head.h"

namespace sallyport::egress {

class BodyReader {
 public:
  explicit BodyReader(Framing framing)
      : framing_(framing), left_(framing.length), is_done_(framing.kind == Framing::Kind::none) {}

  // How many of these bytes belong to the body. PROTOCOL_ERROR where chunks are not exactly as they should be: no
  // extensions, no trailers, CRLF everywhere.
  Result<std::size_t> feed(std::string_view bytes);
  bool is_done() const { return is_done_; }  // never for until_close

 private:
  enum class State : std::uint8_t { size, size_feed, data, data_return, data_feed, end_return, end_feed };
  Status step(char c);

  Framing framing_;
  std::uint64_t left_ = 0;  // of the body, or of this chunk
  State state_ = State::size;
  unsigned digits_ = 0;
  bool is_done_ = false;
};

}  // namespace sallyport::egress
