// What a session sends.
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "ipc/session.h"

namespace sallyport::ipc {
namespace {

// From here on, copying a chunk to send it with others costs more than a system call of its own.
constexpr std::size_t kLargeChunk = 16U << 10;

}  // namespace

void Session::send(Bytes frame) {
  if (is_closed_) return shared_.give_buffer(std::move(frame));
  if (unsent_.empty()) {
    std::swap(unsent_, frame);
  } else {
    // A peer that is always a little behind must not let what it has read pile up in front.
    if (unsent_from_ > unsent_bytes()) {
      unsent_.erase_front(unsent_from_);
      unsent_from_ = 0;
    }
    unsent_.append(frame.view());
  }
  shared_.give_buffer(std::move(frame));
  if (is_in_turn_) return;  // at its end
  flush();
  update_account();
}

void Session::send_chunk(std::uint32_t stream, ByteView data) {
  if (is_closed_) return;
  const wire::ChunkHead head = wire::chunk_head(stream, data.size());
  std::size_t sent = 0;
  const bool is_worth_a_call = !is_in_turn_ || data.size() >= kLargeChunk;
  if (is_worth_a_call && !is_draining_output_ && is_output_socket_ && on_sent_.empty()) {
    // Straight from the caller's memory, behind what waits; only what the socket does not take at once is copied.
    std::array<iovec, 3> parts{{{unsent_.data() + unsent_from_, unsent_bytes()},
                                {const_cast<std::uint8_t*>(head.data()), head.size()},    // NOLINT(*-const-cast)
                                {const_cast<std::uint8_t*>(data.data()), data.size()}}};  // NOLINT(*-const-cast)
    msghdr message{};
    message.msg_iov = parts.data();
    message.msg_iovlen = parts.size();
    const ssize_t count = ::sendmsg(output().fd(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    const std::size_t taken = count > 0 ? static_cast<std::size_t>(count) : 0;  // an error shows again at the flush
    const std::size_t waited = std::min(taken, unsent_bytes());
    unsent_from_ += waited;
    if (unsent_bytes() == 0) forget_sent();
    update_account();
    sent = taken - waited;
    if (sent == head.size() + data.size()) return;
  }
  if (unsent_.empty()) unsent_ = shared_.take_buffer();
  if (sent < head.size()) unsent_.append(ByteView(head).subspan(sent));
  unsent_.append(data.subspan(sent > head.size() ? sent - head.size() : 0));
  if (!is_in_turn_) flush();
  update_account();
}

void Session::send_error(std::string_view id, const Error& error) {
  Bytes frame = shared_.take_buffer();
  wire::append_error(frame, id, error);
  send(std::move(frame));
}

void Session::send_event(std::string_view id, std::string_view method, std::string_view params) {
  Bytes frame = shared_.take_buffer();
  if (const Status status = wire::append_event(frame, id, method, params); !status) {
    log(LogLevel::error, "event dropped", {{"session", name_}, {"method", method}, {"error", status.error().message}});
    return;
  }
  send(std::move(frame));
}

void Session::send_latest(std::string_view id, std::string_view method, std::string params) {
  if (is_closed_ || unsent_.empty()) return send_event(id, method, params);
  if (latest_.empty()) {
    when_sent([this] {
      for (const auto& [event, latest] : std::exchange(latest_, {})) send_event(event.first, event.second, latest);
    });
  }
  latest_.insert_or_assign({std::string(id), std::string(method)}, std::move(params));
}

void Session::flush() {
  if (is_closed_ || is_draining_output_ || unsent_.empty()) return;
  if (!write_some() && !is_closed_) drain_output();
}

// True when nothing is left to send.
bool Session::write_some() {
  while (unsent_from_ < unsent_.size()) {
    const std::uint8_t* from = unsent_.data() + unsent_from_;
    const std::size_t size = unsent_.size() - unsent_from_;
    const ssize_t count = is_output_socket_ ? ::send(output().fd(), from, size, MSG_NOSIGNAL | MSG_DONTWAIT)
                                            : ::write(output().fd(), from, size);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && errno == EAGAIN) return false;
    if (count < 0) {
      log(LogLevel::info, "connection lost", {{"session", name_}, {"error", errno_name(errno)}});
      close();
      return false;
    }
    unsent_from_ += static_cast<std::size_t>(count);
  }
  forget_sent();
  for (const auto& work : std::exchange(on_sent_, {})) work();
  return true;
}

void Session::forget_sent() {
  unsent_from_ = 0;
  unsent_.clear();
  shared_.give_buffer(std::exchange(unsent_, Bytes()));
}

void Session::when_sent(std::function<void()> work) {
  if (is_closed_ || unsent_.empty()) return work();
  on_sent_.push_back(std::move(work));
}

void Session::hold(bool is_held) {
  is_held_ = is_held;
  wake_reader();
}

Fire Session::drain_output() {
  const auto self = shared_from_this();
  is_draining_output_ = true;
  while (!is_closed_ && co_await output().writable() && !is_closed_) {
    last_activity_ = std::chrono::steady_clock::now();
    const bool is_done = write_some();
    update_account();
    if (is_done && unsent_.empty()) break;
    wake_reader();
  }
  is_draining_output_ = false;
  wake_reader();
  maybe_done();
}

}  // namespace sallyport::ipc
