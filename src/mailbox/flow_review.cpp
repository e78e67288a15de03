// The reviews of a request, and what becomes of those that an earlier warden left open.
#include "base/fault_point.h"
#include "mailbox/flow.h"
#include "mailbox/limits.h"
#include "mailbox/states.h"

namespace sallyport::mailbox {

using approval::Verdict;
using ledger::Edge;
using ledger::Entry;
using ledger::JournalRow;
using ledger::Stage;

namespace {

Fire pass_on(approval::Reviewer& reviewer, approval::Matter matter, std::shared_ptr<ipc::OneShot<Verdict>> to) {
  to->resolve(co_await reviewer.review(std::move(matter)));
}

Error refusal_of(const Verdict& verdict) {
  const bool is_expired = verdict.kind == Verdict::Kind::expired;
  std::string message = is_expired ? "nobody approved it in time" : "it was not approved";
  if (!verdict.why.empty()) message += ": " + verdict.why;
  return Error::make(is_expired ? Code::approval_expired : Code::approval_denied, std::move(message), verdict.by);
}

}  // namespace

// Until nothing more is demanded. Policy is asked anew after every review: it may have changed, and so may
// the payload.
Task<Result<Permit>> Flow::review(Request& request) {
  wire::Decoder decoder;
  for (;;) {
    JournalRow& row = request.row;
    // What runs is what is configured now, and reviewers must have agreed to that. Under which policy those whom an
    // earlier warden asked did so nobody knows: a human's answer is found again by whoever asked, a deputy is asked
    // again.
    request.signal = find_signal(row.subject);
    if (const std::string policy = parts_.judge.policy_hash(); request.agreed_under != policy) {
      request.agreed_under = policy;
      row.deputy.clear();
      row.human.clear();
    }
    if (request.signal == nullptr) co_return Error::make(Code::method_not_found, "no such signal");
    const Principal who = Principal::container(row.key.container);
    CO_TRY(const wire::Document document, decoder.parse(row.payload.empty() ? "null" : row.payload));
    const wire::Value payload = row.payload.empty() ? wire::Value() : document.root();
    const Judgement judgement = parts_.judge.consider(who, request.signal->name, payload);
    if (judgement.is_denied) {
      co_return Error::make(Code::policy_denied, "policy does not allow this signal",
                            judgement.rule + ": " + judgement.why);
    }
    row.rule = judgement.rule;
    const std::string_view id = row.key.request_id;
    CO_TRY(check_shape(*request.signal, is_request_id(id) ? id : std::string_view(), payload));
    // Nobody is asked about what cannot be done.
    if (request.signal->check) CO_TRY(request.signal->check(raised(request)));
    std::optional<Error> refused;
    if (judgement.needs_deputy && row.deputy.empty()) {
      refused = co_await ask_deputy(request);
    } else if (judgement.needs_human && row.human.empty()) {
      refused = co_await ask_human(request);
    } else {
      co_return parts_.judge.permit(who, request.signal->name, payload, judgement,
                                    {.deputy = !row.deputy.empty(), .human = !row.human.empty()});
    }
    if (refused) co_return std::move(*refused);
  }
}

Task<Verdict> Flow::ask(Request& request, approval::Reviewer& reviewer) {
  // Its container was removed while it was written down that somebody shall be asked.
  if (request.is_gone) co_return Verdict();
  const JournalRow& row = request.row;
  approval::Matter matter;
  matter.container = row.key.container;
  matter.request_id = row.key.request_id;
  matter.subject = row.subject;
  matter.payload = row.payload;
  matter.rule = row.rule;
  matter.policy_hash = parts_.judge.policy_hash();
  matter.original = row.original;
  const auto asked = std::make_shared<ipc::OneShot<Verdict>>();
  request.asked = asked;
  pass_on(reviewer, std::move(matter), asked);
  Verdict verdict = co_await *asked;
  request.asked.reset();
  co_return verdict;
}

Task<std::optional<Error>> Flow::ask_deputy(Request& request) {
  JournalRow& row = request.row;
  const std::string from = row.state;
  if (from != state::kDeputyWait) {
    Entry waits = entry(Stage::event, row);
    waits.rule = std::string(state::kDeputyWait) + ": " + row.rule;
    const Status waiting =
        co_await step(request, {.from = from, .to = state::kDeputyWait, .rule = row.rule}, std::move(waits));
    if (!waiting) co_return waiting.error();
  }
  fault_point("deputy_wait");
  const Verdict verdict = co_await ask(request, parts_.deputy);
  fault_point("deputy_said");
  if (request.is_gone) co_return Error::make(Code::cancelled, "the request was given up");
  Entry said = entry(Stage::event, row);
  Edge edge{.from = state::kDeputyWait, .to = state::kApproved};
  said.rule = "approved: " + verdict.by;
  if (verdict.kind == Verdict::Kind::modified) {
    wire::Decoder decoder;
    auto changed = decoder.parse(verdict.payload);
    const wire::Value payload = changed ? changed->root() : wire::Value();
    const Status fits = check_shape(*request.signal, row.key.request_id, payload);
    if (row.original || !fits) {
      co_return Error::make(Code::approval_denied, "the review made it into something that is not allowed",
                            verdict.by + ": " + (fits ? "changed twice" : fits.error().message));
    }
    const std::string canonical = payload.to_json(), original = row.payload;
    edge.to = state::kModified;
    edge.payload = canonical;
    edge.original = original;
    said.rule = "modified: " + verdict.by;
    const Status modified = co_await step(request, edge, std::move(said));
    fault_point("modified");
    if (!modified) co_return modified.error();
    co_return std::nullopt;
  }
  if (verdict.kind != Verdict::Kind::approved) co_return refusal_of(verdict);
  edge.deputy = verdict.by;
  const Status approved = co_await step(request, edge, std::move(said));
  fault_point("deputy_approved");
  if (!approved) co_return approved.error();
  co_return std::nullopt;
}

Task<std::optional<Error>> Flow::ask_human(Request& request) {
  JournalRow& row = request.row;
  const std::string from = row.state;
  if (from != state::kHumanWait) {
    Entry waits = entry(Stage::event, row);
    waits.rule = std::string(state::kHumanWait) + ": " + row.rule;
    const Status waiting =
        co_await step(request, {.from = from, .to = state::kHumanWait, .rule = row.rule}, std::move(waits));
    if (!waiting) co_return waiting.error();
  }
  fault_point("human_wait");
  deliver_interim(request, "awaiting_human");
  const Verdict verdict = co_await ask(request, parts_.human);
  fault_point("human_said");
  if (request.is_gone) co_return Error::make(Code::cancelled, "the request was given up");
  if (verdict.kind != Verdict::Kind::approved) co_return refusal_of(verdict);
  Entry said = entry(Stage::event, row);
  said.rule = "approved: " + verdict.by;
  const Status approved =
      co_await step(request, {.from = state::kHumanWait, .to = state::kApproved, .human = verdict.by}, std::move(said));
  fault_point("human_approved");
  if (!approved) co_return approved.error();
  co_return std::nullopt;
}

// ---- after a restart ----

void Flow::resume(std::shared_ptr<Desk> desk, JournalRow row) {
  const auto request = std::make_shared<Request>();
  request->signal = find_signal(row.subject);
  request->row = std::move(row);
  request->desk = std::move(desk);
  if (!pending_.emplace(request->row.key, request).second) return;
  const std::string& state = request->row.state;
  if (state == state::kUnknown) return deliver_interim(*request, state);
  if (state == state::kExecuting) {
    restart(request);
  } else {
    ++request->desk->waiting;
    drive(request, std::nullopt);
  }
}

Entry Flow::unknown(const JournalRow& row) const {
  Entry unknown = entry(Stage::outcome, row);
  unknown.code = "UNKNOWN";
  unknown.rule = "the warden ended while it was executed";
  return unknown;
}

void Flow::forget(const JournalRow& row) {
  if (row.state != state::kExecuting) return;
  ledger::Submission submission;
  submission.work = [key = row.key, last = unknown(row)](ledger::Transaction& transaction) {
    return ledger::forget(transaction, key, state::kExecuting, last);
  };
  parts_.ledger.submit(std::move(submission));
}

// It was begun, and nobody knows how far it came. What is idempotent begins again under the same key, if
// policy still says so; of everything else a human has to say what came of it.
Fire Flow::restart(std::shared_ptr<Request> request) {
  JournalRow& row = request->row;
  std::optional<Permit> again;
  if (request->signal != nullptr && request->signal->is_idempotent) {
    if (auto granted = permit(*request)) again.emplace(std::move(*granted));
  }
  if (again) {
    drive(request, std::move(again));
    co_return;
  }
  Entry cut_short = unknown(row);
  if (!co_await step(*request, {.from = state::kExecuting, .to = state::kUnknown}, std::move(cut_short))) co_return;
  fault_point("unknown");
  parts_.log.warn("nobody knows whether a signal was acted on; see sallyport mailbox resolve",
                  {{"container", row.key.container}, {"signal", row.subject}, {"request", row.key.request_id}});
  deliver_interim(*request, state::kUnknown);
}

Result<Permit> Flow::permit(const Request& request) const {
  const JournalRow& row = request.row;
  const Principal who = Principal::container(row.key.container);
  wire::Decoder decoder;
  TRY(const wire::Document document, decoder.parse(row.payload.empty() ? "null" : row.payload));
  const wire::Value payload = row.payload.empty() ? wire::Value() : document.root();
  const Judgement judgement = parts_.judge.consider(who, request.signal->name, payload);
  if (judgement.is_denied) return Error::make(Code::policy_denied, "policy does not allow this signal");
  return parts_.judge.permit(who, request.signal->name, payload, judgement,
                             {.deputy = !row.deputy.empty(), .human = !row.human.empty()});
}

Task<Status> Flow::resolve(ledger::JournalKey key, bool was_done, std::string by) {
  const auto found = pending_.find(key);
  if (found == pending_.end()) co_return Error::make(Code::not_found, "there is no such request waiting");
  const std::shared_ptr<Request> request = found->second;
  if (request->row.state != state::kUnknown) {
    co_return Error::make(Code::conflict, "its outcome is not unknown: it is in state " + request->row.state);
  }
  if (request->is_answering) co_return Error::make(Code::conflict, "somebody else is just resolving it");
  Result<std::string> outcome = std::string(R"({"state":"done","resolved":true})");
  if (!was_done) outcome = Error::make(Code::unavailable, "the action was cut short and did not happen");
  const std::string resolved = "resolved by " + by;
  co_return co_await finish(request, std::move(outcome), resolved);
}

// ---- ends ----

void Flow::expire(const std::shared_ptr<Desk>& desk) {
  auto expired = std::make_shared<Desk::Expired>(desk->take_expired(parts_.clock.steady()));
  if (expired->files.empty()) return;
  Entry note;
  note.principal = "container/" + desk->container();
  note.method = "mailbox.expired";
  note.rule = "count=" + std::to_string(expired->files.size());
  ledger::Submission submission{.durability = ledger::Durability::buffered};
  submission.work = [expired, container = desk->container()](ledger::Transaction& transaction) -> Status {
    for (const std::string& id : expired->rows) TRY(ledger::entomb(transaction, {container, id}, state::kExpired));
    return ok();
  };
  submission.entries.push_back(std::move(note));
  submission.done = [expired, desk](const Status& status) {
    if (!status || desk->is_removed) return;
    for (const std::string& id : expired->files) desk->box().remove_reply(id);
  };
  parts_.ledger.submit(std::move(submission));
}

// Taken in while its container went. Whoever took its rows away left alone what is being executed, and this never will
// be.
Task<Status> Flow::cancel(ledger::Accepted accepted) {
  const JournalRow row = std::move(accepted.row);
  if (!accepted.is_new || row.state != state::kExecuting) co_return ok();
  const Error gone =
      Error::make(Code::cancelled, "the container was removed", "the container was removed before it was begun");
  const Entry last = entry(Stage::outcome, row, &gone);
  const ledger::Work work = [&](ledger::Transaction& transaction) {
    return ledger::forget(transaction, row.key, row.state, last);
  };
  const std::function<void()> nothing;
  const Status forgotten = co_await commit(work, nothing);
  co_return forgotten;
}

void Flow::abandon(const std::string& container) {
  for (auto next = pending_.lower_bound({container, ""});
       next != pending_.end() && next->first.container == container;) {
    const std::shared_ptr<Request> request = next->second;
    next = pending_.erase(next);
    request->is_gone = true;
    const std::string gone =
        response_json(request->row.key.request_id, Error::make(Code::cancelled, "the container was removed"));
    for (const Request::Waiter& waiter : std::exchange(request->waiters, {})) waiter.answer->resolve(gone);
    if (request->asked) request->asked->resolve({});
  }
}

void Flow::close() {
  is_closing_ = true;
  for (auto& [key, request] : std::exchange(pending_, {})) {
    request->is_gone = true;
    const std::string stopping =
        response_json(key.request_id, Error::make(Code::unavailable, "the warden is stopping; ask again later"));
    for (const Request::Waiter& waiter : std::exchange(request->waiters, {})) waiter.answer->resolve(stopping);
    if (request->asked) request->asked->resolve({});
  }
}

std::size_t Flow::pending_of(const std::string& container) const {
  std::size_t count = 0;
  for (auto next = pending_.lower_bound({container, ""}); next != pending_.end() && next->first.container == container;
       ++next) {
    ++count;
  }
  return count;
}

}  // namespace sallyport::mailbox
