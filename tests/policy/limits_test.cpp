#include <gtest/gtest.h>

#include "policy/profile.h"

namespace sallyport::policy {
namespace {

std::string refusal(const std::string& name, const std::string& value) {
  ProfileLimits limits;
  const Status set = limits.set(name, value);
  return set ? "" : set.error().message;
}

TEST(ProfileLimits, AreSetFromWhatPeopleWrite) {
  ProfileLimits limits;
  for (const auto& [name, value] : {std::pair{"memory", "64MiB"},
                                    {"pids", "64"},
                                    {"cpu", "0.5"},
                                    {"open_files", "64"},
                                    {"file_size", "1MiB"},
                                    {"scratch", "1MiB"},
                                    {"duration", "2s"},
                                    {"idle", "0s"}}) {
    EXPECT_TRUE(limits.set(name, value)) << name;
  }
  EXPECT_EQ(limits.memory, 64U << 20);
  EXPECT_EQ(limits.cpu, 0.5);
  EXPECT_EQ(limits.duration, Millis(2000));
}

// Zero would lift most of them.
TEST(ProfileLimits, ThatAreNoneAreRefused) {
  for (const auto& [name, value] : {std::pair{"memory", "0"},
                                    {"memory", "1"},
                                    {"scratch", "0"},
                                    {"file_size", "0"},
                                    {"open_files", "0"},
                                    {"pids", "0"},
                                    {"cpu", "0"},
                                    {"cpu", "-1"},
                                    {"cpu", "nan"},
                                    {"cpu", "inf"},
                                    {"memory", "much"},
                                    {"nothing", "1"}}) {
    EXPECT_NE(refusal(name, value), "") << name << "=" << value;
  }
  EXPECT_NE(refusal("memory", "1").find("at least 4MiB"), std::string::npos);
}

}  // namespace
}  // namespace sallyport::policy
