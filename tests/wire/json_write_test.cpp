#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <random>

#include "support/wire.h"

namespace sallyport::wire {
namespace {

using namespace std::string_literals;

std::string written(std::string_view text) {
  return to_json([&](JsonWriter& json) { json.value(text); });
}

std::string read_back(std::string_view json) {
  Decoder decoder;
  auto document = decoder.parse(json);
  EXPECT_TRUE(document) << json;
  return document ? std::string(document->root().as_string().value_or("not a string")) : "not JSON";
}

TEST(JsonWriter, PlacesCommasAndColons) {
  EXPECT_EQ(to_json([](JsonWriter& json) {
              json.begin_object().member("a", 1).key("b").begin_array().value(true).null().begin_object().end_object();
              json.begin_array().end_array().end_array().member("c", "x").end_object();
            }),
            R"({"a":1,"b":[true,null,{},[]],"c":"x"})");
}

TEST(JsonWriter, EscapesEveryByteThatNeedsIt) {
  EXPECT_EQ(written("\"\\\b\f\n\r\t\x01\x1f/"), R"("\"\\\b\f\n\r\t\u0001\u001f/")");
  EXPECT_EQ(written(std::string_view("\0", 1)), R"("\u0000")");
}

TEST(JsonWriter, EveryByteAtEveryPlaceOfALongTextComesBack) {
  for (int byte = 0; byte < 0x80; ++byte) {
    for (std::size_t length = 1; length <= 96; length += length < 34 ? 1 : 7) {
      for (std::size_t at = 0; at < length; ++at) {
        std::string text(length, 'x');
        text[at] = static_cast<char>(byte);
        ASSERT_EQ(read_back(written(text)), text) << byte << " at " << at << " of " << length;
      }
    }
  }
}

TEST(JsonWriter, KeepsUtf8AndReplacesOnlyWhatIsNone) {
  EXPECT_EQ(read_back(written("aé😀\u202e")), "aé😀\u202e");
  EXPECT_EQ(written("a\xff"
                    "b"),
            "\"a\ufffdb\"");
  EXPECT_EQ(written("é\x80😀\xed\xa0\x80z"), "\"é\ufffd😀\ufffd\ufffd\ufffdz\"");
  EXPECT_EQ(written("\xe2\x82"), "\"\ufffd\ufffd\"");
  EXPECT_EQ(written("\xf0\x9f\x98"), "\"\ufffd\ufffd\ufffd\"");
}

TEST(JsonWriter, WhateverBytesItIsGivenItWritesValidJson) {
  std::mt19937 random(11);
  for (int round = 0; round < 5000; ++round) {
    std::string text(random() % 40, '\0');
    for (char& c : text) c = static_cast<char>(random() % 4 == 0 ? random() % 128 : 128 + random() % 128);
    Decoder decoder;
    ASSERT_TRUE(decoder.parse(written(text))) << to_hex(as_bytes(text));
  }
}

TEST(JsonWriter, WritesTheLimitsOfIntegers) {
  EXPECT_EQ(to_json([](JsonWriter& json) {
              json.begin_array().value(INT64_MIN).value(INT64_MAX).value(UINT64_MAX).value(std::uint8_t{255});
              json.value(std::int8_t{-128}).end_array();
            }),
            "[-9223372036854775808,9223372036854775807,18446744073709551615,255,-128]");
}

TEST(JsonWriter, WritesNullForWhatJsonCannotSay) {
  EXPECT_EQ(to_json([](JsonWriter& json) {
              json.begin_array().value(std::numeric_limits<double>::quiet_NaN());
              json.value(std::numeric_limits<double>::infinity()).value(-std::numeric_limits<double>::infinity());
              json.value(Value()).end_array();
            }),
            "[null,null,null,null]");
}

TEST(JsonWriter, DoublesComeBackBitForBit) {
  std::mt19937_64 random(13);
  std::vector<double> numbers = {0.0, -0.0, 0.1, 1.0, 1e22, 1e23, 5e-324, 1.7976931348623157e308, 123456789012345680.0};
  for (int i = 0; i < 20'000; ++i) numbers.push_back(std::bit_cast<double>(random()));
  Decoder decoder;
  for (const double number : numbers) {
    if (!std::isfinite(number)) continue;
    const std::string text = to_json([&](JsonWriter& json) { json.value(number); });
    auto document = decoder.parse(text);
    ASSERT_TRUE(document) << text;
    const auto back = document->root().as_double();
    ASSERT_TRUE(back) << text;
    ASSERT_EQ(std::bit_cast<std::uint64_t>(*back), std::bit_cast<std::uint64_t>(number)) << text;
    ASSERT_FALSE(document->root().as_int()) << "a double must not come back as an integer: " << text;
  }
}

// ---- any document, written and read, is the same document ----

class RandomJson {
 public:
  explicit RandomJson(std::uint64_t seed) : random_(seed) {}

  void write(JsonWriter& json, int depth = 0) {
    switch (random_() % (depth < 8 ? 9 : 6)) {
      case 0:
        json.null();
        return;
      case 1:
        json.value(random_() % 2 == 0);
        return;
      case 2:
        json.value(static_cast<std::int64_t>(random_()) >> (random_() % 64));
        return;
      case 3:
        json.value(std::uint64_t{random_()} >> (random_() % 64));
        return;
      case 4:
        json.value(static_cast<double>(static_cast<std::int64_t>(random_())) / 1024.0);
        return;
      case 5:
        json.value(text());
        return;
      case 6:
        json.begin_array();
        for (std::uint64_t i = random_() % 5; i > 0; --i) write(json, depth + 1);
        json.end_array();
        return;
      default:
        json.begin_object();
        for (std::uint64_t i = random_() % (random_() % 20 == 0 ? 40 : 5); i > 0; --i) {
          json.key(text() + std::to_string(i));
          write(json, depth + 1);
        }
        json.end_object();
        return;
    }
  }

 private:
  std::string text() {
    static const std::vector<std::string> kPieces = {
        "a", "\"", "\\", "\n", std::string(1, '\0'), "é", "😀", "\u2028", "0123456789", "\x7f", "/", "$stream"};
    std::string text;
    for (std::uint64_t i = random_() % 12; i > 0; --i) text += kPieces[random_() % kPieces.size()];
    return text;
  }
  std::mt19937_64 random_;
};

TEST(Json, AnyDocumentWrittenAndReadIsTheSame) {
  Decoder decoder;
  for (std::uint64_t seed = 0; seed < 3000; ++seed) {
    const std::string text = to_json([&](JsonWriter& json) { RandomJson(seed).write(json); });
    auto document = decoder.parse(text);
    ASSERT_TRUE(document) << text;
    ASSERT_EQ(document->root().to_json(), text);
    decoder.recycle(std::move(*document));
  }
}

TEST(Json, ASpecialByteAnywhereInALongTextIsReadAndWritten) {
  for (const std::string& special : {"\""s, "\\"s, "\n"s, "\x01"s, "é"s, "😀"s, "\"\\\n"s, "\\\\\\"s}) {
    for (const std::size_t size : {15U, 16U, 63U, 64U, 79U, 80U, 81U, 200U}) {
      for (std::size_t at = 0; at <= size; ++at) {
        std::string text(size, 'x');
        text.insert(at, special);
        ASSERT_EQ(read_back(written(text)), text) << at << " of " << size;
        text = special + text + special;
        ASSERT_EQ(read_back(written(text)), text) << at << " of " << size;
      }
    }
  }
}

TEST(Json, ATextOfNothingButEscapesIsReadAndWritten) {
  for (const char byte : {'\n', '\x02', '"', '\\'}) {
    const std::string text(10'000, byte);
    EXPECT_EQ(read_back(written(text)), text);
  }
  EXPECT_EQ(read_back(written(std::string(5000, '\xff'))).size(), 15'000U);
}

}  // namespace
}  // namespace sallyport::wire
