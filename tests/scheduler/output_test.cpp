// Structured output, as an agent writes it and as one would that wants to be misread.
#include <gtest/gtest.h>

#include "containers/output.h"

namespace sallyport::containers {
namespace {

TakenOutput take(std::string_view text, std::uint64_t cursor = 0, bool is_over = false) {
  LogRing ring;
  ring.append(text);
  return take_output(ring, cursor, is_over);
}

TEST(StructuredOutput, TakesMessagesAndProgressInOrder) {
  const auto taken = take("{\"type\":\"message\",\"text\":\"one\"}\n{\"text\":\"two\",\"type\":\"progress\"}\n\n");
  ASSERT_EQ(taken.lines.size(), 2U);
  EXPECT_EQ(taken.lines[0].text, "one");
  EXPECT_EQ(taken.lines[0].kind, OutputLine::Kind::message);
  EXPECT_EQ(taken.lines[1].kind, OutputLine::Kind::progress);
  EXPECT_EQ(taken.malformed, 0U);
}

TEST(StructuredOutput, GoesOnWhereItWas) {
  LogRing ring;
  ring.append("{\"type\":\"message\",\"text\":\"one\"}\n{\"type\":\"mess");
  const auto first = take_output(ring, 0, false);
  EXPECT_EQ(first.lines.size(), 1U);
  ring.append("age\",\"text\":\"two\"}\n");
  const auto second = take_output(ring, first.cursor, false);
  ASSERT_EQ(second.lines.size(), 1U);
  EXPECT_EQ(second.lines[0].text, "two");
  EXPECT_EQ(take_output(ring, second.cursor, true).lines.size(), 0U);
}

TEST(StructuredOutput, TakesALastLineWithoutANewlineOnlyWhenNothingMoreComes) {
  const std::string_view line = "{\"type\":\"message\",\"text\":\"end\"}";
  EXPECT_EQ(take(line).lines.size(), 0U);
  EXPECT_EQ(take(line).cursor, 0U);
  EXPECT_EQ(take(line, 0, true).lines.size(), 1U);
}

TEST(StructuredOutput, CountsWhatIsMalformed) {
  for (const char* line :
       {"hello", "[]", "{}", "null", "{\"type\":\"message\"}", "{\"type\":\"message\",\"text\":1}",
        "{\"type\":\"other\",\"text\":\"x\"}", "{\"type\":\"message\",\"text\":\"x\",\"container\":\"other\"}",
        "{\"type\":\"message\",\"type\":\"message\",\"text\":\"x\"}", "{\"type\":\"message\",\"text\":\"x\"} x",
        "{\"type\":\"message\",\"text\":\"\xff\"}", "{\"type\":\"message\",\"text\":\"\\ud800\"}"}) {
    const auto taken = take(std::string(line) + "\n");
    EXPECT_EQ(taken.lines.size(), 0U) << line;
    EXPECT_EQ(taken.malformed, 1U) << line;
  }
}

TEST(StructuredOutput, RefusesALineAboveTheCap) {
  const std::string frame = "{\"type\":\"message\",\"text\":\"\"}";
  const std::string fits(kMaxOutputLine - frame.size(), 'x');
  const auto line = [](const std::string& text) { return "{\"type\":\"message\",\"text\":\"" + text + "\"}\n"; };
  EXPECT_EQ(take(line(fits)).lines.size(), 1U);
  EXPECT_EQ(take(line(fits + "x")).malformed, 1U);
}

TEST(LogRing, TakesNoMoreMemoryThanForWhatItKeepsOnceNothingMoreComes) {
  LogRing ring;
  for (int i = 0; i < 2000; ++i) ring.append(std::string(1000, static_cast<char>('a' + i % 26)));
  const std::string before(ring.tail());
  EXPECT_GT(ring.capacity(), LogRing::kMostBytes);
  ring.settle();
  EXPECT_EQ(ring.tail(), before);
  EXPECT_EQ(ring.capacity(), LogRing::kMostBytes);
  EXPECT_EQ(ring.total(), 2'000'000U);
}

TEST(StructuredOutput, SaysWhatTheRingLost) {
  LogRing ring;
  const std::string line = "{\"type\":\"message\",\"text\":\"" + std::string(1000, 'x') + "\"}\n";
  for (int i = 0; i < 1000; ++i) ring.append(line);
  const auto taken = take_output(ring, line.size(), false);
  EXPECT_GT(taken.lines.size(), 200U);
  EXPECT_EQ(taken.malformed, 0U);
  EXPECT_EQ(taken.lost_bytes + taken.lines.size() * line.size() + line.size(), ring.total());
  EXPECT_EQ(taken.cursor, ring.total());
}

}  // namespace
}  // namespace sallyport::containers
