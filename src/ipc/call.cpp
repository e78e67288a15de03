#include "ipc/call.h"

#include <algorithm>
#include <chrono>

#include "ipc/streams.h"

namespace sallyport::ipc {

Call::Call(const std::shared_ptr<Session>& session, wire::Message&& message)
    : session_(session.get()), message_(std::move(message)), started_(session_->last_activity_) {
  if (session_->is_in_turn_) {
    session_->newest_call_ = this;
  } else {
    outlive_turn();
  }
  ++session_->open_calls_;
  session_->open_bytes_ += message_.bytes;
  ++session_->shared_.in_flight_;
}

Call::~Call() {
  if (is_gone_ != nullptr) *is_gone_ = true;
  if (!is_answered_) answer(Error::make(Code::internal_error, "the request was dropped"));
  if (session_->newest_call_ == this) session_->newest_call_ = nullptr;
  --session_->open_calls_;
  session_->open_bytes_ -= message_.bytes;
  leave_room();
  --session_->shared_.in_flight_;
  session_->shared_.decoder().recycle(std::move(message_.document));
  session_->wake_reader();
  session_->maybe_done();
}

void Call::answer(Reply reply) {
  if (is_answered_) return;
  is_answered_ = true;
  if (timer_ != 0) session_->shared_.loop().cancel(timer_);
  if (is_in_flight_) std::erase(session_->calls_, this);
  // A connection that turns out to be lost closes its session, and that may end the coroutine this call lives in:
  // nothing of it is touched behind the sending. In a turn it is only queued.
  Session& session = *session_;
  const std::shared_ptr<Session> held = session.is_in_turn_ ? nullptr : held_;
  const auto work = std::exchange(after_reply_, nullptr);
  const std::vector<std::uint32_t> streams = std::exchange(message_.streams, {});
  if (reply.error()) {
    session.send_error(message_.id, *reply.error());
  } else {
    session.send(std::move(reply.frame()));
  }
  // What follows a good answer: chunks of streams that it names, a shutdown that it promises.
  if (work && !reply.error()) work();
  if (!streams.empty()) session.streams().drop_untaken(streams);
}

void Call::outlive_turn() {
  held_ = session_->shared_from_this();
  if (is_answered_) return;
  is_in_flight_ = true;
  session_->calls_.push_back(this);
  start_timer();
}

void Call::set_timeout(Millis timeout) {
  timeout_ = timeout;
  if (is_in_flight_ && !is_answered_) start_timer();
}

void Call::replace_params(wire::Document params) {
  replaced_ = std::move(params);
  message_.params = replaced_->root();
}

void Call::start_timer() {
  if (timer_ != 0) session_->shared_.loop().cancel(std::exchange(timer_, 0));
  Millis left = timeout_;
  if (message_.deadline_ms) {
    const auto passed = std::chrono::duration_cast<Millis>(std::chrono::steady_clock::now() - started_);
    const Millis wanted = std::max(Millis(*message_.deadline_ms) - passed, Millis(1));
    left = left.count() == 0 ? wanted : std::min(left, wanted);
  }
  if (left.count() == 0) return;
  timer_ = session_->shared_.loop().after(left, [this] {
    timer_ = 0;
    ++session_->shared_.counters_.timeouts;
    give_up(Error::make(Code::timeout, "the deadline passed"));
  });
}

// Not inlined: the compiler cannot know that nobody looks where it points to once the call is gone.
[[gnu::noinline]] void Call::tell_end(bool* is_gone) { is_gone_ = is_gone; }

void Call::give_up(const Error& error) {
  if (is_given_up()) return;
  given_up_ = ErrorBox(error);
  // Each may end the coroutine this call lives in: nothing of it is touched after that.
  bool is_gone = false;
  tell_end(&is_gone);
  if (!answers_for_itself_) answer(Reply(error));
  if (is_gone) return;
  tell_end(nullptr);
  const auto taken = std::exchange(taken_, {});
  const auto work = std::exchange(on_cancel_, nullptr);
  for (const auto& weak : taken) {
    if (const auto stream = weak.lock()) stream->fail(error);
  }
  if (work) work();
}

Result<std::shared_ptr<InStream>> Call::take_stream(wire::Value named, std::string_view field) {
  const auto number = named.get("$stream").as_int();
  auto stream = number && *number > 0 && *number <= UINT32_MAX
                    ? session_->streams().take(static_cast<std::uint32_t>(*number))
                    : nullptr;
  if (!stream) return Error::invalid_param(field, "names no stream of this request");
  taken_.push_back(stream);
  if (given_up_) stream->fail(*given_up_);
  return stream;
}

Result<std::shared_ptr<OutStream>> Call::open_stream() { return session_->streams().open(); }

}  // namespace sallyport::ipc
