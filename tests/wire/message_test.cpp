#include "wire/message.h"

#include <gtest/gtest.h>

#include <random>

#include "support/wire.h"

namespace sallyport::wire {
namespace {

using sallyport::testing::bodies_of;
using sallyport::testing::decode;
using sallyport::testing::refusal;
using sallyport::testing::text_of;

// What is wrong with a body, in the words sent to the peer.
std::string complaint(std::string_view body) {
  const auto message = decode(body);
  return message ? "accepted" : message.malformed().error.message;
}

TEST(Message, ARequestNeedsIdTypeAndMethod) {
  EXPECT_TRUE(decode(R"({"id":"1","type":"request","method":"m"})"));
  EXPECT_EQ(complaint(R"({"type":"request","method":"m"})"), "id is missing");
  EXPECT_EQ(complaint(R"({"id":null,"type":"request","method":"m"})"), "id is missing");
  EXPECT_EQ(complaint(R"({"id":"1","type":"request"})"), "method is missing");
  EXPECT_EQ(complaint(R"({"id":"1","method":"m"})"), "type is missing");
}

TEST(Message, FieldsMayComeInAnyOrder) {
  auto message = decode(R"({"params":{"a":1},"method":"m","type":"request","id":"1"})");
  ASSERT_TRUE(message);
  EXPECT_EQ(message->params.get("a").as_int(), 1);
}

TEST(Message, AnUnknownFieldIsRefused) {
  EXPECT_EQ(refusal(R"({"id":"1","type":"request","method":"m","jsonrpc":"2.0"})"), "INVALID_REQUEST");
  EXPECT_EQ(refusal(R"({"id":"1","type":"request","method":"m","Params":{}})"), "INVALID_REQUEST");
  EXPECT_EQ(refusal(R"({"id":"1","type":"request","method":"m","":1})"), "INVALID_REQUEST");
}

TEST(Message, AFieldOfAnotherTypeOfMessageIsRefused) {
  EXPECT_EQ(refusal(R"({"id":"1","type":"request","method":"m","result":1})"), "INVALID_REQUEST");
  EXPECT_EQ(refusal(R"({"id":"1","type":"response","result":1,"method":"m"})"), "INVALID_REQUEST");
  EXPECT_EQ(refusal(R"({"id":"1","type":"event","method":"m","token":"t"})"), "INVALID_REQUEST");
  EXPECT_EQ(refusal(R"({"id":"1","type":"event","method":"m","deadline_ms":1})"), "INVALID_REQUEST");
  EXPECT_EQ(refusal(R"({"id":"1","type":"response","result":1,"params":{}})"), "INVALID_REQUEST");
}

TEST(Message, WrongTypesAreRefusedFieldByField) {
  for (const char* body : {
           R"({"id":1,"type":"request","method":"m"})",
           R"({"id":["1"],"type":"request","method":"m"})",
           R"({"id":"1","type":"Request","method":"m"})",
           R"({"id":"1","type":7,"method":"m"})",
           R"({"id":"1","type":null,"method":"m"})",
           R"({"id":"1","type":"request","method":{}})",
           R"({"id":"1","type":"request","method":"m","params":[]})",
           R"({"id":"1","type":"request","method":"m","params":null})",
           R"({"id":"1","type":"request","method":"m","params":"{}"})",
           R"({"id":"1","type":"request","method":"m","deadline_ms":"5"})",
           R"({"id":"1","type":"request","method":"m","deadline_ms":1.5})",
           R"({"id":"1","type":"request","method":"m","token":5})",
       }) {
    EXPECT_EQ(refusal(body), "INVALID_REQUEST") << body;
  }
}

TEST(Message, ARefusalAnswersToTheIdIfThereIsAUsableOne) {
  EXPECT_EQ(decode(R"({"id":"x7","type":"request","method":5})").malformed().id, "x7");
  EXPECT_EQ(decode(R"({"method":5,"type":"request","id":"late"})").malformed().id, "late");
  EXPECT_EQ(decode(R"({"id":7,"type":"request","method":"m"})").malformed().id, "");
  EXPECT_EQ(decode(R"({"id":"a b","type":"request","method":"m"})").malformed().id, "");
  EXPECT_EQ(decode("{").malformed().id, "");
}

TEST(Message, NamesArePrintableAndShort) {
  const auto with_id = [](const std::string& id) { return R"({"id":")" + id + R"(","type":"request","method":"m"})"; };
  EXPECT_TRUE(decode(with_id(std::string(kMaxIdBytes, 'i'))));
  for (const std::string& id : {std::string(), std::string(kMaxIdBytes + 1, 'i'), std::string("a b"),
                                std::string("\\n"), std::string("\\u0000"), std::string("é"), std::string("\x7f")}) {
    EXPECT_EQ(refusal(with_id(id)), "INVALID_REQUEST") << id;
  }
  const auto with_method = [](const std::string& m) { return R"({"id":"1","type":"request","method":")" + m + "\"}"; };
  EXPECT_TRUE(decode(with_method(std::string(kMaxMethodBytes, 'm'))));
  EXPECT_EQ(refusal(with_method(std::string(kMaxMethodBytes + 1, 'm'))), "INVALID_REQUEST");
  EXPECT_EQ(refusal(with_method("")), "INVALID_REQUEST");
  EXPECT_EQ(refusal(with_method("a\\u001b[2J")), "INVALID_REQUEST");
  const auto with_token = [](const std::string& t) {
    return R"({"id":"1","type":"request","method":"m","token":")" + t + "\"}";
  };
  EXPECT_TRUE(decode(with_token(std::string(kMaxTokenBytes, 't'))));
  EXPECT_EQ(refusal(with_token(std::string(kMaxTokenBytes + 1, 't'))), "INVALID_REQUEST");
  EXPECT_EQ(refusal(with_token("")), "INVALID_REQUEST");
}

TEST(Message, ADeadlineIsBetweenAMillisecondAndADay) {
  const auto with = [](const std::string& ms) {
    return R"({"id":"1","type":"request","method":"m","deadline_ms":)" + ms + "}";
  };
  EXPECT_TRUE(decode(with("1")));
  EXPECT_TRUE(decode(with(std::to_string(kMaxDeadlineMs))));
  for (const char* ms : {"0", "-1", "86400001", "4294967297", "18446744073709551615", "1e3", "true"}) {
    EXPECT_EQ(refusal(with(ms)), "INVALID_REQUEST") << ms;
  }
}

TEST(Message, AResponseCarriesAResultOrAnErrorAndNotBoth) {
  EXPECT_TRUE(decode(R"({"id":"1","type":"response","result":null})"));
  EXPECT_TRUE(decode(R"({"id":null,"type":"response","error":{"code":"TIMEOUT","message":"m","retryable":true}})"));
  EXPECT_EQ(refusal(R"({"id":"1","type":"response"})"), "INVALID_REQUEST");
  EXPECT_EQ(refusal(R"({"id":"1","type":"response","result":1,"error":{}})"), "INVALID_REQUEST");
  EXPECT_EQ(refusal(R"({"id":null,"type":"response","result":1})"), "INVALID_REQUEST");
  EXPECT_EQ(refusal(R"({"type":"response","result":1})"), "INVALID_REQUEST");
}

TEST(Message, AnErrorWithACodeNobodyKnowsIsAnInternalError) {
  for (const char* error : {R"({"code":"EVIL","message":"m"})", R"({"code":7})", "{}", "null", "\"x\"", "[]"}) {
    auto message = decode(std::string(R"({"id":"1","type":"response","error":)") + error + "}");
    ASSERT_TRUE(message) << error;
    ASSERT_TRUE(message->error) << error;
    EXPECT_EQ(message->error->code, Code::internal_error) << error;
  }
}

TEST(Message, AnEventNeedsAMethodAndMayLackAnId) {
  EXPECT_TRUE(decode(R"({"type":"event","method":"m"})"));
  EXPECT_TRUE(decode(R"({"id":null,"type":"event","method":"m"})"));
  EXPECT_EQ(refusal(R"({"id":"1","type":"event"})"), "INVALID_REQUEST");
}

TEST(Message, ABodyThatIsNoObjectIsAProtocolError) {
  for (const char* body : {"[]", "1", "\"x\"", "null", "[{\"id\":\"1\"}]"}) EXPECT_EQ(refusal(body), "PROTOCOL_ERROR");
}

TEST(Message, ADuplicateIdIsRefusedHoweverItIsSpelled) {
  EXPECT_EQ(refusal(R"({"id":"1","id":"2","type":"request","method":"m"})"), "PROTOCOL_ERROR");
  EXPECT_EQ(refusal(R"({"id":"1","i\u0064":"2","type":"request","method":"m"})"), "PROTOCOL_ERROR");
}

TEST(Message, KnowsTheStreamsItNames) {
  auto message = decode(R"({"id":"1","type":"request","method":"m","params":{"a":{"$stream":3},"b":[{"$stream":5}]}})");
  ASSERT_TRUE(message);
  EXPECT_EQ(message->streams, (std::vector<std::uint32_t>{3, 5}));
}

TEST(Message, EveryErrorCodeCrossesTheWire) {
  for (int i = 0; i <= static_cast<int>(Code::internal_error); ++i) {
    Error error = Error::make(static_cast<Code>(i), "a \"message\"\n");
    error.details_json = R"({"field":"params.x"})";
    Bytes out;
    append_error(out, "1", error);
    auto message = decode(bodies_of(text_of(out)).at(0));
    ASSERT_TRUE(message && message->error);
    EXPECT_EQ(message->error->code, error.code);
    EXPECT_EQ(message->error->message, error.message);
    EXPECT_EQ(message->error->retryable, error.retryable);
    EXPECT_EQ(message->error->details_json, error.details_json);
  }
}

TEST(Message, TheDetailOfAnErrorNeverCrossesTheWire) {
  Bytes out;
  append_error(out, "1", Error::make(Code::io_error, "cannot read", "/srv/someone/secret"));
  EXPECT_EQ(text_of(out).find("secret"), std::string::npos);
}

TEST(Message, AnErrorAlwaysFitsItsFrame) {
  Error error = Error::make(Code::io_error, std::string(2 * kMaxFrameBytes, 'm'));
  Bytes out;
  append_error(out, "1", error);
  auto message = decode(bodies_of(text_of(out)).at(0));
  ASSERT_TRUE(message && message->error);
  EXPECT_EQ(message->id, "1");
  EXPECT_EQ(message->error->code, Code::io_error);
  // An id that no peer could have sent must not make it fail either.
  out.clear();
  append_error(out, std::string(2 * kMaxFrameBytes, 'i'), error);
  EXPECT_EQ(bodies_of(text_of(out)).size(), 1U);
}

TEST(Message, AResultBuiltInPlaceThatIsTooLargeLeavesNothingBehind) {
  Bytes out;
  out.append("kept");
  ResultFrame frame(out, "1");
  frame.json().value(std::string(kMaxFrameBytes, 'r'));
  const Status finished = frame.finish();
  ASSERT_FALSE(finished);
  EXPECT_EQ(finished.error().code, Code::payload_too_large);
  EXPECT_EQ(text_of(out), "kept");
}

TEST(Message, AnEventWithoutAnIdLeavesItOut) {
  Bytes out;
  ASSERT_TRUE(append_event(out, {}, "warden.stopping", "{}"));
  EXPECT_EQ(bodies_of(text_of(out)).at(0), R"({"type":"event","method":"warden.stopping","params":{}})");
}

TEST(Message, AResultThatIsPassedOnStaysAsItCame) {
  const std::string odd = R"({ "b" : [1.50, "\u0041\n" , {"a":null}] ,"a":-0})";
  const auto body = [](std::string_view result) {
    return R"({"type":"response","result": )" + std::string(result) + R"( ,"id":"1"})";
  };
  auto message = decode(body(odd), Keep::result);
  ASSERT_TRUE(message);
  EXPECT_EQ(message->id, "1");
  EXPECT_EQ(message->result.as_raw(), odd);
  EXPECT_EQ(message->result.to_json(), odd);
  EXPECT_TRUE(decode(body("null"), Keep::result)->result.exists());
  EXPECT_EQ(decode(body(odd))->result.as_raw(), std::nullopt);
}

TEST(Message, AResultThatIsPassedOnIsCheckedAllTheSame) {
  for (const char* bad : {R"({"a":1,"a":2})", R"({"a":1,"\u0061":2})", "[1,]", "\"\xff\"", R"("\ud800")", "1e999", "[",
                          "\"\n\"", "{} {}"}) {
    EXPECT_FALSE(decode(R"({"id":"1","type":"response","result":)" + std::string(bad) + "}", Keep::result)) << bad;
  }
  const std::string deep = std::string(kMaxDepth, '[') + std::string(kMaxDepth, ']');
  EXPECT_FALSE(decode(R"({"id":"1","type":"response","result":)" + deep + "}", Keep::result));
}

TEST(Message, AResultThatNamesAStreamIsNotKeptAsText) {
  for (const char* name : {"$stream", R"(\u0024stream)", R"($\u0073tream)"}) {
    auto message =
        decode(R"({"id":"1","type":"response","result":{"a":[{")" + std::string(name) + R"(":7}]}})", Keep::result);
    ASSERT_TRUE(message);
    EXPECT_EQ(message->streams, std::vector<std::uint32_t>{7});
    EXPECT_TRUE(message->result.get("a").is_array());
  }
}

TEST(Message, KnowsEveryStreamThatIsNamedAndNothingElse) {
  auto message =
      decode(R"({"id":"1","type":"request","method":"m","params":{"a":{"$stream":3},)"
             R"("b":[{"$stream":5},{"$stream":"7"},{"$stream":9,"x":1},{"$stream":0},{"$stream":4294967296}]}})");
  ASSERT_TRUE(message);
  EXPECT_EQ(message->streams, (std::vector<std::uint32_t>{3, 5}));
}

TEST(Message, AFieldThatComesTwiceIsRefused) {
  EXPECT_EQ(complaint(R"({"id":"1","type":"request","method":"m","id":"2"})"), "malformed JSON: duplicate key");
  EXPECT_EQ(complaint(R"({"id":"1","type":"request","method":"m","\u0069d":"2"})"), "malformed JSON: duplicate key");
}

TEST(Message, AnsweredIsTheIdWhereverItComes) {
  const auto message = decode(R"({"what":[1,{"id":"0"}],"type":"request","id":"seven"})");
  ASSERT_FALSE(message);
  EXPECT_EQ(message.malformed().id, "seven");
  EXPECT_EQ(message.malformed().error.message, "unknown field in the message");
}

// A message is read straight into its fields: what is JSON and what its members are is the other reader's say.
TEST(Message, IsReadAsAnyOtherJsonIs) {
  const std::vector<std::string> bodies = {
      R"({"id":"1","type":"request","method":"test.ping","deadline_ms":30000})",
      R"( { "id" : "a\u0062" , "type":"request","method":"m","params":{"a":[1,-2.5e3,"\n"],"b":{"$stream":3}},"token":"t" } )",
      R"({"id":"1","type":"response","result":{"pong":true,"n":null,"text":"a longer text, beyond sixteen bytes"}})",
      R"({"id":null,"type":"response","error":{"code":"TIMEOUT","message":"late","retryable":true}})",
      R"({"type":"event","method":"stream.credit","params":{"stream":1,"bytes":65536}})",
  };
  const std::vector<std::string> pieces = {"\"",       "\\",      "{", "}",    "[",      "]",         ":",
                                           ",",        " ",       "1", "null", "\"id\"", "\"type\":", "request",
                                           "\"a\":1,", "\\u0069", "-", "\x01", "\xc3"};
  std::mt19937 random(7);
  Decoder decoder;
  int accepted = 0, refused = 0, malformed = 0;
  for (int i = 0; i < 60'000; ++i) {
    std::string body = bodies[random() % bodies.size()];
    for (std::size_t changes = random() % 3; changes != 0; --changes) {
      const std::size_t at = random() % body.size();
      body.replace(at, random() % 3, pieces[random() % pieces.size()]);
    }
    const auto document = decoder.parse(body);
    auto message = decode(body);
    // Behind a space nothing looks as we write it.
    auto spaced = decode(" " + body);
    ASSERT_EQ(static_cast<bool>(message), static_cast<bool>(spaced)) << body;
    if (!message) {
      EXPECT_EQ(message.malformed().error.message, spaced.malformed().error.message) << body;
      EXPECT_EQ(message.malformed().id, spaced.malformed().id) << body;
    } else {
      EXPECT_EQ(message->type, spaced->type) << body;
    }
    if (message) {
      ++accepted;
      ASSERT_TRUE(document) << body;
      const Value root = document->root();
      EXPECT_EQ(message->id, root.get("id").as_string().value_or("")) << body;
      EXPECT_EQ(message->method, root.get("method").as_string().value_or("")) << body;
      EXPECT_EQ(message->token, root.get("token").as_string().value_or("")) << body;
      EXPECT_EQ(message->params.to_json(), root.get("params").to_json()) << body;
      EXPECT_EQ(message->result.to_json(), root.get("result").to_json()) << body;
      EXPECT_EQ(message->deadline_ms.value_or(0), root.get("deadline_ms").as_uint().value_or(0)) << body;
    } else if (message.malformed().error.message.starts_with("malformed JSON")) {
      ++malformed;
      EXPECT_FALSE(document) << body;
    } else {
      ++refused;
      // Only what it has no use for may be wrong besides.
      EXPECT_TRUE(document || document.error().message == "malformed JSON: duplicate key") << body;
    }
    if (HasFailure()) return;
  }
  EXPECT_GT(accepted, 15'000);
  EXPECT_GT(refused, 3'000);
  EXPECT_GT(malformed, 15'000);
}

}  // namespace
}  // namespace sallyport::wire
