#include "ipc/session.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "ipc/call.h"
#include "ipc/streams.h"
#include "os/sockets.h"

namespace sallyport::ipc {
namespace {

bool is_socket(int fd) {
  struct stat info{};
  return ::fstat(fd, &info) == 0 && S_ISSOCK(info.st_mode);
}

// Below this, the bytes of an unfinished frame are moved out of a shared-size buffer while they wait.
constexpr std::size_t kSmallRemainder = 4096;

// How much is handled before the clock is asked, and what a frame counts beside its bytes.
constexpr std::size_t kBytesPerLook = 16U << 10, kFrameOverhead = 512;

}  // namespace

Result<std::shared_ptr<Session>> Session::open(Sessions& shared, UniqueFd in, UniqueFd out, wire::Side side,
                                               std::string name) {
  const bool socket = is_socket(in.get());
  if (socket) os::enlarge_buffers(in.get());
  TRY(auto in_watch, Watch::open(shared.loop(), std::move(in)));
  std::unique_ptr<Watch> out_watch;
  if (out) {
    TRY(out_watch, Watch::open(shared.loop(), std::move(out)));
  }
  std::shared_ptr<Session> session(
      new Session(shared, std::move(in_watch), std::move(out_watch), side, std::move(name)));
  session->is_socket_ = socket;
  session->is_output_socket_ = is_socket(session->output().fd());
  return session;
}

Session::Session(Sessions& shared, std::unique_ptr<Watch> in, std::unique_ptr<Watch> out, wire::Side side,
                 std::string name)
    : shared_(shared),
      in_(std::move(in)),
      out_(std::move(out)),
      name_(std::move(name)),
      last_activity_(std::chrono::steady_clock::now()),
      side_(side) {
  if (side_ == wire::Side::accepting) shared_.add(*this);
}

Session::~Session() { close(); }

// ---- reading ----

bool Session::may_read() const {
  return !is_held_ && open_calls_ < capacity_.calls && open_bytes_ < capacity_.call_bytes && !is_full() &&
         has_room_to_read();
}

bool Session::has_turn() {
  if (account_ == nullptr) return true;
  const bool is_time_left = account_->turn != shared_.loop().turn() || account_->spent < kMaxTurnTime;
  std::deque<Session*>& queue = account_->queue;
  const bool is_waiting = std::find(queue.begin(), queue.end(), this) != queue.end();
  if (is_time_left && (queue.empty() || queue.front() == this)) {
    if (is_waiting) queue.pop_front();
    return true;
  }
  if (!is_waiting) queue.push_back(this);
  return false;
}

void Session::begin_turn() {
  is_in_turn_ = true;
  if (account_ == nullptr) return;
  turn_bytes_ = 0;
  if (account_->turn == shared_.loop().turn()) return;
  account_->turn = shared_.loop().turn();
  account_->spent = {};
}

// The clock is asked after a large frame or a number of small ones.
bool Session::is_turn_over() {
  if (account_ == nullptr || turn_bytes_ < kBytesPerLook) return false;
  turn_bytes_ = 0;
  return account_->spent + (std::chrono::steady_clock::now() - turn_begun_) >= kMaxTurnTime;
}

Task<bool> Session::receive() {
  struct Pause {
    Session& session;
    bool await_ready() const { return false; }
    void await_suspend(std::coroutine_handle<> waiter) { session.paused_reader_ = waiter; }
    void await_resume() const {}
  };
  for (;;) {
    if (is_closed_ || is_over_) co_return false;
    if (!may_read()) {
      // As long as we do not read, we would not see the peer go.
      // One that is held only waits a little: what it said before it went is still read then.
      if (!is_held_) watch_for_hangup();
      if (is_closed_) co_return false;
      if (account_ != nullptr) account_->waiting.insert(this);
      co_await Pause{*this};
      if (account_ != nullptr) account_->waiting.erase(this);
      continue;
    }
    hold_unread(unread_);
    const bool has_frames = std::exchange(has_unread_frames_, false);
    if (!has_frames && !co_await in_->readable()) co_return false;
    while (!has_turn() && !is_closed_ && !is_over_) co_await shared_.loop().sleep(Millis(0));
    if (is_closed_ || is_over_) co_return false;
    turn_begun_ = std::chrono::steady_clock::now();
    if (!has_frames && !read_some()) co_return false;
    begin_turn();
    co_return true;
  }
}

void Session::wake_paused_reader() {
  if (!may_read() && !is_closed_) return;
  shared_.loop().post([reader = std::exchange(paused_reader_, nullptr)] { reader.resume(); });
}

bool Session::read_some() {
  reader_.adopt(shared_.take_buffer());
  const auto room = reader_.writable();
  ssize_t count = 0;
  int flags = 0;
  do {
    if (is_socket_) {
      // Without room for control data the kernel drops any descriptors that came along, and says so.
      iovec part{room.data(), room.size()};
      msghdr header{};
      header.msg_iov = &part;
      header.msg_iovlen = 1;
      count = ::recvmsg(in_->fd(), &header, MSG_DONTWAIT);
      flags = header.msg_flags;
    } else {
      count = ::read(in_->fd(), room.data(), room.size());
    }
  } while (count < 0 && errno == EINTR);
  if (count < 0 && errno == EAGAIN) return true;
  if (count < 0) {
    log(LogLevel::info, "connection lost", {{"session", name_}, {"error", errno_name(errno)}});
    close();
    return false;
  }
  if ((flags & MSG_CTRUNC) != 0) {
    ++shared_.counters().descriptors_dropped;
    log(LogLevel::warn, "dropped descriptors nobody asked for", {{"session", name_}});
    // As many as of other slips are forgiven.
    if (++slips_ >= wire::kMaxMalformed) {
      break_off(Error::make(Code::protocol_error, "descriptors are never accepted"));
      return false;
    }
  }
  if (count == 0) {
    if (const Status end = reader_.finish(); !end) {
      log(LogLevel::warn, "connection ended inside a frame", {{"session", name_}, {"error", end.error().message}});
    }
    is_over_ = true;
    return false;
  }
  reader_.commit(static_cast<std::size_t>(count));
  last_activity_ = turn_begun_;
  return true;
}

void Session::settle_newest_call() {
  if (newest_call_ != nullptr) std::exchange(newest_call_, nullptr)->outlive_turn();
}

std::optional<wire::Message> Session::next_request() {
  settle_newest_call();
  while (!is_closed_ && !is_over_) {
    if (!may_read()) {
      has_unread_frames_ = true;
      return std::nullopt;
    }
    if (is_turn_over()) {
      has_unread_frames_ = true;
      return std::nullopt;
    }
    auto frame = reader_.next();
    if (!frame) {
      break_off(frame.error());
      return std::nullopt;
    }
    if (!*frame) return std::nullopt;
    frame_begun_.reset();
    turn_bytes_ += (*frame)->size() + kFrameOverhead;
    switch (wire::frame_kind(**frame)) {
      case wire::FrameKind::message:
        if (auto message = wire::decode_message(shared_.decoder(), **frame, keep_); accept_message(message)) {
          return std::move(*message);
        }
        break;
      case wire::FrameKind::chunk:
        accept_chunk(**frame);
        break;
      case wire::FrameKind::handshake:
      case wire::FrameKind::unknown:
        slip({}, Error::make(Code::protocol_error, "a body starts with '{' or a chunk tag"));
        break;
    }
  }
  return std::nullopt;
}

bool Session::accept_message(wire::MessageResult& message) {
  if (!message) {
    // A request in flight gets one answer, and this is not it.
    const std::string_view id = message.malformed().id;
    slip(find_call(id) == nullptr ? id : std::string_view(), message.malformed().error);
    return false;
  }
  if (message->type == wire::MessageType::event) {
    accept_event(*message);
    return false;
  }
  if (message->type == wire::MessageType::response) {
    accept_response(*message);
    return false;
  }
  if (find_call(message->id) != nullptr) {
    slip({}, Error::make(Code::conflict, "a request with this id is still in flight"));
    return false;
  }
  if (!message->streams.empty()) {
    const auto refuse = [&](const Error& error) { send_error(message->id, error); };
    if (const Status announced = streams().announce(message->streams, refuse); !announced) {
      if (announced.error().code != Code::rate_limited) slip(message->id, announced.error());
      return false;
    }
  }
  if (is_draining_) {
    send_error(message->id, Error::make(Code::unavailable, "the other side is stopping; try again"));
    if (!message->streams.empty()) streams().drop_untaken(message->streams);
    return false;
  }
  ++shared_.counters().requests;
  return true;
}

void Session::accept_response(wire::Message& response) {
  // The other side will not serve us at all: it ends the connection, and whoever asked learns why.
  if (response.id.empty() && response.error && side_ == wire::Side::connecting) {
    refusal_ = *response.error;
    return;
  }
  const auto found = asked_.find(response.id);
  if (found == asked_.end()) return slip({}, Error::make(Code::protocol_error, "a response nobody asked for"));
  if (!response.streams.empty()) {
    if (const Status announced = streams().announce(response.streams); !announced) return break_off(announced.error());
  }
  const OnAnswer on_answer = std::move(found->second.on_answer);
  asked_.erase(found);
  const std::vector<std::uint32_t> named = response.streams;
  on_answer(std::move(response));
  if (!named.empty()) streams().drop_untaken(named);
}

Result<std::string> Session::request(std::string_view method, std::string_view params,
                                     std::optional<std::uint32_t> deadline_ms, OnAnswer on_answer, OnEvent on_event) {
  if (is_closed_) return Error::make(Code::unavailable, "the other side is gone; try again");
  std::string id = std::to_string(++last_asked_);
  Bytes frame = shared_.take_buffer();
  TRY(wire::append_request(frame, {.id = id, .method = method, .deadline_ms = deadline_ms, .token = {}}, params));
  asked_.emplace(id, Asked{std::move(on_answer), std::move(on_event)});
  send(std::move(frame));
  return id;
}

void Session::accept_event(const wire::Message& event) {
  Status status = ok();
  if (event.method == "cancel") {
    // One that is answered already lost a race; that is no fault.
    if (Call* call = find_call(event.id)) {
      ++shared_.counters().cancelled;
      call->give_up(Error::make(Code::cancelled, "cancelled by the caller"));
    } else if (on_late_cancel_) {
      on_late_cancel_(event.id);
    }
  } else if (event.method == "stream.credit") {
    status = streams().credit(event.params);
  } else if (event.method == "stream.reset") {
    status = streams().reset(event.params);
  } else if (const auto asked = asked_.find(event.id); asked != asked_.end() && asked->second.on_event) {
    asked->second.on_event(event);
  } else if (on_event_) {
    if (!event.streams.empty()) status = streams().announce(event.streams);
    if (status) on_event_(event);
    if (!event.streams.empty()) streams().drop_untaken(event.streams);
  } else {
    status = Error::make(Code::protocol_error, "an event nobody asked for");
  }
  if (!status) slip({}, status.error());
}

void Session::deliver(std::string_view id, const wire::Message& event) {
  const auto asked = asked_.find(id);
  if (asked != asked_.end() && asked->second.on_event) asked->second.on_event(event);
}

void Session::accept_chunk(ByteView body) {
  const auto chunk = wire::parse_chunk(body);
  const Status status = chunk ? streams().arrive(*chunk) : Status(chunk.error());
  if (status) return;
  if (chunk && status.error().code == Code::protocol_error) return break_off(status.error());
  slip({}, status.error());
}

// A fault that leaves the framing intact: answered, counted, and forgiven a few times.
void Session::slip(std::string_view id, const Error& error) {
  ++shared_.counters().malformed;
  if (id.empty() && ++slips_ >= wire::kMaxMalformed) return break_off(error);
  send_error(id, error);
}

void Session::break_off(const Error& error) {
  ++shared_.counters().protocol_closes;
  log(LogLevel::warn, "closing a connection that broke the protocol", {{"session", name_}, {"error", error.message}});
  is_in_turn_ = true;
  send_error({}, error);
  if (!is_draining_output_) write_some();
  close();
}

Call* Session::find_call(std::string_view id) {
  const auto found = std::find_if(calls_.begin(), calls_.end(), [&](Call* call) { return call->message().id == id; });
  return found == calls_.end() ? nullptr : *found;
}

void Session::end_turn() {
  settle_newest_call();
  is_in_turn_ = false;
  flush();
  update_account();
  if (account_ != nullptr) account_->spent += std::chrono::steady_clock::now() - turn_begun_;
  unread_ = 0;
  if (reader_.is_between_frames()) {
    shared_.give_buffer(reader_.surrender());
  } else {
    if (!has_unread_frames_) {
      if (!frame_begun_) frame_begun_ = last_activity_;
      if (reader_.buffered() < kSmallRemainder) reader_.trim();
    }
    unread_ = std::max(reader_.buffered(), reader_.wanted());
  }
  hold_unread(std::min(unread_, held_unread_));
  maybe_done();
}

// ---- ending ----

void Session::finish() {
  if (is_closed_) return;
  is_over_ = true;
  if (streams_) streams_->end_inbound(Error::make(Code::cancelled, "the connection ended"));
  maybe_done();
  if (!is_closed_) watch_for_hangup();
}

void Session::drain() {
  is_draining_ = true;
  maybe_done();
}

// The peer ended its side only and still reads; or it is gone, and nobody wants the answers.
Fire Session::watch_for_hangup() {
  const auto self = shared_from_this();
  if (!is_socket_ || std::exchange(is_watching_for_hangup_, true)) co_return;
  pollfd state{in_->fd(), 0, 0};
  const bool is_gone = ::poll(&state, 1, 0) > 0 && (state.revents & (POLLHUP | POLLERR)) != 0;
  if (is_gone || co_await in_->hangup()) close();
}

void Session::close_if_done() {
  if (open_calls_ != 0 || !unsent_.empty() || is_in_turn_) return;
  // No more credit comes from a peer that has ended its side.
  if (!streams_ || !streams_->has_more_to_send(!is_over_)) close();
}

void Session::maybe_done_soon() {
  if ((!is_over_ && !is_draining_) || is_closed_) return;
  shared_.loop().post([weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->maybe_done();
  });
}

void Session::cut_off(const Error& error) {
  const auto self = shared_from_this();
  while (!calls_.empty()) {
    Call* call = calls_.back();
    calls_.pop_back();
    call->give_up(error);
  }
  close();
}

void Session::close() {
  if (is_closed_) return;
  is_closed_ = true;
  update_account();
  leave_account();
  while (!calls_.empty()) {
    Call* call = calls_.back();
    calls_.pop_back();
    call->give_up(Error::make(Code::cancelled, "the connection ended"));
  }
  if (streams_) streams_->close_all(Error::make(Code::cancelled, "the connection ended"));
  in_->cancel();
  if (out_) out_->cancel();
  if (is_socket_) ::shutdown(in_->fd(), SHUT_RDWR);
  for (const auto& work : std::exchange(on_close_, {})) work();
  for (const auto& work : std::exchange(on_sent_, {})) work();
  for (const auto& [id, asked] : std::exchange(asked_, {})) {
    asked.on_answer(refusal_.value_or(Error::make(Code::unavailable, "the other side is gone; try again")));
  }
  if (side_ == wire::Side::accepting) shared_.remove(*this);
  wake_reader();
}

Result<UniqueFd> Session::copy_connection() const {
  UniqueFd copy{::fcntl(in_->fd(), F_DUPFD_CLOEXEC, 3)};
  // Both share the mode; this side never waits, whatever it is.
  if (!copy || ::fcntl(copy.get(), F_SETFL, ::fcntl(copy.get(), F_GETFL) & ~O_NONBLOCK) != 0) {
    return Error::from_errno("cannot copy a connection", errno);
  }
  return copy;
}

void Session::let_go() {
  is_socket_ = false;  // that would be shut down
  close();
}

void Session::close_if_idle(SteadyTime now) {
  // What we do not read we cannot blame the peer for.
  const bool is_stuck = frame_begun_ && may_read() && now - *frame_begun_ > shared_.limits().frame_timeout;
  const bool is_idle = open_calls_ == 0 && !is_never_idle_ && now - last_activity_ > shared_.limits().idle_timeout;
  if (!is_stuck && !is_idle) return;
  ++shared_.counters().idle_closes;
  log(LogLevel::info, "closing a silent connection", {{"session", name_}, {"inside_a_frame", is_stuck ? 1 : 0}});
  close();
}

// A session's name is its door's and a number.
void Session::log(LogLevel level, std::string_view event, Log::Fields fields) {
  shared_.log_about(std::string_view(name_).substr(0, name_.rfind('/')), level, event, fields);
}

StreamHub& Session::streams() {
  if (!streams_) streams_ = std::make_unique<StreamHub>(*this, side_, window_, capacity_.streams);
  return *streams_;
}

}  // namespace sallyport::ipc
