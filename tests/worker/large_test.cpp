// Searches that would take too long, or too much memory, done at once: large files, long lines, slow patterns.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <random>

#include "worker/find.h"
#include "worker/grep.h"
#include "worker/sandbox_dir.h"

namespace sallyport::worker {
namespace {

using Mode = SearchOptions::Mode;

GrepRequest request(std::string pattern, std::string root = ".") {
  GrepRequest grep;
  grep.pattern = std::move(pattern);
  grep.root = std::move(root);
  return grep;
}

std::string places(const Result<GrepAnswer>& answer) {
  if (!answer) return "error: " + answer.error().describe();
  std::string out;
  for (const GrepFile& file : answer->files) {
    for (const Hit& hit : file.found.hits) {
      out += std::to_string(hit.line) + ":" + std::to_string(hit.column) + (hit.is_cut ? "~" : "") + " ";
    }
  }
  return out;
}

// `text` behind so many NULs, which take no room on the disk.
void write_behind_hole(const SandboxDir& box, const char* name, std::uint64_t hole, std::string_view text) {
  const int fd = ::open(box.path(name).c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
  ASSERT_GE(fd, 0);
  EXPECT_EQ(::pwrite(fd, text.data(), text.size(), static_cast<off_t>(hole)), static_cast<ssize_t>(text.size()));
  ::close(fd);
}

TEST(LargeFiles, ANamedFileIsSearchedWhateverItsSizeAndItsLines) {
  SandboxDir box;
  constexpr std::uint64_t kHole = 300ULL << 20;
  write_behind_hole(box, "large", kHole, "needle 1\nneedle 2\n");
  const std::string first = "1:" + std::to_string(kHole + 1) + "~ ";
  for (const char* pattern : {"needle", "need+le", "[n]eedle"}) {
    const auto answer = grep(box.open(), request(pattern, "large"), Stop());
    EXPECT_EQ(places(answer), first + "2:1 ") << pattern;
    EXPECT_EQ(answer->searched, 1U);
    EXPECT_EQ(answer->skipped.long_lines, std::string_view(pattern) == "needle" ? 0U : 1U);
  }
  // Below a directory it is passed over, and counted.
  GrepRequest below = request("needle");
  below.search.with_binary = true;
  const auto answer = grep(box.open(), below, Stop());
  EXPECT_EQ(places(answer), "");
  EXPECT_EQ(answer->skipped.too_large, 1U);
}

TEST(LargeFiles, ALineLongerThanMemoryHasOneBeginningAndOneEnd) {
  SandboxDir box;
  constexpr std::size_t kPart = kMaxHeldBytes;
  std::string line(3 * kPart, '.');
  line[kPart - 1] = 'x';  // the last byte that is held at first
  line[kPart] = 'y';
  line.replace(2 * kPart - kLineOverlap - 3, 6, "needle");
  box.write("f", "before\n" + line + "\nafter\nlast\n");
  const auto found = [&](const char* pattern) { return places(grep(box.open(), request(pattern), Stop())); };
  for (const char* none : {"x$", "^y", "^needle", "\\Ay", "x\\z", "^\\.$"}) EXPECT_EQ(found(none), "") << none;
  EXPECT_EQ(found("xy"), "2:" + std::to_string(kPart) + "~ ");
  EXPECT_EQ(found("x[y]"), "2:" + std::to_string(kPart) + "~ ");
  EXPECT_EQ(found("needle"), "2:" + std::to_string(2 * kPart - kLineOverlap - 2) + "~ ");
  EXPECT_EQ(found("needl[e]"), "2:" + std::to_string(2 * kPart - kLineOverlap - 2) + "~ ");
  EXPECT_EQ(found("^\\."), "2:1~ ");
  EXPECT_EQ(found("[.]$"), "2:" + std::to_string(line.size()) + "~ ");
  EXPECT_EQ(found("f[t]er"), "3:2 ");
  EXPECT_EQ(found("l[a]st"), "4:1 ");
  GrepRequest count = request("x|y|needle|after");
  count.search.mode = Mode::count;
  EXPECT_EQ(grep(box.open(), count, Stop())->files[0].found.matches, 2U);
}

TEST(LargeFiles, ALineLongerThanMemoryIsContextOrAHitButNotBoth) {
  SandboxDir box;
  std::string line(2 * kMaxHeldBytes, '.');
  line.replace(line.size() - 100, 6, "needle");
  box.write("f", "1 hit\n" + line + "\n3 after\n4 hit\n");
  GrepRequest grep_request = request("hit");
  grep_request.search.before = grep_request.search.after = 1;
  EXPECT_EQ(places(grep(box.open(), grep_request, Stop())), "1:3 2:0~ 3:0 4:3 ");
  grep_request.pattern = "hit|needle";
  EXPECT_EQ(places(grep(box.open(), grep_request, Stop())), "1:3 2:" + std::to_string(line.size() - 99) + "~ 3:0 4:3 ");
  grep_request.pattern = "needle";
  EXPECT_EQ(places(grep(box.open(), grep_request, Stop())), "2:" + std::to_string(line.size() - 99) + "~ 3:0 ");
}

TEST(LargeFiles, AMultilineSearchGoesThroughFilesLargerThanMemory) {
  SandboxDir box;
  std::string text;
  std::string expected;
  std::uint64_t line = 1;
  while (text.size() < 5 * kMaxHeldBytes / 2) {
    for (unsigned i = 0; i < 20'000; ++i, ++line) text += std::string(17 + i % 7, '.') + "\n";
    text += "one foo\nbar\n";
    expected += std::to_string(line) + ":5 ";
    line += 2;
  }
  box.write("f", text);
  GrepRequest grep_request = request("foo\\nba[r]");
  grep_request.options.is_multiline = true;
  const auto answer = grep(box.open(), grep_request, Stop());
  EXPECT_EQ(places(answer), expected);
  EXPECT_EQ(answer->skipped.long_lines, 1U);
  grep_request.pattern = "\\A\\.+\\n|\\n\\z";
  EXPECT_EQ(places(grep(box.open(), grep_request, Stop())), "1:1 " + std::to_string(line - 1) + ":4 ");
  grep_request.pattern = "foo\\n";
  grep_request.search.before = grep_request.search.after = 1;
  grep_request.limit = 2;
  const std::uint64_t second = 20'000 + 2 + 20'001;
  EXPECT_EQ(places(grep(box.open(), grep_request, Stop())), "20000:0 20001:5 20002:0 " + std::to_string(second - 1) +
                                                                ":0 " + std::to_string(second) + ":5 " +
                                                                std::to_string(second + 1) + ":0 ");
}

TEST(LargeFiles, Utf16OfAnySizeIsSearchedAsText) {
  SandboxDir box;
  const std::string letter("\x3d\xd8\x00\xde", 4);  // beyond what one unit holds
  std::string text = "\xff\xfe";
  const auto add = [&](std::string_view ascii) {
    for (const char c : ascii) text.append(1, c).append(1, '\0');
  };
  add("x");  // so that pairs lie across every power of two
  std::uint64_t lines = 0;
  for (; text.size() < kMaxHeldBytes + (1 << 20); ++lines) {
    for (int i = 0; i < 2000; ++i) text += letter;
    add("\n");
  }
  add("the end");
  box.write("f", text);
  EXPECT_EQ(places(grep(box.open(), request("^the e[n]d$"), Stop())), std::to_string(lines + 1) + ":1 ");
  GrepRequest count = request("^x?\xf0\x9f\x98\x80+$");
  count.search.mode = Mode::count;
  const auto answer = grep(box.open(), count, Stop());
  ASSERT_EQ(answer->files.size(), 1U);
  EXPECT_EQ(answer->files[0].found.matches, lines);
}

// RE2 takes microseconds for each byte of these: minutes for a file.
constexpr const char* kSlowPattern = "a.{200}Z";

std::string slow_text(std::size_t bytes, std::size_t line_bytes) {
  std::mt19937 random(5);
  std::string text(bytes, 'b');
  for (char& c : text) c = random() % 2 == 0 ? 'a' : 'b';
  for (std::size_t at = line_bytes; at < bytes; at += line_bytes) text[at] = '\n';
  return text;
}

// Cancelled after some looks, as the worker is by what comes in on its socket.
class CancelledSoon {
 public:
  CancelledSoon() {
    stop_.on_poll([this] {
      if (++looks_ == 3) stop_.cancel();
    });
  }
  const Stop& stop() const { return stop_; }

 private:
  Stop stop_;
  int looks_ = 0;
};

TEST(SlowSearches, AreStoppedWithinAFileWithinALineAndWithinAMultilineText) {
  SandboxDir box;
  box.write("lines", slow_text(48 << 20, 1000));
  box.write("line", slow_text(48 << 20, 64 << 20));
  for (const char* name : {"lines", "line"}) {
    for (const bool is_multiline : {false, true}) {
      GrepRequest grep_request = request(kSlowPattern, name);
      grep_request.options.is_multiline = is_multiline;
      const CancelledSoon cancelled;
      EXPECT_EQ(grep(box.open(), grep_request, cancelled.stop()).error().code, Code::cancelled);
      const Stop late(std::chrono::steady_clock::now() + std::chrono::milliseconds(30));
      EXPECT_EQ(grep(box.open(), grep_request, late).error().code, Code::timeout);
    }
  }
}

// With a literal that is on every line, and with a match at every place of a line.
TEST(SlowSearches, AreStoppedWhereEachMatchIsCheapOrEachLineIsAskedFor) {
  SandboxDir box;
  std::string text;
  while (text.size() < (8U << 20)) text += "needle " + slow_text(2000, 4000) + "\n";
  for (int i = 0; i < 4; ++i) box.write("f" + std::to_string(i), text);
  const CancelledSoon cancelled;
  EXPECT_EQ(grep(box.open(), request("needle .*a.{200}Z"), cancelled.stop()).error().code, Code::cancelled);
  GrepRequest each = request("a(?:[ab]{0,100}Z)?");
  each.search.only_matching = true;
  each.limit = 100'000;
  const CancelledSoon soon;
  EXPECT_EQ(grep(box.open(), each, soon.stop()).error().code, Code::cancelled);
}

// Each thread has a file of its own, the first one perhaps none.
TEST(SlowSearches, AreStoppedOnEveryThread) {
  SandboxDir box;
  const std::string text = slow_text(24 << 20, 1000);
  for (int i = 0; i < 3; ++i) box.write("slow" + std::to_string(i) + "/f", text);
  for (int i = 0; i < 30; ++i) box.write("d" + std::to_string(i) + "/f", "x");
  GrepRequest grep_request = request(kSlowPattern);
  grep_request.walk.threads = 4;
  for (int round = 0; round < 3; ++round) {
    const CancelledSoon cancelled;
    EXPECT_EQ(grep(box.open(), grep_request, cancelled.stop()).error().code, Code::cancelled);
  }
}

// Each name takes a good part of a second; there are some hundred.
TEST(SlowSearches, AreStoppedInTheRulesOfAHostileIgnoreFile) {
  SandboxDir box;
  std::string rules;
  for (int i = 0; rules.size() < kMaxIgnoreFileBytes - 20; ++i) rules += "*a*a*a*a*b" + std::to_string(i) + "\n";
  box.write(".gitignore", rules);
  for (int i = 0; i < 300; ++i) box.write(std::string(240, 'a') + std::to_string(i), "");
  GlobRequest glob;
  glob.pattern = "**";
  const CancelledSoon cancelled;
  EXPECT_EQ(find_paths(box.open(), glob, cancelled.stop()).error().code, Code::cancelled);
}

}  // namespace
}  // namespace sallyport::worker
