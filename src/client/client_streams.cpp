// A client's side of streams.
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "client/client.h"

namespace sallyport {
namespace {

// Chunks that leave with one write, so that the peer is woken once.
constexpr std::size_t kMaxPieces = 16;
constexpr Millis kStreamWait{30'000};

}  // namespace

Result<std::uint32_t> Client::open_stream() {
  std::erase_if(opened_, [this](std::uint32_t each) { return !book_.is_sending(each); });
  TRY(const std::uint32_t stream, book_.open());
  opened_.push_back(stream);
  return stream;
}

Status Client::write_stream(std::uint32_t stream, ByteView bytes) {
  while (!bytes.empty()) {
    if (const auto refused = reset_.find(stream); refused != reset_.end()) return refused->second;
    if (!book_.is_sending(stream)) return Error::make(Code::invalid_params, "not an open stream of this side");
    if (book_.sendable(stream) == 0) {
      TRY(const bool granted, wait_for([&] { return book_.sendable(stream) > 0 || reset_.contains(stream); },
                                       std::chrono::steady_clock::now() + kStreamWait));
      if (!granted) return Error::make(Code::timeout, "the peer grants no more credit");
      continue;
    }
    const std::size_t size = std::min({bytes.size(), std::size_t{book_.sendable(stream)}, kMaxPieces * kPieceBytes});
    TRY(send_pieces(stream, bytes.first(size)));
    book_.sent(stream, static_cast<std::uint32_t>(size));
    bytes = bytes.subspan(size);
  }
  return ok();
}

// Straight from the caller's memory; only what the socket does not take at once is copied, also when it takes no more
// at all: flush() finds out why.
Status Client::send_pieces(std::uint32_t stream, ByteView bytes) {
  TRY(flush());
  std::array<wire::ChunkHead, kMaxPieces> heads;
  std::array<iovec, 2 * kMaxPieces> parts;
  std::size_t count = 0;
  while (!bytes.empty()) {
    const ByteView piece = bytes.first(std::min(bytes.size(), kPieceBytes));
    wire::ChunkHead& head = heads.at(count / 2);
    head = wire::chunk_head(stream, piece.size());
    parts.at(count++) = {head.data(), head.size()};
    parts.at(count++) = {const_cast<std::uint8_t*>(piece.data()), piece.size()};  // NOLINT(*-const-cast)
    bytes = bytes.subspan(piece.size());
  }
  msghdr message{};
  message.msg_iov = parts.data();
  message.msg_iovlen = count;
  const ssize_t taken = is_output_socket_ ? ::sendmsg(output(), &message, MSG_NOSIGNAL | MSG_DONTWAIT) : 0;
  auto skip = static_cast<std::size_t>(std::max<ssize_t>(taken, 0));
  for (std::size_t i = 0; i < count; ++i) {
    const iovec& part = parts.at(i);
    const std::size_t skipped = std::min(skip, part.iov_len);
    unsent_.append(static_cast<const std::uint8_t*>(part.iov_base) + skipped, part.iov_len - skipped);
    skip -= skipped;
  }
  return flush();
}

Status Client::finish_stream(std::uint32_t stream) {
  if (const auto refused = reset_.find(stream); refused != reset_.end()) return refused->second;
  TRY(wire::append_chunk(unsent_, stream, {}));
  book_.close(stream);
  return send_unsent();
}

Result<Bytes> Client::read_stream(std::uint32_t stream, Millis wait, std::size_t most) {
  const Error unknown = Error::make(Code::not_found, "no such stream");
  auto found = incoming_.find(stream);
  if (found == incoming_.end()) return unknown;
  // Looked up each time: a handler may reset it while it is waited for.
  const auto has_news = [&] {
    found = incoming_.find(stream);
    return found == incoming_.end() || !found->second.bytes.empty() || found->second.is_ended || found->second.error;
  };
  TRY(const bool came, wait_for(has_news, std::chrono::steady_clock::now() + wait));
  if (found == incoming_.end()) return unknown;
  Incoming& incoming = found->second;
  if (!came) return Error::make(Code::timeout, "nothing came on the stream in time");
  if (!incoming.bytes.empty()) {
    Bytes bytes;
    if (incoming.bytes.size() <= most) {
      bytes = std::exchange(incoming.bytes, Bytes());
    } else {
      bytes.append(incoming.bytes.view().first(most));
      incoming.bytes.erase_front(most);
    }
    if (const std::uint32_t grant = book_.consumed(stream, static_cast<std::uint32_t>(bytes.size())); grant != 0) {
      // A peer that is gone wants no credit, and what came of it before is no less true.
      [[maybe_unused]] const Status told =
          notify("stream.credit", wire::to_json([&](wire::JsonWriter& json) {
                   json.begin_object().member("stream", stream).member("bytes", grant).end_object();
                 }));
    }
    return bytes;
  }
  const std::optional<Error> error = incoming.error;
  incoming_.erase(found);
  if (error) return *error;
  return Bytes();
}

void Client::reset_stream(std::uint32_t stream, const Error& error) {
  book_.close(stream);
  incoming_.erase(stream);
  [[maybe_unused]] const Status sent = notify("stream.reset", wire::to_json([&](wire::JsonWriter& json) {
                                                json.begin_object().member("stream", stream).key("error");
                                                wire::write_error(json, error);
                                                json.end_object();
                                              }));
}

}  // namespace sallyport
