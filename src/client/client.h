// libsallyport: talk to a warden, or serve methods to one.
//
//   TRY(auto client, sallyport::Client::connect_unix("/run/user/1000/sallyport/warden.sock"));
//   TRY(auto answer, client->call("test.ping"));
//   bool pong = answer.value().get("pong").as_bool().value_or(false);
//
// A Client is one connection and belongs to one thread at a time; a ClientPool serves many. Calls can
// block (call) or not (start, then dispatch whenever fd() is readable). Both may be mixed: while one call
// blocks, answers, events and served requests of others are dispatched. Their handlers may start() and notify(), but
// not wait: a call() inside a handler that runs inside a call() is refused with INVALID_REQUEST. Nothing here throws.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/result.h"
#include "base/spin.h"
#include "base/unique_fd.h"
#include "wire/wire.h"

namespace sallyport {

// A result that owns its memory. Use it in the thread of its Client.
class Answer {
 public:
  Answer(std::shared_ptr<wire::Decoder> decoder, wire::Message&& message)
      : decoder_(std::move(decoder)), message_(std::move(message)) {}
  Answer(Answer&&) = default;
  Answer& operator=(Answer&&) = default;
  Answer(const Answer&) = delete;
  Answer& operator=(const Answer&) = delete;
  ~Answer();

  wire::Value value() const { return message_.result; }
  std::string json() const { return message_.result.to_json(); }

 private:
  std::shared_ptr<wire::Decoder> decoder_;
  wire::Message message_;
};

struct CallOptions {
  // How long the peer may take, from 1 ms to 24 hours; it is told, and we stop waiting by ourselves shortly after. One
  // that has not even read the request by then has lost the connection too.
  Millis deadline{30'000};
  std::string token;  // a capability token, where the method needs one
};

// The address and secret of a loopback TCP door, as its daemon published them.
struct LoopbackAddress {
  wire::Binding binding;
  wire::Token token{};
};
// Reads the 0600 state file. UNAVAILABLE if the daemon that wrote it is dead.
Result<LoopbackAddress> read_loopback_file(const std::string& path);

class Client {
 public:
  // To a server of this very user only: CONFLICT if the socket's directory is not ours alone to write to,
  // UNAUTHENTICATED if whoever listens runs as another user.
  static Result<std::unique_ptr<Client>> connect_unix(const std::string& path);
  // Proves that we hold the token, and demands the same of the daemon: UNAUTHENTICATED if whoever
  // listens there does not.
  static Result<std::unique_ptr<Client>> connect_loopback(const LoopbackAddress& address);
  // Speaks over descriptors that are there already: a socket pair, or a process's stdin and stdout. Each may be a
  // socket or a pipe; that the other end of a pipe is gone is an error, never a SIGPIPE.
  static Result<std::unique_ptr<Client>> adopt(UniqueFd in, UniqueFd out, wire::Side side);

  ~Client();
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  // Calls a method and waits for its answer. `params` is the JSON text of an object, or empty; anything else is
  // INVALID_PARAMS and not sent. The error is the peer's, or TIMEOUT, or UNAVAILABLE when the connection is gone. A
  // peer that refuses to serve us at all says why before it hangs up: then that is the error.
  Result<Answer> call(std::string_view method, std::string_view params = {}, const CallOptions& options = {});

  // ---- without waiting ----
  using OnAnswer = std::function<void(Result<Answer>)>;
  // Sends the request; `on_answer` runs exactly once, from dispatch() or another blocking call.
  // Returns the request's id, for cancel().
  Result<std::string> start(std::string_view method, std::string_view params, OnAnswer on_answer,
                            const CallOptions& options = {});
  void cancel(std::string_view id);  // its answer still comes: CANCELLED, or what was quicker
  // Handles what has arrived, waiting for something at most `wait`. UNAVAILABLE once the peer is gone.
  Status dispatch(Millis wait);
  int fd() const { return in_.get(); }  // readable: time to dispatch(Millis(0))
  std::size_t pending() const { return pending_.size() - answered_; }

  // ---- events and serving ----
  using OnEvent = std::function<void(const wire::Message&)>;
  void on_event(OnEvent handle) { on_event_ = std::move(handle); }
  // Looks for every answer for a moment before it sleeps, without trying whether that pays: for a link of a chain.
  void wait_eagerly() { spinner_ = Spinner(Spinner::Mode::eager); }
  Status notify(std::string_view method, std::string_view params);
  // Answers the peer's requests for a method with JSON text; what is none goes out as INTERNAL_ERROR. Other methods get
  // METHOD_NOT_FOUND.
  using Serve = std::function<Result<std::string>(const wire::Message&)>;
  void serve(std::string method, Serve handle) { served_[std::move(method)] = std::move(handle); }
  Status run();  // dispatches until the peer ends the connection: ok if it did so between frames

  // ---- streams: bytes beside the messages ----
  // A stream of ours; name it as {"$stream":n} in the params of a call that is started after this.
  Result<std::uint32_t> open_stream();
  Status write_stream(std::uint32_t stream, ByteView bytes);  // waits for credit
  // What can be written without waiting; 0 also if it is over.
  std::size_t writable(std::uint32_t stream) const { return book_.sendable(stream); }
  Status finish_stream(std::uint32_t stream);
  // The next bytes of a stream that an answer named; empty at its good end. The peer is granted as much again: who
  // uses them up slowly takes no more than `most` at once.
  Result<Bytes> read_stream(std::uint32_t stream, Millis wait = Millis(30'000), std::size_t most = SIZE_MAX);
  void reset_stream(std::uint32_t stream, const Error& error);

  // Both sides must agree on it; before the first stream.
  void set_window(wire::StreamWindow window) { book_ = wire::Streams(side_, window); }

  // Whether the peer still seems to be there. Only a call can tell for sure.
  bool is_open() const;
  // Whether somebody else could use the connection as if it were new: nothing is left on its way, nobody listens for
  // events, and no call changed what the connection is (a subscription, a narrowing).
  bool is_as_new() const;

 private:
  static constexpr std::size_t kPieceBytes = (64U << 10) - wire::kHeaderBytes - wire::kChunkHeaderBytes;
  struct Incoming {
    Bytes bytes;
    bool is_ended = false;
    std::optional<Error> error;
  };
  struct Pending {
    std::uint64_t id;
    OnAnswer on_answer;
    bool is_answered = false;
  };

  Client(UniqueFd in, UniqueFd out, wire::Side side);
  static Result<std::unique_ptr<Client>> prove(UniqueFd connection, const LoopbackAddress& address);

  int output() const { return out_ ? out_.get() : in_.get(); }
  // Frames are appended to unsent_. They leave at once or, while what arrived is being handled, together
  // at the end of it: many answers of one read make one write.
  Status send_unsent();
  Status flush();
  Status send_pieces(std::uint32_t stream, ByteView bytes);
  // Receives once. False when nothing came in time.
  Result<bool> receive(SteadyTime until);
  ssize_t receive_once(std::span<std::uint8_t> room, int flags);
  Status handle_frames();
  Status handle_each_frame();
  Status handle_message(ByteView body);
  Status handle_chunk(ByteView body);
  void handle_response(wire::Message& message);
  OnAnswer take_pending(std::uint64_t id);
  Status handle_event(const wire::Message& event);
  Status handle_request(const wire::Message& request);
  ssize_t send_once(ByteView bytes);
  Status append_call(std::string_view id, std::string_view method, std::string_view params, const CallOptions& options);
  Error fail(Error error);  // the connection is lost: every pending call learns it
  Error lose(std::string detail);
  void take_last_words();
  // Dispatches until done() or the time is up (false).
  Result<bool> wait_for(const std::function<bool()>& done, SteadyTime until);

  UniqueFd in_, out_;
  wire::FrameReader reader_;
  std::shared_ptr<wire::Decoder> decoder_;
  wire::Side side_;
  wire::Streams book_;
  Spinner spinner_;
  Bytes unsent_;
  std::deque<Pending> pending_;  // in the order of their ids
  std::size_t answered_ = 0;     // of these
  std::map<std::string, Serve, std::less<>> served_;
  std::map<std::uint32_t, Incoming> incoming_;
  std::vector<std::uint32_t> opened_;     // by us; some may be closed again
  std::map<std::uint32_t, Error> reset_;  // streams of ours that the peer refused
  OnEvent on_event_;
  std::optional<Error> failure_;
  std::uint64_t last_id_ = 0;
  // The call that blocks right now: its answer takes the short way.
  std::string waiting_id_;
  std::optional<Result<Answer>> waiting_answer_;
  std::optional<SteadyTime> give_up_at_;  // what it sends must be out by then
  std::optional<Error> farewell_;         // an error that answers nothing, if nothing came after it
  bool is_socket_ = true;
  bool is_output_socket_ = true;
  bool is_changed_ = false;  // by a call that changes what the connection is
  bool is_handling_ = false;
  bool has_ended_ = false;  // by the peer, between frames
};

}  // namespace sallyport
