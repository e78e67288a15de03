// One request on its way to its reply.
//
// A Call lives in the coroutine that answers it. It is answered exactly once: by its handler, or before
// that by its deadline, by `cancel`, or by the end of the session; whatever comes later is dropped.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "base/base.h"
#include "ipc/session.h"
#include "wire/wire.h"

namespace sallyport::ipc {

class InStream;
class OutStream;

// What a handler returns: a whole frame ready to be sent, or an error.
class [[nodiscard]] Reply {
 public:
  Reply(Error error) : error_(std::move(error)) {}  // NOLINT(*-explicit-*)
  explicit Reply(Bytes frame) : frame_(std::move(frame)) {}

  const ErrorBox& error() const { return error_; }
  Bytes& frame() { return frame_; }

 private:
  Bytes frame_;
  ErrorBox error_;
};

class Call {
 public:
  Call(const std::shared_ptr<Session>& session, wire::Message&& message);
  ~Call();
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  const wire::Message& message() const { return message_; }
  wire::Value params() const { return message_.params; }
  Session& session() { return *session_; }
  std::shared_ptr<Session> share_session() { return session_->shared_from_this(); }

  // For work whose outcome somebody must learn however late: its deadline and `cancel` do not answer it then. The
  // handler sees is_given_up() and answers what became of it.
  void answer_for_itself() { answers_for_itself_ = true; }
  // Nobody waits for it any more: it was answered, or would have been.
  bool is_given_up() const { return is_answered_ || given_up_; }
  const Error& why_given_up() const { return *given_up_; }  // by its deadline, by `cancel`, or with its session

  // The longest this call may take from now on; the request's own deadline counts if it is shorter.
  void set_timeout(Millis timeout);
  // Other parameters than those that came: a reviewer changed them.
  void replace_params(wire::Document params);

  // Builds a reply in place: call.result([](wire::JsonWriter& json) { ... one value ... }).
  template <typename Fill>
  Reply result(Fill&& fill) {
    Bytes out = session_->shared().take_buffer();
    wire::ResultFrame frame(out, message_.id);
    fill(frame.json());
    if (auto status = frame.finish(); !status) return Reply(std::move(status).error());
    return Reply(std::move(out));
  }

  // Sends the reply unless the call was answered already.
  void answer(Reply reply);
  bool is_answered() const { return is_answered_; }

  // Runs if the call is given up without its handler, when the streams that it reads are over: time to stop working.
  void on_cancel(std::function<void()> work) { on_cancel_ = std::move(work); }
  // Runs after the reply was queued, unless that is an error: for chunks of a stream that the reply names.
  void after_reply(std::function<void()> work) { after_reply_ = std::move(work); }

  // For an answer that others make, and that comes when it is ready: it counts with what the caller's principal has
  // unsent, until the call ends. Waits until there is room for so many bytes; false if the call is given up meanwhile.
  // Not more than once.
  Task<bool> await_room(std::size_t bytes = wire::kMaxFrameBytes);
  bool take_room(std::size_t bytes = wire::kMaxFrameBytes);  // without waiting: false if there is none

  // The stream that {"$stream":n} names. INVALID_PARAMS if it is none, or taken already.
  Result<std::shared_ptr<InStream>> take_stream(wire::Value named, std::string_view field);
  Result<std::shared_ptr<OutStream>> open_stream();

 private:
  friend class Session;
  friend struct Account;
  bool has_share_for(std::size_t bytes) const;
  void hold_room(std::size_t bytes);
  Task<bool> wait_for_room(std::size_t bytes);
  void leave_room();
  void outlive_turn();  // it is not over: holds the session and, if no answer is there, starts the clock
  void start_timer();
  void give_up(const Error& error);  // by someone else than the handler
  void tell_end(bool* is_gone);      // sets it when this call ends; null: nobody asks any more

  Session* session_;               // which whoever reads it holds as long as the turn lasts
  std::shared_ptr<Session> held_;  // from then on
  wire::Message message_;
  std::optional<wire::Document> replaced_;
  Millis timeout_{0};
  std::size_t room_ = 0;
  SteadyTime started_;
  Loop::TimerId timer_ = 0;
  std::function<void()> on_cancel_, after_reply_;
  std::vector<std::weak_ptr<InStream>> taken_;
  bool* is_gone_ = nullptr;
  ErrorBox given_up_;
  bool is_answered_ = false;
  bool answers_for_itself_ = false;
  bool is_in_flight_ = false;
};

}  // namespace sallyport::ipc
