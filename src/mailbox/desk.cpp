#include "mailbox/desk.h"

#include "mailbox/limits.h"

namespace sallyport::mailbox {

void Desk::keep(const std::string& request_id, std::int64_t time_ms, bool is_journalled) {
  if (known_.insert(request_id).second) kept_.push_back({request_id, time_ms, is_journalled});
}

void Desk::reply(const std::string& request_id, const std::string& json, std::int64_t now_ms, bool is_final,
                 bool is_journalled) {
  if (is_removed) return;
  if (is_final) keep(request_id, now_ms, is_journalled);
  if (box_->write_reply(request_id, json)) {
    unwritten_.erase(request_id);
  } else if (unwritten_.size() < kMaxReplies) {
    unwritten_[request_id] = json;
  }
}

void Desk::restore_reply(const std::string& request_id, const std::string& json, std::int64_t time_ms) {
  keep(request_id, time_ms, true);
  if (!box_->has_reply(request_id, json) && !box_->write_reply(request_id, json)) unwritten_[request_id] = json;
}

void Desk::retry_replies() {
  std::erase_if(unwritten_,
                [this](const auto& entry) { return box_->write_reply(entry.first, entry.second).has_value(); });
}

Desk::Expired Desk::take_expired(std::int64_t now_ms) {
  Expired expired;
  const bool is_too_many = kept_.size() > kMaxReplies + kReplySlack;
  while (!kept_.empty() &&
         ((is_too_many && kept_.size() > kMaxReplies) || kept_.front().time_ms + kReplyLife.count() <= now_ms)) {
    Kept& oldest = kept_.front();
    known_.erase(oldest.request_id);
    unwritten_.erase(oldest.request_id);
    expired.files.push_back(oldest.request_id);
    if (oldest.is_journalled) expired.rows.push_back(std::move(oldest.request_id));
    kept_.pop_front();
  }
  return expired;
}

}  // namespace sallyport::mailbox
