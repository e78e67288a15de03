#include "worker/read.h"

#include <gtest/gtest.h>

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

TEST(Read, RefusesAForgedCursor) {
  SandboxDir box;
  box.write("f", "x");
  ReadRequest read = request("f");
  for (const char* cursor : {"x", "1", "1:", ":1", "1:2x", "-1:2"}) {
    read.cursor = cursor;
    EXPECT_EQ(read_file(box.open(), read).error().code, Code::invalid_params) << cursor;
  }
  read.cursor = "99999999999:5";
  EXPECT_EQ(read_file(box.open(), read)->content, "");
}

TEST(Read, AProcFileHasContentThoughItHasNoSize) {
  const Roots roots = *Roots::open({"/proc/self"});
  EXPECT_NE(read_file(roots, request("status"))->content.find("Threads:"), std::string::npos);
}

}  // namespace
}  // namespace sallyport::worker
