#include "os/paths.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <filesystem>

#include "support/daemon.h"

namespace sallyport::os {
namespace {

namespace fs = std::filesystem;

TEST(RealPath, IsWhatRealpathSays) {
  const sallyport::testing::TemporaryDirectory directory;
  const std::string root = fs::canonical(directory.path());
  fs::create_directories(root + "/a/.b");
  fs::create_directory_symlink(root + "/a", root + "/link");
  fs::create_symlink("nowhere", root + "/dangling");
  for (const char* path :
       {"/a/.b", "/a/./.b", "/a/../a/.b", "/a//.b", "/a/.b/", "/a/.b/.", "/link/.b", "/a/.b/../../link/.b"}) {
    EXPECT_EQ(real_path(root + path), root + "/a/.b") << path;
  }
  EXPECT_EQ(real_path(root + "/link"), root + "/a");
  EXPECT_EQ(real_path("/"), "/");
  for (const char* path : {"/dangling", "/a/none", "/none/at/all", "/link/none", "/dangling/none"}) {
    EXPECT_EQ(real_path(root + path), std::nullopt) << path;
    EXPECT_EQ(errno, ENOENT) << path;
  }
}

TEST(FollowLinks, TellsWhereAPathLeadsAndByWhichLinks) {
  const sallyport::testing::TemporaryDirectory directory;
  const std::string root = fs::canonical(directory.path());
  fs::create_directories(root + "/a/b");
  fs::create_directory_symlink("../a", root + "/a/back");
  fs::create_directory_symlink(root + "/a", root + "/link");
  const Walk walk = follow_links(root + "//link/./back/b/");
  EXPECT_EQ(walk.reached, root + "/a/b");
  EXPECT_EQ(walk.links, (std::vector<std::string>{root + "/link", root + "/a/back"}));
  EXPECT_TRUE(follow_links(root + "/a/b").links.empty());
  EXPECT_EQ(follow_links("/..").reached, "/");
}

}  // namespace
}  // namespace sallyport::os
