#include "worker/grep.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <random>

#include "worker/sandbox_dir.h"

namespace sallyport::worker {
namespace {

using Mode = SearchOptions::Mode;

GrepRequest request(std::string pattern) {
  GrepRequest grep;
  grep.pattern = std::move(pattern);
  return grep;
}

std::string lines(const GrepAnswer& answer) {
  std::string out;
  for (const GrepFile& file : answer.files) {
    for (const Hit& hit : file.found.hits) {
      out += file.path + (hit.is_context() ? "-" : ":") + std::to_string(hit.line) + (hit.is_context() ? "-" : ":") +
             hit.text + "\n";
    }
  }
  return out;
}

std::string run(const SandboxDir& box, const GrepRequest& grep_request) {
  const auto answer = grep(box.open(), grep_request, Stop());
  return answer ? lines(*answer) : "error: " + answer.error().describe();
}

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

TEST(Grep, PagesWithACursorJoinToTheWhole) {
  SandboxDir box;
  std::mt19937 random(5);
  for (int i = 0; i < 60; ++i) {
    std::string text;
    for (std::size_t j = random() % 30; j > 0; --j) text += random() % 2 == 0 ? "a hit\n" : "nothing\n";
    box.write("d" + std::to_string(i % 7) + "/f" + std::to_string(i), text);
  }
  GrepRequest grep_request = request("hit");
  grep_request.limit = 100000;
  const std::string whole = run(box, grep_request);
  for (const std::size_t limit : {std::size_t{1}, std::size_t{7}, std::size_t{50}}) {
    grep_request.limit = limit;
    grep_request.cursor.clear();
    std::string joined;
    int pages = 0;
    do {
      const auto answer = grep(box.open(), grep_request, Stop());
      ASSERT_TRUE(answer) << answer.error().describe();
      joined += lines(*answer);
      grep_request.cursor = answer->cursor;
    } while (!grep_request.cursor.empty() && ++pages < 5000);
    EXPECT_EQ(joined, whole) << limit;
  }
  grep_request.limit = 100000;
  grep_request.max_bytes = 700;
  std::string joined;
  do {
    const auto answer = grep(box.open(), grep_request, Stop());
    joined += lines(*answer);
    grep_request.cursor = answer->cursor;
  } while (!grep_request.cursor.empty());
  EXPECT_EQ(joined, whole);
}

TEST(Grep, PagesWithContextJoinToTheWholeToo) {
  SandboxDir box;
  std::mt19937 random(6);
  for (int i = 0; i < 8; ++i) {
    std::string text;
    for (std::size_t j = random() % 40; j > 0; --j) text += random() % 3 == 0 ? "a hit, hit\n" : "nothing\n";
    box.write("f" + std::to_string(i), text);
  }
  for (const char* pattern : {"hit", "hit\\nn|hit"}) {
    for (int round = 0; round < 24; ++round) {
      GrepRequest grep_request = request(pattern);
      grep_request.options.is_multiline = pattern != std::string("hit");
      grep_request.search.only_matching = round % 2 == 0;
      grep_request.search.before = static_cast<std::uint32_t>(random() % 4);
      grep_request.search.after = static_cast<std::uint32_t>(random() % 4);
      grep_request.limit = 100000;
      const std::string whole = run(box, grep_request);
      grep_request.limit = round % 3 == 0 ? 100000 : 1 + random() % 3;
      if (round % 3 == 0) grep_request.max_bytes = 2000;
      std::string joined;
      int pages = 0;
      do {
        const auto answer = grep(box.open(), grep_request, Stop());
        ASSERT_TRUE(answer) << answer.error().describe();
        joined += lines(*answer);
        grep_request.cursor = answer->cursor;
      } while (!grep_request.cursor.empty() && ++pages < 1000);
      EXPECT_EQ(joined, whole) << pattern << " round " << round;
    }
  }
}

// Everything that is streamed, as one answer.
GrepAnswer streamed(const SandboxDir& box, const GrepRequest& grep_request, std::size_t& pages) {
  std::vector<GrepFile> files;
  pages = 0;
  auto answer = grep(box.open(), grep_request, Stop(), [&](const std::vector<GrepFile>& page) {
    EXPECT_FALSE(page.empty());
    for (const GrepFile& file : page) {
      // A file that goes on from the page before is still one.
      if (!files.empty() && files.back().path == file.path) {
        auto& hits = files.back().found.hits;
        hits.insert(hits.end(), file.found.hits.begin(), file.found.hits.end());
      } else {
        files.push_back(file);
      }
    }
    ++pages;
    return ok();
  });
  EXPECT_TRUE(answer);
  if (!answer) return {};
  EXPECT_TRUE(answer->files.empty());
  EXPECT_EQ(answer->pages, pages);
  answer->files = std::move(files);
  return std::move(*answer);
}

TEST(Grep, StreamedPagesJoinToTheWholeInTheSameOrder) {
  SandboxDir box;
  for (int i = 0; i < 600; ++i) {
    std::string content;
    for (int line = 0; line < i % 7; ++line) content += "hit " + std::to_string(line) + "\nother\n";
    // Names that sort otherwise as files than as directories.
    box.write("d" + std::to_string(i % 11) +
                  (i % 3 == 0   ? "/sub/"
                   : i % 3 == 1 ? "."
                                : "/") +
                  std::to_string(i),
              content);
  }
  for (const Mode mode : {Mode::content, Mode::files, Mode::count}) {
    for (const std::size_t limit : {std::size_t{100'000}, std::size_t{50}}) {
      GrepRequest grep_request = request("hit");
      grep_request.search.mode = mode;
      grep_request.search.before = 1;
      grep_request.limit = limit;
      grep_request.max_bytes = 900 << 10;
      const auto whole = grep(box.open(), grep_request, Stop());
      ASSERT_TRUE(whole);
      grep_request.max_bytes = 500;
      std::size_t pages = 0;
      const GrepAnswer joined = streamed(box, grep_request, pages);
      EXPECT_GT(pages, 3U);
      EXPECT_EQ(lines(joined), lines(*whole));
      EXPECT_EQ(joined.total, whole->total);
      EXPECT_EQ(joined.cursor, whole->cursor);
      ASSERT_EQ(joined.files.size(), whole->files.size());
      for (std::size_t i = 0; i < joined.files.size(); ++i) EXPECT_EQ(joined.files[i].path, whole->files[i].path);
    }
  }
}

TEST(Grep, AFileWithMoreHitsThanMemoryTakesIsLeftAndGoneOnWith) {
  SandboxDir box;
  constexpr std::uint64_t kLines = 90'000;
  std::string content;
  for (std::uint64_t line = 1; line <= kLines; ++line) content += std::to_string(line) + std::string(700, 'x') + "\n";
  ASSERT_GT(content.size(), kMaxHitBytes);
  box.write("a", "1x\n");
  box.write("b", content);
  box.write("c", "1x\n");
  GrepRequest grep_request = request("^[0-9]+x");
  grep_request.search.line_bytes = 1000;
  grep_request.search.after = 1;
  grep_request.limit = 100'000;
  grep_request.max_bytes = kMaxPageBytes;
  std::vector<std::uint64_t> found;
  std::string paths;
  int answers = 0;
  do {
    std::size_t pages = 0, held = 0;
    const GrepAnswer answer = streamed(box, grep_request, pages);
    for (const GrepFile& file : answer.files) {
      if (!paths.ends_with(file.path)) paths += file.path;
      for (const Hit& hit : file.found.hits) {
        held += hit.text.size();
        if (file.path == "b" && !hit.is_context()) found.push_back(hit.line);
      }
    }
    EXPECT_LE(held, kMaxHitBytes + (1 << 20));
    grep_request.cursor = answer.cursor;
  } while (!grep_request.cursor.empty() && ++answers < 10);
  EXPECT_GE(answers, 1);
  EXPECT_EQ(paths, "abc");
  ASSERT_EQ(found.size(), kLines);
  for (std::uint64_t i = 0; i < kLines; ++i) ASSERT_EQ(found[i], i + 1);
}

TEST(Grep, APageThatCannotBeSentEndsTheSearch) {
  SandboxDir box;
  for (int i = 0; i < 100; ++i) box.write("d" + std::to_string(i) + "/f", "hit\n");
  const auto answer = grep(box.open(), request("hit"), Stop(), [](const std::vector<GrepFile>&) {
    return Status(Error::make(Code::cancelled, "nobody reads"));
  });
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().message, "nobody reads");
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

// ---- glob ----

}  // namespace
}  // namespace sallyport::worker
