// Questions to a human, and their answers.
#include "gate_fixture.h"

namespace sallyport::approval {
namespace {

TEST_F(HumanGate, AsksAndIsAnswered) {
  ask(matter());
  const auto open = open_list();
  ASSERT_EQ(open.size(), 1U);
  EXPECT_EQ(open[0].matter.payload, R"({"prompt":"x"})");
  EXPECT_EQ(open[0].expires_ms - open[0].asked_ms, kHour.count());
  EXPECT_EQ(answer(open[0].id, true), "approved");
  EXPECT_EQ(verdict(), "approved");
  EXPECT_EQ(verdicts_["req-1"].by, "host/uid 1");
  EXPECT_EQ(events_, (std::vector<std::string>{"approval.asked", "approval.answered"}));
}

TEST_F(HumanGate, WhatARemovedContainerAskedIsWithdrawn) {
  ask(matter());
  settle();
  gate_->withdraw_all("c2");
  EXPECT_EQ(open_list().size(), 1U);
  gate_->withdraw_all("c1");
  EXPECT_TRUE(until([&] { return verdict() != "waiting"; }));
  EXPECT_EQ(verdict(), "rejected");
}

TEST_F(HumanGate, WhatARemovedContainerWasAboutToAskIsNotAsked) {
  settle();
  faults_.on_write = SQLITE_FULL;
  ask(matter("of the container"));
  Matter call = matter("of a call");
  call.container = "c2";
  ask(call);
  EXPECT_TRUE(until([&] { return ledger_->health().failures >= 2; }));
  gate_->withdraw_all("c1");
  gate_->withdraw("c2", "of a call");
  faults_.on_write = 0;
  EXPECT_TRUE(until([&] { return verdict("of the container") != "waiting" && verdict("of a call") != "waiting"; }));
  EXPECT_EQ(verdict("of the container"), "rejected");
  EXPECT_TRUE(events_.empty()) << events_.front();
  EXPECT_TRUE(open_list().empty());
}

TEST_F(HumanGate, ADenialCarriesItsReason) {
  ask(matter());
  EXPECT_EQ(answer(only_open(), false), "denied");
  EXPECT_EQ(verdict(), "rejected");
  EXPECT_EQ(verdicts_["req-1"].why, "because");
}

TEST_F(HumanGate, AttackTwoApproversAtOnceTheFirstWinsAndTheSecondIsTold) {
  ask(matter());
  const std::string id = only_open();
  std::optional<Result<Question>> first, second;
  drive(gate_->answer(id, true, "one", "", ""), first);
  drive(gate_->answer(id, true, "two", "", ""), second);
  while (!first || !second) loop_->run();
  ASSERT_TRUE(*first);
  ASSERT_FALSE(*second);
  EXPECT_EQ(second->error().code, Code::conflict);
  EXPECT_EQ(second->error().message, "the question is over: approved by one");
  EXPECT_EQ(verdicts_["req-1"].by, "one");
}

TEST_F(HumanGate, AttackApproveAgainstDenyTheFirstWins) {
  for (const bool approve_first : {true, false}) {
    const std::string request = approve_first ? "a" : "b";
    ask(matter(request));
    const std::string id = only_open();
    std::optional<Result<Question>> first, second;
    drive(gate_->answer(id, approve_first, "one", "", ""), first);
    drive(gate_->answer(id, !approve_first, "two", "", ""), second);
    while (!first || !second) loop_->run();
    EXPECT_TRUE(*first);
    EXPECT_FALSE(*second);
    EXPECT_EQ(verdict(request), approve_first ? "approved" : "rejected");
  }
}

TEST_F(HumanGate, AttackAnAnswerAfterExpiryIsANo) {
  ask(matter());
  const std::string id = only_open();
  clock_.wall += kHour.count();
  EXPECT_EQ(answer(id, true), "expired");
  EXPECT_EQ(verdict(), "expired");
  EXPECT_EQ(answer(id, true), "CONFLICT");
}

TEST_F(HumanGate, ExpiresByItselfThoughTheClockWasSetBackADay) {
  gate_->set_expiry(Millis(50));
  ask(matter());
  clock_.wall -= 86'400'000;
  while (verdict() == "waiting") settle();
  EXPECT_EQ(verdict(), "expired");
  EXPECT_TRUE(open_list().empty());
  EXPECT_EQ(events_.back(), "approval.expired");
}

TEST_F(HumanGate, AClockSetAheadADayExpiresIt) {
  ask(matter());
  const std::string id = only_open();
  clock_.wall += 86'400'000;
  EXPECT_EQ(answer(id, true), "expired");
}

TEST_F(HumanGate, AttackAnAnswerAfterThePolicyChangedIsVoid) {
  ask(matter());
  const std::string id = only_open();
  policy_ = "policy-2";
  EXPECT_EQ(answer(id, true), "voided");
  EXPECT_EQ(verdict(), "rejected");
  EXPECT_EQ(verdicts_["req-1"].why, "the policy changed before it was answered");
}

TEST_F(HumanGate, TheSameMatterIsOneQuestion) {
  ask(matter());
  ask(matter());
  const std::string id = only_open();
  EXPECT_EQ(answer(id, true), "approved");
  EXPECT_EQ(verdict(), "approved");
  EXPECT_EQ(std::count(events_.begin(), events_.end(), "approval.asked"), 1);
  // Other bytes are another one.
  ask(matter("req-1", R"({"prompt":"y"})"));
  EXPECT_NE(only_open(), id);
}

TEST_F(HumanGate, AWithdrawnQuestionCannotBeApproved) {
  ask(matter());
  const std::string id = only_open();
  gate_->withdraw("c1", "req-1");
  settle();
  EXPECT_EQ(verdict(), "rejected");
  EXPECT_EQ(answer(id, true), "CONFLICT");
}

TEST_F(HumanGate, TheAnswerMayNameTheBytesThatWereSeen) {
  ask(matter());
  const std::string id = only_open();
  EXPECT_EQ(answer(id, true, std::string(64, '0')), "CONFLICT");
  EXPECT_EQ(verdict(), "waiting");
  EXPECT_EQ(answer(id, true, to_hex(wire::sha256(as_bytes(R"({"prompt":"x"})")))), "approved");
}

TEST_F(HumanGate, AttackAPayloadChangedInTheDatabaseIsNotApproved) {
  ask(matter());
  const std::string id = only_open();
  ledger_->submit({.work =
                       [](ledger::Transaction& transaction) {
                         return transaction.database().execute("UPDATE approvals SET payload = x'7b7d'");
                       },
                   .entries = {},
                   .done = {}});
  EXPECT_EQ(answer(id, true), "voided");
  EXPECT_EQ(verdict(), "rejected");
}

TEST_F(HumanGate, OneContainerCannotAskWithoutEnd) {
  for (int i = 0; i <= kMaxOpenPerContainer; ++i) ask(matter("r" + std::to_string(i)));
  EXPECT_EQ(open_list().size(), static_cast<std::size_t>(kMaxOpenPerContainer));
  EXPECT_EQ(verdict("r" + std::to_string(kMaxOpenPerContainer)), "rejected");
  Matter other = matter("x");
  other.container = "c2";
  ask(other);
  EXPECT_EQ(open_list().size(), static_cast<std::size_t>(kMaxOpenPerContainer) + 1);
}

TEST_F(HumanGate, TheListComesInPagesThatFitAFrame) {
  const std::string large = R"({"prompt":")" + std::string(100'000, 'x') + "\"}";
  for (int i = 0; i < 9; ++i) ask(matter("r" + std::to_string(i), large));
  std::vector<std::string> seen;
  std::string after;
  for (bool has_more = true; has_more;) {
    const auto page = wait_for(gate_->list(after));
    ASSERT_TRUE(page) << page.error().describe();
    ASSERT_FALSE(page->questions.empty());
    EXPECT_LE(page->questions.size(), 4U) << "no more is read than is shown";
    for (const Question& question : page->questions) seen.push_back(question.matter.request_id);
    after = page->questions.back().id;
    has_more = page->has_more;
  }
  std::sort(seen.begin(), seen.end());
  EXPECT_EQ(seen, (std::vector<std::string>{"r0", "r1", "r2", "r3", "r4", "r5", "r6", "r7", "r8"}));
  const auto unknown = wait_for(gate_->list("a-0000"));
  ASSERT_FALSE(unknown) << "a list that goes on after nothing is not empty";
  EXPECT_EQ(unknown.error().code, Code::not_found);
}

TEST_F(HumanGate, EveryChangeIsInTheAuditChain) {
  ask(matter("a"));
  EXPECT_EQ(answer(only_open(), true), "approved");
  ask(matter("b"));
  EXPECT_EQ(answer(only_open(), false), "denied");
  ask(matter("c"));
  const std::string late = only_open();
  clock_.wall += kHour.count();
  EXPECT_EQ(answer(late, true), "expired");
  EXPECT_EQ(answer("no such", true), "NOT_FOUND");
  std::string recorded;
  std::optional<Result<ledger::Page>> page;
  ledger_->read({.work =
                     [&](ledger::Database& database) {
                       page = ledger::run_query(database, {.principal = "", .method = "approval.*", .decision = ""});
                     },
                 .done = [this](const Status&) { loop_->stop(); }});
  loop_->run();
  ASSERT_TRUE(page && *page);
  for (const ledger::Record& record : (*page)->records)
    recorded += record.entry.method + " " + record.entry.code + "\n";
  EXPECT_EQ(recorded,
            "approval.asked OK\napproval.approved OK\napproval.asked OK\napproval.denied APPROVAL_DENIED\n"
            "approval.asked OK\napproval.expired APPROVAL_EXPIRED\n");
  close();
  const auto report = ledger::verify_state(path_, {}, {});
  ASSERT_TRUE(report);
  EXPECT_TRUE(report->is_intact());
}

TEST_F(HumanGate, AnEndThatComesWhileSomebodyWaitsDecidesNothing) {
  ask(matter());
  const std::string id = only_open();
  close();
  EXPECT_EQ(verdict(), "rejected") << "whoever waited is let go";
  verdicts_.clear();
  open();
  EXPECT_EQ(only_open(), id) << "but the question is still open";
}

}  // namespace
}  // namespace sallyport::approval
