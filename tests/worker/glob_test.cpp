#include "worker/glob.h"

#include <gtest/gtest.h>

#include <ctime>

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

TEST(Glob, BracesTakeTimeByTheLengthOfThePattern) {
  const std::clock_t start = std::clock();
  const std::string braces(60'000, '{');
  EXPECT_EQ(expand_braces(braces)->size(), 1);
  EXPECT_EQ(expand_braces("{a,b}{c,d}" + braces)->size(), 4);
  EXPECT_EQ(*expand_braces("{a,{b}x{,y}"), (std::vector<std::string>{"{a,{b}x", "{a,{b}xy"}));
  std::string classes = "[";
  for (int i = 0; i < 500'000; ++i) classes += "[:";
  EXPECT_EQ(Glob(classes + "x]").fault(), "");
  EXPECT_LT(std::clock() - start, 2 * CLOCKS_PER_SEC);
}

TEST(Glob, AlternativesAreCountedBeforeTheyAreMade) {
  // A gigabyte, if they were made.
  const auto expanded = expand_braces("{" + std::string(32'000, ',') + "}" + std::string(32'000, 'x'));
  ASSERT_FALSE(expanded);
  EXPECT_NE(expanded.error().message.find("alternatives"), std::string::npos);
}

using Use = PathPattern::Use;

TEST(PathPattern, WithoutASlashFloatsOnlyWhereAsked) {
  EXPECT_TRUE(PathPattern::compile("*.h", Use::include)->matches("a/b.h", "b.h"));
  EXPECT_FALSE(PathPattern::compile("*.h", Use::glob)->matches("a/b.h", "b.h"));
  EXPECT_TRUE(PathPattern::compile("**/*.{h,cpp}", Use::glob)->matches("a/b.cpp", "b.cpp"));
  EXPECT_TRUE(PathPattern::compile("./src/*.h", Use::glob)->matches("src/b.h", "b.h"));
}

TEST(PathPattern, KnowsWhichDirectoriesCannotMatter) {
  const PathPattern pattern = *PathPattern::compile("src/lib/*.h", Use::glob);
  EXPECT_TRUE(pattern.can_match_below(""));
  EXPECT_TRUE(pattern.can_match_below("src/"));
  EXPECT_TRUE(pattern.can_match_below("src/lib/"));
  EXPECT_FALSE(pattern.can_match_below("src/lib/x/"));
  EXPECT_FALSE(pattern.can_match_below("test/"));
  EXPECT_TRUE(PathPattern::compile("src/**/x", Use::glob)->can_match_below("src/a/b/"));
  EXPECT_TRUE(PathPattern::compile("**/x", Use::glob)->can_match_below("any/"));
}

// Why a pattern is refused, or "" if it is not.
std::string refusal(std::string_view pattern, Use use, std::string_view root = "/ws/") {
  const auto compiled = PathPattern::compile(pattern, use, root);
  if (compiled) return "";
  EXPECT_EQ(compiled.error().code, Code::invalid_params);
  const std::string_view field = use == Use::glob ? "pattern" : use == Use::include ? "include" : "exclude";
  EXPECT_EQ(compiled.error().details_json, "{\"field\":\"params." + std::string(field) + "\"}");
  return compiled.error().message;
}

TEST(PathPattern, RefusesWhatIsMalformedOrCanNeverMatchAndSaysWhy) {
  const std::pair<const char*, const char*> cases[] = {
      {"[", "[ without its ]"},
      {"src/[a-", "[ without its ]"},
      {"x[[:nonsense:]]", "does not exist"},
      {"[/]", "no character is in"},
      {"a\\", "backslash"},
      {"../*", "set root"},
      {"a/../b", "set root"},
      {"{a,../b}", "set root"},
      {"a/./b", "'.'"},
      {".", "'.'"},
      {"a//b", "empty component"},
      {"", "is empty"},
      {"{a,}", "is empty"},
      {"/etc/host*", "absolute"},
      {"/ws", "absolute"},
      {"!*.c", "exclude"},
  };
  for (const auto& [pattern, why] : cases) {
    for (const Use use : {Use::glob, Use::include, Use::exclude})
      EXPECT_NE(refusal(pattern, use).find(why), std::string::npos) << pattern << ": " << refusal(pattern, use);
  }
  EXPECT_NE(refusal("src/", Use::glob).find("kind"), std::string::npos);
  EXPECT_NE(refusal("src/", Use::include).find("**"), std::string::npos);
  EXPECT_EQ(refusal("src/", Use::exclude), "");
  EXPECT_EQ(refusal("\\!x", Use::include), "");
  EXPECT_EQ(refusal("a..b", Use::glob), "");
}

TEST(PathPattern, AnAbsoluteOneMeansThePlaceBelowTheRoot) {
  EXPECT_TRUE(PathPattern::compile("/ws/*.h", Use::include, "/ws/")->matches("b.h", "b.h"));
  EXPECT_FALSE(PathPattern::compile("/ws/*.h", Use::include, "/ws/")->matches("a/b.h", "b.h"));
  EXPECT_TRUE(PathPattern::compile("/etc/*.h", Use::glob, "/")->matches("etc/b.h", "b.h"));
}

TEST(PathPattern, AFilterFloatsUnlessADotHoldsIt) {
  EXPECT_TRUE(PathPattern::compile("src", Use::exclude)->matches("a/src", "src", true));
  EXPECT_FALSE(PathPattern::compile("./src", Use::exclude)->matches("a/src", "src", true));
  EXPECT_TRUE(PathPattern::compile("./src", Use::exclude)->matches("src", "src", true));
  EXPECT_TRUE(PathPattern::compile("src/", Use::exclude)->matches("a/src", "src", true));
  EXPECT_FALSE(PathPattern::compile("src/", Use::exclude)->matches("a/src", "src"));
}

}  // namespace
}  // namespace sallyport::worker
