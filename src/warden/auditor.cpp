#include "warden/auditor.h"

#include <chrono>
#include <utility>

namespace sallyport::warden {
namespace {

using ledger::Entry;
using ledger::EntryView;
using ledger::Stage;

// Of a buffer that is empty again.
constexpr std::size_t kKeptBytes = 64U << 10;

// As long as `principal`, the call and the error are there.
EntryView entry_of(Stage stage, const std::string& principal, const handlers::RequestContext& context, ipc::Call& call,
                   const Error* error) {
  EntryView entry;
  entry.stage = stage;
  entry.principal = principal;
  entry.peer_pid = context.peer.pid;
  entry.session = call.session().name();
  entry.request_id = call.message().id;
  entry.method = call.message().method;
  if (error != nullptr) {
    entry.code = to_string(error->code);
    entry.rule = error->detail;
  }
  return entry;
}

}  // namespace

Auditor::Recorded::Recorded(ledger::Ledger& ledger, Entry entry, std::function<void()> on_delayed)
    : ledger_(&ledger), entry_(std::move(entry)), on_delayed_(std::move(on_delayed)) {}

void Auditor::Recorded::await_suspend(std::coroutine_handle<> waiter) {
  ledger::Submission submission;
  submission.may_use_reserve = on_delayed_ != nullptr;
  submission.entries.push_back(on_delayed_ ? *entry_ : std::move(*entry_));
  submission.done = [this, waiter](Status status) {
    if (!status && on_delayed_) {
      ledger::Submission later{.durability = ledger::Durability::buffered};
      later.entries.push_back(std::move(*entry_));
      later.may_use_reserve = true;
      ledger_->submit(std::move(later));
      on_delayed_();
      status = ok();
    }
    result_ = std::move(status);
    waiter.resume();
  };
  ledger_->submit(std::move(submission));
}

// Nearly all calls are buffered: their entries go where they are kept at once, and nowhere else before.
Auditor::Recorded Auditor::record(const EntryView& entry, const handlers::Method& method,
                                  const handlers::RequestContext& context, ipc::Call& call) {
  if (method.audit != handlers::Audit::durable) return Recorded(ledger_.append(entry));
  return {ledger_, to_entry(entry), delayed(method, context, call)};
}

Auditor::Recorded Auditor::decision(const handlers::Method& method, const handlers::RequestContext& context,
                                    ipc::Call& call) {
  const std::string principal = context.principal.to_string();
  EntryView entry = entry_of(Stage::decision, principal, context, call, nullptr);
  params_.clear();
  if (params_.capacity() > kKeptBytes) params_.release();
  if (call.params()) wire::JsonWriter(params_).value(call.params());
  entry.unhashed_payload = as_text(params_.view());
  return record(entry, method, context, call);
}

// Whoever owns the host can always stop what runs on it.
std::function<void()> Auditor::delayed(const handlers::Method& method, const handlers::RequestContext& context,
                                       ipc::Call& call) const {
  if (!method.is_brake || !context.principal.is_host() || context.is_narrowed) return nullptr;
  return [this, &call] {
    log_.warn("done without a record, for the audit log cannot be written; it will be recorded when it can be",
              {{"request", call.message().id}, {"method", call.message().method}});
    call.share_session()->send_event(call.message().id, "audit.delayed", "{}");
  };
}

Auditor::Recorded Auditor::outcome(const handlers::Method& method, const handlers::RequestContext& context,
                                   ipc::Call& call, ipc::Reply& reply) {
  const Error* error = reply.error() ? &*reply.error() : nullptr;
  const std::string principal = context.principal.to_string();
  EntryView entry = entry_of(Stage::outcome, principal, context, call, error);
  entry.payload_bytes = reply.frame().size();
  if (error != nullptr) log_failure("request failed", context, call, *error);
  return record(entry, method, context, call);
}

Status Auditor::reviewed(const handlers::RequestContext& context, ipc::Call& call, const approval::Matter& matter,
                         const approval::Verdict& verdict) {
  using Kind = approval::Verdict::Kind;
  const std::string principal = context.principal.to_string();
  EntryView entry = entry_of(Stage::event, principal, context, call, nullptr);
  const bool is_modified = verdict.kind == Kind::modified;
  const bool is_good = is_modified || verdict.kind == Kind::approved;
  if (!is_good) entry.code = to_string(Code::approval_denied);
  std::string rule = (is_modified ? "modified by " : is_good ? "approved by " : "rejected by ") + verdict.by;
  if (!is_good) rule += ": " + verdict.why;
  entry.rule = rule;
  entry.unhashed_payload = is_modified ? verdict.payload : matter.payload;
  return ledger_.append(entry);
}

void Auditor::refused(const handlers::RequestContext& context, ipc::Call& call, const Error& error) {
  const std::string principal = context.principal.to_string();
  Refusals& refusals = refusals_[principal];
  const auto now = std::chrono::duration_cast<std::chrono::microseconds>(clock_.steady().time_since_epoch()).count();
  const ledger::RateDecision decision = ledger::decide_rate(kRefusalRate, refusals.state, now);
  // Once it has begun it lasts until half of the rate is free again: a flood costs two notes, not two per line.
  constexpr auto kHalf = std::chrono::microseconds(kRefusalRate.period).count() / 2;
  if (!decision.is_allowed || (refusals.suppressed != 0 && refusals.state > now + kHalf)) {
    if (refusals.suppressed++ == 0) note_suppressed(principal, "begins");
    return;
  }
  refusals.state = decision.unused_at;
  if (const std::uint64_t count = std::exchange(refusals.suppressed, 0); count != 0) {
    note_suppressed(principal, "count=" + std::to_string(count));
  }
  log_failure("request refused", context, call, error);
  // If there is no room for it the ledger counts it, and says so when there is.
  [[maybe_unused]] const Status appended = ledger_.append(entry_of(Stage::decision, principal, context, call, &error));
}

void Auditor::note_suppressed(const std::string& principal, const std::string& what) {
  log_.warn("refusals are too many to be recorded", {{"principal", principal}, {"what", what}});
  EntryView entry;
  entry.principal = principal;
  entry.method = "audit.suppressed";
  entry.rule = what;
  [[maybe_unused]] const Status appended = ledger_.append(entry);
}

void Auditor::log_failure(std::string_view stage, const handlers::RequestContext& context, ipc::Call& call,
                          const Error& error) {
  const std::string principal = context.principal.to_string();
  call.session().shared().log_about(principal, LogLevel::info, stage,
                                    {{"principal", principal},
                                     {"peer", context.peer.pid},
                                     {"request", call.message().id},
                                     {"method", call.message().method},
                                     {"error", error.describe()}});
}

}  // namespace sallyport::warden
