#include "approval/question.h"

#include <algorithm>
#include <array>

#include "approval/limits.h"
#include "approval/payload_diff.h"
#include "permit/permit.h"
#include "wire/limits.h"

namespace sallyport::approval {
namespace {

using ledger::Database;
using ledger::Statement;
using ledger::Transaction;

constexpr std::array kStates = {QuestionState::open,    QuestionState::approved, QuestionState::denied,
                                QuestionState::expired, QuestionState::voided,   QuestionState::withdrawn};

#define SALLYPORT_QUESTION_COLUMNS                                                                           \
  "id, container, request, subject, payload, payload_sha256, original, rule, policy, asked_ms, expires_ms, " \
  "answered_ms, state, answered_by, why"

Question read_row(const Statement& row) {
  Question question;
  question.id = row.text(0);
  question.matter.container = row.text(1);
  question.matter.request_id = row.text(2);
  question.matter.subject = row.text(3);
  question.matter.payload = as_text(row.blob(4));
  const ByteView digest = row.blob(5);
  if (digest.size() == question.payload_sha256.size()) {
    std::copy(digest.begin(), digest.end(), question.payload_sha256.begin());
  }
  if (!row.is_null(6)) question.matter.original = std::string(as_text(row.blob(6)));
  question.matter.rule = row.text(7);
  question.matter.policy_hash = row.text(8);
  question.asked_ms = row.integer(9);
  question.expires_ms = row.integer(10);
  question.answered_ms = row.integer(11);
  // A state that we do not know is none that lets anything pass.
  question.state = QuestionState::voided;
  for (const QuestionState state : kStates) {
    if (to_string(state) == row.text(12)) question.state = state;
  }
  question.by = row.text(13);
  question.why = row.text(14);
  return question;
}

Status record(Transaction& transaction, const Question& question, std::string principal) {
  ledger::Entry entry;
  entry.durability = ledger::Durability::durable;
  entry.principal = std::move(principal);
  entry.method =
      question.state == QuestionState::open ? "approval.asked" : "approval." + std::string(to_string(question.state));
  entry.request_id = question.matter.request_id;
  entry.code = question.state == QuestionState::expired ? to_string(Code::approval_expired)
               : question.state == QuestionState::open || question.state == QuestionState::approved
                   ? ledger::kOk
                   : to_string(Code::approval_denied);
  entry.rule = question.id + " " + question.matter.subject + " for " +
               (question.matter.container.empty() ? "host" : "container/" + question.matter.container);
  if (question.state == QuestionState::open) {
    entry.rule += " by " + question.matter.rule;
  } else {
    entry.rule += " by " + question.by;
  }
  entry.payload_sha256 = question.payload_sha256;
  entry.payload_bytes = question.matter.payload.size();
  return transaction.record(std::move(entry));
}

std::string asker(const Matter& matter) {
  return matter.container.empty() ? "host" : Principal::container(matter.container).to_string();
}

Result<std::optional<Question>> find_matter(Database& database, const Matter& matter, const ledger::Digest& digest) {
  TRY(Statement select, database.prepare("SELECT " SALLYPORT_QUESTION_COLUMNS
                                         " FROM approvals WHERE container = ? AND request = ? AND subject = ? AND"
                                         " payload_sha256 = ? AND policy = ? AND state <> 'voided' LIMIT 1"));
  select.bind(matter.container).bind(matter.request_id).bind(matter.subject).bind(ByteView(digest));
  select.bind(matter.policy_hash);
  TRY(const bool has_row, select.step());
  if (!has_row) return std::optional<Question>();
  return std::optional<Question>(read_row(select));
}

Status check_room(Transaction& transaction, const Matter& matter) {
  TRY(Statement count,
      transaction.database().prepare("SELECT count(*) FROM approvals WHERE container = ? AND state = 'open'"));
  count.bind(matter.container);
  TRY(const bool has_row, count.step());
  if (!has_row || count.integer(0) >= kMaxOpenPerContainer) {
    return Error::make(Code::rate_limited, "too many questions are open already");
  }
  if (matter.container.empty()) return ok();
  TRY(Statement withdrawn, transaction.database().prepare("SELECT count(*) FROM approvals WHERE container = ? AND"
                                                          " state = 'withdrawn' AND answered_ms > ?"));
  withdrawn.bind(matter.container).bind(transaction.now_ms() - kWithdrawnCounts.count());
  TRY(const bool has_count, withdrawn.step());
  if (has_count && withdrawn.integer(0) < kMaxWithdrawn) return ok();
  return Error::make(Code::rate_limited, "too many questions were withdrawn a moment ago; ask again in a minute");
}

Status forget_withdrawn(Transaction& transaction, const std::string& container) {
  TRY(Statement remove,
      transaction.database().prepare(
          "DELETE FROM approvals WHERE container = ?1 AND state = 'withdrawn' AND id NOT IN (SELECT id"
          " FROM approvals WHERE container = ?1 AND state = 'withdrawn'"
          " ORDER BY answered_ms DESC, id LIMIT ?2)"));
  return remove.bind(container).bind(kMaxWithdrawn).run();
}

Status insert(Transaction& transaction, const Question& question) {
  TRY(Statement insert, transaction.database().prepare("INSERT INTO approvals(" SALLYPORT_QUESTION_COLUMNS
                                                       ") VALUES(?,?,?,?,?,?,?,?,?,?,?,0,?,'','')"));
  const Matter& matter = question.matter;
  insert.bind(question.id).bind(matter.container).bind(matter.request_id).bind(matter.subject);
  insert.bind(as_bytes(matter.payload)).bind(ByteView(question.payload_sha256));
  if (matter.original) {
    insert.bind(as_bytes(*matter.original));
  } else {
    insert.bind_null();
  }
  insert.bind(matter.rule).bind(matter.policy_hash).bind(question.asked_ms).bind(question.expires_ms);
  return insert.bind(to_string(question.state)).run();
}

Status forget_old(Transaction& transaction) {
  TRY(Statement remove,
      transaction.database().prepare("DELETE FROM approvals WHERE state <> 'open' AND answered_ms < ?"));
  return remove.bind(transaction.now_ms() - std::chrono::milliseconds(kKept).count()).run();
}

}  // namespace

std::string_view to_string(QuestionState state) {
  switch (state) {
    case QuestionState::open:
      return "open";
    case QuestionState::approved:
      return "approved";
    case QuestionState::denied:
      return "denied";
    case QuestionState::expired:
      return "expired";
    case QuestionState::voided:
      return "voided";
    case QuestionState::withdrawn:
      return "withdrawn";
  }
  return "voided";
}

Verdict Question::verdict() const {
  Verdict verdict{.kind = Verdict::Kind::rejected, .payload = {}, .why = why, .by = by};
  if (state == QuestionState::approved) verdict.kind = Verdict::Kind::approved;
  if (state == QuestionState::expired) verdict.kind = Verdict::Kind::expired;
  return verdict;
}

Status create_questions_table(Database& database) {
  return database.execute(
      "CREATE TABLE IF NOT EXISTS approvals("
      "id TEXT PRIMARY KEY, container TEXT NOT NULL, request TEXT NOT NULL, subject TEXT NOT NULL,"
      "payload BLOB NOT NULL, payload_sha256 BLOB NOT NULL, original BLOB, rule TEXT NOT NULL, policy TEXT NOT NULL,"
      "asked_ms INTEGER NOT NULL, expires_ms INTEGER NOT NULL, answered_ms INTEGER NOT NULL, state TEXT NOT NULL,"
      "answered_by TEXT NOT NULL, why TEXT NOT NULL) STRICT;"
      "CREATE INDEX IF NOT EXISTS approvals_by_matter ON approvals(container, request);"
      "CREATE INDEX IF NOT EXISTS approvals_by_state ON approvals(state, asked_ms);");
}

Result<Asked> ask(Transaction& transaction, const Matter& matter, const std::string& id, Millis expiry) {
  TRY(forget_old(transaction));
  const ledger::Digest digest = wire::sha256(as_bytes(matter.payload));
  TRY(auto known, find_matter(transaction.database(), matter, digest));
  if (known) {
    const bool is_late = transaction.now_ms() >= known->expires_ms;
    if (known->state == QuestionState::open && is_late) {
      TRY(known, settle(transaction, known->id, QuestionState::expired, "warden", "nobody answered in time"));
    }
    // An approval is worth nothing beyond the time that it was asked for.
    if (known->state == QuestionState::approved && is_late) known->state = QuestionState::expired;
    return Asked{.question = std::move(*known), .is_new = false, .now_ms = transaction.now_ms()};
  }
  TRY(check_room(transaction, matter));
  Question question{.id = id, .matter = matter, .payload_sha256 = digest, .by = {}, .why = {}};
  question.asked_ms = transaction.now_ms();
  question.expires_ms = question.asked_ms + expiry.count();
  TRY(insert(transaction, question));
  TRY(record(transaction, question, asker(matter)));
  return Asked{.question = std::move(question), .is_new = true, .now_ms = transaction.now_ms()};
}

Result<Question> settle(Transaction& transaction, const std::string& id, QuestionState to, std::string by,
                        std::string why) {
  TRY(auto found, find_question(transaction.database(), id));
  if (!found) return Error::make(Code::not_found, "there is no such question");
  if (found->state != QuestionState::open) {
    return Error::make(Code::conflict, "the question is over: " + std::string(to_string(found->state)) +
                                           (found->by.empty() ? "" : " by " + found->by));
  }
  found->state = to;
  found->by = std::move(by);
  found->why = std::move(why);
  found->answered_ms = transaction.now_ms();
  {
    TRY(Statement update, transaction.database().prepare("UPDATE approvals SET state = ?, answered_by = ?, why = ?,"
                                                         " answered_ms = ? WHERE id = ? AND state = 'open'"));
    TRY(update.bind(to_string(to)).bind(found->by).bind(found->why).bind(found->answered_ms).bind(id).run());
  }
  TRY(record(transaction, *found, to == QuestionState::approved || to == QuestionState::denied ? "host" : "warden"));
  if (to == QuestionState::withdrawn) TRY(forget_withdrawn(transaction, found->matter.container));
  return std::move(*found);
}

Result<Question> answer(Transaction& transaction, const std::string& id, bool is_approved, std::string by,
                        std::string why, const std::string& policy_hash) {
  TRY(const auto found, find_question(transaction.database(), id));
  if (found && found->state == QuestionState::open) {
    if (transaction.now_ms() >= found->expires_ms) {
      return settle(transaction, id, QuestionState::expired, "warden", "nobody answered in time");
    }
    if (found->matter.policy_hash != policy_hash) {
      return settle(transaction, id, QuestionState::voided, "warden", "the policy changed before it was answered");
    }
    // The bytes are what was asked about, or nothing is approved.
    if (wire::sha256(as_bytes(found->matter.payload)) != found->payload_sha256) {
      return settle(transaction, id, QuestionState::voided, "warden", "the payload is not what was asked about");
    }
  }
  return settle(transaction, id, is_approved ? QuestionState::approved : QuestionState::denied, std::move(by),
                std::move(why));
}

Result<std::optional<Question>> find_question(Database& database, const std::string& id) {
  TRY(Statement select, database.prepare("SELECT " SALLYPORT_QUESTION_COLUMNS " FROM approvals WHERE id = ?"));
  select.bind(id);
  TRY(const bool has_row, select.step());
  if (!has_row) return std::optional<Question>();
  return std::optional<Question>(read_row(select));
}

Result<std::vector<Question>> open_questions(Database& database) {
  TRY(Statement select, database.prepare("SELECT " SALLYPORT_QUESTION_COLUMNS
                                         " FROM approvals WHERE state = 'open' ORDER BY asked_ms, id"));
  std::vector<Question> all;
  for (;;) {
    TRY(const bool has_row, select.step());
    if (!has_row) return all;
    all.push_back(read_row(select));
  }
}

Result<QuestionPage> page_of_questions(Database& database, const std::string& after) {
  std::int64_t after_ms = INT64_MIN;
  if (!after.empty()) {
    TRY(const auto last, find_question(database, after));
    if (!last) return Error::make(Code::not_found, "the question to go on after is gone");
    after_ms = last->asked_ms;
  }
  TRY(Statement select, database.prepare("SELECT " SALLYPORT_QUESTION_COLUMNS
                                         " FROM approvals WHERE state = 'open' AND (asked_ms, id) > (?, ?)"
                                         " ORDER BY asked_ms, id"));
  select.bind(after_ms).bind(after);
  QuestionPage page;
  for (std::size_t bytes = 0;;) {
    TRY(const bool has_row, select.step());
    page.has_more = has_row && bytes >= wire::kPageBytes;
    if (!has_row || page.has_more) return page;
    const Matter& matter = page.questions.emplace_back(read_row(select)).matter;
    bytes += kQuestionOverhead + matter.payload.size() + (matter.original ? matter.original->size() : 0);
  }
}

void write_question(wire::JsonWriter& json, const Question& question, bool in_full) {
  const Matter& matter = question.matter;
  json.member("id", question.id)
      .member("request_id", matter.request_id)
      .member("container", matter.container)
      .member("signal", matter.subject)
      .member("rule", matter.rule)
      .member("state", to_string(question.state))
      .member("asked_at", question.asked_ms)
      .member("expires_at", question.expires_ms)
      .member("sha256", to_hex(question.payload_sha256));
  json.key("payload").raw(matter.payload.empty() ? "null" : matter.payload);
  if (question.state != QuestionState::open) {
    json.member("answered_at", question.answered_ms).member("by", question.by).member("why", question.why);
  }
  json.member("is_modified", matter.original.has_value());
  if (!in_full) return;
  json.member("pretty", pretty(matter.payload));
  json.member("policy_hash", matter.policy_hash);
  if (matter.original) {
    json.key("original").raw(*matter.original);
    json.member("diff", payload_diff(*matter.original, matter.payload));
  }
}

}  // namespace sallyport::approval
