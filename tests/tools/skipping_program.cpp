// Run by the tests of SALLYPORT_MUST_WORK.
#include <gtest/gtest.h>

TEST(Skipping, SkipsItself) { GTEST_SKIP() << "as it always does"; }
