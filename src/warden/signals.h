// What the mailbox asks of policy.
#pragma once

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
  std::string policy_hash() const override { return engine_.policy_hash(); }

 private:
  const policy::Engine& engine_;
};

}  // namespace sallyport::warden
