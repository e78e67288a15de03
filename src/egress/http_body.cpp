#include "egress/http_body.h"

#include <algorithm>

namespace sallyport::egress {
namespace {

constexpr unsigned kMaxSizeDigits = 8;  // 4 GiB in one chunk is nobody's

int hex_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

}  // namespace

Result<std::size_t> BodyReader::feed(std::string_view bytes) {
  if (is_done_) return std::size_t{0};
  if (framing_.kind == Framing::Kind::until_close) return bytes.size();
  if (framing_.kind == Framing::Kind::length) {
    const std::size_t count = std::min<std::uint64_t>(left_, bytes.size());
    left_ -= count;
    is_done_ = left_ == 0;
    return count;
  }
  std::size_t at = 0;
  while (at < bytes.size() && !is_done_) {
    if (state_ == State::data) {
      const std::size_t count = std::min<std::uint64_t>(left_, bytes.size() - at);
      left_ -= count;
      at += count;
      if (left_ == 0) state_ = State::data_return;
      continue;
    }
    TRY(step(bytes[at++]));
  }
  return at;
}

Status BodyReader::pass_extra(char c, State at_return) {
  if (c == '\r') {
    state_ = at_return;
    return ok();
  }
  if (c == '\n' || ++extra_ > kMaxExtraBytes) return Error::make(Code::protocol_error, "too much beside the chunks");
  return ok();
}

Status BodyReader::step(char c) {
  const auto expect = [&](char wanted, State next) -> Status {
    if (c != wanted) return Error::make(Code::protocol_error, "a chunk does not end where it should");
    state_ = next;
    return ok();
  };
  switch (state_) {
    case State::size:
      if (const int digit = hex_value(c); digit >= 0 && digits_ < kMaxSizeDigits) {
        left_ = left_ * 16 + static_cast<std::uint64_t>(digit);
        ++digits_;
        return ok();
      }
      if (digits_ == 0) return Error::make(Code::protocol_error, "a chunk without a size");
      if (of_ == BodyOf::response && (c == ';' || c == ' ' || c == '\t')) {
        state_ = State::extension;
        return ok();
      }
      return expect('\r', State::size_feed);
    case State::extension:
      return pass_extra(c, State::size_feed);
    case State::size_feed:
      digits_ = 0;
      return expect('\n', left_ == 0 ? State::end_return : State::data);
    case State::data_return:
      return expect('\r', State::data_feed);
    case State::data_feed:
      return expect('\n', State::size);
    case State::end_return:
      if (of_ == BodyOf::response && c != '\r') {
        state_ = State::trailer;
        return pass_extra(c, State::trailer_feed);
      }
      return expect('\r', State::end_feed);
    case State::trailer:
      return pass_extra(c, State::trailer_feed);
    case State::trailer_feed:
      return expect('\n', State::end_return);
    case State::end_feed:
      is_done_ = c == '\n';
      return expect('\n', State::end_feed);
    case State::data:
      break;
  }
  return ok();
}

}  // namespace sallyport::egress
