#include "ledger/quotas.h"

#include <limits>

#include "fixture.h"

namespace sallyport::ledger {
namespace {

constexpr std::int64_t kDay = 86'400'000;
const Quota kTokens{.limit = 100, .window = Millis(kDay)};
const Quota kBytes{.limit = 1000};

TEST(QuotaWindow, ANewDayBeginsWithNothingUsed) {
  const QuotaState used{.window = 10, .used = 90, .reserved = 5};
  EXPECT_EQ(roll_window(kTokens, used, 10 * kDay + 5).used, 90);
  EXPECT_EQ(roll_window(kTokens, used, 11 * kDay), (QuotaState{.window = 11, .used = 0, .reserved = 5}));
}

TEST(QuotaWindow, AClockSetBackByADayRefundsNothing) {
  const QuotaState used{.window = 10, .used = 90, .reserved = 0};
  EXPECT_EQ(roll_window(kTokens, used, 9 * kDay).used, 90);
}

TEST(QuotaWindow, AClockSetBackAndRightAgainRefundsNothing) {
  const QuotaState used{.window = 10, .used = 90, .reserved = 0};
  EXPECT_EQ(roll_window(kTokens, roll_window(kTokens, used, 10 * kDay - 1), 10 * kDay).used, 90);
}

TEST(QuotaWindow, AClockThatWasFarAheadDoesNotFreezeTheQuota) {
  const QuotaState ahead{.window = 1000, .used = 100, .reserved = 0};
  const QuotaState corrected = roll_window(kTokens, ahead, 10 * kDay);
  EXPECT_EQ(roll_window(kTokens, corrected, 11 * kDay).used, 0);
}

TEST(QuotaWindow, ForEverHasNoWindow) {
  const QuotaState used{.window = 0, .used = 90, .reserved = 0};
  EXPECT_EQ(roll_window(kBytes, used, 11 * kDay).used, 90);
}

class QuotasTest : public LedgerTest {
 protected:
  void SetUp() override { open(); }
  Quotas& quotas() { return ledger_->quotas(); }
};

TEST_F(QuotasTest, WhatIsReservedIsNotAvailableToOthers) {
  const auto first = quotas().reserve("container/one", "tokens", kTokens, 60);
  ASSERT_TRUE(first);
  const auto second = quotas().reserve("container/one", "tokens", kTokens, 60);
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, Code::quota_exceeded);
  EXPECT_TRUE(second.error().details_json.starts_with(
      R"({"limit":100,"used":0,"reserved":60,"requested":60,"quota":"tokens","retry_after_ms":)"));
  EXPECT_TRUE(second.error().retryable);
  quotas().settle(*first, 10);
  EXPECT_TRUE(quotas().reserve("container/one", "tokens", kTokens, 60));
}

TEST_F(QuotasTest, AHundredParallelCallsCannotExceedIt) {
  std::vector<Quotas::Reservation> open_ones;
  for (int i = 0; i < 100; ++i) {
    if (auto reservation = quotas().reserve("container/one", "tokens", kTokens, 7)) open_ones.push_back(*reservation);
  }
  EXPECT_EQ(open_ones.size(), 14U);
}

TEST_F(QuotasTest, UseSurvivesARestart) {
  const auto reservation = quotas().reserve("container/one", "tokens", kTokens, 80);
  quotas().settle(*reservation, 75);
  close();
  open();
  EXPECT_EQ(quotas().state("container/one", "tokens").used, 75);
  EXPECT_FALSE(quotas().reserve("container/one", "tokens", kTokens, 26));
  EXPECT_TRUE(quotas().reserve("container/one", "tokens", kTokens, 25));
}

TEST_F(QuotasTest, AReservationLeftOpenByARestartCountsAsSpent) {
  ASSERT_TRUE(quotas().reserve("container/one", "tokens", kTokens, 80));
  close();
  open();
  EXPECT_EQ(quotas().state("container/one", "tokens").used, 80);
}

TEST_F(QuotasTest, WhatIsRemovedFromAStoreIsGivenBack) {
  quotas().settle(*quotas().reserve("container/one", "bytes", kBytes, 900), 900);
  EXPECT_FALSE(quotas().reserve("container/one", "bytes", kBytes, 200));
  quotas().settle(*quotas().reserve("container/one", "bytes", kBytes, 0), -500);
  EXPECT_TRUE(quotas().reserve("container/one", "bytes", kBytes, 200));
}

TEST_F(QuotasTest, WhatIsUsedUpStaysSoHoweverMuchIsBooked) {
  for (int i = 0; i < 3; ++i) {
    quotas().settle({"tenant/a", "bytes", 0}, std::numeric_limits<std::int64_t>::max());
    EXPECT_FALSE(quotas().reserve("tenant/a", "bytes", kBytes, 1));
  }
  quotas().settle({"tenant/a", "bytes", 0}, std::numeric_limits<std::int64_t>::min());
  EXPECT_EQ(quotas().state("tenant/a", "bytes").used, 0);
  quotas().set_used("tenant/a", "bytes", 7);
  EXPECT_EQ(quotas().state("tenant/a", "bytes").used, 7);
}

TEST_F(QuotasTest, AbsurdAmountsDoNotOverflow) {
  EXPECT_FALSE(quotas().reserve("k", "tokens", kTokens, std::numeric_limits<std::int64_t>::max()));
  EXPECT_FALSE(quotas().reserve("k", "tokens", kTokens, -1));
  const Quota huge{.limit = std::numeric_limits<std::int64_t>::max()};
  EXPECT_TRUE(quotas().reserve("k", "huge", huge, std::numeric_limits<std::int64_t>::max()));
  EXPECT_FALSE(quotas().reserve("k", "huge", huge, 1));
}

}  // namespace
}  // namespace sallyport::ledger
