#include "ledger/rates.h"

#include "fixture.h"

namespace sallyport::ledger {
namespace {

constexpr Micros kSecond = 1'000'000;

TEST(Gcra, AllowsABurstAndThenOneAtATime) {
  const Rate rate{.count = 5, .period = Millis(10'000)};
  Micros state = 0;
  const Micros now = 100 * kSecond;
  for (int i = 0; i < 5; ++i) {
    const RateDecision decision = decide_rate(rate, state, now);
    ASSERT_TRUE(decision.is_allowed) << i;
    state = decision.unused_at;
  }
  const RateDecision refused = decide_rate(rate, state, now);
  EXPECT_FALSE(refused.is_allowed);
  EXPECT_EQ(refused.retry_after_ms, 2000);
  EXPECT_FALSE(decide_rate(rate, state, now + 1'999'999).is_allowed);
  EXPECT_TRUE(decide_rate(rate, state, now + 2 * kSecond).is_allowed);
}

TEST(Gcra, NeverAllowsMoreThanTheBurstAndTheRate) {
  const Rate rate{.count = 60, .period = Millis(60'000)};
  Micros state = 0;
  int allowed = 0;
  for (Micros now = 0; now < 600 * kSecond; now += kSecond / 7) {
    const RateDecision decision = decide_rate(rate, state, now);
    state = decision.unused_at;
    allowed += decision.is_allowed ? 1 : 0;
  }
  EXPECT_LE(allowed, 60 + 600);
  EXPECT_GE(allowed, 600);
}

TEST(Gcra, ARefusedRequestIsNotCounted) {
  const Rate rate{.count = 1, .period = Millis(1000)};
  Micros state = decide_rate(rate, 0, kSecond).unused_at;
  for (int i = 0; i < 100; ++i) state = decide_rate(rate, state, kSecond).unused_at;
  EXPECT_TRUE(decide_rate(rate, state, 2 * kSecond).is_allowed);
}

TEST(Gcra, AClockSetBackByADayWaitsAtMostOnePeriod) {
  const Rate rate{.count = 5, .period = Millis(3'600'000)};
  const Micros day = 86'400 * kSecond;
  const RateDecision refused = decide_rate(rate, 10 * day, 9 * day);
  EXPECT_FALSE(refused.is_allowed);
  EXPECT_LE(refused.retry_after_ms, 3'600'000 / 5);
  EXPECT_TRUE(decide_rate(rate, refused.unused_at, 9 * day + 720 * kSecond).is_allowed);
}

TEST(Gcra, SurvivesAbsurdRates) {
  EXPECT_TRUE(decide_rate({.count = 0, .period = Millis(0)}, 0, 0).is_allowed);
  EXPECT_TRUE(decide_rate({.count = 1'000'000'000, .period = Millis(1)}, 0, kSecond).is_allowed);
}

class RatesTest : public LedgerTest {
 protected:
  const Rate hourly_{.count = 3, .period = Millis(3'600'000)};
  const Rate quick_{.count = 3, .period = Millis(1000)};
};

TEST_F(RatesTest, SaysWhenToTryAgain) {
  open();
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(ledger_->rates().take("container/one", {{"llm.*", hourly_}}));
  const Status refused = ledger_->rates().take("container/one", {{"llm.*", hourly_}});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::rate_limited);
  EXPECT_EQ(refused.error().details_json, R"({"retry_after_ms":1200000})");
  EXPECT_TRUE(refused.error().retryable);
}

TEST_F(RatesTest, KeysAndRulesAreIndependent) {
  open();
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(ledger_->rates().take("container/one", {{"llm.*", hourly_}}));
  EXPECT_TRUE(ledger_->rates().take("container/two", {{"llm.*", hourly_}}));
  EXPECT_TRUE(ledger_->rates().take("container/one", {{"cache.*", hourly_}}));
}

TEST_F(RatesTest, OfSeveralLimitsEachMustLetItPassAndARefusalCountsUnderNone) {
  open();
  const Rate twice{.count = 2, .period = Millis(1000)};
  const std::vector<Limit> both = {{"burst", twice}, {"hourly", hourly_}};
  ASSERT_TRUE(ledger_->rates().take("container/one", both));
  ASSERT_TRUE(ledger_->rates().take("container/one", both));
  EXPECT_FALSE(ledger_->rates().take("container/one", both)) << "the burst is used up";
  clock_.pass(Millis(1000));
  EXPECT_TRUE(ledger_->rates().take("container/one", both)) << "the one that was refused did not count";
  clock_.pass(Millis(1000));
  const Status refused = ledger_->rates().take("container/one", both);
  ASSERT_FALSE(refused) << "three an hour are used up";
  EXPECT_EQ(refused.error().detail, "rate of hourly");
  ledger_->rates().give_back("container/one", both);
  EXPECT_TRUE(ledger_->rates().take("container/one", both));
}

TEST_F(RatesTest, ALongRateSurvivesARestart) {
  open();
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(ledger_->rates().take("container/one", {{"llm.*", hourly_}}));
  close();
  clock_.pass(Millis(60'000));
  open();
  EXPECT_FALSE(ledger_->rates().take("container/one", {{"llm.*", hourly_}}));
  clock_.pass(Millis(1'140'000));
  EXPECT_TRUE(ledger_->rates().take("container/one", {{"llm.*", hourly_}}));
}

TEST_F(RatesTest, AShortRateIsForgotten) {
  open();
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(ledger_->rates().take("container/one", {{"quick", quick_}}));
  close();
  open();
  EXPECT_TRUE(ledger_->rates().take("container/one", {{"quick", quick_}}));
}

TEST_F(RatesTest, ClockJumpsOfADayChangeNothingWhileRunning) {
  open();
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(ledger_->rates().take("container/one", {{"llm.*", hourly_}}));
  clock_.wall_ms += 86'400'000;
  EXPECT_FALSE(ledger_->rates().take("container/one", {{"llm.*", hourly_}}));
  clock_.wall_ms -= 2 * 86'400'000;
  EXPECT_FALSE(ledger_->rates().take("container/one", {{"llm.*", hourly_}}));
  clock_.steady_now += Millis(1'200'000);
  EXPECT_TRUE(ledger_->rates().take("container/one", {{"llm.*", hourly_}}));
}

TEST_F(RatesTest, AClockSetBackByADayAcrossARestartWaitsAtMostOnePeriod) {
  open();
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(ledger_->rates().take("container/one", {{"llm.*", hourly_}}));
  close();
  clock_.wall_ms -= 86'400'000;
  open();
  EXPECT_FALSE(ledger_->rates().take("container/one", {{"llm.*", hourly_}}));
  clock_.pass(hourly_.period);
  EXPECT_TRUE(ledger_->rates().take("container/one", {{"llm.*", hourly_}}));
}

TEST_F(RatesTest, WhatIsGivenBackMakesRoomForOneAlsoAfterARestart) {
  open();
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(ledger_->rates().take("container/one", {{"llm.*", hourly_}}));
  ledger_->rates().give_back("container/one", {{"llm.*", hourly_}});
  ledger_->rates().give_back("container/two", {{"llm.*", hourly_}});  // never seen: nothing to give
  close();
  open();
  EXPECT_TRUE(ledger_->rates().take("container/one", {{"llm.*", hourly_}}));
  EXPECT_FALSE(ledger_->rates().take("container/one", {{"llm.*", hourly_}}));
}

TEST_F(RatesTest, WhatIsUnusedAgainIsForgotten) {
  open();
  for (int i = 0; i < 5000; ++i) {
    ASSERT_TRUE(ledger_->rates().take("container/" + std::to_string(i), {{"quick", quick_}}));
    clock_.pass(Millis(100));
  }
  EXPECT_LT(ledger_->rates().size(), 2048U);
}

}  // namespace
}  // namespace sallyport::ledger
