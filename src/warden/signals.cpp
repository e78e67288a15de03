#include "warden/signals.h"

namespace sallyport::warden {

mailbox::Judgement EngineJudge::consider(const Principal& who, std::string_view signal, wire::Value) const {
  const auto permit = engine_.decide({who, 0, signal, {}});
  mailbox::Judgement judgement;
  judgement.is_denied = !permit;
  judgement.needs_deputy = signal == "test_deputy" || signal == "test_both";
  judgement.needs_human = signal == "test_human" || signal == "test_both";
  if (!permit) judgement.why = permit.error().detail;
  return judgement;
}

Result<Permit> EngineJudge::permit(const Principal& who, std::string_view signal, wire::Value,
                                   const mailbox::Judgement&, const mailbox::Approvals&) const {
  return engine_.decide({who, 0, signal, {}});
}

Task<approval::Verdict> NoReviewer::review(approval::Matter) {
  return Task<approval::Verdict>::ready({.kind = approval::Verdict::Kind::rejected,
                                         .payload = {},
                                         .why = "nobody is there to review it",
                                         .by = "warden"});
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
