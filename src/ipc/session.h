// One authenticated connection: frames in, requests out; replies in, frames out.
//
// A Session knows the wire and nothing of policy. It promises: frames are read only while fewer than
// kMaxInFlight requests are open and unsent replies are below their limit, so a peer that sends without
// reading costs bounded memory; replies leave in the order they were sent, many per system call; a peer
// that breaks the protocol gets an error frame and, where framing is lost or after kMaxMalformed slips,
// is disconnected.
//
// A session of the connecting side asks instead (request); it belongs to whoever opened it and is neither
// counted nor closed with those that ask us.
#pragma once

#include <coroutine>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/base.h"
#include "ipc/account.h"
#include "ipc/sessions.h"
#include "wire/wire.h"

namespace sallyport::ipc {

class Call;
class StreamHub;

// How much one connection may have open: requests, their bytes, unsent bytes, streams each way. The default
// is for a peer that nobody vouches for.
struct Capacity {
  std::size_t calls = wire::kMaxInFlight;
  std::size_t call_bytes = wire::kMaxInFlightBytes;
  std::size_t unsent_bytes = wire::kMaxUnsentBytes;
  std::size_t streams = wire::kMaxOpenStreams;
};

class Session : public std::enable_shared_from_this<Session> {
 public:
  // `out` only where reading and writing are two descriptors (stdio).
  static Result<std::shared_ptr<Session>> open(Sessions& shared, UniqueFd in, UniqueFd out, wire::Side side,
                                               std::string name);
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  // For a connection that carries the requests of many, between two processes of ours. Before its first use.
  void set_capacity(const Capacity& capacity) { capacity_ = capacity; }

  // With whose others it shares. Before its first use; the account outlives the open session.
  void charge_to(Account& account) { account_ = &account; }
  bool may_hold_stream() const { return account_ == nullptr || account_->streams < account_->most_streams; }
  void hold_stream(bool is_held);

  // Whether an event may wait here until its peer reads: otherwise it is lost, and the peer told how many were. Of what
  // its account may have unsent, events take only a share.
  bool takes_events(std::size_t most_unsent) const;

  // For a peer whose results are only passed on: they are kept as their text (wire::Keep::result).
  void keep_results() { keep_ = wire::Keep::result; }

  // Waits until requests may be there. False: the session is over, nothing more will come.
  Task<bool> receive();
  // The next complete request; nullopt when receive() must be awaited again. Everything that is not a
  // request (chunks, events, malformed bodies) is dealt with here.
  std::optional<wire::Message> next_request();

  // Asks the peer; `on_answer` runs exactly once: with its answer (the error inside it is the peer's), or
  // with UNAVAILABLE when the connection ends first. Events that carry the request's id go to `on_event`
  // until then. Returns the id, for a `cancel` event.
  using OnAnswer = std::function<void(Result<wire::Message>)>;
  using OnEvent = std::function<void(const wire::Message&)>;
  Result<std::string> request(std::string_view method, std::string_view params,
                              std::optional<std::uint32_t> deadline_ms, OnAnswer on_answer, OnEvent on_event = {});

  // An event to the listener of the request with this id, as if it had come with it.
  void deliver(std::string_view id, const wire::Message& event);

  // Events beyond those of calls and streams, which are refused if nobody listens for them.
  void on_event(std::function<void(const wire::Message&)> handle) { on_event_ = std::move(handle); }

  // For a `cancel` of a request that is answered but has something that goes on, such as a subscription.
  void on_late_cancel(std::function<void(std::string_view id)> work) { on_late_cancel_ = std::move(work); }

  // Both sides must agree on it; before the first stream.
  void set_window(wire::StreamWindow window) { window_ = window; }

  // Queues a frame. It leaves with flush(), which the turn's end calls, or by itself outside a turn.
  void send(Bytes frame);
  void send_chunk(std::uint32_t stream, ByteView data);  // at most wire::kMaxChunkBytes
  void send_error(std::string_view id, const Error& error);
  void send_event(std::string_view id, std::string_view method, std::string_view params);
  // For an event of which only the latest says something: those that its peer does not read meanwhile become one.
  void send_latest(std::string_view id, std::string_view method, std::string params);
  void flush();
  // Runs once all that is queued was taken by the socket, or the session is over.
  void when_sent(std::function<void()> work);

  // While held, nothing more is read: for a source whose events nobody takes right now.
  void hold(bool is_held);

  // Ends a read turn: sends what was queued, and lends the buffer to others.
  void end_turn();

  // After the peer's last byte: lets what is in flight be answered and streams that have an end be sent, as far as the
  // credit for them goes, then closes.
  void finish();
  // The same though the peer has not ended, for a shutdown: what belongs to the requests in flight, such as chunks and
  // credit, is still read, and every further request is refused.
  void drain();
  void close();  // now; open calls are cancelled
  // The same, but whoever waits for an answer is told this first, as far as the connection takes it at once.
  void cut_off(const Error& error);
  // For a connection that goes on in other hands: a copy of its descriptor, which blocks; and the end of this session,
  // but not of the connection.
  Result<UniqueFd> copy_connection() const;
  void let_go();
  bool is_closed() const { return is_closed_; }
  std::size_t unsent_bytes() const { return unsent_.size() - unsent_from_; }

  void close_if_idle(SteadyTime now);
  // A session that waits for events is not idle.
  void set_never_idle(bool never) { is_never_idle_ = never; }
  // Runs once when the session closes.
  void on_close(std::function<void()> work) { on_close_.push_back(std::move(work)); }
  // For what calls refer to: it lasts as long as the session.
  void keep(std::shared_ptr<const void> what) { kept_.push_back(std::move(what)); }

  Sessions& shared() { return shared_; }
  const std::string& name() const { return name_; }  // for logs
  StreamHub& streams();

 private:
  friend class Call;
  friend class StreamHub;

  Session(Sessions& shared, std::unique_ptr<Watch> in, std::unique_ptr<Watch> out, wire::Side side, std::string name);

  Watch& output() { return out_ ? *out_ : *in_; }
  bool may_read() const;
  bool has_turn();  // whether the account has time left in this turn of the loop, and nobody waits for it longer
  void begin_turn();
  bool is_turn_over();
  void update_account();
  void leave_account();
  bool has_room_to_read() const {
    return account_ == nullptr || unread_ <= held_unread_ ||
           account_->unread + (unread_ - held_unread_) <= account_->most_unread;
  }
  void hold_unread(std::size_t bytes);  // of the account, instead of what was held before
  bool is_full() const {
    return unsent_bytes() >= capacity_.unsent_bytes || (account_ != nullptr && account_->is_full());
  }
  bool may_send_streams();  // if not, send_streams() is called later
  void send_streams();
  void wake_reader() {
    if (paused_reader_) wake_paused_reader();
  }
  void wake_paused_reader();
  void settle_newest_call();
  bool read_some();
  bool accept_message(wire::MessageResult& message);  // true: a request
  void accept_response(wire::Message& response);
  void accept_event(const wire::Message& event);
  void accept_chunk(ByteView body);
  void slip(std::string_view id, const Error& error);
  void break_off(const Error& error);
  void log(LogLevel level, std::string_view event, Log::Fields fields);
  bool write_some();
  void forget_sent();  // gives back the buffer of what was sent
  Fire drain_output();
  Fire watch_for_hangup();
  void maybe_done() {
    if ((is_over_ || is_draining_) && !is_closed_) close_if_done();
  }
  void close_if_done();
  void maybe_done_soon();  // for one who cannot see the session end now
  Call* find_call(std::string_view id);

  Sessions& shared_;
  std::unique_ptr<Watch> in_, out_;
  std::string name_;
  wire::FrameReader reader_;
  Bytes unsent_;
  std::size_t unsent_from_ = 0;
  std::vector<Call*> calls_;    // unanswered, after the turn in which they came
  std::size_t open_calls_ = 0;  // objects alive, answered or not
  std::size_t open_bytes_ = 0;
  Call* newest_call_ = nullptr;
  struct Asked {
    OnAnswer on_answer;
    OnEvent on_event;
  };
  std::map<std::string, Asked, std::less<>> asked_;
  std::uint64_t last_asked_ = 0;
  std::optional<Error> refusal_;  // of all that we ask
  std::function<void(const wire::Message&)> on_event_;
  std::function<void(std::string_view)> on_late_cancel_;
  wire::StreamWindow window_;
  wire::Keep keep_ = wire::Keep::nothing;
  std::unique_ptr<StreamHub> streams_;
  std::coroutine_handle<> paused_reader_;
  SteadyTime last_activity_;
  std::optional<SteadyTime> frame_begun_;  // when the first byte of an unfinished frame came
  std::vector<std::function<void()>> on_close_, on_sent_;
  std::vector<std::shared_ptr<const void>> kept_;
  std::map<std::pair<std::string, std::string>, std::string> latest_;  // by id and method: not sent yet
  wire::Side side_;
  Capacity capacity_;
  Account* account_ = nullptr;
  std::size_t charged_ = 0;  // of unsent bytes, to the account
  std::size_t held_streams_ = 0;
  std::size_t unread_ = 0,
              held_unread_ = 0;  // what the reader needs for what it has begun; what of it the account knows
  std::size_t promised_ = 0;     // for answers to come
  SteadyTime turn_begun_;
  std::size_t turn_bytes_ = 0;  // since the clock was last asked
  std::uint8_t slips_ = 0;
  bool is_socket_ = true;
  bool is_output_socket_ = true;
  bool is_watching_for_hangup_ = false;
  bool is_in_turn_ = false;
  bool has_unread_frames_ = false;  // a turn ended early, with frames still in the reader
  bool is_draining_output_ = false;
  bool is_held_ = false;
  bool has_clogged_streams_ = false;  // that wait until less is unsent
  bool is_over_ = false;              // the peer will send no more
  bool is_draining_ = false;
  bool is_closed_ = false;
  bool is_never_idle_ = false;
};

}  // namespace sallyport::ipc
