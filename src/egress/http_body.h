// Where an HTTP/1 body ends, found while its bytes pass. No I/O.
#pragma once

#include <cstdint>
#include <string_view>

#include "egress/http_head.h"

namespace sallyport::egress {

// Of a request nothing but plain chunks passes: what two servers could read in two ways is how one request becomes two.
// Of a response, which goes to the one who asked, extensions and trailers pass as they are.
enum class BodyOf : std::uint8_t { request, response };

class BodyReader {
 public:
  BodyReader(Framing framing, BodyOf of)
      : framing_(framing), of_(of), left_(framing.length), is_done_(framing.kind == Framing::Kind::none) {}

  // How many of these bytes belong to the body. PROTOCOL_ERROR where chunks are not as they should be: CRLF everywhere,
  // of a request no extensions and no trailers, of a response no more than kMaxExtraBytes of them.
  Result<std::size_t> feed(std::string_view bytes);
  bool is_done() const { return is_done_; }  // never for until_close

 private:
  enum class State : std::uint8_t {
    size,
    extension,
    size_feed,
    data,
    data_return,
    data_feed,
    end_return,
    trailer,
    trailer_feed,
    end_feed
  };
  Status step(char c);
  Status pass_extra(char c, State at_return);

  static constexpr std::size_t kMaxExtraBytes = 16U << 10;

  Framing framing_;
  BodyOf of_;
  std::size_t extra_ = 0;
  std::uint64_t left_ = 0;  // of the body, or of this chunk
  State state_ = State::size;
  unsigned digits_ = 0;
  bool is_done_ = false;
};

}  // namespace sallyport::egress
