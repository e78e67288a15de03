#include "worker/glob.h"

#include <gtest/gtest.h>

namespace sallyport::worker {
namespace {

bool matches(std::string_view pattern, std::string_view text) { return Glob(pattern).matches(text); }

TEST(Glob, AStarStopsAtASlash) {
  EXPECT_TRUE(matches("*.h", "a.h"));
  EXPECT_FALSE(matches("*.h", "d/a.h"));
  EXPECT_TRUE(matches("a*c", "abbc"));
  EXPECT_FALSE(matches("a*c", "a/c"));
  EXPECT_TRUE(matches("*", ""));
}

TEST(Glob, TwoStarsBetweenSlashesAreAnyNumberOfDirectories) {
  EXPECT_TRUE(matches("**/a", "a"));
  EXPECT_TRUE(matches("**/a", "x/y/a"));
  EXPECT_FALSE(matches("**/a", "xa"));
  EXPECT_TRUE(matches("a/**/b", "a/b"));
  EXPECT_TRUE(matches("a/**/b", "a/x/y/b"));
  EXPECT_FALSE(matches("a/**/b", "a/xb"));
  EXPECT_TRUE(matches("a/**", "a/x/y"));
  EXPECT_FALSE(matches("a/**", "a"));
  EXPECT_TRUE(matches("**", "a/b"));
}

TEST(Glob, TwoStarsElsewhereAreOne) {
  EXPECT_TRUE(matches("a**b", "axxb"));
  EXPECT_FALSE(matches("a**b", "ax/xb"));
}

TEST(Glob, SetsFollowTheRulesOfGit) {
  EXPECT_TRUE(matches("[a-c]x", "bx"));
  EXPECT_FALSE(matches("[!a-c]x", "bx"));
  EXPECT_TRUE(matches("[]]", "]"));
  EXPECT_TRUE(matches("[]-]", "-"));
  EXPECT_TRUE(matches("[[:digit:]z]", "7"));
  EXPECT_FALSE(matches("[!a]", "/"));
  EXPECT_TRUE(matches("[\\]]", "]"));
  EXPECT_FALSE(matches("[[:nonsense:]]", "n"));
  EXPECT_FALSE(matches("[a", "[a"));
  EXPECT_FALSE(matches("a\\", "a\\"));
}

TEST(Glob, BacktracksAcrossStarsAndDirectories) {
  EXPECT_TRUE(matches("**/a*b/*c", "x/aab/aXb/zc"));
  EXPECT_TRUE(matches("a/**/b/**/c", "a/1/b/2/b/3/c"));
  EXPECT_FALSE(matches("a/**/b/**/c", "a/1/c/2/b"));
}

// A pattern that makes a naive matcher take exponential time; the test's time limit is the judge.
TEST(Glob, AHostilePatternEndsSoon) {
  std::string pattern;
  for (int i = 0; i < 60; ++i) pattern += "a*";
  EXPECT_FALSE(matches(pattern + "b", std::string(4000, 'a')));
  std::string deep;
  std::string path;
  for (int i = 0; i < 40; ++i) deep += "**/a/";
  for (int i = 0; i < 1000; ++i) path += "a/";
  EXPECT_FALSE(matches(deep + "b", path + "c"));
}

TEST(Glob, BracesExpandNestedAndBounded) {
  EXPECT_EQ(*expand_braces("a{b,c{d,e}}f"), (std::vector<std::string>{"abf", "acdf", "acef"}));
  EXPECT_EQ(*expand_braces("{a}\\{b,c}"), (std::vector<std::string>{"{a}\\{b,c}"}));
  std::string bomb;
  for (int i = 0; i < 30; ++i) bomb += "{a,b}";
  EXPECT_FALSE(expand_braces(bomb));
}

TEST(PathPattern, WithoutASlashFloatsOnlyWhereAsked) {
  EXPECT_TRUE(PathPattern::compile("*.h", true)->matches("a/b.h", "b.h"));
  EXPECT_FALSE(PathPattern::compile("*.h", false)->matches("a/b.h", "b.h"));
  EXPECT_TRUE(PathPattern::compile("**/*.{h,cpp}", false)->matches("a/b.cpp", "b.cpp"));
  EXPECT_TRUE(PathPattern::compile("./src/*.h", false)->matches("src/b.h", "b.h"));
}

TEST(PathPattern, KnowsWhichDirectoriesCannotMatter) {
  const PathPattern pattern = *PathPattern::compile("src/lib/*.h", false);
  EXPECT_TRUE(pattern.can_match_below(""));
  EXPECT_TRUE(pattern.can_match_below("src/"));
  EXPECT_TRUE(pattern.can_match_below("src/lib/"));
  EXPECT_FALSE(pattern.can_match_below("src/lib/x/"));
  EXPECT_FALSE(pattern.can_match_below("test/"));
  EXPECT_TRUE(PathPattern::compile("src/**/x", false)->can_match_below("src/a/b/"));
  EXPECT_TRUE(PathPattern::compile("**/x", false)->can_match_below("any/"));
}

}  // namespace
}  // namespace sallyport::worker
