// Mailboxes that go while something of theirs is under way: nobody is asked for them any more, and nothing of them
// stays.
#include <gtest/gtest.h>

#include "ledger/query.h"
#include "mailbox/limits.h"
#include "mailbox/mail.h"
#include "mailbox/office.h"
#include "mailbox/states.h"

namespace sallyport::testing {
namespace {

std::int64_t rows_of(Office& office, const std::string& container) {
  std::int64_t rows = -1;
  office.look([&](ledger::Database& database) { rows = *ledger::count_rows(database, container); });
  return rows;
}

// What was recorded of the signal "count".
std::vector<ledger::Record> records(Office& office) {
  std::vector<ledger::Record> all;
  office.look([&](ledger::Database& database) {
    auto page = ledger::run_query(database, {.method = "count"});
    if (page) all = std::move(page->records);
  });
  return all;
}

mailbox::Signal signal(const std::string& name, mailbox::Action action) {
  mailbox::Signal made;
  made.name = name;
  made.tier = 2;
  made.action = std::move(action);
  return made;
}

TEST(MailRemoval, NobodyIsAskedForAContainerThatWentWhileTheQuestionWasWrittenDown) {
  Office office;
  int checks = 0;
  mailbox::Signal both = signal("both", [](const Permit&, const mailbox::Raised&) {
    return Task<Result<std::string>>::ready(std::string("{}"));
  });
  // Asked before each reviewer: it goes between that it is written down that a human shall be asked, and the asking.
  both.check = [&](const mailbox::Raised&) {
    if (++checks == 2) office.loop().post([&] { office.mailbox().remove("box"); });
    return ok();
  };
  office.mailbox().replace_signals({both});
  office.mailbox().start();
  office.drop(id_of(1), "both");
  ASSERT_TRUE(office.until([&] { return checks == 2 && !office.mailbox().has("box"); }));
  EXPECT_EQ(rows_of(office, "box"), 0);
  EXPECT_FALSE(office.was_asked());
}

TEST(MailRemoval, WhatIsBeingDoneIsDoneAndLeavesNoRow) {
  Office office;
  const auto done = std::make_shared<ipc::OneShot<bool>>();
  bool is_doing = false;
  const mailbox::Action act = [&](const Permit&, const mailbox::Raised&) -> Task<Result<std::string>> {
    is_doing = true;
    co_await *done;
    co_return std::string("{}");
  };
  office.mailbox().replace_signals({signal("count", act)});
  office.mailbox().start();
  office.drop(id_of(1));
  ASSERT_TRUE(office.until([&] { return is_doing; }));
  office.mailbox().remove("box");
  EXPECT_EQ(rows_of(office, "box"), 1) << "until it is known what came of it";
  done->resolve(true);
  EXPECT_EQ(rows_of(office, "box"), 0);
  std::string outcomes;
  for (const ledger::Record& record : records(office)) {
    if (record.entry.stage == ledger::Stage::outcome) outcomes += record.entry.code + "\n";
  }
  EXPECT_EQ(outcomes, "OK\n");
}

// "STAGE CODE" of each record of one request.
std::string told_of(Office& office, const std::string& id) {
  std::string told;
  for (const ledger::Record& record : records(office)) {
    if (record.entry.request_id != id) continue;
    told += std::string(ledger::to_string(record.entry.stage)) + " " + record.entry.code + "\n";
  }
  return told;
}

Fire raise(Office& office, std::string id, std::optional<Result<std::string>>& answer) {
  wire::Decoder decoder;
  const auto payload = decoder.parse("{}");
  auto raised = office.mailbox().raise("box", "count", std::move(id), payload->root(), false, {});
  answer = co_await raised;
}

TEST(MailRemoval, WhatIsTakenInAsItsContainerGoesIsNotDoneAndItsOutcomeIsRecorded) {
  Office office;
  office.mailbox().start();
  office.drop(id_of(1));
  ASSERT_TRUE(office.until([&] { return office.has_replied(id_of(1)); }));
  std::optional<Result<std::string>> answer;
  raise(office, id_of(2), answer);  // on its way into the ledger
  office.mailbox().remove("box");
  ASSERT_TRUE(office.until([&] { return answer.has_value(); }));
  ASSERT_FALSE(*answer);
  EXPECT_EQ(answer->error().code, Code::cancelled);
  EXPECT_EQ(office.actions(), 1);
  EXPECT_EQ(rows_of(office, "box"), 0);
  EXPECT_EQ(told_of(office, id_of(2)), "decision OK\noutcome CANCELLED\n");
}

TEST(MailRemoval, NothingIsTakenInFromAContainerThatWentBeforeTheJournalWasRead) {
  Office office;
  std::optional<Result<std::string>> answer;
  raise(office, id_of(1), answer);
  office.mailbox().remove("box");
  office.mailbox().start();
  ASSERT_TRUE(office.until([&] { return answer.has_value(); }));
  ASSERT_FALSE(*answer);
  EXPECT_EQ(answer->error().code, Code::cancelled);
  EXPECT_EQ(rows_of(office, "box"), 0);
  EXPECT_EQ(told_of(office, id_of(1)), "");
}

TEST(MailRemoval, RowsOfContainersThatAreNoMoreGoAtTheNextStart) {
  Office office;
  ledger::Submission left;
  left.work = [](ledger::Transaction& transaction) -> Status {
    for (const char* state : {mailbox::state::kExecuting, mailbox::state::kAnswered}) {
      ledger::JournalRow row;
      row.key = {std::string("gone-") + state, id_of(1)};
      row.subject = "count";
      row.state = state;
      row.is_open = row.state == mailbox::state::kExecuting;
      if (!row.is_open) row.answer = "{}";
      TRY(ledger::accept(transaction, row, {}));
    }
    return ok();
  };
  office.ledger().submit(std::move(left));
  office.mailbox().start();
  office.drop(id_of(2));
  ASSERT_TRUE(office.until([&] { return office.has_replied(id_of(2)); }));
  EXPECT_EQ(rows_of(office, "gone-executing"), 0);
  EXPECT_EQ(rows_of(office, "gone-answered"), 0);
  std::string unknown;
  for (const ledger::Record& record : records(office)) {
    if (record.entry.code == "UNKNOWN") unknown += record.entry.principal + "\n";
  }
  EXPECT_EQ(unknown, "container/gone-executing\n");
}

TEST(MailRemoval, NothingIsLookedAtAfterTheEnd) {
  Office office;
  office.mailbox().start();
  bool was_idle = false, was_called_late = false;
  // Whoever waits until it is idle, and then waits for that again.
  office.mailbox().when_idle("box", [&] {
    was_idle = true;
    office.mailbox().when_idle("box", [&] { was_called_late = true; });
    office.loop().post([&] { office.mailbox().close(); });
  });
  ASSERT_TRUE(office.until([&] { return was_idle; }));
  const auto end = std::chrono::steady_clock::now() + 4 * mailbox::kIdleLookEvery;
  office.until([&] { return std::chrono::steady_clock::now() > end; });
  EXPECT_FALSE(was_called_late);
}

}  // namespace
}  // namespace sallyport::testing
