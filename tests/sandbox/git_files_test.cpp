// git's formats, read without git.
#include "sandbox/git_files.h"

#include <gtest/gtest.h>

#include "fixture.h"

namespace sallyport::sandbox {
namespace {

TEST(GitIndex, RefusesWhatIsCutOrForeign) {
  EXPECT_FALSE(tracked_paths(""));
  EXPECT_FALSE(tracked_paths("DIRC"));
  EXPECT_FALSE(tracked_paths(std::string("DIRC\0\0\0\2\0\0\0\5", 12)));
  EXPECT_FALSE(tracked_paths(std::string("DIRC\0\0\0\7\0\0\0\0", 12)));
}

class GitIndexFile : public SandboxTest {};

TEST_F(GitIndexFile, ListsTheTrackedPathsOfEveryVersion) {
  start_as(StartedBy::user);
  host("git init -q . && mkdir -p a/b && touch a/b/one a/b/two zzz .env && git add a zzz .env");
  for (const char* version : {"2", "3", "4"}) {
    host(std::string("git update-index --index-version ") + version);
    const auto paths = tracked_paths(read(workspace_ + "/.git/index"));
    ASSERT_TRUE(paths) << version;
    EXPECT_EQ(*paths, (std::set<std::string>{".env", "a/b/one", "a/b/two", "zzz"})) << version;
  }
}

}  // namespace
}  // namespace sallyport::sandbox
