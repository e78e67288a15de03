#include "ipc/streams.h"

#include <algorithm>

#include "ipc/session.h"

namespace sallyport::ipc {
namespace {

// A chunk that fits one read of the receiver: it never leaves the cache on its way.
constexpr std::size_t kPieceBytes = (64U << 10) - wire::kHeaderBytes - wire::kChunkHeaderBytes;

std::optional<std::uint32_t> stream_number(wire::Value params) {
  const auto number = params.get("stream").as_int();
  if (!number || *number < 1 || *number > UINT32_MAX) return std::nullopt;
  return static_cast<std::uint32_t>(*number);
}

Error too_many_streams() { return Error::make(Code::rate_limited, "too many streams of this container are open"); }

Error malformed_event() { return Error::make(Code::protocol_error, "a stream event names its stream by number"); }

}  // namespace

// ---- InStream ----

InStream::InStream(std::shared_ptr<Session> session, std::uint32_t number)
    : session_(std::move(session)), number_(number) {
  session_->hold_stream(true);
}

InStream::~InStream() {
  session_->hold_stream(false);
  if (is_ended_ || error_) return;
  const Error unwanted = Error::make(Code::cancelled, "the stream is not wanted any more");
  session_->streams().end(number_, &unwanted);
}

Result<Bytes> InStream::take() {
  if (!buffer_.empty()) {
    Bytes taken = std::exchange(buffer_, Bytes());
    session_->streams().consumed(number_, taken.size());
    return taken;
  }
  if (error_) return *error_;
  return Bytes();
}

void InStream::arrive(ByteView bytes) {
  // Whoever takes it may end this stream.
  const std::shared_ptr<Session> session = session_;
  const std::uint32_t number = number_;
  if (waiter_ && on_chunk_ && on_chunk_(bytes)) return session->streams().consumed(number, bytes.size());
  buffer_.append(bytes);
  wake();
}

void InStream::fail(const Error& error) {
  if (is_ended_ || error_) return;
  error_ = error;
  session_->streams().end(number_, &error);
  wake();
}

void InStream::wake() {
  if (waiter_) std::exchange(waiter_, nullptr).resume();
}

// ---- OutStream ----

OutStream::OutStream(std::shared_ptr<Session> session, std::uint32_t number)
    : session_(std::move(session)), number_(number) {
  session_->hold_stream(true);
}

OutStream::~OutStream() {
  session_->hold_stream(false);
  if (!is_over_) reset(Error::make(Code::cancelled, "the stream was given up"));
}

bool OutStream::Credit::await_ready() const { return stream.is_over_ || stream.sendable() > 0; }

Task<Status> OutStream::write(ByteView bytes) {
  while (!bytes.empty()) {
    while (!is_over_ && sendable() == 0) co_await Credit{*this};
    if (is_over_) co_return error_ ? Status(*error_) : Status(Error::make(Code::cancelled, "the stream is over"));
    const std::size_t size = std::min({bytes.size(), sendable(), kPieceBytes});
    session_->streams().send(number_, bytes.first(size));
    bytes = bytes.subspan(size);
  }
  co_return ok();
}

std::size_t OutStream::sendable() const { return is_over_ ? 0 : session_->streams().sendable(number_); }

void OutStream::send(ByteView bytes) { session_->streams().send(number_, bytes); }

void OutStream::finish() {
  if (is_over_) return;
  is_over_ = true;
  session_->send_chunk(number_, {});
  session_->streams().end(number_, nullptr);
}

void OutStream::reset(const Error& error) {
  if (is_over_) return;
  is_over_ = true;
  error_ = error;
  session_->streams().end(number_, &error);
  if (waiter_) std::exchange(waiter_, nullptr).resume();
}

void OutStream::wake() {
  // A copy: whoever is woken may end this stream.
  const auto work = on_credit_;
  if (waiter_) std::exchange(waiter_, nullptr).resume();
  if (work) work();
}

// ---- StreamHub ----

Status StreamHub::announce(const std::vector<std::uint32_t>& streams,
                           const std::function<void(const Error&)>& refused) {
  for (auto named = streams.begin(); named != streams.end(); ++named) {
    Status announced = book_.announce(*named);
    if (announced && !session_.may_hold_stream()) announced = too_many_streams();
    if (!announced) {
      const auto are_too_many = [](const Status& status) {
        return !status && status.error().code == Code::rate_limited;
      };
      if (are_too_many(announced) && refused) refused(announced.error());
      // The request will not run: nobody would ever take those before it.
      drop_untaken({streams.begin(), named});
      if (!are_too_many(announced)) return announced;
      end(*named, &announced.error());
      while (++named != streams.end()) {
        // A number that is not the peer's to give may be somebody else's stream.
        if (const Status known = book_.announce(*named); known || are_too_many(known)) end(*named, &announced.error());
      }
      return announced;
    }
    auto inbound = std::make_shared<InStream>(session_.shared_from_this(), *named);
    inbound_.emplace(*named, inbound.get());
    untaken_.emplace(*named, std::move(inbound));
  }
  return ok();
}

Status StreamHub::arrive(const wire::Chunk& chunk) {
  TRY(const auto arrival, book_.arrive(chunk.stream, chunk.data.size()));
  const auto found = inbound_.find(chunk.stream);
  if (arrival == wire::Streams::Arrival::ignored || found == inbound_.end()) return ok();
  InStream& stream = *found->second;
  if (arrival == wire::Streams::Arrival::end) {
    stream.is_ended_ = true;
    inbound_.erase(found);
    stream.wake();
  } else {
    stream.arrive(chunk.data);
  }
  return ok();
}

void StreamHub::consumed(std::uint32_t stream, std::size_t bytes) {
  const std::uint32_t grant = book_.consumed(stream, static_cast<std::uint32_t>(bytes));
  if (grant == 0) return;
  session_.send_event({}, "stream.credit", wire::to_json([&](wire::JsonWriter& json) {
                        json.begin_object().member("stream", stream).member("bytes", grant).end_object();
                      }));
}

// Credit is only the peer's word that it will read.
std::size_t StreamHub::sendable(std::uint32_t stream) {
  return session_.may_send_streams() ? book_.sendable(stream) : 0;
}

void StreamHub::send_on() {
  std::vector<std::uint32_t> numbers;
  for (const auto& [number, stream] : outbound_) numbers.push_back(number);
  for (const std::uint32_t number : numbers) {
    if (const auto found = outbound_.find(number); found != outbound_.end()) found->second->wake();
  }
}

void StreamHub::send(std::uint32_t stream, ByteView bytes) {
  book_.sent(stream, static_cast<std::uint32_t>(bytes.size()));
  session_.send_chunk(stream, bytes);
  if (book_.sendable(stream) == 0) session_.maybe_done_soon();
}

Status StreamHub::credit(wire::Value params) {
  const auto stream = stream_number(params);
  const auto bytes = params.get("bytes").as_int();
  if (!stream || !bytes) return malformed_event();
  TRY(book_.credit(*stream, *bytes));
  if (const auto found = outbound_.find(*stream); found != outbound_.end()) found->second->wake();
  return ok();
}

Status StreamHub::reset(wire::Value params) {
  const auto number = stream_number(params);
  if (!number) return malformed_event();
  const Error why = wire::read_error(params.get("error"));
  if (const auto in = inbound_.find(*number); in != inbound_.end()) {
    InStream& stream = *in->second;
    stream.error_ = why;
    end(*number, nullptr);
    stream.wake();
  } else if (const auto out = outbound_.find(*number); out != outbound_.end()) {
    OutStream& stream = *out->second;
    stream.is_over_ = true;
    stream.error_ = why;
    end(*number, nullptr);
    stream.wake();
  }
  return ok();
}

void StreamHub::end_inbound(const Error& error) {
  while (!inbound_.empty()) {
    InStream& stream = *inbound_.begin()->second;
    const auto keep = untaken_.extract(stream.number_);
    stream.error_ = error;
    end(stream.number_, nullptr);
    stream.wake();
  }
}

bool StreamHub::has_more_to_send(bool may_get_credit) const {
  return std::any_of(outbound_.begin(), outbound_.end(), [&](const auto& each) {
    return !each.second->is_endless_ && (may_get_credit || book_.sendable(each.first) > 0);
  });
}

void StreamHub::close_all(const Error& error) {
  end_inbound(error);
  while (!outbound_.empty()) {
    OutStream& stream = *outbound_.begin()->second;
    stream.is_over_ = true;
    stream.error_ = error;
    end(stream.number_, nullptr);
    stream.wake();
  }
  untaken_.clear();
}

void StreamHub::drop_untaken(const std::vector<std::uint32_t>& streams) {
  for (const std::uint32_t stream : streams) untaken_.erase(stream);
}

std::shared_ptr<InStream> StreamHub::take(std::uint32_t stream) {
  const auto node = untaken_.extract(stream);
  return node.empty() ? nullptr : node.mapped();
}

Result<std::shared_ptr<OutStream>> StreamHub::open() {
  if (!session_.may_hold_stream()) return too_many_streams();
  TRY(const std::uint32_t number, book_.open());
  auto stream = std::make_shared<OutStream>(session_.shared_from_this(), number);
  outbound_.emplace(number, stream.get());
  return stream;
}

void StreamHub::end(std::uint32_t stream, const Error* tell_peer) {
  inbound_.erase(stream);
  outbound_.erase(stream);
  book_.close(stream);
  session_.maybe_done_soon();
  if (tell_peer == nullptr) return;
  session_.send_event({}, "stream.reset", wire::to_json([&](wire::JsonWriter& json) {
                        json.begin_object().member("stream", stream).key("error");
                        wire::write_error(json, *tell_peer);
                        json.end_object();
                      }));
}

Fire relay(std::shared_ptr<InStream> from, std::shared_ptr<OutStream> to) {
  from->on_chunk([to](ByteView chunk) {
    if (chunk.size() > std::min(to->sendable(), kPieceBytes)) return false;
    const auto kept = to;  // this function may be gone before it is sent; NOLINT(performance-unnecessary-copy-*)
    kept->send(chunk);
    return true;
  });
  for (;;) {
    auto piece = co_await from->read();
    if (!piece) {
      to->reset(piece.error());
      co_return;
    }
    if (piece->empty()) {
      to->finish();
      co_return;
    }
    if (!co_await to->write(piece->view())) co_return;
  }
}

}  // namespace sallyport::ipc
