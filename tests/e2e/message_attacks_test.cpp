// Attacks inside intact frames: JSON, fields, ids, messages nobody asked for.
#include "door.h"

namespace sallyport::testing {
namespace {

class MessageAttack : public Door {
 protected:
  // The body is refused with this code, to nobody, and the connection stays.
  void expect_slip(std::string_view body, const std::string& code = "PROTOCOL_ERROR") {
    Client client = connect();
    ASSERT_TRUE(client.send(frame_of(body)));
    EXPECT_EQ(code_for_nobody(client.next_message()), code);
    EXPECT_TRUE(client.pings()) << "one slip is forgiven";
    EXPECT_EQ(counter("malformed"), 1);
  }
  // The same with an id that could be read: the answer goes to it.
  void expect_answer(std::string_view body, std::string_view id, const std::string& code) {
    Client client = connect();
    ASSERT_TRUE(client.send(frame_of(body)));
    const auto answer = client.next_message();
    EXPECT_EQ(code_of(answer), code);
    ASSERT_TRUE(answer);
    EXPECT_EQ(answer->id, id);
    EXPECT_TRUE(client.pings());
  }
};

std::string ping_with(std::string_view params) {
  return R"({"id":"1","type":"request","method":"test.echo","params":{"data":)" + std::string(params) + "}}";
}

// ---- JSON ----

TEST_F(MessageAttack, JsonOfDepthAHundredThousand) {
  expect_slip(ping_with(std::string(100'000, '[') + std::string(100'000, ']')));
}
TEST_F(MessageAttack, JsonOfDepthAHundredThousandNeverClosed) { expect_slip("{\"a\":" + std::string(100'000, '[')); }
TEST_F(MessageAttack, DuplicateKeys) { expect_slip(ping_with(R"({"a":1,"a":2})")); }
TEST_F(MessageAttack, DuplicateKeysSpelledWithEscapes) { expect_slip(ping_with(R"({"a":1,"\u0061":2})")); }
TEST_F(MessageAttack, DuplicateMethodSpelledWithEscapes) {
  expect_slip(R"({"id":"1","type":"request","method":"test.ping","metho\u0064":"warden.shutdown"})");
}
TEST_F(MessageAttack, NotANumber) { expect_slip(ping_with("NaN")); }
TEST_F(MessageAttack, NumberBeyondAnyDouble) { expect_slip(ping_with("1e999")); }
TEST_F(MessageAttack, LoneHighSurrogate) { expect_slip(ping_with(R"("\ud800")")); }
TEST_F(MessageAttack, LoneLowSurrogate) { expect_slip(ping_with(R"("\udc00")")); }
TEST_F(MessageAttack, RawNul) { expect_slip(ping_with(std::string_view("\"a\0b\"", 5))); }
TEST_F(MessageAttack, InvalidUtf8) { expect_slip(ping_with("\"\xc0\xaf\"")); }
TEST_F(MessageAttack, ByteOrderMark) { expect_slip("\xef\xbb\xbf" + ping_with("1")); }
TEST_F(MessageAttack, TwoDocumentsInOneFrame) { expect_slip(ping_with("1") + ping_with("2")); }
TEST_F(MessageAttack, LeadingWhiteSpace) { expect_slip(" " + ping_with("1")); }
TEST_F(MessageAttack, ATagNobodyKnows) {
  expect_slip(
      "\x7f"
      "ELF");
}
TEST_F(MessageAttack, AHandshakeOnADoorThatNeedsNone) {
  expect_slip(std::string("\x02\x01\x01", 3) + std::string(32, 'n'));
}

TEST_F(MessageAttack, AsManyKeysAsAFrameHolds) {
  std::string keys = "{";
  for (int i = 0; keys.size() < wire::kMaxFrameBytes - 200; ++i) keys += "\"" + std::to_string(i) + "\":0,";
  keys += "\"last\":0}";
  Client client = connect();
  ASSERT_TRUE(client.send(frame_of(ping_with(keys))));
  EXPECT_EQ(code_of(client.next_message()), "OK");
  // The same as the parameters of a method that takes none.
  ASSERT_TRUE(client.send(frame_of(R"({"id":"2","type":"request","method":"test.ping","params":)" + keys + "}")));
  EXPECT_EQ(code_of(client.next_message()), "INVALID_PARAMS");
}

TEST_F(MessageAttack, OneMillionKeys) {
  std::string keys = "{";
  for (int i = 0; i < 1'000'000; ++i) keys += "\"" + std::to_string(i) + "\":0,";
  keys += "\"last\":0}";
  Client client = connect();
  client.send(frame_of(ping_with(keys)).substr(0, 100'000));
  EXPECT_EQ(code_for_nobody(client.next_message()), "PAYLOAD_TOO_LARGE");
  EXPECT_TRUE(client.is_closed_by_peer());
}

TEST_F(MessageAttack, TheEighthSlipClosesTheConnection) {
  Client client = connect();
  for (int i = 0; i < wire::kMaxMalformed; ++i) {
    ASSERT_TRUE(client.send(frame_of("{broken")));
    EXPECT_EQ(code_for_nobody(client.next_message()), "PROTOCOL_ERROR") << i;
  }
  EXPECT_EQ(client.next_body(), std::nullopt);
  EXPECT_EQ(counter("protocol_closes"), 1);
}

TEST_F(MessageAttack, EightSlipsInOneWriteCloseTheConnection) {
  Client client = connect();
  std::string all;
  for (int i = 0; i < 100; ++i) all += frame_of("{broken");
  client.send(all);
  for (int i = 0; i < wire::kMaxMalformed; ++i)
    EXPECT_EQ(code_for_nobody(client.next_message()), "PROTOCOL_ERROR") << i;
  EXPECT_EQ(client.next_body(), std::nullopt);
}

// ---- fields ----

TEST_F(MessageAttack, UnknownField) {
  expect_answer(R"({"id":"u","type":"request","method":"test.ping","principal":"host"})", "u", "INVALID_REQUEST");
}
TEST_F(MessageAttack, WrongTypes) {
  expect_answer(R"({"id":"w","type":"request","method":7})", "w", "INVALID_REQUEST");
  expect_answer(R"({"id":"w","type":"request","method":"test.ping","params":[]})", "w", "INVALID_REQUEST");
  expect_answer(R"({"id":"w","type":"request","method":"test.ping","deadline_ms":"soon"})", "w", "INVALID_REQUEST");
  expect_answer(R"({"id":"w","type":"request","method":"test.ping","deadline_ms":-1})", "w", "INVALID_REQUEST");
  expect_answer(R"({"id":"w","type":"request","method":"test.ping","token":""})", "w", "INVALID_REQUEST");
}
TEST_F(MessageAttack, MissingId) { expect_slip(R"({"type":"request","method":"test.ping"})", "INVALID_REQUEST"); }
TEST_F(MessageAttack, NumericId) {
  expect_slip(R"({"id":7,"type":"request","method":"test.ping"})", "INVALID_REQUEST");
}
TEST_F(MessageAttack, IdWithControlCharacters) {
  expect_slip(R"({"id":"a\nlevel=error","type":"request","method":"test.ping"})", "INVALID_REQUEST");
}
TEST_F(MessageAttack, IdOfOneMebibyte) {
  const std::string head = R"({"id":")", tail = R"(","type":"request","method":"test.ping"})";
  expect_slip(head + std::string(wire::kMaxFrameBytes - head.size() - tail.size(), 'i') + tail, "INVALID_REQUEST");
}
TEST_F(MessageAttack, MethodThatTriesToForgeALogLine) {
  expect_answer(R"({"id":"m","type":"request","method":"x\n2026 info stopped"})", "m", "INVALID_REQUEST");
}
TEST_F(MessageAttack, MethodThatIsNotInTheTable) {
  Client client = connect();
  EXPECT_EQ(client.outcome("test.pong"), "METHOD_NOT_FOUND");
  EXPECT_EQ(client.outcome("TEST.PING"), "METHOD_NOT_FOUND");
  EXPECT_EQ(client.outcome("test.ping.x"), "METHOD_NOT_FOUND");
}
TEST_F(MessageAttack, BadParametersNameTheOffendingField) {
  Client client = connect();
  const auto answer = client.call("test.sleep", R"({"ms":"long"})");
  ASSERT_EQ(code_of(answer), "INVALID_PARAMS");
  EXPECT_EQ(answer->error->details_json, R"({"field":"params.ms"})");
  EXPECT_EQ(client.outcome("test.sleep", R"({"ms":60001})"), "INVALID_PARAMS");
  EXPECT_EQ(client.outcome("test.sleep", R"({"ms":1,"extra":1})"), "INVALID_PARAMS");
  EXPECT_EQ(client.outcome("test.sleep"), "INVALID_PARAMS");
}

// ---- ids ----

TEST_F(MessageAttack, IdReusedWhileInFlight) {
  Client client = connect();
  ASSERT_TRUE(client.send_request("twin", "test.sleep", R"({"ms":300})"));
  ASSERT_TRUE(client.send_request("twin", "test.ping"));
  EXPECT_EQ(code_for_nobody(client.next_message()), "CONFLICT");
  const auto answer = client.next_message();
  ASSERT_EQ(code_of(answer), "OK");
  EXPECT_EQ(answer->id, "twin");
  EXPECT_EQ(answer->result.get("slept_ms").as_int(), 300) << "the first request is the one that is answered";
  ASSERT_TRUE(client.send_request("twin", "test.ping"));
  EXPECT_EQ(code_of(client.next_message()), "OK") << "after the answer the id is free again";
}

TEST_F(MessageAttack, TheSameIdOnTwoConnectionsIsNoConflict) {
  Client first = connect(), second = connect();
  ASSERT_TRUE(first.send_request("same", "test.sleep", R"({"ms":100})"));
  ASSERT_TRUE(second.send_request("same", "test.sleep", R"({"ms":100})"));
  EXPECT_EQ(code_of(first.next_message()), "OK");
  EXPECT_EQ(code_of(second.next_message()), "OK");
}

// ---- what nobody asked for ----

TEST_F(MessageAttack, AResponseNobodyAskedFor) { expect_slip(R"({"id":"1","type":"response","result":{}})"); }
TEST_F(MessageAttack, AnErrorNobodyAskedFor) {
  expect_slip(R"({"id":null,"type":"response","error":{"code":"TIMEOUT","message":"m","retryable":true}})");
}
TEST_F(MessageAttack, AnEventNobodyAskedFor) { expect_slip(R"({"type":"event","method":"warden.stopping"})"); }
TEST_F(MessageAttack, ACancelOfNothingIsNoFault) {
  Client client = connect();
  ASSERT_TRUE(client.send(frame_of(R"({"id":"ghost","type":"event","method":"cancel"})")));
  ASSERT_TRUE(client.send(frame_of(R"({"type":"event","method":"cancel"})")));
  EXPECT_TRUE(client.pings());
  EXPECT_EQ(counter("malformed"), 0);
  EXPECT_EQ(counter("cancelled"), 0);
}
TEST_F(MessageAttack, ACancelFromAnotherConnectionDoesNothing) {
  Client victim = connect(), attacker = connect();
  ASSERT_TRUE(victim.send_request("x", "test.sleep", R"({"ms":300})"));
  ASSERT_TRUE(attacker.send(frame_of(R"({"id":"x","type":"event","method":"cancel"})")));
  ASSERT_TRUE(attacker.pings());
  EXPECT_EQ(code_of(victim.next_message()), "OK");
}

// ---- streams ----

TEST_F(MessageAttack, ChunkForAnUnknownStream) {
  Client client = connect();
  for (const std::uint32_t stream : {1U, 2U, 0xffffffffU}) {
    ASSERT_TRUE(client.send(chunk_frame(stream, "data")));
    EXPECT_EQ(code_for_nobody(client.next_message()), "NOT_FOUND") << stream;
  }
  EXPECT_TRUE(client.pings());
}
TEST_F(MessageAttack, ChunkWithoutAStream) { expect_slip(std::string_view("\x01\0\0", 3)); }
TEST_F(MessageAttack, ChunkForStreamZero) { expect_slip(std::string_view("\x01\0\0\0\0x", 6)); }

TEST_F(MessageAttack, ChunksForUnknownStreamsAreForgivenOnlySoOften) {
  Client client = connect();
  for (int i = 0; i < wire::kMaxMalformed; ++i) client.send(chunk_frame(99, "data"));
  EXPECT_TRUE(client.is_closed_by_peer());
}

TEST_F(MessageAttack, MoreBytesOnAStreamThanWereGranted) {
  Client client = connect();
  ASSERT_TRUE(client.send_request("e", "test.echo", R"({"data":{"$stream":1}})"));
  ASSERT_EQ(code_of(client.next_message()), "OK");
  // The echo's own credit is never renewed by us: the second megabyte stays, the third breaks the rule.
  const std::string piece(64 << 10, 'o');
  bool is_closed = false;
  for (int i = 0; i < 64 && !is_closed; ++i) is_closed = !client.send(chunk_frame(1, piece));
  EXPECT_TRUE(client.is_closed_by_peer());
  EXPECT_EQ(counter("protocol_closes"), 1);
  EXPECT_TRUE(daemon().logs("more bytes on a stream than were granted"));
}

TEST_F(MessageAttack, AStreamWithANumberOfTheWrongParity) {
  Client client = connect();
  EXPECT_EQ(client.outcome("test.echo", R"({"data":{"$stream":2}})"), "PROTOCOL_ERROR");
  EXPECT_TRUE(client.pings());
}

TEST_F(MessageAttack, AStreamNumberUsedTwice) {
  Client client = connect();
  ASSERT_EQ(client.outcome("test.echo", R"({"data":{"$stream":5}})"), "OK");
  EXPECT_EQ(client.outcome("test.echo", R"({"data":{"$stream":5}})"), "PROTOCOL_ERROR");
  EXPECT_EQ(client.outcome("test.echo", R"({"data":{"$stream":3}})"), "PROTOCOL_ERROR");
}

TEST_F(MessageAttack, ManyStreamsInOneRequest) {
  Client client = connect();
  std::string streams;
  for (int i = 0; i < 1000; ++i) streams += "{\"$stream\":" + std::to_string(2 * i + 1) + "},";
  ASSERT_TRUE(client.send_request("many", "test.echo", R"({"data":[)" + streams + "0]}"));
  EXPECT_EQ(code_of(client.next_message()), "RATE_LIMITED");
  // Those that fitted are refused one by one, so that none of them stays open for good, and so is the one too many.
  for (std::size_t i = 0; i < wire::kMaxOpenStreams + 1; ++i) {
    const auto reset = client.next_message();
    ASSERT_TRUE(reset);
    EXPECT_EQ(reset->method, "stream.reset");
  }
  EXPECT_EQ(client.outcome("test.echo", R"({"data":{"$stream":2001}})"), "OK");
}

TEST_F(MessageAttack, CreditThatMakesNoSense) {
  const char* events[] = {
      R"({"type":"event","method":"stream.credit"})",
      R"({"type":"event","method":"stream.credit","params":{"stream":2,"bytes":10}})",
      R"({"type":"event","method":"stream.credit","params":{"stream":"2","bytes":10}})",
      R"({"type":"event","method":"stream.credit","params":{"stream":4294967297,"bytes":10}})",
      R"({"type":"event","method":"stream.reset","params":{"stream":0}})",
      R"({"type":"event","method":"stream.reset"})",
  };
  Client client = connect();
  for (const char* event : events) {
    ASSERT_TRUE(client.send(frame_of(event)));
    EXPECT_EQ(code_for_nobody(client.next_message()), "PROTOCOL_ERROR") << event;
  }
  EXPECT_TRUE(client.pings());
}

TEST_F(MessageAttack, AMalformedMessageWithAnIdInFlightIsNoAnswerToIt) {
  Client client = connect();
  ASSERT_TRUE(client.send_request("a", "test.sleep", R"({"ms":200})"));
  ASSERT_TRUE(client.send(frame_of(R"({"id":"a","type":"request","method":"test.ping","bogus":1})")));
  EXPECT_EQ(code_for_nobody(client.next_message()), "INVALID_REQUEST");
  const auto answer = client.next_message();
  ASSERT_TRUE(answer && answer->id == "a");
  EXPECT_EQ(code_of(answer), "OK");
  ASSERT_TRUE(client.send(frame_of(R"({"id":"a","type":"request","method":"test.ping","bogus":1})")));
  const auto refused = client.next_message();
  ASSERT_TRUE(refused && refused->id == "a") << "otherwise it is told which of its messages was wrong";
  EXPECT_EQ(code_of(refused), "INVALID_REQUEST");
}

}  // namespace
}  // namespace sallyport::testing
