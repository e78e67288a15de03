#include "base/bytes.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <string>

#include "base/log.h"
#include "base/random.h"
#include "base/unique_fd.h"

namespace sallyport {
namespace {

TEST(Bytes, AppendsAndErasesFromTheFront) {
  Bytes bytes;
  bytes.append("hello ");
  bytes.append("world");
  bytes.erase_front(6);
  EXPECT_EQ(as_text(bytes.view()), "world");
}

TEST(Bytes, KeepsItsContentWhenItGrows) {
  Bytes bytes;
  for (int i = 0; i < 1000; ++i) bytes.append("0123456789");
  EXPECT_EQ(bytes.size(), 10000U);
  EXPECT_EQ(as_text(bytes.view()).substr(9990), "0123456789");
}

TEST(Encoding, RoundTripsEveryLength) {
  for (std::size_t length = 0; length < 70; ++length) {
    std::string raw(length, '\0');
    fill_random({reinterpret_cast<std::uint8_t*>(raw.data()), raw.size()});
    EXPECT_EQ(from_hex(to_hex(as_bytes(raw))), raw);
    EXPECT_EQ(from_base64url(to_base64url(as_bytes(raw))), raw);
  }
}

TEST(Encoding, RefusesASecondSpellingOfTheSameBytes) {
  EXPECT_EQ(to_base64url(as_bytes("a")), "YQ");
  EXPECT_TRUE(from_base64url("YQ"));
  EXPECT_FALSE(from_base64url("YR"));
  EXPECT_FALSE(from_base64url("Y"));
  EXPECT_FALSE(from_base64url("YQ=="));
  EXPECT_FALSE(from_hex("abc"));
  EXPECT_FALSE(from_hex("zz"));
}

TEST(Encoding, Base64GoesThereAndBackAndIsStrict) {
  for (const std::string text : {"", "f", "fo", "foo", "foob"}) EXPECT_EQ(from_base64(to_base64(text)), text);
  EXPECT_EQ(to_base64("foob"), "Zm9vYg==");
  for (const char* bad : {"Zg", "Zh==", "Z===", "Zg==Zg==", "Z g="}) EXPECT_FALSE(from_base64(bad)) << bad;
}

// What one line looks like where it is written.
std::string line_of(LogFormat format, LogLevel level, std::string_view event, Log::Fields fields) {
  std::array<int, 2> ends{};
  EXPECT_EQ(::pipe(ends.data()), 0);
  const UniqueFd out{ends[0]}, in{ends[1]};
  const SystemClock clock;
  Log(in.get(), format, LogLevel::info, clock).write(level, event, fields);
  std::string line(8192, '\0');
  line.resize(static_cast<std::size_t>(::read(out.get(), line.data(), line.size())));
  return line;
}

TEST(Log, AFieldCannotStartANewLineOrMoveTheCursor) {
  const std::string line = line_of(LogFormat::text, LogLevel::info, "event", {{"name", "a\nb\x1b[2J\xff\"\u202e"}});
  EXPECT_NE(line.find(R"(name="a\nb\u001b[2J\u00ff\"\u202e")"), std::string::npos) << line;
  EXPECT_EQ(line.find('\n'), line.size() - 1);
}

TEST(Log, WritesJsonWithNumbersUnquoted) {
  const std::string line =
      line_of(LogFormat::json, LogLevel::warn, "x", {{"n", 7}, {"least", INT64_MIN}, {"most", UINT64_MAX}, {"s", "t"}});
  EXPECT_NE(
      line.find(
          R"("level":"warn","event":"x","n":7,"least":-9223372036854775808,"most":18446744073709551615,"s":"t"})"),
      std::string::npos)
      << line;
}

TEST(Log, ALongLineIsWhole) {
  const std::string line = line_of(LogFormat::text, LogLevel::info, "long", {{"all", std::string(5000, 'x')}});
  EXPECT_NE(line.find(std::string(5000, 'x') + "\n"), std::string::npos);
}

}  // namespace
}  // namespace sallyport
