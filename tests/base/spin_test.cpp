#include "base/spin.h"

#include <gtest/gtest.h>

namespace sallyport {
namespace {

using Nanos = SpinChoice::Nanos;
using std::chrono::microseconds;

// Feeds it waits of a machine where sleeping and spinning take these times; how many of them were spins.
int spins_among(SpinChoice& choice, int waits, Nanos sleeping, Nanos spinning, bool is_starved = false) {
  int spins = 0;
  for (int i = 0; i < waits; ++i) {
    const bool spun = choice.should_spin();
    spins += spun ? 1 : 0;
    choice.learn(spun ? spinning : sleeping, spun && is_starved);
  }
  return spins;
}

TEST(SpinChoice, SpinsWhereWakingACoreIsDear) {
  SpinChoice choice;
  EXPECT_GT(spins_among(choice, 100'000, microseconds(75), microseconds(7)), 97'000);
}

TEST(SpinChoice, SleepsBesideBusyNeighbours) {
  SpinChoice choice;
  EXPECT_LT(spins_among(choice, 100'000, microseconds(11), microseconds(20)), 12'000);
}

TEST(SpinChoice, SleepsWhenNothingIsGainedClearly) {
  SpinChoice choice;
  EXPECT_LT(spins_among(choice, 100'000, microseconds(11), microseconds(10)), 12'000);
}

TEST(SpinChoice, SleepsWhenEventsAreRare) {
  SpinChoice choice;
  EXPECT_LT(spins_among(choice, 100'000, std::chrono::milliseconds(20), std::chrono::milliseconds(20)), 12'000);
}

TEST(SpinChoice, GivesUpSpinningSoonAfterTheEventsStop) {
  SpinChoice choice;
  spins_among(choice, 10'000, microseconds(75), microseconds(7));
  EXPECT_LE(spins_among(choice, 1'000, std::chrono::seconds(1), std::chrono::seconds(1)), 130);
}

TEST(SpinChoice, FindsOutThatTheNeighboursAreGone) {
  SpinChoice choice;
  spins_among(choice, 100'000, microseconds(11), microseconds(20));
  spins_among(choice, 100'000, microseconds(75), microseconds(7));
  EXPECT_GT(spins_among(choice, 10'000, microseconds(75), microseconds(7)), 9'000);
}

TEST(SpinChoice, GivesUpSpinningSoonAfterNeighboursCame) {
  SpinChoice choice;
  spins_among(choice, 10'000, microseconds(75), microseconds(7));
  EXPECT_LE(spins_among(choice, 1'000, microseconds(11), std::chrono::milliseconds(4), true), 40);
}

TEST(SpinChoice, TwoTimeSlicesOfANeighbourEndATrial) {
  SpinChoice choice;
  EXPECT_LE(spins_among(choice, 1'000'000, microseconds(11), std::chrono::milliseconds(4), true), 60);
}

TEST(SpinChoice, AThreadThatNeedsTheCpuNowAndThenIsNoBusyNeighbour) {
  SpinChoice choice;
  int spins = 0;
  for (int i = 0; i < 100'000; ++i) {
    const bool spun = choice.should_spin(), is_hit = i % 40 == 7;
    spins += spun ? 1 : 0;
    choice.learn(is_hit ? microseconds(900) : microseconds(spun ? 20 : 60), spun && is_hit);
  }
  EXPECT_GT(spins, 90'000);
}

TEST(SpinChoice, ASilenceNowAndThenDoesNotHideManyShortWaits) {
  for (const int every : {5, 16, 100}) {
    SpinChoice choice;
    int spins = 0;
    for (int i = 0; i < 100'000; ++i) {
      const bool spun = choice.should_spin();
      spins += spun ? 1 : 0;
      choice.learn(i % every == 0 ? Nanos(std::chrono::seconds(3)) : Nanos(microseconds(spun ? 7 : 75)));
    }
    EXPECT_GT(spins, 97'000) << every;
  }
}

TEST(SpinChoice, AnEagerOneSpinsWhateverItsOwnWaitsSay) {
  SpinChoice choice = SpinChoice::eager();
  EXPECT_EQ(spins_among(choice, 10'000, microseconds(11), microseconds(20)), 10'000);
}

TEST(SpinChoice, AnEagerOneSleepsBesideBusyNeighboursAndAsksAgain) {
  SpinChoice choice = SpinChoice::eager();
  const int spins = spins_among(choice, 100'000, microseconds(11), std::chrono::milliseconds(4), true);
  EXPECT_GT(spins, 100);
  EXPECT_LT(spins, 300);
}

TEST(SpinChoice, SleepsWhenEverySecondEventIsLongInComing) {
  SpinChoice choice;
  int spins = 0;
  for (int i = 0; i < 100'000; ++i) {
    const bool spun = choice.should_spin();
    spins += spun ? 1 : 0;
    choice.learn(i % 2 == 0 ? Nanos(std::chrono::seconds(3)) : Nanos(microseconds(spun ? 7 : 75)));
  }
  EXPECT_LT(spins, 12'000);
}

}  // namespace
}  // namespace sallyport
