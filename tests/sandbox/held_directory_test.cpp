// Directories that are held stay the same, whatever is exchanged above them.
#include "sandbox/held_directory.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

#include "fixture.h"

namespace sallyport::sandbox {
namespace {

class HeldDirectoryTest : public SandboxTest {
 protected:
  void SetUp() override {
    SandboxTest::SetUp();
    start_as(by_);
    write("workspace/p/hooks/pre-commit", "evil");
    write("victim/pre-commit", "mine");
    make_directory("workspace/q");
    ASSERT_EQ(::symlink((base_ + "/victim").c_str(), (workspace_ + "/q/hooks").c_str()), 0);
    root_ = HeldDirectory::open(workspace_);
    ASSERT_TRUE(root_);
  }
  void exchange() const {
    const std::string p = workspace_ + "/p", q = workspace_ + "/q";
    ASSERT_EQ(::syscall(SYS_renameat2, AT_FDCWD, p.c_str(), AT_FDCWD, q.c_str(), 2), 0);
  }
  std::optional<HeldDirectory> root_;
};

TEST_F(HeldDirectoryTest, IsNotReachedThroughALink) {
  ASSERT_TRUE(root_->open_inside(workspace_ + "/p/hooks"));
  exchange();
  EXPECT_FALSE(root_->open_inside(workspace_ + "/p/hooks"));
  EXPECT_EQ(errno, ELOOP);
  EXPECT_FALSE(HeldDirectory::open(workspace_ + "/p/hooks"));
  EXPECT_FALSE(open_below(root_->fd(), "p/hooks/pre-commit", O_RDONLY));
  EXPECT_FALSE(open_below(root_->fd(), "../victim/pre-commit", O_RDONLY));
}

TEST_F(HeldDirectoryTest, OpensNothingElsewhere) {
  for (const std::string& path : {std::string("/"), base_, base_ + "/victim", workspace_ + "x"}) {
    EXPECT_FALSE(root_->open_inside(path)) << path;
    EXPECT_EQ(errno, EXDEV) << path;
  }
  EXPECT_TRUE(root_->open_inside(workspace_));
}

TEST_F(HeldDirectoryTest, SetsAsideInTheDirectoryThatWasOpened) {
  const auto hooks = root_->open_inside(workspace_ + "/p/hooks");
  ASSERT_TRUE(hooks);
  exchange();
  EXPECT_TRUE(hooks->set_aside("pre-commit"));
  EXPECT_EQ(read(base_ + "/victim/pre-commit"), "mine");
  EXPECT_TRUE(exists(workspace_ + "/q/hooks/pre-commit.quarantined"));
}

TEST_F(HeldDirectoryTest, ReachesWhatIsDeeperThanAPathMayBeLong) {
  std::string path;
  UniqueFd at(::dup(root_->fd()));
  for (int i = 0; i < 30; ++i) {
    const std::string name(200, 'x');
    ASSERT_EQ(::mkdirat(at.get(), name.c_str(), 0755), 0);
    at = UniqueFd(::openat(at.get(), name.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
    path += (path.empty() ? "" : "/") + name;
  }
  EXPECT_TRUE(open_below(root_->fd(), path, O_PATH | O_DIRECTORY));
  EXPECT_FALSE(open_below(root_->fd(), path + "/" + std::string(5000, 'y'), O_PATH | O_DIRECTORY));
}

}  // namespace
}  // namespace sallyport::sandbox
