#include "worker/grep.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <ctime>
#include <random>

#include "worker/grepping.h"

namespace sallyport::worker {
namespace {

TEST(Grep, GivesHitsInOrderOfPathAndLine) {
  SandboxDir box;
  box.write("b.txt", "x hit\nno\nhit again\n");
  box.write("a/z.txt", "hit\n");
  box.write("a.txt", "hit");
  EXPECT_EQ(run(box, request("hit")), "a.txt:1:hit\na/z.txt:1:hit\nb.txt:1:x hit\nb.txt:3:hit again\n");
}

TEST(Grep, ContextLinesDoNotRepeatOrOverlap) {
  SandboxDir box;
  box.write("f", "1\n2 hit\n3\n4 hit\n5\n6\n7\n8 hit\n9\n");
  GrepRequest grep_request = request("hit");
  grep_request.search.before = 1;
  grep_request.search.after = 1;
  EXPECT_EQ(run(box, grep_request), "f-1-1\nf:2:2 hit\nf-3-3\nf:4:4 hit\nf-5-5\nf-7-7\nf:8:8 hit\nf-9-9\n");
}

TEST(Grep, CountsAndListsFiles) {
  SandboxDir box;
  box.write("a", "x\nx\ny\n");
  box.write("b", "y\n");
  GrepRequest grep_request = request("x");
  grep_request.search.mode = Mode::count;
  auto answer = grep(box.open(), grep_request, Stop());
  ASSERT_EQ(answer->files.size(), 1U);
  EXPECT_EQ(answer->files[0].found.matches, 2U);
  grep_request.search.mode = Mode::files;
  grep_request.pattern = "y";
  answer = grep(box.open(), grep_request, Stop());
  ASSERT_EQ(answer->files.size(), 2U);
  EXPECT_EQ(answer->files[1].path, "b");
}

TEST(Grep, OnlyMatchingGivesEachMatch) {
  SandboxDir box;
  box.write("f", "a1 b22 c\nd333\n");
  GrepRequest grep_request = request("[0-9]+");
  grep_request.search.only_matching = true;
  EXPECT_EQ(run(box, grep_request), "f:1:1\nf:1:22\nf:2:333\n");
}

TEST(Grep, MultilineMatchesSpanLines) {
  SandboxDir box;
  box.write("f", "one\nfoo(\n  bar)\nend\n");
  GrepRequest grep_request = request("foo\\(\\s+bar");
  EXPECT_EQ(run(box, grep_request), "");
  grep_request.options.is_multiline = true;
  EXPECT_EQ(run(box, grep_request), "f:2:foo(\n  bar)\n");
}

TEST(Grep, MultilineGivesALineOnceHoweverManyMatchesItHas) {
  SandboxDir box;
  box.write("f", "0\nx x\ny\n3\nx\nend x");
  GrepRequest grep_request = request("x|y\\n3");
  grep_request.options.is_multiline = true;
  EXPECT_EQ(run(box, grep_request), "f:2:x x\nf:3:y\n3\nf:5:x\nf:6:end x\n");
  grep_request.pattern = "x\\ny|x";
  EXPECT_EQ(run(box, grep_request), "f:2:x x\ny\nf:5:x\nf:6:end x\n");
  grep_request.search.mode = Mode::count;
  const auto answer = grep(box.open(), grep_request, Stop());
  EXPECT_EQ(answer->files[0].found.matches, 3U);
  grep_request.search.mode = Mode::content;
  grep_request.search.only_matching = true;
  EXPECT_EQ(run(box, grep_request), "f:2:x\nf:2:x\ny\nf:5:x\nf:6:x\n");
}

TEST(Grep, MultilineHasContextToo) {
  SandboxDir box;
  box.write("f", "1\n2\nx\ny x\n5\n6\n7\n8\nx\n10\n");
  GrepRequest grep_request = request("x\\ny|x");
  grep_request.options.is_multiline = true;
  grep_request.search.before = 1;
  grep_request.search.after = 2;
  EXPECT_EQ(run(box, grep_request), "f-2-2\nf:3:x\ny x\nf-5-5\nf-6-6\nf-8-8\nf:9:x\nf-10-10\n");
}

TEST(Grep, AnEmptyMatchIsAMatch) {
  SandboxDir box;
  box.write("f", "ab\n\nxb");
  GrepRequest grep_request = request("x*");
  for (const bool is_multiline : {false, true}) {
    grep_request.options.is_multiline = is_multiline;
    grep_request.search.only_matching = false;
    EXPECT_EQ(run(box, grep_request), "f:1:ab\nf:2:\nf:3:xb\n");
    grep_request.search.only_matching = true;
    const auto answer = grep(box.open(), grep_request, Stop());
    std::string places;
    for (const Hit& hit : answer->files[0].found.hits)
      places += std::to_string(hit.line) + ":" + std::to_string(hit.column) + ":" + hit.text + " ";
    EXPECT_EQ(places, "1:1: 1:2: 1:3: 2:1: 3:1:x 3:3: ");
  }
}

TEST(Grep, AByteOrderMarkIsNoPartOfTheFirstLine) {
  SandboxDir box;
  box.write("f",
            "\xef\xbb\xbf"
            "foo\nfoo\n");
  // More than one read, and more than one window.
  box.write("large",
            "\xef\xbb\xbf"
            "foo" +
                std::string(3 << 20, '\n') + "foo\n");
  GrepRequest grep_request = request("^foo");
  for (const bool is_multiline : {false, true}) {
    grep_request.options.is_multiline = is_multiline;
    EXPECT_EQ(run(box, grep_request), "f:1:foo\nf:2:foo\nlarge:1:foo\nlarge:3145729:foo\n");
  }
  EXPECT_EQ(grep(box.open(), grep_request, Stop())->files[0].found.hits[0].column, 1U);
}

TEST(Grep, SearchesUtf16AsText) {
  SandboxDir box;
  const auto utf16 = [](std::string_view ascii, bool is_big_endian) {
    std::string bytes = is_big_endian ? "\xfe\xff" : "\xff\xfe";
    for (const char c : ascii) {
      if (is_big_endian) bytes += '\0';
      bytes += c;
      if (!is_big_endian) bytes += '\0';
    }
    return bytes;
  };
  std::string large;
  for (int i = 0; i < 20000; ++i) large += "line\r\n";
  box.write("big-endian", utf16("one\nfoo\n", true));
  box.write("large", utf16(large + "foo", false));
  box.write("little-endian", utf16("foo\r\ntwo", false));
  box.write("no-text", utf16(std::string("foo\0", 4), false));
  GrepRequest grep_request = request("^foo$");
  const auto answer = grep(box.open(), grep_request, Stop());
  EXPECT_EQ(lines(*answer), "big-endian:2:foo\nlarge:20001:foo\nlittle-endian:1:foo\n");
  EXPECT_EQ(answer->skipped.binary, 1U);
  grep_request.root = "little-endian";
  EXPECT_EQ(run(box, grep_request), "little-endian:1:foo\n");
}

TEST(Grep, ManyMatchesOnALineAreCutToAPageAndSaySo) {
  SandboxDir box;
  box.write("f", std::string(1 << 20, 'x') + "\nx\n");
  GrepRequest grep_request = request("x");
  grep_request.search.only_matching = true;
  grep_request.max_bytes = 10'000;
  const auto answer = grep(box.open(), grep_request, Stop());
  ASSERT_TRUE(answer);
  EXPECT_LT(answer->files[0].found.hits.size(), 200U);
  EXPECT_TRUE(answer->files[0].found.hits.back().is_cut);
  grep_request.cursor = answer->cursor;
  EXPECT_EQ(run(box, grep_request), "f:2:x\n");
}

TEST(Grep, CountsWhatItSkipsByReason) {
  SandboxDir box;
  box.write(".gitignore", "*.log\n");
  box.write("a.log", "hit\n");
  box.write(".hidden", "hit\n");
  box.write("bin", std::string("hit\0x", 5));
  box.write("ok", "hit\n");
  box.link("link", "ok");
  ASSERT_EQ(::mkfifo(box.path("fifo").c_str(), 0600), 0);
  const auto answer = grep(box.open(), request("hit"), Stop());
  EXPECT_EQ(lines(*answer), "ok:1:hit\n");
  EXPECT_EQ(answer->skipped.ignored, 1U);
  EXPECT_EQ(answer->skipped.hidden, 2U);
  EXPECT_EQ(answer->skipped.binary, 1U);
  EXPECT_EQ(answer->skipped.symlinks, 1U);
  EXPECT_EQ(answer->skipped.special, 1U);
  EXPECT_EQ(answer->searched, 1U);
}

TEST(Grep, HiddenAndIgnoredOnRequest) {
  SandboxDir box;
  box.write(".gitignore", "*.log\n!.kept\n");
  box.write("a.log", "hit\n");
  box.write(".hidden", "hit\n");
  box.write(".kept", "hit\n");
  box.write(".git/config", "hit\n");
  GrepRequest grep_request = request("hit");
  EXPECT_EQ(run(box, grep_request), ".kept:1:hit\n");
  grep_request.walk.with_hidden = true;
  EXPECT_EQ(run(box, grep_request), ".hidden:1:hit\n.kept:1:hit\n");
  grep_request.walk.with_ignored = true;
  EXPECT_EQ(run(box, grep_request), ".git/config:1:hit\n.hidden:1:hit\n.kept:1:hit\na.log:1:hit\n");
}

TEST(Grep, ANamedFileIsSearchedWhateverItIs) {
  SandboxDir box;
  box.write(".gitignore", "*\n");
  box.write(".secret.log", std::string("\0 hit\n", 6));
  GrepRequest grep_request = request("hit");
  grep_request.root = ".secret.log";
  const auto answer = grep(box.open(), grep_request, Stop());
  ASSERT_EQ(answer->files.size(), 1U);
  EXPECT_EQ(answer->files[0].path, ".secret.log");
}

TEST(Grep, IgnoreFilesAboveTheStartCountUpToTheRepository) {
  SandboxDir box;
  box.write(".gitignore", "/repo/src/not-mine\n");
  box.write("repo/.git/info/exclude", "excluded\n");
  box.write("repo/.gitignore", "/src/top\n*.o\n");
  for (const char* name : {"not-mine", "excluded", "top", "x.o", "kept"})
    box.write(std::string("repo/src/") + name, "hit\n");
  GrepRequest grep_request = request("hit");
  grep_request.root = "repo/src";
  EXPECT_EQ(run(box, grep_request), "repo/src/kept:1:hit\nrepo/src/not-mine:1:hit\n");
  grep_request.root = ".";
  EXPECT_EQ(run(box, grep_request), "repo/src/kept:1:hit\nrepo/src/not-mine:1:hit\n");
}

TEST(Grep, DoesNotSearchHardLinksWhereTheyAreRefused) {
  SandboxDir box;
  std::filesystem::create_hard_link(box.outside() + "/secret", box.path("hard"));
  const auto answer = grep(box.open({.refuse_hard_links = true}), request("SECRET"), Stop());
  EXPECT_TRUE(answer->files.empty());
  EXPECT_EQ(answer->skipped.unreadable, 1U);
}

TEST(Grep, FiltersByGlobAndType) {
  SandboxDir box;
  for (const char* name : {"a.c", "a.h", "b.py", "sub/c.c", "sub/d.txt"}) box.write(name, "hit\n");
  GrepRequest grep_request = request("hit");
  grep_request.include = {"*.c"};
  EXPECT_EQ(run(box, grep_request), "a.c:1:hit\nsub/c.c:1:hit\n");
  grep_request.include = {"sub/**"};
  grep_request.exclude = {"*.txt"};
  EXPECT_EQ(run(box, grep_request), "sub/c.c:1:hit\n");
  grep_request = request("hit");
  grep_request.types = {"py"};
  EXPECT_EQ(run(box, grep_request), "b.py:1:hit\n");
  grep_request.types = {"klingon"};
  EXPECT_NE(run(box, grep_request).find("INVALID_PARAMS"), std::string::npos);
  EXPECT_NE(run(box, grep_request).find("'klingon' is none of c, cmake, cpp,"), std::string::npos);
}

TEST(Grep, ExcludesWhatLiesBelowAnExcludedDirectory) {
  SandboxDir box;
  for (const char* name : {"a.c", "lib/src/b.c", "src/c.c", "src/sub/d.c", "x/src"}) box.write(name, "hit\n");
  const auto without = [&](std::string exclude) {
    GrepRequest grep_request = request("hit");
    grep_request.exclude = {std::move(exclude)};
    return run(box, grep_request);
  };
  EXPECT_EQ(without("src"), "a.c:1:hit\n");
  EXPECT_EQ(without("src/"), "a.c:1:hit\nx/src:1:hit\n");
  EXPECT_EQ(without("./src"), "a.c:1:hit\nlib/src/b.c:1:hit\nx/src:1:hit\n");
  EXPECT_EQ(without(box.path("src")), "a.c:1:hit\nlib/src/b.c:1:hit\nx/src:1:hit\n");
  EXPECT_EQ(without("src/*"), "a.c:1:hit\nlib/src/b.c:1:hit\nx/src:1:hit\n");
}

TEST(Grep, RefusesAFilterThatCannotMatch) {
  SandboxDir box;
  box.write("a.c", "hit\n");
  for (const char* pattern : {"[", "!*.c", "/a.c", "../a.c", ""}) {
    GrepRequest grep_request = request("hit");
    grep_request.include = {"*.c", pattern};
    EXPECT_NE(run(box, grep_request).find("INVALID_PARAMS"), std::string::npos) << pattern;
    grep_request = request("hit");
    grep_request.exclude = {pattern};
    EXPECT_NE(run(box, grep_request).find("INVALID_PARAMS"), std::string::npos) << pattern;
  }
  GrepRequest grep_request = request("hit");
  grep_request.include = {box.path("*.c")};
  EXPECT_EQ(run(box, grep_request), "a.c:1:hit\n");
}

TEST(Grep, MatchesThatShareALongLineTakeTimeByItsLength) {
  SandboxDir box;
  std::string line;
  for (int i = 0; i < 300'000; ++i) line += "foo ";
  box.write("minified", "first\n" + line + "\nfoo\n");
  GrepRequest grep_request = request("foo");
  grep_request.options.is_multiline = true;
  const std::clock_t start = std::clock();
  const auto answer = grep(box.open(), grep_request, Stop());
  EXPECT_LT(std::clock() - start, 4 * CLOCKS_PER_SEC);
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->files.at(0).found.matches, 2U);
}

TEST(Grep, OfEachMatchTheColumnIsThatOfItsOwnLine) {
  SandboxDir box;
  box.write("f", "a b\nxx b a\nb\n\n  b b\n");
  GrepRequest grep_request = request("b\\n?");
  grep_request.options.is_multiline = true;
  grep_request.search.only_matching = true;
  const auto answer = grep(box.open(), grep_request, Stop());
  ASSERT_TRUE(answer);
  std::string places;
  for (const Hit& hit : answer->files.at(0).found.hits)
    places += std::to_string(hit.line) + ":" + std::to_string(hit.column) + " ";
  EXPECT_EQ(places, "1:3 2:4 3:1 5:3 5:5 ");
}

TEST(Grep, FiltersEndWithTheDeadlineHoweverManyTheyAre) {
  SandboxDir box;
  for (int i = 0; i < 16; ++i) box.write(std::string(240, 'a') + std::to_string(i), "hit\n");
  GrepRequest grep_request = request("hit");
  grep_request.exclude.assign(2500, "*" + std::string(120, 'a') + "?b");
  const std::clock_t start = std::clock();
  const auto answer =
      grep(box.open(), grep_request, Stop(std::chrono::steady_clock::now() + std::chrono::milliseconds(20)));
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().code, Code::timeout);
  EXPECT_LT(std::clock() - start, CLOCKS_PER_SEC);
}

TEST(Grep, RefusesMoreFiltersThanItsMemoryIsFor) {
  SandboxDir box;
  GrepRequest grep_request = request("hit");
  grep_request.include.assign(100'000, "a");
  EXPECT_NE(run(box, grep_request).find("INVALID_PARAMS"), std::string::npos);
}

TEST(Grep, LargeFilesAreSearchedInWindowsWithTheirContext) {
  SandboxDir box;
  std::string text;
  for (int i = 1; i <= 200000; ++i) text += "line " + std::to_string(i) + (i % 40000 == 0 ? " needle" : "") + "\n";
  box.write("big", text);
  GrepRequest grep_request = request("needle");
  grep_request.search.before = 2;
  grep_request.search.after = 1;
  std::string expected;
  for (int i = 40000; i <= 200000; i += 40000) {
    for (int j = i - 2; j <= std::min(i + 1, 200000); ++j) {
      const char* mark = j == i ? ":" : "-";
      expected += "big" + std::string(mark) + std::to_string(j) + mark + "line " + std::to_string(j) +
                  (j == i ? " needle" : "") + "\n";
    }
  }
  EXPECT_EQ(run(box, grep_request), expected);
}

TEST(Grep, ALineOfManyMegabytesIsFoundAndCutAroundTheMatch) {
  SandboxDir box;
  box.write("min.js", std::string(3 << 20, 'x') + "needle" + std::string(1 << 20, 'y'));
  const auto answer = grep(box.open(), request("needle"), Stop());
  ASSERT_EQ(answer->files.size(), 1U);
  const Hit& hit = answer->files[0].found.hits[0];
  EXPECT_TRUE(hit.is_cut);
  EXPECT_NE(hit.text.find("needle"), std::string::npos);
  EXPECT_LE(hit.text.size(), kHitLineBytes);
}

TEST(Grep, EndsWhenCancelledOrLate) {
  SandboxDir box;
  box.write("f", "hit\n");
  Stop cancelled;
  cancelled.cancel();
  EXPECT_EQ(grep(box.open(), request("hit"), cancelled).error().code, Code::cancelled);
  const Stop late(std::chrono::steady_clock::now() - std::chrono::seconds(1));
  EXPECT_EQ(grep(box.open(), request("hit"), late).error().code, Code::timeout);
}

TEST(Grep, ThousandsOfFilesInOneDirectoryAreShared) {
  SandboxDir box;
  for (int i = 0; i < 3000; ++i) box.write("d/" + std::to_string(i), i % 10 == 0 ? "hit\n" : "miss\n");
  GrepRequest grep_request = request("hit");
  grep_request.walk.threads = 4;
  const auto answer = grep(box.open(), grep_request, Stop());
  EXPECT_EQ(answer->files.size(), 300U);
  EXPECT_EQ(answer->searched, 3000U);
}

}  // namespace
}  // namespace sallyport::worker
