#include "worker/channel.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>

#include "worker/limits.h"

namespace sallyport::worker {
namespace {

Error lost(int error_number) {
  Error error = Error::make(Code::unavailable, "the connection is lost");
  error.detail = errno_name(error_number);
  return error;
}

}  // namespace

Channel::Channel(UniqueFd socket) : socket_(std::move(socket)) {}

ssize_t Channel::receive_bytes(Wait wait) {
  const auto room = reader_.writable();
  ssize_t count = -1;
  const auto look = [&] {
    do count = ::recv(socket_.get(), room.data(), room.size(), MSG_DONTWAIT);
    while (count < 0 && errno == EINTR);
    return count >= 0 || (errno != EAGAIN && errno != EWOULDBLOCK);
  };
  const auto sleep = [&] {
    // Not a receive that blocks: the kernel would wake it for nothing each time the peer takes what we sent.
    pollfd event{socket_.get(), POLLIN, 0};
    do ::poll(&event, 1, -1);
    while (!look());
  };
  if (wait == Wait::no) {
    look();
  } else {
    spinner_.wait(look, sleep);
  }
  return count;
}

Result<bool> Channel::take_in(Wait wait) {
  if (is_at_end_) return false;
  const ssize_t count = receive_bytes(wait);
  if (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return false;
  if (count < 0) return lost(errno);
  if (count == 0) {
    is_at_end_ = true;
    TRY(reader_.finish());
    return false;
  }
  reader_.commit(static_cast<std::size_t>(count));
  while (true) {
    auto body = reader_.next();
    if (!body) {
      wire::append_error(out_, {}, body.error());
      TRY(flush());
      return std::move(body).error();
    }
    if (!*body) break;
    TRY(take_frame(**body));
  }
  return true;
}

Status Channel::take_frame(ByteView body) {
  switch (wire::frame_kind(body)) {
    case wire::FrameKind::message:
      break;
    case wire::FrameKind::chunk:
      return take_chunk(body);
    default:
      return refuse({}, Error::make(Code::protocol_error, "neither a message nor a chunk"));
  }
  auto message = wire::decode_message(decoder_, body);
  if (!message) return refuse(message.malformed().id, message.malformed().error);
  if (message->type == wire::MessageType::event) return take_event(*message);
  if (message->type != wire::MessageType::request) {
    return refuse({}, Error::make(Code::protocol_error, "a response to nothing that was asked"));
  }
  if (waiting_.size() >= wire::kMaxInFlight) {
    // No fault of its sender's, who may not know of the others.
    wire::append_error(out_, message->id, Error::make(Code::unavailable, "too many requests are waiting; try again"));
    return flush();
  }
  for (const std::uint32_t stream : message->streams) {
    if (auto announced = streams_.announce(stream); !announced) return refuse(message->id, announced.error());
    arrived_[stream];
  }
  waiting_.push_back(std::move(*message));
  return ok();
}

Status Channel::take_chunk(ByteView body) {
  auto chunk = wire::parse_chunk(body);
  if (!chunk) return refuse({}, chunk.error());
  auto arrival = streams_.arrive(chunk->stream, chunk->data.size());
  if (!arrival && arrival.error().code == Code::not_found) return refuse({}, arrival.error());
  if (!arrival) return std::move(arrival).error();
  const auto stream = arrived_.find(chunk->stream);
  if (*arrival != wire::Streams::Arrival::ignored && stream != arrived_.end()) {
    stream->second.emplace_back(as_text(chunk->data));
  }
  return ok();
}

Status Channel::take_event(const wire::Message& event) {
  if (event.method == "cancel") {
    const auto has_id = [&](const wire::Message& request) { return request.id == event.id; };
    const bool is_known = event.id == current_ || std::any_of(waiting_.begin(), waiting_.end(), has_id);
    if (is_known) cancelled_.emplace(event.id);
    return ok();
  }
  const auto stream = static_cast<std::uint32_t>(event.params.get("stream").as_uint().value_or(0));
  if (event.method == "stream.credit") {
    return streams_.credit(stream, event.params.get("bytes").as_int().value_or(-1));
  }
  if (event.method == "stream.reset") {
    streams_.close(stream);
    arrived_.erase(stream);
    return ok();
  }
  return ok();  // other events are not for us
}

Status Channel::refuse(std::string_view id, const Error& error) {
  wire::append_error(out_, id, error);
  TRY(flush());
  if (++malformed_ < wire::kMaxMalformed) return ok();
  return Error::make(Code::protocol_error, "too many malformed frames");
}

Result<std::optional<wire::Message>> Channel::next_request() {
  while (waiting_.empty()) {
    TRY(const bool has_sent, pump_all());
    TRY(const bool got_some, take_in(has_sent ? Wait::no : Wait::yes));
    if (!got_some && is_at_end_) return std::optional<wire::Message>();
  }
  // Streams that are still being sent take turns with the requests.
  TRY([[maybe_unused]] const bool has_sent, pump_all());
  std::optional<wire::Message> request = std::move(waiting_.front());
  waiting_.pop_front();
  current_ = request->id;
  return request;
}

Status Channel::drain() {
  while (!outgoing_.empty() && !is_at_end_) {
    TRY(const bool has_sent, pump_all());
    if (outgoing_.empty()) break;
    TRY([[maybe_unused]] const bool got_some, take_in(has_sent ? Wait::no : Wait::yes));
  }
  return ok();
}

void Channel::look(Stop& stop) {
  while (waiting_.size() < wire::kMaxInFlight) {
    const auto got_some = take_in(Wait::no);
    if (!got_some || is_at_end_) stop.cancel();  // nobody is left to answer
    if (!got_some || !*got_some) break;
  }
  if (is_cancelled()) stop.cancel();
}

Status Channel::flush(Bytes& frames) {
  std::string_view left = as_text(frames.view());
  while (!left.empty()) {
    const ssize_t count = ::send(socket_.get(), left.data(), left.size(), MSG_NOSIGNAL);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return lost(errno);
    left.remove_prefix(static_cast<std::size_t>(count));
  }
  // A large answer's memory is not kept by an idle worker.
  if (frames.capacity() > 2 * kStreamChunkBytes) {
    frames.release();
  } else {
    frames.clear();
  }
  return ok();
}

// A chunk of every stream whose reader has room for one. False: none has.
Result<bool> Channel::pump_all() {
  bool has_sent = false;
  for (auto next = outgoing_.begin(); next != outgoing_.end();) {
    TRY(const Pumped pumped, pump(*next));
    has_sent |= pumped != Pumped::nothing;
    next = pumped == Pumped::all ? outgoing_.erase(next) : std::next(next);
  }
  return has_sent;
}

Result<Channel::Pumped> Channel::pump(Outgoing& outgoing) {
  if (!streams_.is_sending(outgoing.stream)) return Pumped::all;  // the peer wants no more
  const std::uint64_t left = outgoing.end - outgoing.at;
  if (left > 0 && streams_.sendable(outgoing.stream) == 0) return Pumped::nothing;
  std::string buffer(
      std::min({left, std::uint64_t{streams_.sendable(outgoing.stream)}, std::uint64_t{kStreamChunkBytes}}), '\0');
  ssize_t count = 0;
  if (!buffer.empty()) {
    do count = ::pread(outgoing.file.get(), buffer.data(), buffer.size(), static_cast<off_t>(outgoing.at));
    while (count < 0 && errno == EINTR);
  }
  if (count < 0 || (count == 0 && left > 0)) {
    const Error error =
        count < 0 ? path_error("read", errno) : Error::make(Code::conflict, "the file was cut while it was read");
    TRY(reset(outgoing.stream, error));
    return Pumped::all;
  }
  buffer.resize(static_cast<std::size_t>(count));
  TRY(wire::append_chunk(out_, outgoing.stream, as_bytes(buffer)));
  TRY(flush());
  if (buffer.empty()) {
    streams_.close(outgoing.stream);
    return Pumped::all;
  }
  streams_.sent(outgoing.stream, static_cast<std::uint32_t>(buffer.size()));
  outgoing.at += buffer.size();
  return Pumped::some;
}

Status Channel::reset(std::uint32_t stream, const Error& error) {
  streams_.close(stream);
  const std::string params = wire::to_json([&](wire::JsonWriter& json) {
    json.begin_object().member("stream", stream).key("error");
    wire::write_error(json, error);
    json.end_object();
  });
  TRY(wire::append_event(out_, {}, "stream.reset", params));
  return flush();
}

Result<std::uint32_t> Channel::send_file(UniqueFd file, std::uint64_t from, std::uint64_t to) {
  TRY(const std::uint32_t stream, streams_.open());
  outgoing_.push_back({stream, std::move(file), from, to});
  return stream;
}

Result<std::optional<std::string_view>> Channel::receive(std::uint32_t stream) {
  while (true) {
    const auto found = arrived_.find(stream);
    if (found == arrived_.end()) return Error::make(Code::cancelled, "the stream was reset");
    if (!found->second.empty()) {
      chunk_ = std::move(found->second.front());
      found->second.pop_front();
      if (chunk_.empty()) {
        arrived_.erase(found);
        return std::optional<std::string_view>();
      }
      const std::uint32_t grant = streams_.consumed(stream, static_cast<std::uint32_t>(chunk_.size()));
      if (grant > 0) {
        const std::string params =
            "{\"stream\":" + std::to_string(stream) + ",\"bytes\":" + std::to_string(grant) + "}";
        TRY(wire::append_event(out_, {}, "stream.credit", params));
        TRY(flush());
      }
      return std::optional<std::string_view>(chunk_);
    }
    if (is_cancelled()) return Error::make(Code::cancelled, "cancelled");
    TRY(const bool got_some, take_in(Wait::yes));
    if (!got_some && is_at_end_) return Error::make(Code::cancelled, "the connection ended inside a stream");
  }
}

// Waits before the first byte, where a cancel still counts: a frame that was begun must be finished.
Status Channel::send_progress(std::string_view params, Stop& stop) {
  while (true) {
    look(stop);
    TRY(stop.check());
    const bool takes_requests = waiting_.size() < wire::kMaxInFlight;
    pollfd socket{socket_.get(), static_cast<short>(takes_requests ? POLLIN | POLLOUT : POLLOUT), 0};
    if (::poll(&socket, 1, static_cast<int>(kPollInterval.count())) < 0 && errno != EINTR) return lost(errno);
    if ((socket.revents & POLLOUT) != 0) break;
  }
  TRY(wire::append_event(out_, current_, "progress", params));
  return flush();
}

void Channel::finish(wire::Message request) {
  cancelled_.erase(current_);
  current_.clear();
  for (const std::uint32_t stream : request.streams) {
    const auto arrived = arrived_.extract(stream);
    if (arrived.empty()) continue;
    const bool is_whole = !arrived.mapped().empty() && arrived.mapped().back().empty();
    if (is_whole) {
      streams_.close(stream);
    } else {
      // Whoever still sends would wait for credit. A lost connection is seen by the next read.
      [[maybe_unused]] const Status told = reset(stream, Error::make(Code::cancelled, "the request is answered"));
    }
  }
  const bool is_large = request.bytes > kStreamChunkBytes;
  decoder_.recycle(std::move(request.document));
  if (!is_large) return;
  decoder_.trim();
  reader_.trim();
}

}  // namespace sallyport::worker
