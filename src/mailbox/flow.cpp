#include "mailbox/flow.h"

#include <chrono>

#include "base/fault_point.h"
#include "mailbox/limits.h"
#include "mailbox/states.h"
#include "wire/message.h"

namespace sallyport::mailbox {

using ledger::Edge;
using ledger::Entry;
using ledger::JournalRow;
using ledger::Stage;

namespace {

ledger::Digest hash_of(std::string_view signal, std::string_view payload) {
  std::string both(signal);
  both += '\n';
  both += payload;
  return wire::sha256(as_bytes(both));
}

// Counts a program of a signal until nobody holds it any more.
std::shared_ptr<Desk> count_run(const std::shared_ptr<Desk>& desk) {
  ++desk->running;
  return {desk.get(), [desk](Desk*) { --desk->running; }};
}

Error denied(const Judgement& judgement) {
  const std::string rule = judgement.rule.empty() ? "" : judgement.rule + ": ";
  return Error::make(Code::policy_denied, "policy does not allow this signal", rule + judgement.why);
}

}  // namespace

std::string response_json(std::string_view request_id, const Result<std::string>& outcome) {
  return wire::to_json([&](wire::JsonWriter& json) {
    json.begin_object().member("id", request_id).member("type", "response");
    if (outcome) {
      json.key("result").raw(*outcome);
    } else {
      json.key("error");
      wire::write_error(json, outcome.error());
    }
    json.end_object();
  });
}

std::string interim_json(std::string_view request_id, std::string_view state) {
  return response_json(request_id, "{\"state\":\"" + std::string(state) + "\",\"final\":false}");
}

Flow::Flow(Parts parts, std::vector<Signal> signals, Quarantine& quarantine)
    : parts_(std::move(parts)), quarantine_(quarantine) {
  replace_signals(std::move(signals));
}

void Flow::replace_signals(std::vector<Signal> signals) {
  signals_.clear();
  for (Signal& signal : signals) {
    const std::string name = signal.name;
    signals_.emplace(name, std::make_shared<const Signal>(std::move(signal)));
  }
}

std::shared_ptr<const Signal> Flow::find_signal(std::string_view name) const {
  const auto found = signals_.find(name);
  return found == signals_.end() ? nullptr : found->second;
}

Entry Flow::entry(Stage stage, const JournalRow& row, const Error* error) const {
  Entry entry;
  entry.stage = stage;
  entry.durability = ledger::Durability::durable;
  entry.principal = "container/" + row.key.container;
  entry.session = "mailbox";
  entry.request_id = row.key.request_id;
  entry.method = row.subject;
  entry.rule = row.rule;
  entry.payload_sha256 = row.sha256;
  entry.payload_bytes = row.payload.size();
  if (error != nullptr) {
    entry.code = to_string(error->code);
    if (!error->detail.empty()) entry.rule = error->detail;
  }
  return entry;
}

// ---- before it is accepted ----

// Takes one of the refusals that are recorded.
bool Flow::may_record(Desk& desk) const {
  const auto now =
      std::chrono::duration_cast<std::chrono::microseconds>(parts_.clock.steady().time_since_epoch()).count();
  const ledger::RateDecision rate = ledger::decide_rate(kRefusalRate, desk.refusals, now);
  desk.refusals = rate.unused_at;
  return rate.is_allowed;
}

bool Flow::is_busy(const Desk& desk, std::string_view signal) const {
  if (desk.running < kMaxRunning) return false;
  const auto found = find_signal(signal);
  return found != nullptr && found->command;
}

Result<std::unique_ptr<Flow::Arrival>> Flow::examine(Desk& desk, std::string_view name, std::string_view request_id,
                                                     wire::Value payload, const std::string& id_of_signal,
                                                     const Origin& origin) {
  const auto found = signals_.find(name);
  const Principal who = Principal::container(desk.container());
  const Judgement judgement =
      parts_.judge.consider(who, found == signals_.end() ? name : std::string_view(found->second->name), payload);
  // Policy first: whoever may raise nothing learns nothing about which signals there are and what they take.
  if (found == signals_.end()) {
    return judgement.is_denied ? denied(judgement) : Error::make(Code::method_not_found, "no such signal");
  }
  auto kept = std::make_unique<Arrival>();
  Arrival& arrival = *kept;
  arrival.signal = found->second;
  const Status fits = check_shape(*arrival.signal, request_id, payload);
  if (judgement.is_denied) {
    // What has no id, or none that can be answered, leaves nothing in the journal.
    if (arrival.signal->tier == 1 || !fits) return denied(judgement);
    arrival.denial = denied(judgement);
  }
  TRY(fits);
  const bool is_reviewed = judgement.needs_deputy || judgement.needs_human;
  // What was taken in before is only answered again: no limit counts it twice.
  JournalRow& row = arrival.row;
  row.key = {desk.container(), request_id.empty() ? id_of_signal : std::string(request_id)};
  const bool is_known = !request_id.empty() && (desk.has_answered(row.key.request_id) || pending_.contains(row.key));
  // A denial is a row for good: no more of them than refusals that are recorded.
  if (arrival.denial && !is_known && (desk.requests >= kMaxRequests || !may_record(desk))) return *arrival.denial;
  if (!arrival.denial && !is_known) {
    if (arrival.signal->tier == 2 && desk.requests >= kMaxRequests) {
      return Error::make(Code::quota_exceeded, "this container has raised all the requests that it may");
    }
    if (is_reviewed && desk.waiting >= kMaxWaiting) {
      return Error::make(Code::rate_limited, "too many requests of this container wait for a review");
    }
    if (!is_reviewed && is_busy(desk, name)) {
      Error error = Error::make(Code::rate_limited, "too many programs of this container's signals are running");
      error.retryable = true;
      return error;
    }
    arrival.counted = judgement.limits;
    if (arrival.counted.empty() && arrival.signal->tier == 1) arrival.counted = {{arrival.signal->name, kSignalRate}};
    arrival.counts_as = judgement.counts_as;
    TRY(parts_.ledger.rates().take(arrival.counts_as, arrival.counted));
  }
  row.subject = name;
  row.payload = payload ? payload.to_json() : "";
  row.sha256 = hash_of(name, row.payload);
  row.rule = judgement.rule;
  if (arrival.denial) {
    row.state = state::kAnswered;
    row.is_open = false;
    row.answer = response_json(row.key.request_id, *arrival.denial);
  } else if (is_reviewed) {
    row.state = judgement.needs_deputy ? state::kDeputyWait : state::kHumanWait;
  } else {
    row.state = state::kExecuting;
    TRY(arrival.permit, parts_.judge.permit(who, arrival.signal->name, payload, judgement, {}));
  }
  arrival.entry = entry(is_reviewed ? Stage::event : Stage::decision, row, arrival.denial ? &*arrival.denial : nullptr);
  if (is_reviewed) arrival.entry.rule = row.state + ": " + row.rule;
  arrival.entry.session = origin.session;
  arrival.entry.peer_pid = origin.peer_pid;
  return kept;
}

void Flow::refuse(Desk& desk, const Refused& what, const Error& error, const Origin& origin) {
  ++desk.refused;
  if (!what.file.empty() && !what.request_id.empty()) {
    desk.reply(what.request_id, response_json(what.request_id, error), parts_.clock.steady(), true, false);
  }
  if (!may_record(desk)) {
    ++desk.suppressed;
    return;
  }
  const std::string payload = what.payload ? what.payload.to_json() : "";
  const std::string_view content = what.file.empty() ? std::string_view(payload) : what.content;
  Refusal refusal;
  refusal.time_ms = parts_.clock.unix_millis();
  refusal.name = escape_for_display(what.file.empty() ? what.signal : what.file);
  refusal.code = to_string(error.code);
  refusal.reason = error.message;
  refusal.bytes = content.size();
  parts_.log.info("message refused", {{"container", desk.container()},
                                      {"name", refusal.name},
                                      {"request", what.request_id},
                                      {"error", error.describe()}});
  JournalRow row;
  row.key = {desk.container(), what.request_id};
  row.subject = is_signal_name(what.signal) ? what.signal : "signal.raise";
  row.sha256 = wire::sha256(as_bytes(content));
  Entry refused = entry(Stage::decision, row, &error);
  refused.session = origin.session;
  refused.peer_pid = origin.peer_pid;
  refused.payload_bytes = content.size();
  if (refused.rule.empty()) refused.rule = error.message;
  if (const std::uint64_t count = std::exchange(desk.suppressed, 0); count != 0) {
    refused.rule += " (and " + std::to_string(count) + " refusals that were too many to record)";
  }
  // If there is no room for it the ledger counts it, and says so when there is.
  [[maybe_unused]] const Status appended = parts_.ledger.append(refused);
  parts_.on_event("mailbox.refused", wire::to_json([&](wire::JsonWriter& json) {
                    json.begin_object()
                        .member("container", desk.container())
                        .member("name", refusal.name)
                        .member("code", refusal.code)
                        .member("reason", refusal.reason)
                        .end_object();
                  }));
  quarantine_.add(desk.container(), std::move(refusal), what.content);
}

// ---- into the journal ----

Task<Status> Flow::take_in(std::shared_ptr<Desk> desk, std::unique_ptr<Arrival> taken,
                           std::optional<Request::Waiter> waiter, const std::function<void()>& accepted) {
  Arrival& arrival = *taken;
  std::optional<ledger::Accepted> result;
  const bool is_reviewed = arrival.row.is_open && arrival.row.state != state::kExecuting;
  if (is_reviewed) ++desk->waiting;
  if (arrival.permit && arrival.signal->command) arrival.run = count_run(desk);
  ipc::OneShot<Status> done;
  ledger::Submission submission;
  submission.work = [&](ledger::Transaction& transaction) -> Status {
    TRY(result, ledger::accept(transaction, std::move(arrival.row), std::move(arrival.entry)));
    return ok();
  };
  submission.fails_clean = true;
  submission.done = [&done](Status status) { done.resolve(std::move(status)); };
  parts_.ledger.submit(std::move(submission));
  const Status recorded = co_await done;
  if (!recorded || !result->is_new) {
    if (is_reviewed) --desk->waiting;
    // Not taken in, or taken in before: it comes again, or came already, and counts then.
    parts_.ledger.rates().give_back(arrival.counts_as, arrival.counted);
  }
  CO_TRY(recorded);
  fault_point("accepted");
  if (accepted) accepted();
  fault_point("removed");
  if (desk->is_removed) {
    const Status cancelled = co_await cancel(std::move(*result));
    co_return cancelled;
  }
  if (!is_closing_) proceed(desk, std::move(*result), arrival, std::move(waiter));
  co_return ok();
}

void Flow::proceed(const std::shared_ptr<Desk>& desk, ledger::Accepted accepted, Arrival& arrival,
                   std::optional<Request::Waiter> waiter) {
  JournalRow& row = accepted.row;
  if (!accepted.is_new) {
    const auto known = pending_.find(row.key);
    if (known == pending_.end()) return answer_again(*desk, row, waiter);
    auto& waiters = known->second->waiters;
    std::erase_if(waiters, [](const Request::Waiter& each) { return each.answer->is_resolved(); });
    if (waiter) waiters.push_back(*waiter);
    if (row.state == state::kHumanWait) deliver_interim(*known->second, "awaiting_human");
    return;
  }
  ++desk->accepted;
  if (arrival.signal->tier == 2) ++desk->requests;
  if (arrival.denial) {
    desk->reply(row.key.request_id, *row.answer, parts_.clock.steady(), true, true);
    if (waiter) waiter->answer->resolve(*row.answer);
    publish_answer(row, &*arrival.denial);
    return expire(desk);
  }
  const auto request = std::make_shared<Request>();
  request->row = std::move(row);
  request->signal = arrival.signal;
  request->desk = desk;
  request->run = std::move(arrival.run);
  if (waiter) request->waiters.push_back(std::move(*waiter));
  pending_.emplace(request->row.key, request);
  drive(request, std::move(arrival.permit));
}

// It was answered before: the same answer again.
void Flow::answer_again(Desk& desk, const JournalRow& row, const std::optional<Request::Waiter>& waiter) {
  const bool is_expired = !row.answer.has_value();
  const std::string answer =
      is_expired ? response_json(row.key.request_id, Error::make(Code::conflict,
                                                                 "this request was answered before, and its answer "
                                                                 "has expired; use a new request_id"))
                 : *row.answer;
  if (is_request_id(row.key.request_id)) {
    desk.reply(row.key.request_id, answer, parts_.clock.steady(), true, !is_expired);
  }
  if (waiter) waiter->answer->resolve(answer);
}

// ---- on from there ----

Fire Flow::drive(std::shared_ptr<Request> request, std::optional<Permit> permit) {
  std::string by;  // nobody but the action itself
  while (request->row.state != state::kExecuting) {
    const bool was_asked = request->row.state == state::kHumanWait;
    auto granted = co_await review(*request);
    if (request->is_gone) co_return;
    --request->desk->waiting;
    // A question that is still open was not what decided.
    if (was_asked && !granted) parts_.human.withdraw(request->row.key.container, request->row.key.request_id);
    if (!granted) {
      Result<std::string> refused = std::move(granted).error();
      [[maybe_unused]] const Status finished = co_await finish(request, std::move(refused), std::move(by));
      co_return;
    }
    Entry decision = entry(Stage::decision, request->row);
    for (const std::string* who : {&request->row.deputy, &request->row.human}) {
      if (!who->empty()) decision.rule += ", " + *who;
    }
    fault_point("ready");
    const std::string from = request->row.state, policy = parts_.judge.policy_hash();
    if (!co_await step(*request, {.from = from, .to = state::kExecuting}, std::move(decision))) co_return;
    permit.emplace(std::move(*granted));
    if (policy == parts_.judge.policy_hash()) break;
    // What was granted under another policy is not done: it is reviewed again, as far as that is needed now.
    Entry changed = entry(Stage::event, request->row);
    changed.rule = "approved: the policy changed before it was begun";
    const Edge back{.from = state::kExecuting, .to = state::kApproved, .deputy = "", .human = ""};
    const Status is_back = co_await step(*request, back, std::move(changed));
    if (!is_back || request->is_gone) co_return;
    ++request->desk->waiting;
  }
  fault_point("executing");
  if (!request->run && request->signal->command) request->run = count_run(request->desk);
  auto outcome = co_await act(*permit, *request);
  fault_point("acted");
  if (std::exchange(request->run, nullptr) && on_room) on_room(request->row.key.container);
  // Fails only when the warden stops: the next one finds the request where the journal has it.
  [[maybe_unused]] const Status finished = co_await finish(request, std::move(outcome), std::move(by));
}

Raised Flow::raised(const Request& request) {
  return {.container = request.row.key.container,
          .request_id = request.signal->tier == 1 ? "" : request.row.key.request_id,
          .payload = request.row.payload,
          .key = request.row.key.container + "/" + request.row.key.request_id};
}

std::vector<std::string> Flow::command_of(const ledger::JournalKey& key) const {
  const auto found = pending_.find(key);
  if (found == pending_.end() || !found->second->signal || !found->second->signal->command) return {};
  return found->second->signal->command(raised(*found->second));
}

Task<Result<std::string>> Flow::act(const Permit& permit, const Request& request) {
  const Raised what = raised(request);
  try {
    co_return co_await request.signal->action(permit, what);
  } catch (const std::exception& error) {
    co_return Error::make(Code::internal_error, "the signal could not be handled", error.what());
  }
}

Task<Status> Flow::finish(std::shared_ptr<Request> request, Result<std::string> outcome, std::string by) {
  JournalRow& row = request->row;
  const Error* error = outcome ? nullptr : &outcome.error();
  const bool was_run = row.state == state::kExecuting || row.state == state::kUnknown;
  Entry last = entry(was_run ? Stage::outcome : Stage::decision, row, error);
  if (!by.empty()) last.rule = by;
  const std::string answer = response_json(row.key.request_id, outcome);
  const bool is_signal_only = !is_request_id(row.key.request_id);
  if (error != nullptr) {
    parts_.log.info("signal not done", {{"container", row.key.container},
                                        {"signal", row.subject},
                                        {"request", row.key.request_id},
                                        {"error", error->describe()}});
  }
  // What has no id cannot come again, nor what a container that is no more has sent: nobody could ask for the answer.
  const bool is_forgotten = is_signal_only || request->desk->is_removed;
  const ledger::Work work = [&](ledger::Transaction& transaction) {
    if (is_forgotten) return ledger::forget(transaction, row.key, row.state, last);
    return ledger::advance(transaction, row.key,
                           {.from = row.state, .to = state::kAnswered, .is_open = false, .answer = answer}, last);
  };
  // By the ledger's thread: the reply waits for nothing else, and this one has enough to do.
  Status replied;
  const std::function<void()> on_disk = [&] {
    fault_point("done");
    if (!is_signal_only) replied = request->desk->box().write_reply(row.key.request_id, answer);
  };
  request->is_answering = true;
  request->desk->forget_unwritten(row.key.request_id);
  const Status stored = co_await commit(work, on_disk);
  request->is_answering = false;
  if (!stored) co_return stored;
  pending_.erase(row.key);
  row.state = state::kAnswered;
  if (!is_signal_only) {
    request->desk->replied(row.key.request_id, answer, parts_.clock.steady(), true, true, replied);
  }
  tell_waiters(*request, answer, true);
  fault_point("answered");
  publish_answer(row, error);
  expire(request->desk);
  co_return ok();
}

void Flow::deliver_interim(Request& request, std::string_view state) {
  if (request.is_answering) return;
  const std::string& id = request.row.key.request_id;
  const std::string answer = interim_json(id, state);
  if (is_request_id(id)) request.desk->reply(id, answer, parts_.clock.steady(), false, true);
  tell_waiters(request, answer, false);
}

void Flow::tell_waiters(Request& request, const std::string& answer, bool is_final) {
  std::vector<Request::Waiter> stay;
  for (Request::Waiter& waiter : std::exchange(request.waiters, {})) {
    if (is_final || waiter.wants_interim) {
      waiter.answer->resolve(answer);
    } else {
      stay.push_back(std::move(waiter));
    }
  }
  request.waiters = std::move(stay);
}

void Flow::publish_answer(const JournalRow& row, const Error* error) {
  parts_.on_event("mailbox.answered", wire::to_json([&](wire::JsonWriter& json) {
                    json.begin_object()
                        .member("container", row.key.container)
                        .member("request_id", row.key.request_id)
                        .member("signal", row.subject)
                        .member("code", error == nullptr ? ledger::kOk : to_string(error->code))
                        .end_object();
                  }));
}

Task<Status> Flow::step(Request& request, Edge edge, Entry recorded) {
  // The edge's texts may be views into the row: it is changed only afterwards.
  const ledger::Work work = [&](ledger::Transaction& transaction) {
    return ledger::advance(transaction, request.row.key, edge, recorded);
  };
  const std::function<void()> nothing;
  const Status taken = co_await commit(work, nothing);
  if (!taken) co_return taken;
  JournalRow& row = request.row;
  const std::string to(edge.to);
  if (edge.original) row.original = std::string(*edge.original);
  if (edge.payload) row.payload = std::string(*edge.payload);
  if (edge.rule) row.rule = *edge.rule;
  if (edge.deputy) row.deputy = *edge.deputy;
  if (edge.human) row.human = *edge.human;
  row.state = to;
  co_return ok();
}

// A ledger that cannot be written stops everything right here, until it can be or the warden ends.
Task<Status> Flow::commit(const ledger::Work& work, const std::function<void()>& on_disk) {
  for (;;) {
    ipc::OneShot<Status> done;
    ledger::Submission submission;
    submission.work = [&work](ledger::Transaction& transaction) { return work(transaction); };
    if (on_disk) submission.on_disk = [&on_disk] { on_disk(); };
    submission.fails_clean = true;
    submission.done = [&done](Status status) { done.resolve(std::move(status)); };
    parts_.ledger.submit(std::move(submission));
    Status status = co_await done;
    if (status || status.error().code != Code::unavailable || is_closing_) co_return status;
    co_await parts_.loop.sleep(kRetryAfter);
    if (is_closing_) co_return status;
  }
}

}  // namespace sallyport::mailbox
