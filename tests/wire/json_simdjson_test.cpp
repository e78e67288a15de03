// Our reader beside simdjson's: over many broken and mended documents both must accept the same ones, and
// read the same values. Where ours is stricter it says why.
#include <gtest/gtest.h>
#include <simdjson.h>

#include <random>

#include "wire/wire.h"

namespace sallyport::wire {
namespace {

namespace dom = simdjson::dom;

void write(JsonWriter& json, dom::element element) {
  switch (element.type()) {
    case dom::element_type::OBJECT:
      json.begin_object();
      for (const auto [key, value] : dom::object(element)) {
        json.key(key);
        write(json, value);
      }
      json.end_object();
      break;
    case dom::element_type::ARRAY:
      json.begin_array();
      for (const dom::element item : dom::array(element)) write(json, item);
      json.end_array();
      break;
    case dom::element_type::STRING:
      json.value(std::string_view(element));
      break;
    case dom::element_type::INT64:
      json.value(std::int64_t(element));
      break;
    case dom::element_type::UINT64:
      json.value(std::uint64_t(element));
      break;
    case dom::element_type::DOUBLE:
      json.value(double(element));
      break;
    case dom::element_type::BOOL:
      json.value(bool(element));
      break;
    case dom::element_type::NULL_VALUE:
      json.null();
  }
}

class BesideSimdjson : public ::testing::Test {
 protected:
  void expect_same(const std::string& text) {
    auto ours = decoder_.parse(text);
    dom::element theirs;
    const bool is_accepted = parser_.parse(text).get(theirs) == simdjson::SUCCESS;
    if (ours) {
      ASSERT_TRUE(is_accepted) << text;
      EXPECT_EQ(ours->root().to_json(), to_json([&](JsonWriter& json) { write(json, theirs); })) << text;
      ++accepted_;
      return decoder_.recycle(std::move(*ours));
    }
    const std::string& why = ours.error().message;
    const bool is_strict = why.ends_with("duplicate key") || why.ends_with("lone surrogate in a string") ||
                           why.ends_with("nested deeper than 32");
    EXPECT_TRUE(!is_accepted || is_strict) << why << ": " << text;
    ++refused_;
  }

  Decoder decoder_;
  dom::parser parser_;
  int accepted_ = 0, refused_ = 0;
};

const std::vector<std::string> kSeeds = {
    R"({"id":"1","type":"request","method":"test.echo","params":{"data":[1,"two",null,{"$stream":3}]}})",
    R"({"id":"1","type":"response","error":{"code":"TIMEOUT","message":"late","retryable":true}})",
    R"([0,-1,12345678901234567890,-9223372036854775808,9223372036854775807,18446744073709551615,1.5e300,-2.5E-3])",
    R"([36028797018963967,36028797018963968,-36028797018963967,-36028797018963968,1e-400,0.1,123456789.125,-0,-0.0])",
    R"({"a":"\u00e9\ud83d\ude00 \"\\\/\b\f\n\r\t","ü":"größer 😀 as a long text of several vectors, 16 bytes each"})",
    R"( { "nested" : [ [ [ { "deep" : [ true , false , null ] } ] ] , { } , [ ] , "" ] } )",
};

TEST_F(BesideSimdjson, ReadsTheSeedsAlike) {
  for (const std::string& seed : kSeeds) expect_same(seed);
  EXPECT_EQ(accepted_, static_cast<int>(kSeeds.size()));
}

TEST_F(BesideSimdjson, AcceptsAndReadsTheSameMutations) {
  std::mt19937 random(20'261'116);
  constexpr std::string_view kAlphabet = "{}[]\",:\\u0123456789abcdefn.eE+-truefals \t\n\x01\x7f\x80\xc3\xa9\xed\xf0";
  for (int i = 0; i < 60'000; ++i) {
    std::string text = kSeeds[random() % kSeeds.size()];
    for (std::size_t changes = 1 + random() % 3; changes != 0 && !text.empty(); --changes) {
      const std::size_t at = random() % text.size();
      const char with = kAlphabet[random() % kAlphabet.size()];
      switch (random() % 4) {
        case 0:
          text[at] = with;
          break;
        case 1:
          text.insert(at, 1, with);
          break;
        case 2:
          text.erase(at, 1 + random() % 4);
          break;
        default:
          text.insert(at, text.substr(random() % text.size(), random() % 12));
      }
    }
    expect_same(text);
    if (HasFatalFailure()) return;
  }
  EXPECT_GT(accepted_, 1'000);
  EXPECT_GT(refused_, 1'000);
}

TEST_F(BesideSimdjson, ReadsTheSameNumbers) {
  std::mt19937_64 random(7);
  for (int i = 0; i < 20'000; ++i) {
    std::string text = random() % 2 == 0 ? "-" : "";
    for (std::uint64_t digits = 1 + random() % 25; digits != 0; --digits)
      text += static_cast<char>('0' + random() % 10);
    if (random() % 2 == 0) text += "." + std::to_string(random());
    if (random() % 3 == 0) text += (random() % 2 == 0 ? "e" : "E-") + std::to_string(random() % 340);
    expect_same("[" + text + "]");
    if (HasFatalFailure()) return;
  }
  EXPECT_GT(accepted_, 5'000);
}

TEST_F(BesideSimdjson, ReadsStringsOfEveryLengthAlike) {
  for (std::size_t length = 0; length < 70; ++length) {
    for (std::size_t at = 0; at <= length; ++at) {
      for (const char* piece : {"é", "\\n", "\\u20ac", "\\ud83d\\ude00", "😀", "\xff", "\\ud83d", "\n"}) {
        std::string text(length, 'x');
        text.insert(at, piece);
        expect_same("\"" + text + "\"");
      }
    }
  }
}

// Blocks of 64 bytes with runs of backslashes that begin in one and end in the next, and what they hide.
TEST_F(BesideSimdjson, ReadsLongStringsFullOfEscapesAlike) {
  const std::vector<std::string> pieces = {"\\\\", "\\\"", "\\n", "\\", "\\u20ac", "é", "x", "a few plain words",
                                           "\"",   "\x01"};
  std::mt19937 random(64);
  for (int i = 0; i < 20'000; ++i) {
    // Most are valid: the pieces that end a string or are none are rare.
    const std::size_t kinds = random() % 4 == 0 ? pieces.size() : 3;
    std::string text;
    for (std::size_t left = random() % 120; left != 0; --left) text += pieces[random() % kinds];
    expect_same("[\"" + text + "\",\"behind it\"]");
    if (HasFatalFailure()) return;
    // What is only passed on is looked at in another way, and must be judged alike.
    const std::string head = R"({"id":"1","type":"response","result":)", result = "[\"" + text + R"(","behind it"])";
    const std::string message = head + result + "}";
    auto read = decode_message(decoder_, as_bytes(message)),
         kept = decode_message(decoder_, as_bytes(message), Keep::result);
    ASSERT_EQ(static_cast<bool>(read), static_cast<bool>(kept)) << message;
    if (kept) {
      EXPECT_EQ(kept->result.as_raw(), result);
    }
  }
  EXPECT_GT(accepted_, 5'000);
  EXPECT_GT(refused_, 2'000);
}

}  // namespace
}  // namespace sallyport::wire
