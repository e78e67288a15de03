#include "base/log.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "base/unique_fd.h"

namespace sallyport {
namespace {

class LogFile : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = "/tmp/sallyport-log-XXXXXX";
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    directory_ = name;
    path_ = directory_ + "/log";
    fd_ = UniqueFd(::open(path_.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
    ASSERT_TRUE(fd_);
  }
  void TearDown() override { std::filesystem::remove_all(directory_); }
  static std::uintmax_t size_of(const std::string& path) {
    std::error_code error;
    const auto size = std::filesystem::file_size(path, error);
    return error ? 0 : size;
  }

  SystemClock clock_;
  std::string directory_, path_;
  UniqueFd fd_;
};

TEST_F(LogFile, IsNeverMuchLargerThanItMayBeAndKeepsOneBefore) {
  constexpr std::uint64_t kMost = 16U << 10;
  Log log(fd_.get(), LogFormat::text, LogLevel::info, clock_);
  log.rotate_at(path_, kMost);
  for (int i = 0; i < 2000; ++i) {
    log.info("a line of some length", {{"number", i}});
    ASSERT_LT(size_of(path_), kMost);
  }
  EXPECT_GE(size_of(path_ + ".1"), kMost);
  EXPECT_LT(size_of(path_ + ".1"), kMost + 200);
  struct stat info{};
  ASSERT_EQ(::stat((path_ + ".1").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600U);
  // Somebody else who appends to the same file goes on where the log is now.
  ASSERT_EQ(::write(fd_.get(), "theirs\n", 7), 7);
  EXPECT_LT(size_of(path_), kMost);
}

TEST_F(LogFile, ThatIsTooLargeAtTheStartIsPutAsideAtOnce) {
  ASSERT_EQ(::ftruncate(fd_.get(), 5000), 0);
  Log log(fd_.get(), LogFormat::text, LogLevel::info, clock_);
  log.rotate_at(path_, 4096);
  EXPECT_EQ(size_of(path_), 0U);
  EXPECT_EQ(size_of(path_ + ".1"), 5000U);
}

TEST_F(LogFile, ThatIsNotTheOneAtThePathIsLeftAlone) {
  const std::string other = directory_ + "/other";
  const UniqueFd fd{::open(other.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0600)};
  ASSERT_EQ(::ftruncate(fd.get(), 5000), 0);
  Log log(fd.get(), LogFormat::text, LogLevel::info, clock_);
  log.rotate_at(path_, 4096);
  log.info("one more");
  EXPECT_GT(size_of(other), 5000U);
  EXPECT_FALSE(std::filesystem::exists(path_ + ".1"));
}

TEST(LineBudget, AllowsAFewAtOnceAndThenOneASecondAndCountsTheOthers) {
  LineBudget budget;
  SteadyTime now{std::chrono::hours(1)};
  for (int i = 0; i < LineBudget::kAtOnce; ++i) EXPECT_EQ(budget.take(now), 0U);
  for (int i = 0; i < 1000; ++i) EXPECT_EQ(budget.take(now), std::nullopt);
  now += std::chrono::seconds(1);
  EXPECT_EQ(budget.take(now), 1000U);
  EXPECT_EQ(budget.take(now), std::nullopt);
  EXPECT_EQ(budget.take_left_out(), 1U);
  EXPECT_FALSE(budget.is_full(now));
  EXPECT_TRUE(budget.is_full(now + LineBudget::kAtOnce * std::chrono::seconds(1)));
}

}  // namespace
}  // namespace sallyport
