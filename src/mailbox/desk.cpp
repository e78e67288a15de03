#include "mailbox/desk.h"

#include "mailbox/limits.h"

namespace sallyport::mailbox {

void Desk::keep(const std::string& request_id, SteadyTime since, bool is_journalled) {
  const auto [known, is_new] = known_.try_emplace(request_id, is_journalled);
  if (!is_new) {
    if (known->second || !is_journalled) return;
    // Refused at first, for its rate perhaps, and now in the journal: that is what its reply counts from.
    known->second = true;
    std::erase_if(kept_, [&](const Kept& kept) { return kept.request_id == request_id; });
  }
  kept_.push_back({request_id, since});
}

void Desk::reply(const std::string& request_id, const std::string& json, SteadyTime now, bool is_final,
                 bool is_journalled) {
  if (!is_removed) {
    replied(request_id, json, now, is_final, is_journalled, box_->write_reply(request_id, json));
  }
}

void Desk::replied(const std::string& request_id, const std::string& json, SteadyTime now, bool is_final,
                   bool is_journalled, const Status& written) {
  if (is_removed) return;
  if (is_final) keep(request_id, now, is_journalled);
  if (written) {
    unwritten_.erase(request_id);
  } else if (unwritten_.size() < kMaxReplies) {
    unwritten_[request_id] = json;
  }
}

void Desk::restore_reply(const std::string& request_id, const std::string& json, SteadyTime since) {
  keep(request_id, since, true);
  if (!box_->has_reply(request_id, json) && !box_->write_reply(request_id, json)) unwritten_[request_id] = json;
}

void Desk::retry_replies() {
  std::erase_if(unwritten_,
                [this](const auto& entry) { return box_->write_reply(entry.first, entry.second).has_value(); });
}

Desk::Expired Desk::take_expired(SteadyTime now) {
  Expired expired;
  const bool is_too_many = kept_.size() > kMaxReplies + kReplySlack;
  while (!kept_.empty() && ((is_too_many && kept_.size() > kMaxReplies) || kept_.front().since + kReplyLife <= now)) {
    const std::string& oldest = kept_.front().request_id;
    if (has_answered(oldest)) expired.rows.push_back(oldest);
    known_.erase(oldest);
    unwritten_.erase(oldest);
    expired.files.push_back(oldest);
    kept_.pop_front();
  }
  return expired;
}

}  // namespace sallyport::mailbox
