// What becomes of questions beyond a full disk, a reload, a restart.
#include "gate_fixture.h"

namespace sallyport::approval {
namespace {

TEST_F(HumanGate, AFullDiskDelaysAQuestionAndRefusesNothing) {
  settle();
  faults_.on_write = SQLITE_FULL;
  ask(matter());
  EXPECT_TRUE(until([&] { return ledger_->health().failures >= 1; }));
  EXPECT_EQ(verdict(), "waiting");
  faults_.on_write = 0;
  EXPECT_TRUE(until([&] { return !events_.empty(); }));
  EXPECT_EQ(answer(only_open(), true), "approved");
  EXPECT_EQ(verdict(), "approved");
}

TEST_F(HumanGate, AQuestionThatExpiresOnAFullDiskIsOverOnceThereIsRoom) {
  gate_->set_expiry(Millis(2000));  // longer than it takes to be asked
  ask(matter());
  settle();
  const std::uint64_t before = ledger_->health().failures;
  faults_.on_write = SQLITE_FULL;
  EXPECT_TRUE(until([&] { return ledger_->health().failures > before; }));
  EXPECT_EQ(verdict(), "waiting");
  faults_.on_write = 0;
  EXPECT_TRUE(until([&] { return verdict() == "expired"; }));
  EXPECT_TRUE(open_list().empty());
}

TEST_F(HumanGate, QuestionsOfAnotherPolicyAreVoidAfterARestart) {
  ask(matter());
  settle();
  policy_ = "policy-2";
  restart();
  EXPECT_TRUE(until([&] { return !events_.empty() && events_.back() == "approval.answered"; }));
  EXPECT_TRUE(open_list().empty());
}

TEST_F(HumanGate, AQuestionThatNobodyComesBackToExpiresAllTheSame) {
  gate_->set_expiry(Millis(200));
  ask(matter());
  settle();
  restart();
  EXPECT_TRUE(until([&] { return !events_.empty() && events_.back() == "approval.expired"; }));
  EXPECT_TRUE(open_list().empty());
}

TEST_F(HumanGate, AClockSetBackBeforeARestartGainsNothing) {
  gate_->set_expiry(Millis(200));
  ask(matter());
  settle();
  clock_.wall -= 86'400'000;
  restart();
  EXPECT_TRUE(until([&] { return !events_.empty() && events_.back() == "approval.expired"; }));
  EXPECT_TRUE(open_list().empty());
}

TEST_F(HumanGate, AStartThatWaitsForTheLedgerWithdrawsNoCallOfItsOwn) {
  ask(matter(gate_->make_call_id()));
  settle();
  gate_->close();
  const std::uint64_t before = ledger_->health().failures;
  faults_.on_write = SQLITE_FULL;
  open_gate();
  EXPECT_TRUE(until([&] { return ledger_->health().failures > before; }));
  faults_.on_write = 0;
  const std::string live = gate_->make_call_id();
  ask(matter(live));
  EXPECT_TRUE(until([&] { return !events_.empty() && events_.back() == "approval.answered"; }))
      << "that of the warden before";
  const auto left = open_list();
  ASSERT_EQ(left.size(), 1U);
  EXPECT_EQ(left[0].matter.request_id, live);
  EXPECT_EQ(verdict(live), "waiting");
}

TEST_F(HumanGate, AReloadThatWaitsForTheLedgerVoidsNothingOfTheNextOne) {
  ask(matter("old"));
  settle();
  const std::uint64_t before = ledger_->health().failures;
  faults_.on_write = SQLITE_FULL;
  policy_ = "policy-2";
  gate_->policy_changed();
  EXPECT_TRUE(until([&] { return ledger_->health().failures > before; }));
  faults_.on_write = 0;
  policy_ = "policy-3";
  Matter next = matter("new");
  next.policy_hash = "policy-3";
  ask(next);
  EXPECT_TRUE(until([&] { return verdict("old") == "rejected"; }));
  EXPECT_EQ(verdict("new"), "waiting");
  EXPECT_EQ(answer(only_open(), true), "approved");
}

TEST_F(HumanGate, AQuestionThatWaitedForTheLedgerThroughAReloadIsVoid) {
  settle();
  const std::uint64_t before = ledger_->health().failures;
  faults_.on_write = SQLITE_FULL;
  ask(matter());
  EXPECT_TRUE(until([&] { return ledger_->health().failures > before; }));
  faults_.on_write = 0;
  policy_ = "policy-2";
  gate_->policy_changed();
  EXPECT_TRUE(until([&] { return verdict() != "waiting"; }));
  EXPECT_EQ(verdict(), "rejected");
  EXPECT_TRUE(open_list().empty());
}

TEST_F(HumanGate, AReloadEndsWhatWasAskedUnderAnotherPolicyAndOnlyThat) {
  ask(matter("old"));
  settle();
  policy_ = "policy-2";
  Matter other = matter("new");
  other.policy_hash = "policy-2";
  ask(other);
  gate_->policy_changed();
  settle();
  EXPECT_EQ(verdict("old"), "rejected");
  EXPECT_EQ(verdict("new"), "waiting");
  // Asked again under the new policy it is a new question.
  Matter again = matter("old");
  again.policy_hash = "policy-2";
  verdicts_.clear();
  ask(again);
  EXPECT_EQ(open_list().size(), 2U);
}

TEST_F(HumanGate, AfterARestartTheQuestionIsFoundAgain) {
  ask(matter());
  const std::string id = only_open();
  restart();
  EXPECT_EQ(only_open(), id);
  ask(matter());
  EXPECT_EQ(only_open(), id);
  EXPECT_EQ(answer(id, true), "approved");
  EXPECT_EQ(verdict(), "approved");
}

TEST_F(HumanGate, AnAnswerGivenBeforeARestartCountsAfterIt) {
  ask(matter());
  EXPECT_EQ(answer(only_open(), true), "approved");
  restart();
  ask(matter());
  settle();
  EXPECT_EQ(verdict(), "approved");
  restart();
  // But an approval is worth nothing beyond its time.
  clock_.wall += kHour.count();
  ask(matter());
  settle();
  EXPECT_EQ(verdict(), "expired");
}

TEST_F(HumanGate, WhatExpiredWhileNobodyRanIsExpired) {
  ask(matter());
  settle();
  close();
  verdicts_.clear();
  clock_.wall += 2 * kHour.count();
  open();
  ask(matter());
  settle();
  EXPECT_EQ(verdict(), "expired");
}

TEST_F(HumanGate, CallsDoNotOutliveTheirWarden) {
  ask(matter(gate_->make_call_id()));
  ask(matter("mail"));
  EXPECT_EQ(open_list().size(), 2U);
  restart();
  const auto left = open_list();
  ASSERT_EQ(left.size(), 1U);
  EXPECT_EQ(left[0].matter.request_id, "mail");
}

}  // namespace
}  // namespace sallyport::approval
