#include <gtest/gtest.h>

#include <cstring>

#include "support/wire.h"

namespace sallyport::wire {
namespace {

Status parse(std::string_view text) {
  Decoder decoder;
  if (auto document = decoder.parse(text); !document) return std::move(document).error();
  return ok();
}

std::string problem(std::string_view text) {
  const Status parsed = parse(text);
  return parsed ? "accepted" : parsed.error().message;
}

std::string nested(std::size_t depth, std::string_view bottom = {}) {
  return std::string(depth, '[') + std::string(bottom) + std::string(depth, ']');
}

// Pads with white space, so that the parser for large documents is used.
std::string large(std::string text) { return text + std::string(8192, ' '); }

TEST(Decoder, NestingUpToTheLimitIsReadAndOneMoreIsRefused) {
  for (const bool is_large : {false, true}) {
    const auto sized = [&](std::string text) { return is_large ? large(std::move(text)) : text; };
    // Empty at the bottom, a scalar at the bottom, objects: the same limit for all.
    for (const char* bottom : {"", "1", R"({"a":1})", "{}"}) {
      const std::size_t own = bottom[0] == '{' ? 1 : 0;
      EXPECT_EQ(problem(sized(nested(kMaxDepth - own, bottom))), "accepted") << bottom;
      EXPECT_EQ(problem(sized(nested(kMaxDepth + 1 - own, bottom))), "malformed JSON: nested deeper than 32") << bottom;
    }
  }
}

TEST(Decoder, NestingOfAHundredThousandIsRefusedWithoutRecursion) {
  EXPECT_FALSE(parse(nested(100'000)));
  EXPECT_FALSE(parse(std::string(100'000, '[')));
  std::string objects;
  for (int i = 0; i < 100'000; ++i) objects += R"({"a":)";
  EXPECT_FALSE(parse(objects));
}

TEST(Decoder, KeepsItsDepthLimitAfterALargeDocument) {
  Decoder decoder;
  EXPECT_TRUE(decoder.parse(large("[1]")));
  EXPECT_FALSE(decoder.parse(nested(kMaxDepth + 1)));
  EXPECT_FALSE(decoder.parse(large(nested(kMaxDepth + 1))));
  decoder.trim();
  EXPECT_FALSE(decoder.parse(large(nested(kMaxDepth + 1))));
}

TEST(Decoder, DuplicateKeysAreRefused) {
  EXPECT_EQ(problem(R"({"a":1,"a":2})"), "malformed JSON: duplicate key");
  EXPECT_EQ(problem(R"({"x":[{"b":{"a":1,"c":2,"a":2}}]})"), "malformed JSON: duplicate key");
  EXPECT_TRUE(parse(R"({"a":{"a":{"a":1}}})"));
}

TEST(Decoder, DuplicateKeysSpelledWithEscapesAreRefused) {
  EXPECT_EQ(problem(R"({"a":1,"\u0061":2})"), "malformed JSON: duplicate key");
  EXPECT_EQ(problem(R"({"/":1,"\/":2})"), "malformed JSON: duplicate key");
  EXPECT_EQ(problem(R"({"😀":1,"\ud83d\ude00":2})"), "malformed JSON: duplicate key");
  EXPECT_EQ(problem(R"({"":1,"":2})"), "malformed JSON: duplicate key");
}

TEST(Decoder, DuplicateKeysAmongManyAreFoundWhereverTheyStand) {
  for (const std::size_t twin : {std::size_t{0}, std::size_t{15}, std::size_t{16}, std::size_t{63}}) {
    std::string text = "{";
    for (std::size_t i = 0; i < 64; ++i) text += "\"k" + std::to_string(i) + "\":1,";
    EXPECT_TRUE(parse(text + "\"last\":1}"));
    EXPECT_EQ(problem(text + "\"k" + std::to_string(twin) + "\":1}"), "malformed JSON: duplicate key") << twin;
  }
}

// Chosen for the place that they get in a table of 512, as somebody would who wants each to be compared with all
// others.
TEST(Decoder, KeysThatAreMadeToCollideAreToldApart) {
  std::string text = "{", last;
  int found = 0;
  for (std::uint64_t i = 10'000'000; found < 200; ++i) {
    const std::string key = std::to_string(i);
    std::uint64_t block = 0;
    std::memcpy(&block, key.data(), 8);
    std::uint64_t mixed = (8 ^ block) * 0x9e3779b97f4a7c15U;
    mixed ^= mixed >> 29;
    if ((mixed & 511) != 0) continue;
    ++found;
    last = "\"" + key + "\":1";
    text += last + ",";
  }
  EXPECT_TRUE(parse(text + "\"x\":1}"));
  EXPECT_EQ(problem(text + last + "}"), "malformed JSON: duplicate key");
}

TEST(Decoder, KeysThatDifferOnlyBehindANulAreDifferent) {
  EXPECT_TRUE(parse(R"({"a\u0000b":1,"a\u0000c":2,"a":3})"));
  EXPECT_FALSE(parse(R"({"a\u0000b":1,"a\u0000b":2})"));
}

TEST(Decoder, AsManyKeysAsAFrameHoldsAreReadAndADuplicateAmongThemIsFound) {
  std::string text = "{";
  for (int i = 0; text.size() < kMaxFrameBytes - 20; ++i) text += "\"" + std::to_string(i) + "\":1,";
  EXPECT_TRUE(parse(text + "\"x\":1}"));
  EXPECT_EQ(problem(text + "\"77\":1}"), "malformed JSON: duplicate key");
}

TEST(Decoder, NumbersThatJsonDoesNotKnowAreRefused) {
  for (const char* text : {"NaN", "Infinity", "-Infinity", "1e999", "-1e999", "01", "1.", ".5", "+1", "0x10", "1e",
                           "--1", R"({"a":NaN})", "[1e400]"}) {
    EXPECT_FALSE(parse(text)) << text;
  }
}

TEST(Decoder, LargeIntegersAreExactOrRefused) {
  Decoder decoder;
  auto largest = decoder.parse("18446744073709551615");
  ASSERT_TRUE(largest);
  EXPECT_EQ(largest->root().as_uint(), UINT64_MAX);
  EXPECT_FALSE(largest->root().as_int());
  auto least = decoder.parse("-9223372036854775808");
  ASSERT_TRUE(least);
  EXPECT_EQ(least->root().as_int(), INT64_MIN);
  EXPECT_FALSE(parse("18446744073709551616"));
  EXPECT_FALSE(parse("-9223372036854775809"));
  EXPECT_FALSE(parse("100000000000000000000000"));
}

TEST(Decoder, AFloatIsNoInteger) {
  Decoder decoder;
  auto one = decoder.parse("1.0");
  ASSERT_TRUE(one);
  EXPECT_FALSE(one->root().as_int());
  EXPECT_EQ(one->root().as_double(), 1.0);
}

TEST(Decoder, LoneSurrogatesAreRefused) {
  for (const char* text :
       {R"("\ud800")", R"("\udc00")", R"("\ud800x")", R"("\udfffx")", R"("\ud800\ud800")", R"("\udc00\ud800")",
        R"({"\udc00":1})", R"({"a":["\udead"]})", R"({"\ud83d":1})", "\"\xed\xa0\x80\"", "\"\xed\xb0\x80\""}) {
    EXPECT_FALSE(parse(text)) << text;
  }
  EXPECT_TRUE(parse(R"("\ud83d\ude00")"));
}

TEST(Decoder, LoneSurrogatesAreRefusedInLargeDocumentsToo) {
  EXPECT_FALSE(parse(large(R"({"a":"\udc00"})")));
  EXPECT_FALSE(parse(large(R"({"a":"\ud800"})")));
}

TEST(Decoder, BytesThatAreNoUtf8AreRefused) {
  for (const char* text : {"\"\xff\"", "\"\xc0\x80\"", "\"\xe2\x82\"", "\"\xf8\x88\x80\x80\x80\"", "{\"\x80\":1}",
                           "\"\xf4\x90\x80\x80\""}) {
    EXPECT_FALSE(parse(text)) << text;
  }
}

TEST(Decoder, RawControlCharactersAndNulAreRefusedAndEscapedOnesKept) {
  EXPECT_FALSE(parse(std::string_view("\"a\0b\"", 5)));
  EXPECT_FALSE(parse(std::string_view("{}\0", 3)));
  EXPECT_FALSE(parse("\"a\nb\""));
  Decoder decoder;
  auto text = decoder.parse(R"("a\u0000b")");
  ASSERT_TRUE(text);
  EXPECT_EQ(text->root().as_string(), std::string_view("a\0b", 3));
}

TEST(Decoder, AByteOrderMarkIsRefused) { EXPECT_FALSE(parse("\xef\xbb\xbf{}")); }

TEST(Decoder, TwoDocumentsAreRefused) {
  for (const char* text : {"{}{}", "{} {}", "{},{}", "1 2", "{}x", "[]]", "{}\n{}"}) EXPECT_FALSE(parse(text)) << text;
}

TEST(Decoder, WhatIsNoJsonIsRefused) {
  for (const char* text : {"", " ", "{", "}", "{\"a\"}", "{\"a\":}", "{a:1}", "{'a':1}", "[1,]", "{\"a\":1,}",
                           "// x\n{}", "\"\\x41\"", "\"\\u12\"", "tru", "nul", "undefined", "\"open"}) {
    EXPECT_FALSE(parse(text)) << text;
  }
}

TEST(Decoder, ADocumentOutlivesTheNextParse) {
  Decoder decoder;
  auto first = decoder.parse(R"({"name":"first"})");
  auto second = decoder.parse(R"({"name":"second"})");
  ASSERT_TRUE(first && second);
  EXPECT_EQ(first->root().get("name").as_string(), "first");
  EXPECT_EQ(second->root().get("name").as_string(), "second");
}

TEST(Value, OfTheWrongTypeIsAbsentNotConverted) {
  Decoder decoder;
  auto document = decoder.parse(R"({"n":1,"s":"1","b":true,"z":null,"a":[1,2],"o":{"k":1}})");
  ASSERT_TRUE(document);
  const Value root = document->root();
  EXPECT_FALSE(root.get("s").as_int());
  EXPECT_FALSE(root.get("n").as_string());
  EXPECT_FALSE(root.get("n").as_bool());
  EXPECT_TRUE(root.get("z").is_null());
  EXPECT_TRUE(root.get("z").exists());
  EXPECT_FALSE(root.get("nothing").exists());
  EXPECT_FALSE(root.get("nothing").get("at").get("all").exists());
  EXPECT_EQ(root.get("a").size(), 2U);
  EXPECT_EQ(root.get("o").size(), 1U);
  EXPECT_EQ(root.get("n").size(), 0U);
  EXPECT_EQ(root.to_json(), R"({"n":1,"s":"1","b":true,"z":null,"a":[1,2],"o":{"k":1}})");
}

}  // namespace
}  // namespace sallyport::wire
