#include "warden/signals.h"

namespace sallyport::warden {

mailbox::Judgement EngineJudge::consider(const Principal& who, std::string_view signal, wire::Value) const {
  const auto permit = engine_.decide({who, 0, signal, {}});
  mailbox::Judgement judgement;
  judgement.is_denied = !permit;
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

}  // namespace sallyport::warden
