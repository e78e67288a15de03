#include "os/beneath.h"

#include <fcntl.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <filesystem>
#include <fstream>

#include "support/daemon.h"

namespace sallyport::os {
namespace {

class Beneath : public ::testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::create_directories(root() + "/inside/deep");
    std::ofstream(root() + "/inside/deep/file") << "text";
    std::ofstream(root() + "/outside") << "text";
    std::filesystem::create_symlink("deep/file", root() + "/inside/link");
    std::filesystem::create_symlink("../outside", root() + "/inside/escape");
    directory_ = UniqueFd(::open((root() + "/inside").c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  }
  const std::string& root() const { return place_.path(); }
  int error_of(const char* path, int flags, Links links = Links::followed) {
    const UniqueFd fd = open_beneath(directory_.get(), path, flags, links);
    return fd ? 0 : errno;
  }

  static constexpr int kFile = O_RDONLY | O_NONBLOCK | O_NOCTTY;
  sallyport::testing::TemporaryDirectory place_;
  UniqueFd directory_;
};

TEST_F(Beneath, OpensWhatIsInside) {
  EXPECT_EQ(error_of("deep/file", kFile), 0);
  EXPECT_EQ(error_of("link", kFile), 0);
  EXPECT_EQ(error_of(".", O_RDONLY | O_DIRECTORY | O_NONBLOCK), 0);
  EXPECT_EQ(error_of("missing", O_PATH), ENOENT);
}

TEST_F(Beneath, RefusesWhatLeadsOut) {
  for (const char* path : {"..", "../outside", "escape", "/etc/hostname", "deep/../../outside"}) {
    EXPECT_EQ(error_of(path, kFile), EXDEV) << path;
  }
}

TEST_F(Beneath, RefusesLinksWhereAsked) {
  EXPECT_EQ(error_of("link", kFile, Links::refused), ELOOP);
  EXPECT_EQ(error_of("deep/file", kFile, Links::refused), 0);
  EXPECT_EQ(error_of("link", kFile | O_NOFOLLOW), ELOOP);
}

TEST_F(Beneath, CreatesNothing) {
  for (const int flags : {O_CREAT | O_RDWR, O_CREAT | O_EXCL | kFile, O_TMPFILE | O_RDWR, O_WRONLY | O_TRUNC}) {
    EXPECT_EQ(error_of("new", flags), EINVAL);
  }
}

}  // namespace
}  // namespace sallyport::os
