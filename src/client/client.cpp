#include "client/client.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <climits>
#include <csignal>

#include "os/sockets.h"
#include "wire/one_object.h"

namespace sallyport {
namespace {

// We give the peer this much longer than we told it, so that its own TIMEOUT answer wins.
constexpr Millis kGrace{2'000};
// Places of answered calls that may stay behind one that takes long.
constexpr std::size_t kMostAnswered = 64;
// A peer that takes nothing for so long, of what no deadline is said for, does not read any more.
constexpr Millis kSendPatience{30'000};

SteadyTime steady_now() { return std::chrono::steady_clock::now(); }

constexpr SteadyTime kAtOnce{};  // the clock need not be asked for it

int poll_millis(SteadyTime until) {
  if (until == kAtOnce) return 0;
  const auto left = std::chrono::ceil<Millis>(until - steady_now()).count();
  return static_cast<int>(std::clamp<std::int64_t>(left, 0, 1 << 30));
}

// A number's text.
class Digits {
 public:
  explicit Digits(std::uint64_t number) : end_(std::to_chars(text_.data(), text_.data() + text_.size(), number).ptr) {}
  std::string_view view() const { return {text_.data(), static_cast<std::size_t>(end_ - text_.data())}; }

 private:
  std::array<char, 20> text_;
  const char* end_;
};

bool is_socket(int fd) {
  struct stat info{};
  return ::fstat(fd, &info) == 0 && S_ISSOCK(info.st_mode);
}

// What no pipe that is ready makes us wait for, without the signal that would end a program which did not expect it.
ssize_t write_to_pipe(int fd, ByteView bytes) {
  pollfd event{fd, POLLOUT, 0};
  if (::poll(&event, 1, 0) == 0) {
    errno = EAGAIN;
    return -1;
  }
  sigset_t pipe_signal, before, pending;
  sigemptyset(&pipe_signal);
  sigaddset(&pipe_signal, SIGPIPE);
  ::pthread_sigmask(SIG_BLOCK, &pipe_signal, &before);
  ::sigpending(&pending);
  const ssize_t count = ::write(fd, bytes.data(), std::min<std::size_t>(bytes.size(), PIPE_BUF));
  const int error_number = errno;
  const timespec at_once{};
  if (count < 0 && error_number == EPIPE && sigismember(&pending, SIGPIPE) == 0) {
    ::sigtimedwait(&pipe_signal, nullptr, &at_once);
  }
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  errno = error_number;
  return count;
}

// Calls that make a connection another one than it was.
bool is_changing(std::string_view method) { return method == "warden.subscribe" || method == "session.narrow"; }

Error lost(std::string detail) { return Error::make(Code::unavailable, "the connection is lost", std::move(detail)); }

}  // namespace

Answer::~Answer() {
  if (decoder_) decoder_->recycle(std::move(message_.document));
}

// ---- connecting ----

Client::Client(UniqueFd in, UniqueFd out, wire::Side side)
    : in_(std::move(in)), out_(std::move(out)), decoder_(std::make_shared<wire::Decoder>()), side_(side), book_(side) {
  is_socket_ = is_socket(in_.get());
  is_output_socket_ = is_socket(output());
}

Client::~Client() { [[maybe_unused]] const Error error = fail(lost("closed by this side")); }

Result<std::unique_ptr<Client>> Client::connect_unix(const std::string& path) {
  TRY(UniqueFd connection, os::connect_own_unix(path));
  return adopt(std::move(connection), UniqueFd(), wire::Side::connecting);
}

Result<std::unique_ptr<Client>> Client::adopt(UniqueFd in, UniqueFd out, wire::Side side) {
  return std::unique_ptr<Client>(new Client(std::move(in), std::move(out), side));
}

// ---- bytes ----

Error Client::fail(Error error) {
  if (!failure_) failure_ = error;
  const auto pending = std::exchange(pending_, {});
  answered_ = 0;
  for (const Pending& each : pending) {
    if (!each.is_answered) each.on_answer(error);
  }
  return error;
}

Error Client::lose(std::string detail) { return fail(farewell_ ? *farewell_ : lost(std::move(detail))); }

// What came before the peer hung up: it may say why. Not while a frame is handled, which lies in the same buffer.
void Client::take_last_words() {
  if (is_handling_) return;
  while (const ssize_t count = receive_once(reader_.writable(), MSG_DONTWAIT)) {
    if (count < 0) break;
    reader_.commit(static_cast<std::size_t>(count));
  }
  is_handling_ = true;
  [[maybe_unused]] const Status handled = handle_each_frame();
  is_handling_ = false;
}

Status Client::send_unsent() { return is_handling_ && unsent_.size() < kPieceBytes ? ok() : flush(); }

// Never waits for the peer to read without reading itself: two sides that both only write would wait
// forever. A peer that does not read either is given up, and the connection with it: a part of a frame may be out.
Status Client::flush() {
  if (failure_) return *failure_;
  std::size_t sent = 0;
  std::optional<SteadyTime> until;
  while (sent < unsent_.size()) {
    const ssize_t count = send_once(unsent_.view().subspan(sent));
    if (count >= 0) {
      sent += static_cast<std::size_t>(count);
      until.reset();
      continue;
    }
    if (errno == EINTR) continue;
    if (errno != EAGAIN) {
      const std::string detail = errno_name(errno);
      take_last_words();
      return lose(detail);
    }
    if (!until) until = give_up_at_ ? *give_up_at_ : steady_now() + kSendPatience;
    const int wait = poll_millis(*until);
    if (wait == 0) return fail(Error::make(Code::timeout, "the peer does not read what is sent to it"));
    std::array<pollfd, 2> events = {{{in_.get(), POLLIN, 0}, {output(), POLLOUT, 0}}};
    if (::poll(events.data(), events.size(), wait) < 0 && errno != EINTR) return fail(lost(errno_name(errno)));
    if ((events[0].revents & (POLLIN | POLLHUP)) != 0) {
      TRY(const bool came, receive(kAtOnce));
      // Handled later, by whoever waits: here only the kernel's buffer is emptied.
      if (!came && has_ended_) return lose("ended by the peer");
    }
  }
  unsent_.clear();
  return ok();
}

ssize_t Client::send_once(ByteView bytes) {
  return is_output_socket_ ? ::send(output(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT)
                           : write_to_pipe(output(), bytes);
}

ssize_t Client::receive_once(std::span<std::uint8_t> room, int flags) {
  ssize_t count = 0;
  do {
    // A pipe that nothing waits in would make us wait.
    pollfd event{in_.get(), POLLIN, 0};
    if (!is_socket_ && (flags & MSG_DONTWAIT) != 0 && ::poll(&event, 1, 0) == 0) {
      errno = EAGAIN;
      return -1;
    }
    count =
        is_socket_ ? ::recv(in_.get(), room.data(), room.size(), flags) : ::read(in_.get(), room.data(), room.size());
  } while (count < 0 && errno == EINTR);
  return count;
}

Result<bool> Client::receive(SteadyTime until) {
  if (failure_) return *failure_;
  const auto room = reader_.writable();
  const int wait = poll_millis(until);
  ssize_t count = -1;
  const auto look = [&] {
    count = receive_once(room, MSG_DONTWAIT);
    return count >= 0 || errno != EAGAIN;
  };
  const auto sleep = [&] {
    // Not a receive that blocks: the kernel would wake it for nothing each time the peer takes what we sent.
    if (pollfd event{in_.get(), POLLIN, 0}; ::poll(&event, 1, wait) > 0) {
      look();
    } else {
      errno = EAGAIN;
    }
  };
  if (is_socket_ && wait == 0) {
    look();
  } else if (is_socket_) {
    spinner_.wait(look, sleep);
  } else {
    sleep();
  }
  if (count < 0 && errno == EAGAIN) return false;
  if (count < 0) return lose(errno_name(errno));
  if (count == 0) {
    if (const Status end = reader_.finish(); !end) return lose(end.error().message);
    has_ended_ = true;
    return lose("ended by the peer");
  }
  reader_.commit(static_cast<std::size_t>(count));
  return true;
}

bool Client::is_open() const {
  if (failure_) return false;
  pollfd event{in_.get(), POLLIN | POLLRDHUP, 0};
  return ::poll(&event, 1, 0) == 0 || (event.revents & (POLLHUP | POLLRDHUP | POLLERR)) == 0;
}

// ---- what arrives ----

Status Client::handle_frames() {
  is_handling_ = true;
  const Status handled = handle_each_frame();
  is_handling_ = false;
  TRY(handled);
  return flush();
}

Status Client::handle_each_frame() {
  for (;;) {
    const auto frame = reader_.next();
    if (!frame) return fail(frame.error());
    if (!*frame) return ok();
    switch (wire::frame_kind(**frame)) {
      case wire::FrameKind::message:
        TRY(handle_message(**frame));
        break;
      case wire::FrameKind::chunk:
        TRY(handle_chunk(**frame));
        break;
      default:
        return fail(Error::make(Code::protocol_error, "the peer sent an unknown kind of frame"));
    }
  }
}

Status Client::handle_message(ByteView body) {
  auto message = wire::decode_message(*decoder_, body);
  if (!message) return fail(message.malformed().error);
  farewell_.reset();
  for (const std::uint32_t stream : message->streams) {
    if (const Status announced = book_.announce(stream); !announced) return fail(announced.error());
    incoming_.emplace(stream, Incoming());
  }
  switch (message->type) {
    case wire::MessageType::response:
      handle_response(*message);
      return ok();
    case wire::MessageType::event:
      return handle_event(*message);
    case wire::MessageType::request:
      return handle_request(*message);
  }
  return ok();
}

// A place is given up once it is the first, or when most are answered.
Client::OnAnswer Client::take_pending(std::uint64_t id) {
  auto found = pending_.begin();
  if (found == pending_.end() || found->id != id) {
    found =
        std::lower_bound(found, pending_.end(), id, [](const Pending& each, std::uint64_t to) { return each.id < to; });
  }
  if (found == pending_.end() || found->id != id || std::exchange(found->is_answered, true)) return nullptr;
  OnAnswer on_answer = std::move(found->on_answer);
  ++answered_;
  for (; !pending_.empty() && pending_.front().is_answered; --answered_) pending_.pop_front();
  if (answered_ > kMostAnswered && answered_ > pending_.size() / 2) {
    std::erase_if(pending_, [](const Pending& each) { return each.is_answered; });
    answered_ = 0;
  }
  return on_answer;
}

void Client::handle_response(wire::Message& message) {
  // The peer could not read something of ours, or refuses to serve us at all.
  if (message.id.empty()) {
    farewell_ = *message.error;
    if (!waiting_id_.empty()) waiting_answer_ = *message.error;
    return;
  }
  const bool is_waited_for = message.id == waiting_id_;
  std::uint64_t id = 0;
  std::from_chars(message.id.data(), message.id.data() + message.id.size(), id);
  Result<Answer> answer = message.error ? Result<Answer>(*message.error) : Answer(decoder_, std::move(message));
  if (is_waited_for) {
    waiting_answer_ = std::move(answer);
    return;
  }
  // None: cancelled or timed out here before.
  if (const OnAnswer on_answer = take_pending(id)) on_answer(std::move(answer));
}

Status Client::handle_event(const wire::Message& event) {
  const auto stream = static_cast<std::uint32_t>(event.params.get("stream").as_int().value_or(0));
  if (event.method == "stream.credit") {
    if (const Status credited = book_.credit(stream, event.params.get("bytes").as_int().value_or(0)); !credited) {
      return fail(credited.error());
    }
  } else if (event.method == "stream.reset") {
    const Error why = wire::read_error(event.params.get("error"));
    if (book_.is_sending(stream)) reset_.emplace(stream, why);
    if (const auto found = incoming_.find(stream); found != incoming_.end()) found->second.error = why;
    book_.close(stream);
  } else if (event.method != "cancel" && on_event_) {
    // A served method answers before the next message is read: there is nothing left to cancel.
    on_event_(event);
  }
  return ok();
}

Status Client::handle_request(const wire::Message& request) {
  const auto found = served_.find(request.method);
  if (found == served_.end()) {
    wire::append_error(unsent_, request.id, Error::make(Code::method_not_found, "no such method"));
    return send_unsent();
  }
  const auto result = found->second(request);
  if (!result) {
    wire::append_error(unsent_, request.id, result.error());
  } else if (!decoder_->parse(*result)) {
    wire::append_error(unsent_, request.id, Error::make(Code::internal_error, "the method's answer is not JSON"));
  } else if (const Status fits = wire::append_result(unsent_, request.id, *result); !fits) {
    wire::append_error(unsent_, request.id, fits.error());
  }
  return send_unsent();
}

Status Client::handle_chunk(ByteView body) {
  const auto chunk = wire::parse_chunk(body);
  if (!chunk) return fail(chunk.error());
  const auto arrival = book_.arrive(chunk->stream, chunk->data.size());
  if (!arrival) return fail(arrival.error());
  const auto found = incoming_.find(chunk->stream);
  if (found == incoming_.end() || *arrival == wire::Streams::Arrival::ignored) return ok();
  if (*arrival == wire::Streams::Arrival::end) {
    found->second.is_ended = true;
  } else {
    // More of it is likely to be buffered already.
    Bytes& bytes = found->second.bytes;
    if (bytes.empty()) bytes.reserve(chunk->data.size() + reader_.buffered());
    bytes.append(chunk->data);
  }
  return ok();
}

Result<bool> Client::wait_for(const std::function<bool()>& done, SteadyTime until) {
  for (;;) {
    const Status handled = handle_frames();
    if (done()) return true;
    TRY(handled);
    if (steady_now() >= until) return false;
    TRY(receive(until));
  }
}

Status Client::dispatch(Millis wait) {
  TRY(handle_frames());
  TRY(const bool came, receive(wait.count() == 0 ? kAtOnce : steady_now() + wait));
  return came ? handle_frames() : ok();
}

Status Client::run() {
  for (;;) {
    const Status status = dispatch(Millis(60'000));
    if (!status) return has_ended_ ? ok() : status;
  }
}

// ---- calls ----

Status Client::append_call(std::string_view id, std::string_view method, std::string_view params,
                           const CallOptions& options) {
  if (options.deadline.count() < 1 || options.deadline.count() > wire::kMaxDeadlineMs) {
    return Error::make(Code::invalid_params, "a deadline is between 1 ms and 24 hours");
  }
  if (!params.empty() && !wire::is_one_object(params)) {
    return Error::make(Code::invalid_params, "the parameters must be the JSON text of one object");
  }
  is_changed_ = is_changed_ || is_changing(method);
  return wire::append_request(
      unsent_, {id, method, static_cast<std::uint32_t>(options.deadline.count()), options.token}, params);
}

bool Client::is_as_new() const {
  return is_open() && !is_changed_ && !on_event_ && served_.empty() && pending() == 0 && incoming_.empty() &&
         std::none_of(opened_.begin(), opened_.end(), [this](std::uint32_t each) { return book_.is_sending(each); });
}

Result<Answer> Client::call(std::string_view method, std::string_view params, const CallOptions& options) {
  if (!waiting_id_.empty()) return Error::make(Code::invalid_request, "a handler of this client cannot block on it");
  const Digits digits(++last_id_);
  const std::string_view id = digits.view();
  TRY(append_call(id, method, params, options));
  const SteadyTime until = steady_now() + options.deadline + kGrace;
  give_up_at_ = until;
  const Status sent = send_unsent();
  waiting_id_ = id;
  waiting_answer_.reset();
  const auto answered = sent ? wait_for([this] { return waiting_answer_.has_value(); }, until) : sent.error();
  waiting_id_.clear();
  give_up_at_.reset();
  if (!answered) return answered.error();
  if (!*answered) {
    give_up_at_ = steady_now() + kGrace;
    cancel(id);
    give_up_at_.reset();
    return Error::make(Code::timeout, "no answer in time");
  }
  Result<Answer> answer = std::move(*waiting_answer_);
  waiting_answer_.reset();
  return answer;
}

Result<std::string> Client::start(std::string_view method, std::string_view params, OnAnswer on_answer,
                                  const CallOptions& options) {
  const Digits id(++last_id_);
  TRY(append_call(id.view(), method, params, options));
  TRY(send_unsent());
  pending_.push_back({last_id_, std::move(on_answer)});
  return std::string(id.view());
}

void Client::cancel(std::string_view id) {
  if (wire::append_event(unsent_, id, "cancel", {})) {
    // A lost connection is reported by the next call.
    [[maybe_unused]] const Status sent = send_unsent();
  }
}

Status Client::notify(std::string_view method, std::string_view params) {
  if (!params.empty() && !wire::is_one_object(params)) {
    return Error::make(Code::invalid_params, "the parameters must be the JSON text of one object");
  }
  TRY(wire::append_event(unsent_, {}, method, params));
  return send_unsent();
}

}  // namespace sallyport
