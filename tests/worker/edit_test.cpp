#include "worker/edit.h"

#include <gtest/gtest.h>

#include <sys/resource.h>

#include <random>

#include "worker/diff.h"
#include "worker/limits.h"
#include "worker/namespaces.h"
#include "worker/nearest.h"
#include "worker/sandbox_dir.h"
#include "worker/text.h"

namespace sallyport::worker {
namespace {

Result<Edited> edit(std::string_view content, std::string old_text, std::string new_text, bool all = false) {
  const Edit one{std::move(old_text), std::move(new_text), all};
  return apply_edits(content, {&one, 1});
}

TEST(Edit, KeepsCrlfBomLatin1AndAMissingLastNewlineOutsideTheMatch) {
  const std::string content =
      "\xef\xbb\xbf"
      "a\r\nb\n\xe9\xff\r\nlast";
  EXPECT_EQ(edit(content, "b\n", "c\n")->content,
            "\xef\xbb\xbf"
            "a\r\nc\n\xe9\xff\r\nlast");
}

TEST(Edit, TextWithLineFeedsMatchesACrlfFileAndStaysCrlf) {
  EXPECT_EQ(edit("one\r\ntwo\r\nthree\r\n", "one\ntwo", "1\n2")->content, "1\r\n2\r\nthree\r\n");
}

TEST(Edit, AnExactMatchIsPreferredOverOneWithConvertedLineEndings) {
  EXPECT_EQ(edit("a\nb\r\na\r\nb", "a\nb", "x")->content, "x\r\na\r\nb");
}

TEST(Edit, NotUniqueGivesTheCountAndTheLines) {
  const auto result = edit("x\ny\nx x\n", "x", "z");
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, Code::conflict);
  EXPECT_EQ(result.error().details_json, R"({"reason":"not_unique","edit":0,"count":3,"lines":[1,3,3]})");
}

TEST(Edit, OverlappingOccurrencesAreNotUniqueAndCountAsReplaceAllReplacesThem) {
  EXPECT_EQ(edit("aaaa", "aa", "b").error().details_json,
            R"({"reason":"not_unique","edit":0,"count":2,"lines":[1,1]})");
  EXPECT_EQ(edit("aaa", "aa", "b").error().details_json,
            R"({"reason":"not_unique","edit":0,"count":1,"lines":[1],"overlapping":true})");
}

TEST(Edit, TheCountOfManyIsExactAndTheirLinesAreTheFirst) {
  std::string content;
  for (int i = 0; i < 3000; ++i) content += "x\n";
  const auto result = edit(content, "x", "y");
  ASSERT_FALSE(result);
  EXPECT_NE(result.error().details_json.find(R"("count":3000,)"), std::string::npos);
  EXPECT_TRUE(result.error().details_json.ends_with(",49,50]}")) << result.error().details_json;
}

// A process of its own, so that nothing else counts.
TEST(Edit, AResultThatIsTooLargeIsRefusedBeforeMemoryIsSpent) {
  const std::string content(9000, 'a');
  const std::string text(900'000, 'b');
  EXPECT_EQ(in_child([&]() -> int {
              rusage before{}, after{};
              ::getrusage(RUSAGE_SELF, &before);
              const auto result = edit(content, "a", text, true);
              ::getrusage(RUSAGE_SELF, &after);
              CHECK_OR_EXIT(!result && result.error().code == Code::payload_too_large);
              CHECK_OR_EXIT(result.error().message.find("67108864") != std::string::npos);
              CHECK_OR_EXIT(after.ru_maxrss - before.ru_maxrss < 32 << 10);
              return 0;
            }),
            0);
}

TEST(Edit, ReplaceAllCanBeStopped) {
  const std::string content(16 << 20, 'a');
  const Edit one{"a", "b", true};
  Stop stop;
  int looks = 0;
  stop.on_poll([&] {
    if (++looks == 2) stop.cancel();
  });
  EXPECT_EQ(apply_edits(content, {&one, 1}, stop).error().code, Code::cancelled);
}

TEST(Edit, LinesPutIntoALineOfACrlfFileEndAsItsOthers) {
  EXPECT_EQ(edit("one\r\ntwo\r\n", "one", "1\n1b")->content, "1\r\n1b\r\ntwo\r\n");
  EXPECT_EQ(edit("one\r\ntwo\r\n", "one", "1\r\n1b")->content, "1\r\n1b\r\ntwo\r\n");
  EXPECT_EQ(edit("one\r\ntwo\n", "one", "1\n1b")->content, "1\n1b\r\ntwo\n") << "mixed: as given";
  EXPECT_EQ(edit("one\r\ntwo\r\n", "\ntwo", "\n2\n3")->content, "one\r\n2\n3\r\n") << "its ends are its own";
}

TEST(Edit, ReplaceAllReplacesFromTheLeftWithoutOverlap) {
  const auto result = edit("aaaaa", "aa", "b", true);
  EXPECT_EQ(result->content, "bba");
  EXPECT_EQ(result->replacements, 2U);
}

TEST(Edit, ReplaceAllDoesNotReplaceWithinItsOwnReplacement) {
  EXPECT_EQ(edit("a-a", "a", "aa", true)->content, "aa-aa");
}

TEST(Edit, NotFoundShowsTheNearestLines) {
  const auto result = edit("int main() {\n\treturn 0;\n}\n", "  return 0;", "return 1;");
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, Code::not_found);
  EXPECT_EQ(result.error().details_json,
            R"({"reason":"not_found","edit":0,"nearest":[{"line":2,"text":"\treturn 0;","differs_in":"whitespace"}]})");
}

TEST(Edit, RefusesAnEmptyMatchAndAChangeThatChangesNothing) {
  EXPECT_EQ(edit("a", "", "b").error().code, Code::invalid_params);
  EXPECT_EQ(edit("a", "a", "a").error().code, Code::invalid_params);
}

TEST(Edit, SeveralEditsSeeEachOthersWorkAndFailTogether) {
  const std::vector<Edit> good = {{"a", "b", false}, {"b", "c", false}};
  EXPECT_EQ(apply_edits("a", good)->content, "c");
  const std::vector<Edit> bad = {{"a", "b", false}, {"a", "c", false}};
  const auto result = apply_edits("a", bad);
  ASSERT_FALSE(result);
  EXPECT_NE(result.error().message.find("edits[1]"), std::string::npos);
}

TEST(Nearest, FindsAMisspeltLineAmongMany) {
  std::string content;
  for (int i = 0; i < 1000; ++i) content += "line number " + std::to_string(i * 7919) + "\n";
  content += "void compute_checksum(const Block& block);\n";
  const auto lines = nearest_lines(content, "void computeChecksum(const Block& block);");
  ASSERT_FALSE(lines.lines.empty());
  EXPECT_EQ(lines.lines.front().number, 1001U);
}

// The place and the line that come first, and what differs.
std::string nearest(std::string_view content, std::string_view wanted) {
  const Nearest found = nearest_lines(content, wanted);
  if (found.lines.empty()) return "none";
  const NearLine& line = found.lines.front();
  return std::to_string(line.first) + " " + std::to_string(line.number) + " " + line.text + "|" +
         std::string(line.differs_in);
}

TEST(Nearest, FindsSwappedLettersCaseAndOtherSpellingsInShortLines) {
  EXPECT_EQ(nearest("one\ntwo\nthree\n", "tow"), "2 2 two|");
  EXPECT_EQ(nearest("one\nwe two are\nthree\n", "tow"), "2 2 we two are|") << "a part of a line";
  EXPECT_EQ(nearest("int Foo;\nint bar;\n", "int foo;"), "1 1 int Foo;|case");
  EXPECT_EQ(nearest("int  Foo;\nint bar;\n", "int foo;"), "1 1 int  Foo;|case and whitespace");
  EXPECT_EQ(nearest("x\ncafe\xcc\x81\n", "caf\xc3\xa9"), "2 2 cafe\xcc\x81|") << "NFD and NFC";
}

TEST(Nearest, JudgesSeveralLinesTogetherAndSaysWhichOneDiffers) {
  const std::string content = "void a() {\n  run();\n}\nvoid b() {\n  walk();\n  run();\n}\n";
  EXPECT_EQ(nearest(content, "void b() {\n  walk();\n  ran();\n}\n"), "4 6   run();|");
  EXPECT_EQ(nearest(content, "walk();\n run();"), "5 6   run();|whitespace");
  EXPECT_EQ(nearest("one\r\ntwo\nthree\r\n", "one\ntwo\nthree\n"), "1 1 one|line ends");
  EXPECT_EQ(nearest("a\nlast", "last\n"), "2 2 last|line ends");
}

TEST(Nearest, SaysThatNotAllLinesWereCompared) {
  std::string content = "the nearest\n";
  for (std::size_t i = 0; i < kMaxLinesCompared; ++i) content += "\n";
  EXPECT_FALSE(nearest_lines(content.substr(0, content.size() - 1), "the nearer").is_cut);
  EXPECT_TRUE(nearest_lines(content + "the nearer\n", "the  nearer").is_cut);
  const auto refused = edit(content + "x\n", "the nearer", "y");
  EXPECT_NE(refused.error().details_json.find(R"("compared_lines":500000)"), std::string::npos);
}

TEST(Nearest, SaysNothingWhereNothingIsAlike) { EXPECT_TRUE(nearest_lines("abc\ndef\n", "qqqqzzzz").lines.empty()); }

TEST(Diff, ShowsAChangedLineWithItsContext) {
  EXPECT_EQ(unified_diff("f", "1\n2\n3\n4\n5\n6\n7\n8\n", "1\n2\n3\n4\nfive\n6\n7\n8\n").text,
            "--- a/f\n+++ b/f\n@@ -2,7 +2,7 @@\n 2\n 3\n 4\n-5\n+five\n 6\n 7\n 8\n");
}

TEST(Diff, MarksAMissingLastNewline) {
  EXPECT_EQ(unified_diff("f", "a", "b").text,
            "--- a/f\n+++ b/f\n@@ -1 +1 @@\n-a\n\\ No newline at end of file\n+b\n\\ No newline at end of file\n");
}

TEST(Diff, EqualFilesHaveNone) { EXPECT_EQ(unified_diff("f", "a\n", "a\n").text, ""); }

TEST(Diff, OfALargeFileLooksOnlyAtWhatChanged) {
  std::string before;
  for (int i = 1; i <= 1'000'000; ++i) before += std::to_string(i) + "\n";
  std::string after = before;
  after.replace(after.find("\n500000\n") + 1, 6, "half");
  EXPECT_EQ(
      unified_diff("f", before, after).text,
      "--- a/f\n+++ b/f\n@@ -499997,7 +499997,7 @@\n 499997\n 499998\n 499999\n-500000\n+half\n 500001\n 500002\n "
      "500003\n");
}

TEST(Edit, HostileRepetitionEndsSoon) {
  const std::string content(4 << 20, 'a');
  const std::string wanted(100'000, 'a');
  EXPECT_EQ(edit(content, wanted, "b").error().code, Code::conflict);
  EXPECT_EQ(edit(content, wanted + "b", "c").error().code, Code::not_found);
}

TEST(Diff, IsCutWhereItGetsTooLong) {
  std::string before;
  std::string after;
  for (int i = 0; i < 20000; ++i) {
    before += "old " + std::to_string(i) + "\n";
    after += "new " + std::to_string(i) + "\n";
  }
  EXPECT_TRUE(unified_diff("f", before, after).cut);
}

// patch(1) is the judge: a diff of random files, applied, gives the new file.
TEST(Diff, AppliedByPatchGivesTheNewFile) {
  if (std::system("command -v patch >/dev/null") != 0) GTEST_SKIP() << "no patch(1)";
  std::mt19937 random(7);
  SandboxDir box;
  for (int round = 0; round < 40; ++round) {
    const auto lines = [&](std::size_t count) {
      std::string text;
      for (std::size_t i = 0; i < count; ++i) text += std::to_string(random() % 6) + "\n";
      if (random() % 3 == 0 && !text.empty()) text.pop_back();
      return text;
    };
    const std::string before = lines(random() % 40);
    std::string after = lines(random() % 40);
    if (before == after) after += "x\n";
    box.write("f", before);
    box.write("f.diff", unified_diff("f", before, after).text);
    const std::string command = "cd " + box.root() + " && patch -s -p1 -i f.diff f";
    ASSERT_EQ(std::system(command.c_str()), 0) << before << "---\n" << after;
    EXPECT_EQ(box.read("f"), after);
  }
}

// Both programs take every name that a request can have.
TEST(Diff, OfAnyNameIsTakenByPatchAndGit) {
  SandboxDir box;
  for (const char* name : {"plain", "two words", "tab\there", "line\nbreak", "quo\"te", "back\\slash",
                           "\xc3\xa9t\xc3\xa9", " lead", "x\n+++ b/forged"}) {
    const std::string base = std::filesystem::path(name).filename();
    for (const char* program : {"patch -s -p1 -i ../the.diff", "git apply ../the.diff"}) {
      std::filesystem::remove_all(box.path("w"));
      box.write(std::string("w/") + base, "old\n");
      box.write("the.diff", unified_diff(base, "old\n", "new\n").text);
      const std::string command = "cd '" + box.path("w") + "' && " + program;
      EXPECT_EQ(std::system(command.c_str()), 0) << base << ": " << program << "\n" << box.read("the.diff");
      EXPECT_EQ(box.read(std::string("w/") + base), "new\n") << base << ": " << program;
    }
  }
  EXPECT_EQ(unified_diff("x\n+++ b/forged", "old\n", "new\n").text,
            "--- \"a/x\\012+++ b/forged\"\n+++ \"b/x\\012+++ b/forged\"\n@@ -1 +1 @@\n-old\n+new\n");
}

TEST(Diff, OfOtherEncodingsSaysThatItIsNotExact) {
  EXPECT_TRUE(unified_diff("f", "caf\xc3\xa9\n", "tea\n").is_exact);
  EXPECT_FALSE(unified_diff("f", "caf\xe9\n", "tea\n").is_exact);
  EXPECT_FALSE(unified_diff("f", "\xe9\none\n", "\xe9\ntwo\n").is_exact) << "in the context too";
  EXPECT_TRUE(unified_diff("f", "\xe9\n1\n2\n3\n4\none\n", "\xe9\n1\n2\n3\n4\ntwo\n").is_exact) << "far away";
}

TEST(Text, JudgesUtf8AsTheStandardDoes) {
  EXPECT_TRUE(is_utf8("plain \xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80"));
  for (const char* bad : {"\xc0\x80", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\x80", "\xe2\x82", "\xff"}) {
    EXPECT_FALSE(is_utf8(bad)) << bad;
  }
}

TEST(Text, APrefixThatFitsNeverSplitsACharacter) {
  const std::string text =
      "a\"\xe2\x82\xac"
      "b";
  EXPECT_EQ(fitting_prefix(text, 3), 2U);
  EXPECT_EQ(fitting_prefix(text, 5), 2U);
  EXPECT_EQ(fitting_prefix(text, 6), 5U);
  EXPECT_EQ(fitting_prefix(text, 7), 6U);
}

}  // namespace
}  // namespace sallyport::worker
