#include "mcp/operation.h"

#include "mcp/advice.h"
#include "mcp/limits.h"

namespace sallyport::mcp {

void Operation::start(std::string method, std::string params, std::string content) {
  request_ = std::make_shared<Request>();
  request_->method = std::move(method);
  request_->params = std::move(params);
  request_->content = std::move(content);
  // Whoever asks last answers: the request holds no one.
  request_->on_answer = [weak = weak_from_this()](Result<Answer> answer) {
    if (const auto self = weak.lock()) self->answer_.emplace(std::move(answer));
  };
  request_->on_event = [weak = weak_from_this()](const wire::Message& event) {
    if (const auto self = weak.lock()) self->on_event(event);
  };
  call_->on_cancel([weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->cancel();
  });
  is_over_ = false;
  place_.send(request_);
}

void Operation::on_event(const wire::Message& event) {
  if (event.method != "approval.asked") return;
  is_waiting_ = true;
  approval_ = event.params.get("id").as_string().value_or("");
  asked_at_ = next_reminder_ = std::chrono::steady_clock::now();
}

SteadyTime Operation::turn(SteadyTime now) {
  if (answer_) {
    is_over_ = true;
    const Result<Answer> answer = std::move(*answer_);
    answer_.reset();
    on_answer(answer);
    return is_over_ ? SteadyTime::max() : now;
  }
  const SteadyTime next = std::min(on_turn(now), call_->beat(now));
  return is_waiting_ ? std::min(next, remind(now)) : next;
}

SteadyTime Operation::remind(SteadyTime now) {
  if (call_->wants_progress()) {
    if (now >= next_reminder_) {
      call_->report(approval_text(approval_));
      next_reminder_ = now + kReminderInterval;
    }
    return next_reminder_;
  }
  if (call_->is_over()) return SteadyTime::max();
  if (now >= asked_at_ + kSilentWait) {
    call_->finish_text(
        true, "This call needs a human's approval and had none within " + std::to_string(kSilentWait.count() / 1000) +
                  " seconds: it was withdrawn, and nothing was done. Ask the user to have `sallyport approvals` "
                  "at hand, and call again: they can approve it while the call waits.");
    cancel();
  }
  return asked_at_ + kSilentWait;
}

void Operation::fail(const Error& error) {
  std::string text = explain(error, call_->name(), workspace_);
  if (!approval_.empty()) text += " (approval " + approval_ + ")";
  call_->finish_text(true, text);
}

}  // namespace sallyport::mcp
