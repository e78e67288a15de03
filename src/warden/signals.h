// What the mailbox asks of the rest of the warden: policy and reviewers.
#pragma once

#include "approval/review.h"
#include "mailbox/judge.h"
#include "policy/policy.h"

namespace sallyport::warden {

// The one engine, asked about signals.
class EngineJudge final : public mailbox::Judge {
 public:
  explicit EngineJudge(const policy::Engine& engine) : engine_(engine) {}
  mailbox::Judgement consider(const Principal& who, std::string_view signal, wire::Value payload) const override;
  Result<Permit> permit(const Principal& who, std::string_view signal, wire::Value payload,
                        const mailbox::Judgement& judgement, const mailbox::Approvals& approvals) const override;
  std::string policy_hash() const override { return {}; }

 private:
  const policy::Engine& engine_;
};

// Where nobody reviews, nothing that needs a review is done.
class NoReviewer final : public approval::Reviewer {
 public:
  Task<approval::Verdict> review(approval::Matter matter) override;
};

}  // namespace sallyport::warden
