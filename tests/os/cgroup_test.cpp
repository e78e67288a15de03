#include "os/cgroup.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>

#include "os/spawn.h"

namespace sallyport::os {
namespace {

// What an earlier process of this number left, by the name that this one will use.
class StaleCgroup : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!parent_.has("pids")) GTEST_SKIP() << "no control group can be made here";
    stale_ = parent_.path_of("pids") + "/sallyport-" + std::to_string(::getpid()) + "-stale";
    ASSERT_EQ(::mkdir(stale_.c_str(), 0755), 0);
  }
  void TearDown() override { ::rmdir(stale_.c_str()); }

  const CgroupParent parent_ = CgroupParent::find();
  const CgroupLimits limits_{.memory_bytes = 0, .processes = 10, .cpus = 0};
  std::string stale_;
};

TEST_F(StaleCgroup, IsReplacedByOneThatIsJoined) {
  const auto group = Cgroup::create(parent_, "stale", limits_);
  ASSERT_TRUE(group);
  EXPECT_EQ(group->join_fds().size(), 1U);
  EXPECT_EQ(group->in_force().processes, 10U);
}

TEST_F(StaleCgroup, IsNotInForceWhenSomebodyIsInIt) {
  const pid_t pid = ::fork();
  if (pid == 0) {
    for (;;) ::pause();
  }
  Child other(pid);
  std::ofstream(stale_ + "/cgroup.procs") << pid;
  const auto group = Cgroup::create(parent_, "stale", limits_);
  ASSERT_TRUE(group);
  EXPECT_EQ(group->join_fds().size(), 0U);
  EXPECT_EQ(group->in_force().processes, 0U);
  other.end();
}

}  // namespace
}  // namespace sallyport::os
