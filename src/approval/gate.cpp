#include "approval/gate.h"

#include <algorithm>

#include "approval/look.h"
#include "base/fault_point.h"

namespace sallyport::approval {
namespace {

// In one message, together with the other questions.
bool can_be_shown(std::string_view payload) {
  if (payload.empty()) return true;
  if (payload.size() > kMaxReviewedBytes) return false;
  wire::Decoder decoder;
  const auto document = decoder.parse(payload);
  return document && document->root().depth() <= wire::kMaxKeptDepth;
}

Verdict refusal(const Error& error) {
  return {.kind = Verdict::Kind::rejected,
          .payload = {},
          .why = error.message,
          .by = "warden",
          .details_json = error.details_json};
}

}  // namespace

// ---- the ledger ----

template <typename T>
Task<Result<T>> Gate::commit(std::function<Result<T>(ledger::Transaction&)> work) {
  std::optional<Result<T>> result;
  ipc::OneShot<Status> written;
  ledger::Submission submission;
  submission.work = [&](ledger::Transaction& transaction) -> Status {
    result = work(transaction);
    if (!*result) return result->error();
    return ok();
  };
  submission.done = [&](Status status) { written.resolve(std::move(status)); };
  ledger_.submit(std::move(submission));
  if (Status status = co_await written; !status) co_return std::move(status).error();
  co_return std::move(*result);
}

template <typename T>
Task<Result<T>> Gate::insist(std::function<Result<T>(ledger::Transaction&)> work, const bool* is_wanted,
                             std::function<void()> before_each) {
  const auto is_over = [&] { return is_stopping_ || (is_wanted != nullptr && !*is_wanted); };
  for (bool was_told = false;; was_told = true) {
    if (before_each) before_each();
    Result<T> result = co_await commit<T>(work);
    if (result || result.error().code != Code::unavailable || is_over()) co_return result;
    if (!was_told) log_.warn("a question waits for the ledger", {{"error", result.error().describe()}});
    co_await loop_.sleep(kRetryAfter);
    if (is_over()) co_return result;
  }
}

void Gate::open() {
  // The ledger may make this wait until calls of this warden ask.
  settle_later(QuestionState::withdrawn, "whoever asked is gone", [own = own_calls_](const Question& question) {
    const std::string& id = question.matter.request_id;
    return id.starts_with(kCallPrefix) && !id.starts_with(own);
  });
  policy_changed();
  watch_open_ones();
}

// Those of an earlier warden: whoever asked may not come back to them.
Fire Gate::watch_open_ones() {
  std::int64_t now = 0;
  const auto found =
      co_await insist<std::vector<Question>>([&now](ledger::Transaction& transaction) -> Result<std::vector<Question>> {
        TRY(create_questions_table(transaction.database()));
        now = transaction.now_ms();
        return open_questions(transaction.database());
      });
  if (!found) co_return;
  // A clock that was set back meanwhile gains nothing.
  for (const Question& question : *found) {
    set_timer(question.id, Millis(question.expires_ms - std::max(now, question.asked_ms)));
  }
}

void Gate::set_timer(const std::string& id, Millis left) {
  Waiting& waiting = waiting_[id];
  if (waiting.timer == 0) waiting.timer = loop_.after(std::max(left, Millis(1)), [this, id] { expire(id); });
}

void Gate::close() {
  stop_waiting();
  for (auto& [id, waiting] : std::exchange(waiting_, {})) {
    if (waiting.timer != 0) loop_.cancel(waiting.timer);
    for (const auto& waiter : waiting.waiters) {
      waiter->resolve(refusal(Error::make(Code::unavailable, "the warden is stopping")));
    }
  }
}

Fire Gate::settle_later(QuestionState to, std::string why, std::function<bool(const Question&)> condition,
                        std::function<void()> before_each) {
  const std::function<Result<std::vector<Question>>(ledger::Transaction&)> work =
      [&](ledger::Transaction& transaction) -> Result<std::vector<Question>> {
    TRY(create_questions_table(transaction.database()));
    return settle_all(transaction, to, why, condition);
  };
  const auto settled = co_await insist<std::vector<Question>>(work, nullptr, before_each);
  if (!settled) {
    log_.error("cannot end questions", {{"error", settled.error().describe()}});
    co_return;
  }
  if (!settled->empty()) fault_point("settled");
  for (const Question& question : *settled) ended(question);
}

// ---- asking ----

Task<Verdict> Gate::review(Matter matter) {
  if (!can_be_shown(matter.payload) || !can_be_shown(matter.original.value_or("{}"))) {
    Error error = Error::make(Code::payload_too_large,
                              "it is too large to be shown to a human: at most " + std::to_string(kMaxReviewedBytes) +
                                  " bytes as JSON, nested no deeper than " + std::to_string(wire::kMaxKeptDepth));
    error.details_json = R"({"reason":"too_large_to_review"})";
    co_return refusal(error);
  }
  const std::string id = random_hex(6);
  const auto asking = asking_.insert(asking_.end(), Asking{matter.container, matter.request_id});
  const std::function<Result<Asked>(ledger::Transaction&)> work =
      [&, expiry = expiry_](ledger::Transaction& transaction) { return ask(transaction, matter, id, expiry); };
  const auto asked = co_await insist<Asked>(work, &asking->is_wanted);
  asking_.erase(asking);
  if (!asked) co_return refusal(asked.error());
  fault_point("asked");
  const Question& question = asked->question;
  if (question.state != QuestionState::open) co_return question.verdict();
  if (matter.on_asked) matter.on_asked(question.id);
  const auto waiter = std::make_shared<ipc::OneShot<Verdict>>();
  waiting_[question.id].waiters.push_back(waiter);
  // After a restart some of its time has passed already, by the wall clock.
  const Millis passed =
      asked->is_new ? Millis(0) : Millis(std::max<std::int64_t>(asked->now_ms - question.asked_ms, 0));
  set_timer(question.id, Millis(question.expires_ms - question.asked_ms) - passed);
  if (asked->is_new) {
    log_.info(
        "a human is asked",
        {{"question", question.id}, {"container", question.matter.container}, {"subject", question.matter.subject}});
    publish("approval.asked", question);
  }
  // The ledger made it wait until after a reload, which did not find it there.
  if (question.matter.policy_hash != hooks_.policy_hash()) policy_changed();
  co_return co_await *waiter;
}

void Gate::expire(const std::string& id) {
  if (const auto found = waiting_.find(id); found != waiting_.end()) found->second.timer = 0;
  settle_later(QuestionState::expired, "nobody answered in time",
               [id](const Question& question) { return question.id == id; });
}

void Gate::withdraw(const std::string& container, const std::string& request_id) {
  for (Asking& asking : asking_) {
    if (asking.container == container && asking.request_id == request_id) asking.is_wanted = false;
  }
  settle_later(QuestionState::withdrawn, "whoever asked is gone", [container, request_id](const Question& question) {
    return question.matter.container == container && question.matter.request_id == request_id;
  });
}

void Gate::withdraw_all(const std::string& container) {
  for (Asking& asking : asking_) {
    if (asking.container == container) asking.is_wanted = false;
  }
  settle_later(QuestionState::withdrawn, "whoever asked is gone",
               [container](const Question& question) { return question.matter.container == container; });
}

void Gate::policy_changed() {
  // As it is when the ledger is asked: by the time that it can be written there may be another one.
  const auto hash = std::make_shared<std::string>();
  settle_later(
      QuestionState::voided, "the policy changed before it was answered",
      [hash](const Question& question) { return question.matter.policy_hash != *hash; },
      [this, hash] { *hash = hooks_.policy_hash(); });
}

// ---- answering ----

Task<Result<Question>> Gate::answer(std::string id, bool is_approved, std::string by, std::string why,
                                    std::string sha256) {
  const std::string policy = hooks_.policy_hash();
  auto answered = co_await commit<Question>([&](ledger::Transaction& transaction) -> Result<Question> {
    TRY(const auto found, find_question(transaction.database(), id));
    if (found && !sha256.empty() && to_hex(found->payload_sha256) != sha256) {
      return Error::make(Code::conflict, "the question is about another payload");
    }
    return approval::answer(transaction, id, is_approved, by, why, policy);
  });
  if (answered) {
    fault_point("answer_stored");
    ended(*answered);
  }
  co_return answered;
}

void Gate::ended(const Question& question) {
  log_.info("a question is over", {{"question", question.id},
                                   {"subject", question.matter.subject},
                                   {"state", to_string(question.state)},
                                   {"by", question.by}});
  publish(question.state == QuestionState::expired ? "approval.expired" : "approval.answered", question);
  const auto node = waiting_.extract(question.id);
  if (node.empty()) return;
  if (node.mapped().timer != 0) loop_.cancel(node.mapped().timer);
  for (const auto& waiter : node.mapped().waiters) waiter->resolve(question.verdict());
}

void Gate::publish(std::string_view event, const Question& question) {
  hooks_.publish(event, wire::to_json([&](wire::JsonWriter& json) {
                   json.begin_object().member("id", question.id).member("container", question.matter.container);
                   json.member("request_id", question.matter.request_id).member("signal", question.matter.subject);
                   json.member("rule", question.matter.rule).member("state", to_string(question.state));
                   json.member("expires_at", question.expires_ms);
                   if (question.state != QuestionState::open) json.member("by", question.by);
                   json.end_object();
                 }));
}

// ---- looking ----

Task<Result<QuestionPage>> Gate::list(std::string after) {
  std::optional<Result<QuestionPage>> found;
  CO_TRY(co_await look(ledger_, [&](ledger::Database& database) { found = page_of_questions(database, after); }));
  co_return std::move(*found);
}

Task<Result<Question>> Gate::find(std::string id) {
  std::optional<Result<std::optional<Question>>> found;
  CO_TRY(co_await look(ledger_, [&](ledger::Database& database) { found = find_question(database, id); }));
  if (!*found) co_return found->error();
  if (!**found) co_return Error::make(Code::not_found, "there is no such question");
  co_return std::move(***found);
}

}  // namespace sallyport::approval
