#include "wire/streams.h"

namespace sallyport::wire {

Result<std::uint32_t> Streams::open() {
  if (sending_.size() >= most_open_) return Error::make(Code::rate_limited, "too many open streams");
  if (next_own_ > UINT32_MAX - 2) return Error::make(Code::unavailable, "stream numbers are used up; reconnect");
  const std::uint32_t stream = next_own_;
  next_own_ += 2;
  sending_.emplace(stream, window_.credit);
  return stream;
}

std::uint32_t Streams::sendable(std::uint32_t stream) const {
  const auto found = sending_.find(stream);
  return found == sending_.end() ? 0 : found->second;
}

void Streams::sent(std::uint32_t stream, std::uint32_t bytes) {
  if (const auto found = sending_.find(stream); found != sending_.end()) found->second -= bytes;
}

Status Streams::credit(std::uint32_t stream, std::int64_t bytes) {
  if (stream == 0 || !is_own(stream) || stream >= next_own_) {
    return Error::make(Code::protocol_error, "credit for a stream that was never opened");
  }
  const auto found = sending_.find(stream);
  if (found == sending_.end()) return ok();
  if (bytes < 1 || bytes > INT32_MAX - std::int64_t{found->second}) {
    return Error::make(Code::protocol_error, "credit out of range");
  }
  found->second += static_cast<std::uint32_t>(bytes);
  return ok();
}

Status Streams::announce(std::uint32_t stream) {
  if (stream == 0 || is_own(stream) || stream <= last_announced_) {
    return Error::make(Code::protocol_error, "stream numbers rise, and each side has its own parity");
  }
  // Known from now on, even if it is refused: what is on its way already is ignored, and no fault.
  last_announced_ = stream;
  if (receiving_.size() >= most_open_) return Error::make(Code::rate_limited, "too many open streams");
  receiving_.emplace(stream, Inbound{.granted = window_.credit});
  return ok();
}

Result<Streams::Arrival> Streams::arrive(std::uint32_t stream, std::size_t bytes) {
  if (is_own(stream) || stream > last_announced_) return Error::make(Code::not_found, "chunk for an unknown stream");
  const auto found = receiving_.find(stream);
  if (found == receiving_.end()) return Arrival::ignored;
  if (bytes == 0) {
    receiving_.erase(found);
    return Arrival::end;
  }
  if (bytes > found->second.granted) {
    return Error::make(Code::protocol_error, "more bytes on a stream than were granted");
  }
  found->second.granted -= static_cast<std::uint32_t>(bytes);
  return Arrival::data;
}

std::uint32_t Streams::consumed(std::uint32_t stream, std::uint32_t bytes) {
  const auto found = receiving_.find(stream);
  if (found == receiving_.end()) return 0;
  Inbound& inbound = found->second;
  inbound.consumed += bytes;
  if (inbound.consumed < window_.grant_after) return 0;
  inbound.granted += inbound.consumed;
  return std::exchange(inbound.consumed, 0);
}

void Streams::close(std::uint32_t stream) {
  sending_.erase(stream);
  receiving_.erase(stream);
}

}  // namespace sallyport::wire
