// A question to a human, as the ledger's database keeps it. These functions run inside a ledger::Work: every
// change of state is a compare-and-swap in the same transaction as its audit record.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "approval/review.h"
#include "base/base.h"
#include "ledger/ledger.h"
#include "wire/json.h"

namespace sallyport::approval {

enum class QuestionState : std::uint8_t {
  open,
  approved,
  denied,
  expired,
  voided,     // the policy changed before it was answered
  withdrawn,  // whoever asked is gone
};
std::string_view to_string(QuestionState state);

struct Question {
  std::string id;
  Matter matter;
  ledger::Digest payload_sha256{};
  std::int64_t asked_ms = 0, expires_ms = 0, answered_ms = 0;
  QuestionState state = QuestionState::open;
  std::string by, why;

  // What it means for whoever asked; `open` is no verdict yet.
  Verdict verdict() const;
};

Status create_questions_table(ledger::Database& database);

struct Asked {
  Question question;
  bool is_new = false;
  std::int64_t now_ms = 0;
};
// The question about this matter: the one that is there, in whatever state, or a new one under `id`. One that
// was asked under another policy does not count. RATE_LIMITED if the container has too many open.
Result<Asked> ask(ledger::Transaction& transaction, const Matter& matter, const std::string& id, Millis expiry);

// Ends a question that is open. NOT_FOUND; CONFLICT, which says how it ended, if it is not open.
Result<Question> settle(ledger::Transaction& transaction, const std::string& id, QuestionState to, std::string by,
                        std::string why);
// The answer of a human. What comes too late makes it expired, what comes after a change of the policy makes
// it void: look at the state.
Result<Question> answer(ledger::Transaction& transaction, const std::string& id, bool is_approved, std::string by,
                        std::string why, const std::string& policy_hash);
// Ends, as `to`, all open ones that the condition holds for.
template <typename Condition>
Result<std::vector<Question>> settle_all(ledger::Transaction& transaction, QuestionState to, const std::string& why,
                                         Condition&& condition);

Result<std::optional<Question>> find_question(ledger::Database& database, const std::string& id);
// Those that are open, the oldest first.
Result<std::vector<Question>> open_questions(ledger::Database& database);
// As many of them as are shown at once, of those asked after the one with the id `after`, if that is given.
struct QuestionPage {
  std::vector<Question> questions;
  bool has_more = false;
};
Result<QuestionPage> page_of_questions(ledger::Database& database, const std::string& after);

// Its members, into an object that is open. With everything that will run if `in_full`.
void write_question(wire::JsonWriter& json, const Question& question, bool in_full);

template <typename Condition>
Result<std::vector<Question>> settle_all(ledger::Transaction& transaction, QuestionState to, const std::string& why,
                                         Condition&& condition) {
  TRY(const auto open, open_questions(transaction.database()));
  std::vector<Question> settled;
  for (const Question& question : open) {
    if (!condition(question)) continue;
    TRY(settled.emplace_back(), settle(transaction, question.id, to, "warden", why));
  }
  return settled;
}

}  // namespace sallyport::approval
