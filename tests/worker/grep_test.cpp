#include "worker/grep.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <random>
#include <set>
#include <sstream>
#include <thread>

#include "worker/find.h"
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

// ripgrep is the judge, over a random repository.
TEST(Grep, AgreesWithRipgrep) {
  if (std::system("command -v rg >/dev/null") != 0) GTEST_SKIP() << "no ripgrep";
  std::mt19937 random(99);
  SandboxDir box;
  const std::vector<std::string> words = {"alpha", "Beta",      "gamma(", "foo_bar", "x->y", "\xc3\xa9t\xc3\xa9",
                                          "",      "return 0;", "\t",     "TODO"};
  for (int i = 0; i < 400; ++i) {
    std::string text;
    for (std::size_t j = random() % 40; j > 0; --j) {
      for (std::size_t k = random() % 5; k > 0; --k) text += words[random() % words.size()] + " ";
      text += "\n";
    }
    const char* extensions[] = {".c", ".h", ".o", ".txt", ""};
    box.write("d" + std::to_string(random() % 9) + "/" + (random() % 12 == 0 ? "." : "") + "e" +
                  std::to_string(random() % 5) + "/f" + std::to_string(i) + extensions[random() % 5],
              text);
  }
  box.write(".gitignore", "*.o\n/d3/\n!d4/e1/*.o\n");
  box.write("d5/.gitignore", "e2\nf*0.c\n");
  const auto compare = [&](const GrepRequest& grep_request, const std::string& flags) {
    const std::string command = "cd " + box.root() +
                                " && rg --no-config --no-require-git --no-heading -n --sort path " + flags +
                                " . | sed 's#^\\./##' > " + box.outside() + "/out";
    ASSERT_LE(WEXITSTATUS(std::system(command.c_str())), 1);
    std::multiset<std::string> theirs;
    std::istringstream out(box.read_outside("out"));
    for (std::string line; std::getline(out, line);) {
      if (line != "--") theirs.insert(line);
    }
    std::multiset<std::string> ours;
    std::istringstream mine(run(box, grep_request));
    for (std::string line; std::getline(mine, line);) ours.insert(line);
    EXPECT_FALSE(ours.empty()) << flags;
    EXPECT_EQ(ours, theirs) << flags;
  };
  GrepRequest grep_request = request("alpha");
  grep_request.limit = 1000000;
  grep_request.max_bytes = SIZE_MAX;
  compare(grep_request, "alpha");
  grep_request.options.letter_case = PatternOptions::Case::insensitive;
  grep_request.pattern = "bEtA";
  compare(grep_request, "-i bEtA");
  grep_request.options = {};
  grep_request.pattern = "^foo_\\w+ .*return";
  compare(grep_request, "'^foo_\\w+ .*return'");
  grep_request.pattern = "[a-z]+\\(|x->.";
  compare(grep_request, "'[a-z]+\\(|x->.'");
  grep_request.pattern = "foo_bar $";
  grep_request.search.before = 2;
  grep_request.search.after = 3;
  compare(grep_request, "-B2 -A3 'foo_bar $'");
  grep_request.search = {};
  grep_request.pattern = "gamma(";
  grep_request.options.is_fixed = true;
  compare(grep_request, "-F 'gamma('");
  grep_request.options = {};
  grep_request.options.is_word = true;
  grep_request.pattern = "foo_bar|alpha";
  grep_request.walk.with_hidden = true;
  compare(grep_request, "--hidden -w 'foo_bar|alpha'");
  grep_request.walk.with_ignored = true;
  grep_request.search.only_matching = true;
  compare(grep_request, "--no-ignore --hidden -o -w 'foo_bar|alpha'");
  grep_request = request("\xc3\xa9t");
  grep_request.limit = 1000000;
  grep_request.max_bytes = SIZE_MAX;
  grep_request.include = {"*.{c,h}"};
  compare(grep_request, "-g '*.{c,h}' \xc3\xa9t");
}

// ---- glob ----

std::vector<std::string> found(const SandboxDir& box, std::string pattern, std::string root = ".") {
  GlobRequest glob;
  glob.pattern = std::move(pattern);
  glob.root = std::move(root);
  const auto answer = find_paths(box.open(), glob, Stop());
  return answer ? answer->paths : std::vector<std::string>{"error: " + answer.error().describe()};
}

using Paths = std::vector<std::string>;

TEST(GlobPaths, AreSortedAndRelativeToTheRootAsWritten) {
  SandboxDir box;
  for (const char* name : {"b.h", "a/c.h", "a/d.c", "a/e/f.h", "a.h"}) box.write(name, "");
  EXPECT_EQ(found(box, "**/*.h"), (Paths{"a.h", "a/c.h", "a/e/f.h", "b.h"}));
  EXPECT_EQ(found(box, "*.h"), (Paths{"a.h", "b.h"}));
  EXPECT_EQ(found(box, "*.h", "a"), (Paths{"a/c.h"}));
  EXPECT_EQ(found(box, "**/*.h", box.path("a")), (Paths{box.path("a/c.h"), box.path("a/e/f.h")}));
  EXPECT_EQ(found(box, "a/**/*.{c,h}"), (Paths{"a/c.h", "a/d.c", "a/e/f.h"}));
  EXPECT_EQ(found(box, box.path("a/*.c")), (Paths{"a/d.c"}));
}

TEST(GlobPaths, RespectIgnoreRulesAndCanListDirectories) {
  SandboxDir box;
  box.write(".gitignore", "build/\n");
  box.write("build/x.h", "");
  box.write("src/x.h", "");
  EXPECT_EQ(found(box, "**/x.h"), (Paths{"src/x.h"}));
  GlobRequest glob;
  glob.pattern = "*";
  glob.kind = GlobRequest::Kind::directory;
  EXPECT_EQ(find_paths(box.open(), glob, Stop())->paths, (Paths{"src"}));
}

TEST(GlobPaths, PagesJoinToTheWhole) {
  SandboxDir box;
  for (int i = 0; i < 500; ++i) box.write("d" + std::to_string(i % 13) + "/" + std::to_string(i), "");
  GlobRequest glob;
  glob.pattern = "**";
  const Paths whole = find_paths(box.open(), glob, Stop())->paths;
  ASSERT_EQ(whole.size(), 500U);
  glob.limit = 33;
  Paths joined;
  while (true) {
    const auto answer = find_paths(box.open(), glob, Stop());
    joined.insert(joined.end(), answer->paths.begin(), answer->paths.end());
    if (!answer->truncated) break;
    glob.cursor = joined.back();
  }
  EXPECT_EQ(joined, whole);
}

TEST(GlobPaths, DoNotLeaveTheRootThroughALink) {
  SandboxDir box;
  box.link("out", box.outside());
  EXPECT_EQ(found(box, "**/secret"), Paths{});
  EXPECT_NE(found(box, "*", "out")[0].find("POLICY_DENIED"), std::string::npos);
}

}  // namespace
}  // namespace sallyport::worker
