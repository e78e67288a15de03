#include "worker/read.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <iterator>

#include "worker/sandbox_dir.h"
#include "worker/sha256.h"
#include "worker/text.h"

namespace sallyport::worker {
namespace {

ReadRequest request(std::string path) {
  ReadRequest read;
  read.path = std::move(path);
  return read;
}

TEST(Read, GivesAWholeSmallFileWithItsHashAndLines) {
  SandboxDir box;
  box.write("f", "a\nb\nc");
  const auto answer = read_file(box.open(), request("f"));
  ASSERT_TRUE(answer) << answer.error().describe();
  EXPECT_EQ(answer->content, "a\nb\nc");
  EXPECT_EQ(answer->sha256, sha256_hex("a\nb\nc"));
  EXPECT_EQ(answer->lines, 3U);
  EXPECT_EQ(answer->size, 5U);
  EXPECT_EQ(answer->cursor, "");
}

TEST(Read, GivesTheHashAlwaysOrNeverIfAsked) {
  SandboxDir box;
  box.write("f", "a\nb\nc");
  ReadRequest read = request("f");
  read.want_sha256 = false;
  EXPECT_EQ(read_file(box.open(), read)->sha256, "");
  EXPECT_EQ(read_file(box.open(), read)->lines, 3U);
  read.limit = 1;
  read.want_sha256 = true;
  EXPECT_EQ(read_file(box.open(), read)->sha256, sha256_hex("a\nb\nc"));
}

TEST(Read, GivesLinesByNumber) {
  SandboxDir box;
  box.write("f", "1\n2\n3\n4\n5\n");
  ReadRequest read = request("f");
  read.offset = 2;
  read.limit = 2;
  EXPECT_EQ(read_file(box.open(), read)->content, "2\n3\n");
  read.line_numbers = true;
  EXPECT_EQ(read_file(box.open(), read)->content, "     2\t2\n     3\t3\n");
  read.offset = 99;
  EXPECT_EQ(read_file(box.open(), read)->content, "");
}

TEST(Read, GivesBytesByOffset) {
  SandboxDir box;
  box.write("f", "0123456789");
  ReadRequest read = request("f");
  read.byte_offset = 3;
  read.byte_limit = 4;
  EXPECT_EQ(read_file(box.open(), read)->content, "3456");
  read.byte_offset = 100;
  EXPECT_EQ(read_file(box.open(), read)->content, "");
}

TEST(Read, AnEmptyFileIsEmptyText) {
  SandboxDir box;
  box.write("f", "");
  const auto answer = read_file(box.open(), request("f"));
  EXPECT_EQ(answer->content, "");
  EXPECT_FALSE(answer->is_base64);
  EXPECT_EQ(answer->lines, 0U);
}

TEST(Read, CutsLongLinesWithAMarkAndCountsThem) {
  SandboxDir box;
  std::string text(5000, 'x');
  text += "\nshort\n";
  box.write("f", text);
  ReadRequest read = request("f");
  read.line_numbers = true;
  const auto answer = read_file(box.open(), read);
  EXPECT_EQ(answer->cut_lines, 1U);
  EXPECT_NE(answer->content.find("x\xe2\x80\xa6[3000 more bytes]\n     2\tshort\n"), std::string::npos);
}

TEST(Read, PagesJoinToTheFileAndEachFitsItsEscapedSize) {
  SandboxDir box;
  std::string text;
  for (int i = 0; i < 3000; ++i)
    text += std::string(static_cast<std::size_t>(i % 70), i % 3 == 0 ? '"' : '\x01') + "\xe2\x82\xac\n";
  text += std::string(5000, '\\');
  box.write("f", text);
  ReadRequest read = request("f");
  read.max_bytes = 1000;
  std::string joined;
  int pages = 0;
  do {
    const auto answer = read_file(box.open(), read);
    ASSERT_TRUE(answer) << answer.error().describe();
    ASSERT_LE(escaped_size(answer->content), 1000U);
    ASSERT_TRUE(is_utf8(answer->content));
    joined += answer->content;
    read.cursor = answer->cursor;
    ++pages;
  } while (!read.cursor.empty() && pages < 10000);
  EXPECT_EQ(joined, text);
}

TEST(Read, BinaryComesAsBase64OrIsRefusedAsAsked) {
  SandboxDir box;
  const std::string bytes("ELF\0\xff\xfe", 6);
  box.write("f", bytes);
  const auto answer = read_file(box.open(), request("f"));
  EXPECT_TRUE(answer->is_base64);
  EXPECT_TRUE(answer->is_binary);
  EXPECT_EQ(from_base64(answer->content), bytes);
  ReadRequest read = request("f");
  read.encoding = ReadRequest::Encoding::utf8;
  EXPECT_EQ(read_file(box.open(), read).error().code, Code::invalid_params);
}

TEST(Read, Latin1ComesAsBase64SoThatNoByteIsLost) {
  SandboxDir box;
  box.write("f", "caf\xe9\n");
  const auto answer = read_file(box.open(), request("f"));
  EXPECT_TRUE(answer->is_base64);
  EXPECT_EQ(from_base64(answer->content), "caf\xe9\n");
}

TEST(Read, LargeBinaryComesInPages) {
  SandboxDir box;
  std::string bytes;
  for (int i = 0; i < 100000; ++i) bytes += static_cast<char>(i * 31 % 256);
  box.write("f", bytes);
  ReadRequest read = request("f");
  read.max_bytes = 4000;
  std::string joined;
  do {
    const auto answer = read_file(box.open(), read);
    ASSERT_TRUE(answer);
    ASSERT_LE(answer->content.size(), 4000U);
    joined += *from_base64(answer->content);
    read.cursor = answer->cursor;
  } while (!read.cursor.empty());
  EXPECT_EQ(joined, bytes);
}

// All pages of a request, joined.
std::string pages_of(const SandboxDir& box, ReadRequest read, std::size_t* pages = nullptr) {
  std::string joined;
  do {
    const auto answer = read_file(box.open(), read);
    if (!answer) return answer.error().describe();
    joined += answer->is_base64 ? *from_base64(answer->content) : std::string(answer->content);
    if (pages != nullptr) ++*pages;
    read.cursor = answer->cursor;
  } while (!read.cursor.empty());
  return joined;
}

TEST(Read, PagesEndWhereTheFirstRequestSaid) {
  SandboxDir box;
  std::string text;
  for (int i = 0; i < 1000; ++i) text += "line " + std::to_string(i) + "\n";
  box.write("f", text);
  ReadRequest lines = request("f");
  lines.max_bytes = 64;
  lines.offset = 3;
  lines.limit = 20;
  std::size_t pages = 0;
  EXPECT_EQ(pages_of(box, lines, &pages),
            text.substr(text.find("line 2\n"), text.find("line 22\n") - text.find("line 2\n")));
  EXPECT_GT(pages, 2U);
  ReadRequest bytes = request("f");
  bytes.max_bytes = 64;
  bytes.byte_offset = 5;
  bytes.byte_limit = 300;
  EXPECT_EQ(pages_of(box, bytes), text.substr(5, 300));
  bytes.encoding = ReadRequest::Encoding::base64;
  EXPECT_EQ(pages_of(box, bytes), text.substr(5, 300));
  lines.encoding = ReadRequest::Encoding::base64;
  EXPECT_EQ(pages_of(box, lines), text.substr(text.find("line 2\n"), text.find("line 22\n") - text.find("line 2\n")));
}

TEST(Read, LinesOfOtherEncodingsAreCountedToo) {
  SandboxDir box;
  box.write("f", "a\nb\xe9\nc\nd\n");
  ReadRequest read = request("f");
  read.offset = 2;
  read.limit = 1;
  const auto answer = read_file(box.open(), read);
  EXPECT_TRUE(answer->is_base64);
  EXPECT_EQ(from_base64(answer->content), "b\xe9\n");
}

TEST(Read, LineNumbersGoOnBehindAPageOfBase64) {
  SandboxDir box;
  std::string text = "\xe9\n";
  for (int i = 2; i < 100; ++i) text += "line\n";
  box.write("f", text);
  ReadRequest read = request("f");
  read.line_numbers = true;
  read.max_bytes = 64;
  auto answer = read_file(box.open(), read);
  ASSERT_TRUE(answer->is_base64);
  const std::string content = *from_base64(answer->content);
  const auto newlines = static_cast<std::uint64_t>(std::count(content.begin(), content.end(), '\n'));
  read.cursor = answer->cursor;
  answer = read_file(box.open(), read);
  EXPECT_EQ(answer->first_line, newlines + 1);
}

TEST(Read, ALineThatIsCutIsCountedAndPassedAsAWhole) {
  SandboxDir box;
  box.write("f", std::string(600'000, 'x') + "\nlast\n");
  ReadRequest read = request("f");
  read.line_numbers = true;
  for (const std::size_t most : {std::size_t{3000}, kDefaultPageBytes}) {
    read.max_bytes = most;
    const auto answer = read_file(box.open(), read);
    EXPECT_NE(answer->content.find("[598000 more bytes]\n     2\tlast\n"), std::string_view::npos) << most;
    EXPECT_EQ(answer->cursor, "");
  }
}

TEST(Read, ARangeThatCutsACharacterIsNotTheFilesFault) {
  SandboxDir box;
  box.write("f", "a\xc3\xa9z");
  ReadRequest read = request("f");
  read.byte_offset = 0;
  read.byte_limit = 2;
  read.encoding = ReadRequest::Encoding::utf8;
  EXPECT_NE(read_file(box.open(), read).error().message.find("cuts a character"), std::string::npos);
  box.write("f", "a\xe9z");
  read.byte_limit = 3;
  EXPECT_NE(read_file(box.open(), read).error().message.find("not UTF-8"), std::string::npos);
}

TEST(Read, StopsWhenItShould) {
  SandboxDir box;
  box.write("f", "");
  ASSERT_EQ(::truncate(box.path("f").c_str(), off_t{1} << 40), 0);
  ReadRequest hashed = request("f"), by_line = request("f");
  hashed.want_sha256 = true;
  by_line.offset = 2;
  for (const ReadRequest& read : {hashed, by_line}) {
    const Stop late(std::chrono::steady_clock::now());
    EXPECT_EQ(read_file(box.open(), read, late).error().code, Code::timeout);
    Stop cancelled;
    cancelled.cancel();
    EXPECT_EQ(read_file(box.open(), read, cancelled).error().code, Code::cancelled);
  }
}

TEST(Read, AFileWithoutSizeOrEndIsReadAsFarAsFilesAreCounted) {
  const Roots roots = *Roots::open({"/proc"});
  ReadRequest read = request(std::to_string(::getppid()) + "/pagemap");  // hundreds of gigabytes
  read.max_bytes = 4096;
  const auto answer = read_file(roots, read);
  ASSERT_TRUE(answer) << answer.error().describe();
  EXPECT_LE(answer->size, kMaxCountedBytes);
}

TEST(Read, AFileWithoutSizeIsReadToItsEndThoughItIsLargerThanAPage) {
  const Roots roots = *Roots::open({"/proc"});
  std::ifstream file("/proc/kallsyms");
  const std::string whole{std::istreambuf_iterator<char>(file), {}};
  if (whole.size() < 2 * kMaxPageBytes) GTEST_SKIP() << "the kernel shows few symbols";
  ReadRequest read = request("kallsyms");
  read.byte_offset = whole.size() - 10;
  const auto answer = read_file(roots, read);
  ASSERT_TRUE(answer) << answer.error().describe();
  EXPECT_EQ(answer->size, whole.size());
  EXPECT_EQ(answer->content, whole.substr(whole.size() - 10));
}

TEST(Read, RefusesAForgedCursor) {
  SandboxDir box;
  box.write("f", "x");
  ReadRequest read = request("f");
  for (const char* cursor :
       {"x", "1", "1:2", "1:2:3", "1:2:-:-:", ":1:-:-", "1:2x:-:-", "-:2:-:-", "1:-:-:-", "-1:2:-:-", "1:2:-:"}) {
    read.cursor = cursor;
    EXPECT_EQ(read_file(box.open(), read).error().code, Code::invalid_params) << cursor;
  }
  read.cursor = "99999999999:5:-:-";
  EXPECT_EQ(read_file(box.open(), read)->content, "");
}

TEST(Read, AProcFileHasContentThoughItHasNoSize) {
  const Roots roots = *Roots::open({"/proc"});
  EXPECT_NE(read_file(roots, request("meminfo"))->content.find("MemFree:"), std::string::npos);
}

TEST(Read, ALongLinesNumberIsOnItsFirstPieceOnly) {
  SandboxDir box;
  box.write("f", "one\n" + std::string(150, 'x') + "\nthree\n");
  ReadRequest read;
  read.path = "f";
  read.line_numbers = true;
  read.max_bytes = 64;
  std::string all;
  do {
    const auto answer = read_file(box.open(), read);
    ASSERT_TRUE(answer) << answer.error().describe();
    all += answer->content;
    read.cursor = answer->cursor;
  } while (!read.cursor.empty());
  EXPECT_EQ(all, "     1\tone\n     2\t" + std::string(150, 'x') + "\n     3\tthree\n");
}

TEST(Read, ACursorOfAnotherRequestIsRefused) {
  SandboxDir box;
  std::string text;
  for (int i = 0; i < 100; ++i) text += "line\n";
  box.write("f", text);
  ReadRequest read;
  read.path = "f";
  read.offset = 10;
  read.limit = 50;
  read.max_bytes = 64;
  const auto first = read_file(box.open(), read);
  ASSERT_TRUE(first);
  read.cursor = first->cursor;
  EXPECT_TRUE(read_file(box.open(), read)) << "the same request goes on";
  const auto refused = [&](ReadRequest other) {
    other.path = "f";
    other.cursor = first->cursor;
    const auto answer = read_file(box.open(), other);
    return !answer && answer.error().details_json == R"({"field":"params.cursor"})";
  };
  ReadRequest later, bytes, shorter;
  later.offset = 60;
  bytes.byte_offset = 1;
  shorter.limit = 3;
  EXPECT_TRUE(refused(later));
  EXPECT_TRUE(refused(bytes));
  EXPECT_TRUE(refused(shorter));
}

}  // namespace
}  // namespace sallyport::worker
