// The short way through plain messages must never differ from the long one.
#include <gtest/gtest.h>

#include <random>

#include "wire/wire.h"

namespace sallyport::wire {
namespace {

std::string describe(MessageResult result) {
  if (!result) return "malformed " + result.malformed().id + " " + result.malformed().error.describe();
  std::string text = std::to_string(static_cast<int>(result->type)) + " " + std::string(result->id) + " " +
                     std::string(result->method) + " " + std::string(result->token) + " " +
                     std::to_string(result->deadline_ms.value_or(0)) + " " + result->params.to_json() + " " +
                     result->result.to_json() + " " + std::to_string(result->bytes);
  for (const std::uint32_t stream : result->streams) text += " $" + std::to_string(stream);
  if (result->error) text += result->error->describe();
  return text;
}

void expect_same(Decoder& decoder, const std::string& text) {
  Bytes body;
  body.append(text);
  EXPECT_EQ(describe(decode_message(decoder, body.view())), describe(decode_any_message(decoder, body.view()))) << text;
}

const std::vector<std::string> kMessages = {
    R"({"id":"1","type":"request","method":"test.ping"})",
    R"({"id":"1","type":"request","method":"test.ping","deadline_ms":30000})",
    R"({"id":"1","type":"request","method":"test.echo","params":{"data":[1,"two",null,{"$stream":3}]}})",
    R"({"id":"1","type":"request","method":"test.echo","deadline_ms":5,"params":{"a":{"$stream":1},"b":"\u00e9"}})",
    R"({"id":"1","type":"request","method":"test.echo","params":{"data":"x"},"deadline_ms":5,"token":"t"})",
    R"({"id":"1","type":"response","result":{"pong":true}})",
    R"({"id":"1","type":"response","result":null})",
    R"({"id":"1","type":"response","error":{"code":"TIMEOUT","message":"late","retryable":true}})",
    R"({"id":"1","type":"event","method":"progress","params":{}})",
};

TEST(PlainMessage, IsReadAsTheFullParserReadsIt) {
  Decoder decoder;
  for (const std::string& message : kMessages) expect_same(decoder, message);
}

TEST(PlainMessage, EdgesAreReadAsTheFullParserReadsThem) {
  Decoder decoder;
  for (const std::string text : {
           R"({"id":"","type":"request","method":"m"})",
           R"({"id":"a b","type":"request","method":"m"})",
           R"({"id":"1","type":"request","method":""})",
           R"({"id":"1","type":"request","method":"m"}})",
           R"({"id":"1","type":"request","method":"m","deadline_ms":0})",
           R"({"id":"1","type":"request","method":"m","deadline_ms":01})",
           R"({"id":"1","type":"request","method":"m","deadline_ms":86400000})",
           R"({"id":"1","type":"request","method":"m","deadline_ms":86400001})",
           R"({"id":"1","type":"request","method":"m","deadline_ms":5.0})",
           R"({"id":"1","type":"request","method":"m","deadline_ms":5e1})",
           R"({"id":"1","type":"request","method":"m","deadline_ms":})",
           R"({"id":"1","type":"request","method":"m","params":[]})",
           R"({"id":"1","type":"request","method":"m","params":{"a":1,"a":2}})",
           R"({"id":"1","type":"request","method":"m","params":{},"params":{}})",
           R"({"id":"1","type":"request","method":"m","params":{},"id":"2"})",
           R"({"id":"1","type":"request","method":"m","params":{"a":"\udc00"}})",
           R"({"id":"1","type":"request","method":"m","params":})",
           R"({"id":"1","type":"response","result":})",
           R"({"id":"1","type":"response","result":1,"error":{}})",
           R"({"id":"1","type":"response","result":{"a":1}{"b":2}})",
           R"({"id":"1","type":"response","result":"unfinished})",
       }) {
    expect_same(decoder, text);
  }
  expect_same(decoder, R"({"id":")" + std::string(128, 'i') + R"(","type":"request","method":")" +
                           std::string(128, 'm') + "\"}");
  expect_same(decoder, R"({"id":")" + std::string(129, 'i') + R"(","type":"request","method":"m"})");
}

TEST(PlainMessage, TheMessageItselfCountsAsALevelOfNesting) {
  Decoder decoder;
  for (const std::size_t depth : {kMaxDepth - 2, kMaxDepth - 1, kMaxDepth, kMaxDepth + 1}) {
    const std::string nested = std::string(depth, '[') + std::string(depth, ']');
    expect_same(decoder, R"({"id":"1","type":"response","result":)" + nested + "}");
    expect_same(decoder, R"({"id":"1","type":"request","method":"m","params":{"a":)" + nested + "}}");
  }
}

TEST(PlainMessage, MutationsAreReadAsTheFullParserReadsThem) {
  Decoder decoder;
  std::mt19937 random(7);
  const std::string alphabet = "{}[]\":,\\u0019 eabz-+.$\xc3\xa9\n";
  for (int i = 0; i < 20'000; ++i) {
    std::string text = kMessages[random() % kMessages.size()];
    for (auto edits = 1 + random() % 3; edits > 0; --edits) {
      const std::size_t at = random() % text.size();
      const char c = alphabet[random() % alphabet.size()];
      switch (random() % 3) {
        case 0:
          text[at] = c;
          break;
        case 1:
          text.insert(at, 1, c);
          break;
        default:
          text.erase(at, 1);
          break;
      }
      if (text.empty()) text = "{";
    }
    expect_same(decoder, text);
  }
}

TEST(PlainMessage, OutlivesItsFrame) {
  Decoder decoder;
  Bytes body;
  body.append(std::string_view(R"({"id":"77","type":"request","method":"test.echo","params":{"data":"kept"}})"));
  auto message = decode_message(decoder, body.view());
  ASSERT_TRUE(message);
  const Message moved = std::move(*message);
  std::memset(body.data(), '?', body.size());
  EXPECT_EQ(moved.id, "77");
  EXPECT_EQ(moved.method, "test.echo");
  EXPECT_EQ(moved.params.get("data").as_string(), "kept");
}

}  // namespace
}  // namespace sallyport::wire
