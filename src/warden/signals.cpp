#include "warden/signals.h"

namespace sallyport::warden {

mailbox::Judgement EngineJudge::consider(const Principal& who, std::string_view signal, wire::Value payload) const {
  policy::Decision decision = engine_.consider({who, 0, signal, {}, payload});
  mailbox::Judgement judgement;
  judgement.is_denied = decision.is_denied;
  judgement.needs_deputy = decision.needs_deputy;
  judgement.needs_human = decision.needs_human;
  judgement.rule = std::move(decision.rule);
  judgement.why = std::move(decision.why);
  for (policy::RateLimit& rate : decision.rates)
    judgement.limits.push_back({std::move(rate.rule), {rate.count, rate.period}});
  judgement.counts_as = std::move(decision.counts_as);
  return judgement;
}

Result<Permit> EngineJudge::permit(const Principal& who, std::string_view signal, wire::Value payload,
                                   const mailbox::Judgement& judgement, const mailbox::Approvals& approvals) const {
  policy::Decision decided;
  decided.is_denied = judgement.is_denied;
  decided.needs_deputy = judgement.needs_deputy;
  decided.needs_human = judgement.needs_human;
  decided.rule = judgement.rule;
  return engine_.permit({who, 0, signal, {}, payload}, decided, {.deputy = approvals.deputy, .human = approvals.human});
}

}  // namespace sallyport::warden
