// The byte streams of one session: buffers and waiting around wire::Streams.
#pragma once

#include <coroutine>
#include <functional>
#include <map>
#include <memory>
#include <optional>

#include "base/base.h"
#include "wire/wire.h"

namespace sallyport::ipc {

class Session;

// Bytes from the peer. Holds at most the credit that was granted. Dropping it before its end resets it.
class InStream {
 public:
  InStream(std::shared_ptr<Session> session, std::uint32_t number);
  ~InStream();
  InStream(const InStream&) = delete;
  InStream& operator=(const InStream&) = delete;

  // co_await: what came since the last read; empty at a good end; an error if it was reset or the
  // session ended. One reader at a time.
  struct Read {
    InStream& stream;
    bool await_ready() const { return !stream.buffer_.empty() || stream.is_ended_ || stream.error_; }
    void await_suspend(std::coroutine_handle<> waiter) { stream.waiter_ = waiter; }
    Result<Bytes> await_resume() { return stream.take(); }
  };
  Read read() { return {*this}; }
  // Ends it from this side: the peer is told why, and so is who reads it. What came before can still be read.
  void fail(const Error& error);
  // Offered each chunk that comes while a read waits and nothing else does, so that it need not be copied. False: it
  // does not want it, and the read gets it.
  void on_chunk(std::function<bool(ByteView)> take) { on_chunk_ = std::move(take); }

 private:
  friend class StreamHub;
  Result<Bytes> take();
  void arrive(ByteView bytes);
  void wake();

  std::shared_ptr<Session> session_;
  std::uint32_t number_;
  Bytes buffer_;
  bool is_ended_ = false;
  std::optional<Error> error_;
  std::coroutine_handle<> waiter_;
  std::function<bool(ByteView)> on_chunk_;
};

// Bytes to the peer. Dropping it before finish() resets it.
class OutStream {
 public:
  OutStream(std::shared_ptr<Session> session, std::uint32_t number);
  ~OutStream();
  OutStream(const OutStream&) = delete;
  OutStream& operator=(const OutStream&) = delete;

  std::uint32_t number() const { return number_; }
  Task<Status> write(ByteView bytes);  // waits for credit; the bytes must stay until it is done
  void finish();                       // a good end
  // Without waiting, for those who would rather drop bytes than wait: at most sendable() of them.
  std::size_t sendable() const;
  void send(ByteView bytes);
  // Runs whenever the peer granted more, and when the stream is over.
  void on_credit(std::function<void()> work) { on_credit_ = std::move(work); }
  bool is_over() const { return is_over_; }
  // Ends it from this side: the peer is told why, and so is a write that waits.
  void reset(const Error& error);
  // One that goes on until somebody has enough of it: a session that ends does not wait for it.
  void set_endless(bool is_endless) { is_endless_ = is_endless; }

 private:
  friend class StreamHub;
  struct Credit {
    OutStream& stream;
    bool await_ready() const;
    void await_suspend(std::coroutine_handle<> waiter) { stream.waiter_ = waiter; }
    void await_resume() const {}
  };
  void wake();

  std::shared_ptr<Session> session_;
  std::uint32_t number_;
  bool is_over_ = false;
  bool is_endless_ = false;
  std::optional<Error> error_;
  std::coroutine_handle<> waiter_;
  std::function<void()> on_credit_;
};

class StreamHub {
 public:
  StreamHub(Session& session, wire::Side side, wire::StreamWindow window, std::size_t most_open)
      : session_(session), book_(side, window, most_open) {}

  // Called by the session for what arrives.
  // Too many: `refused` answers the message, and then all streams that it named are reset.
  Status announce(const std::vector<std::uint32_t>& streams, const std::function<void(const Error&)>& refused = {});
  Status arrive(const wire::Chunk& chunk);
  Status credit(wire::Value params);
  Status reset(wire::Value params);
  void end_inbound(const Error& error);  // nothing more will come
  void close_all(const Error& error);
  // Whether a stream with an end in sight is not sent yet, and can be: with the credit it has, or with more.
  bool has_more_to_send(bool may_get_credit) const;
  void send_on();  // after the session had too much unsent
  // Streams that a request named and nobody took are refused to the peer.
  void drop_untaken(const std::vector<std::uint32_t>& streams);

  std::shared_ptr<InStream> take(std::uint32_t stream);  // null if unknown or taken
  Result<std::shared_ptr<OutStream>> open();

 private:
  friend class InStream;
  friend class OutStream;
  void consumed(std::uint32_t stream, std::size_t bytes);  // grants credit for them
  std::size_t sendable(std::uint32_t stream);
  void send(std::uint32_t stream, ByteView bytes);
  // Ends a stream and, unless the peer did it, tells the peer why.
  void end(std::uint32_t stream, const Error* tell_peer);

  Session& session_;
  wire::Streams book_;
  std::map<std::uint32_t, std::shared_ptr<InStream>> untaken_;
  std::map<std::uint32_t, InStream*> inbound_;
  std::map<std::uint32_t, OutStream*> outbound_;
};

// Passes everything on, with its good or bad end.
Fire relay(std::shared_ptr<InStream> from, std::shared_ptr<OutStream> to);

}  // namespace sallyport::ipc
