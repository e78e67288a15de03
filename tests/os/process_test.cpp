#include "os/process.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <string>

#include "base/sanitized.h"

namespace sallyport::os {
namespace {

// Whatever others have of the same: they come and go.
std::int64_t resident_kib() {
  std::ifstream numbers("/proc/self/smaps_rollup");
  for (std::string line; std::getline(numbers, line);) {
    if (line.starts_with("Rss:")) return std::atoll(line.c_str() + 4);
  }
  return 0;
}

TEST(Process, RunsOnWithoutTheCodeThatItReleased) {
  const std::int64_t before = resident_kib();
  release_code();
  const std::int64_t after = resident_kib();
  // A sanitizer's shadow grows with all that is done meanwhile.
  if (!kIsSanitized) {
    EXPECT_LT(after, before);
  }
  EXPECT_TRUE(memory_pss_kib(::getpid()));
  EXPECT_TRUE(boot_id());
}

}  // namespace
}  // namespace sallyport::os
