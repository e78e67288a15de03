#include "base/glance.h"

#include <gtest/gtest.h>

namespace sallyport {
namespace {

TEST(Glance, SeesWhatComesAtOnceEveryTime) {
  Glance glance;
  for (int i = 0; i < 100; ++i) {
    int looks = 0;
    EXPECT_TRUE(glance.wait([&] { return ++looks == 2; }) || looks < 2) << "unless the machine took the CPU away";
  }
}

TEST(Glance, LooksLessAndLessOftenInVain) {
  Glance glance;
  int waits_with_looks = 0;
  for (int i = 0; i < 6500; ++i) {
    bool has_looked = false;
    EXPECT_FALSE(glance.wait([&] {
      has_looked = true;
      return false;
    }));
    waits_with_looks += has_looked ? 1 : 0;
  }
  EXPECT_GT(waits_with_looks, 90);
  EXPECT_LT(waits_with_looks, 120);
}

TEST(Glance, LooksEveryTimeAgainOnceSomethingCame) {
  Glance glance;
  const auto in_vain = [] { return false; };
  for (int i = 0; i < 1000; ++i) glance.wait(in_vain);
  int tries = 1;
  while (!glance.wait([] { return true; })) ++tries;
  EXPECT_LE(tries, static_cast<int>(Glance::kMostSkipped) + 1);
  EXPECT_TRUE(glance.wait([] { return true; }));
  EXPECT_FALSE(glance.wait(in_vain));
  EXPECT_FALSE(glance.wait([] { return true; })) << "one in vain is followed by one without a look";
  EXPECT_TRUE(glance.wait([] { return true; }));
}

}  // namespace
}  // namespace sallyport
