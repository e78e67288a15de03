#include "ipc/timers.h"

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace sallyport::ipc {
namespace {

SteadyTime at(int millis) { return SteadyTime(Millis(millis)); }

void run_due(Timers& timers, int now) {
  while (const auto work = timers.take_due(at(now))) work();
}

struct Noted {
  Timers timers;
  std::string ran;
  Timers::Id note(int when, char name) {
    return timers.add(at(when), [this, name] { ran.push_back(name); });
  }
  std::string run(int now) {
    run_due(timers, now);
    return std::exchange(ran, {});
  }
};

TEST(Timers, RunInTheOrderInWhichTheyAreDueAndThenWereAdded) {
  Noted noted;
  noted.note(30, 'd');
  noted.note(10, 'a');
  noted.note(20, 'b');
  noted.note(20, 'c');
  EXPECT_EQ(noted.timers.earliest(), at(10));
  EXPECT_EQ(noted.run(9), "");
  EXPECT_EQ(noted.run(20), "abc");
  EXPECT_EQ(noted.timers.earliest(), at(30));
  EXPECT_EQ(noted.run(30), "d");
  EXPECT_EQ(noted.timers.earliest(), std::nullopt);
}

TEST(Timers, CancelTheirOwnAndNotTheOneThatCameAfterThem) {
  Noted noted;
  const Timers::Id first = noted.note(10, 'a');
  EXPECT_NE(first, 0U);
  noted.timers.cancel(first);
  const Timers::Id second = noted.note(10, 'b');  // in the room of the first
  EXPECT_NE(first, second);
  noted.timers.cancel(first);
  noted.timers.cancel(0);
  noted.timers.cancel(~Timers::Id{0});
  EXPECT_EQ(noted.run(10), "b");
  noted.timers.cancel(second);
  noted.note(10, 'c');
  noted.timers.cancel(second);
  EXPECT_EQ(noted.run(10), "c");
}

TEST(Timers, MayBeSetAndCancelledByWhatGoesWithACancelledOne) {
  Noted noted;
  const Timers::Id other = noted.note(10, 'a');
  std::shared_ptr<void> last_words(nullptr, [&](void*) {
    noted.timers.cancel(other);
    noted.note(10, 'b');
  });
  const Timers::Id cancelled = noted.timers.add(at(5), [held = std::move(last_words)] {});
  noted.timers.cancel(cancelled);
  EXPECT_EQ(noted.run(10), "b");
}

TEST(Timers, AgreeWithAMapWhateverIsDone) {
  std::mt19937 random(1);  // NOLINT(*-msc51-cpp): the same each time
  Timers timers;
  std::map<std::pair<int, Timers::Id>, int> expected;  // ids grow with time
  std::vector<int> ran;
  int now = 0;
  for (int i = 0; i < 20'000; ++i) {
    const auto choice = random() % 8;
    if (choice < 4) {
      const int when = now + static_cast<int>(random() % 50);
      expected.emplace(std::pair(when, timers.add(at(when), [&ran, i] { ran.push_back(i); })), i);
    } else if (choice < 7 && !expected.empty()) {
      const auto chosen = std::next(expected.begin(), static_cast<std::ptrdiff_t>(random() % expected.size()));
      timers.cancel(chosen->first.second);
      expected.erase(chosen);
    } else {
      now += static_cast<int>(random() % 10);
      std::vector<int> due;
      while (!expected.empty() && expected.begin()->first.first <= now) {
        due.push_back(expected.begin()->second);
        expected.erase(expected.begin());
      }
      run_due(timers, now);
      ASSERT_EQ(std::exchange(ran, {}), due);
    }
    const auto earliest = expected.empty() ? std::nullopt : std::optional(at(expected.begin()->first.first));
    ASSERT_EQ(timers.earliest(), earliest);
  }
}

}  // namespace
}  // namespace sallyport::ipc
