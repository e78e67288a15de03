// Hits in pages: with a cursor, or streamed.
#include <gtest/gtest.h>

#include <random>

#include "worker/grepping.h"

namespace sallyport::worker {
namespace {

// All pages of an answer, joined.
std::string joined_pages(const SandboxDir& box, GrepRequest grep_request) {
  std::string joined;
  for (int pages = 0; pages < 5000; ++pages) {
    const auto answer = grep(box.open(), grep_request, Stop());
    if (!answer) return answer.error().describe();
    joined += lines(*answer);
    if (answer->cursor.empty()) return joined;
    grep_request.cursor = answer->cursor;
  }
  return "the pages have no end";
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
    EXPECT_EQ(joined_pages(box, grep_request), whole) << limit;
  }
  grep_request.limit = 100000;
  grep_request.max_bytes = 700;
  EXPECT_EQ(joined_pages(box, grep_request), whole);
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
      EXPECT_EQ(joined_pages(box, grep_request), whole) << pattern << " round " << round;
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

}  // namespace
}  // namespace sallyport::worker
