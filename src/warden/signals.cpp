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
  if (decision.rate) judgement.limit = {decision.rate->rule, {decision.rate->count, decision.rate->period}};
  return judgement;
}

Result<Permit> EngineJudge::permit(const Principal& who, std::string_view signal, wire::Value payload,
                                   const mailbox::Judgement& judgement, const mailbox::Approvals& approvals) const {
  policy::Decision decision;
  decision.is_denied = judgement.is_denied;
  decision.needs_deputy = judgement.needs_deputy;
  decision.needs_human = judgement.needs_human;
  decision.rule = judgement.rule;
  return engine_.permit({who, 0, signal, {}, payload}, decision, {approvals.deputy, approvals.human});
}

std::vector<mailbox::Signal> builtin_signals() {
  std::vector<mailbox::Signal> signals;
  const mailbox::Action not_yet = [](const Permit&, const mailbox::Raised&) {
    return Task<Result<std::string>>::ready(Error::make(Code::unimplemented, "the host does nothing about it yet"));
  };
  for (const char* name : {"message_ready", "progress_ready", "context_reset", "refresh_groups"}) {
    signals.push_back({.name = name, .tier = 1, .action = not_yet});
  }
  for (const char* name : {"schedule_task", "deploy", "register_group", "create_periodic_agent"}) {
    signals.push_back({.name = name, .tier = 2, .action = not_yet});
  }
  return signals;
}

}  // namespace sallyport::warden
