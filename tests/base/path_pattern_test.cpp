#include "base/path_pattern.h"

#include <gtest/gtest.h>

namespace sallyport {
namespace {

TEST(PathPattern, MatchesPartByPart) {
  EXPECT_TRUE(matches_path("a/b", "a/b"));
  EXPECT_TRUE(matches_path("a/*.pem", "a/.KEY.PEM"));
  EXPECT_FALSE(matches_path("a/*", "a/b/c"));
  EXPECT_FALSE(matches_path("a/b", "a"));
  EXPECT_FALSE(matches_path("a", "a/b"));
}

TEST(PathPattern, MatchesEveryDepthWithTwoStars) {
  for (const char* path : {"x", "a/x", "a/.b/c/x"}) EXPECT_TRUE(matches_path("**/x", path)) << path;
  for (const char* path : {"a/x", "a/b/c/x"}) EXPECT_TRUE(matches_path("a/**/x", path)) << path;
  for (const char* path : {"x", "b/x", "a/x/y"}) EXPECT_FALSE(matches_path("a/**/x", path)) << path;
  EXPECT_TRUE(matches_path("**/d/x", "a/d/d/x"));
  EXPECT_TRUE(matches_path("a/**", "a/b"));
  EXPECT_FALSE(matches_path("a/**", "a"));
}

}  // namespace
}  // namespace sallyport
