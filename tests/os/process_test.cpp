#include "os/process.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include "base/sanitized.h"

namespace sallyport::os {
namespace {

TEST(Process, RunsOnWithoutTheCodeThatItReleased) {
  const auto before = memory_pss_kib(::getpid());
  release_code();
  const auto after = memory_pss_kib(::getpid());
  ASSERT_TRUE(before && after);
  // A sanitizer's shadow grows with all that is done meanwhile.
  if (!kIsSanitized) {
    EXPECT_LT(*after, *before);
  }
  EXPECT_TRUE(boot_id());
}

}  // namespace
}  // namespace sallyport::os
