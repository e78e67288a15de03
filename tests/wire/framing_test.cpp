// The framing tests of the worker protocol this wire descends from, under their own names.
#include <gtest/gtest.h>

#include "support/wire.h"

namespace sallyport::wire {
namespace {

using sallyport::testing::decode;
using sallyport::testing::frame_of;
using sallyport::testing::header_of;
using sallyport::testing::text_of;

// What read_message() answers: the bodies up to the end of input, and how the input ended.
struct Input {
  std::vector<std::string> bodies;
  Status end = ok();
};

Input read_to_end(std::string_view bytes) {
  FrameReader reader;
  reader.feed(as_bytes(bytes));
  Input input;
  for (;;) {
    auto frame = reader.next();
    if (!frame) {
      input.end = frame.error();
      return input;
    }
    if (!*frame) break;
    input.bodies.emplace_back(as_text(**frame));
  }
  input.end = reader.finish();
  return input;
}

std::string only_body(const Bytes& frame) {
  const Input input = read_to_end(as_text(frame.view()));
  EXPECT_TRUE(input.end);
  EXPECT_EQ(input.bodies.size(), 1U);
  return input.bodies.empty() ? "" : input.bodies[0];
}

TEST(Framing, ping_roundtrips_through_framing) {
  Bytes out;
  ASSERT_TRUE(append_request(out, {.id = "1", .method = "test.ping", .deadline_ms = {}, .token = {}}, "{}"));
  auto got = decode(only_body(out));
  ASSERT_TRUE(got);
  EXPECT_EQ(got->type, MessageType::request);
  EXPECT_EQ(got->id, "1");
  EXPECT_EQ(got->method, "test.ping");
  EXPECT_TRUE(got->params.is_object());
  EXPECT_EQ(got->params.size(), 0U);
}

TEST(Framing, pong_roundtrips_through_framing) {
  Bytes out;
  ASSERT_TRUE(append_result(out, "1", R"({"pong":true})"));
  auto got = decode(only_body(out));
  ASSERT_TRUE(got);
  EXPECT_EQ(got->type, MessageType::response);
  EXPECT_EQ(got->result.get("pong").as_bool(), true);
  EXPECT_FALSE(got->error);
}

TEST(Framing, error_response_roundtrips) {
  Bytes out;
  append_error(out, "9", Error::make(Code::policy_denied, "deny file-write* /etc/passwd"));
  auto got = decode(only_body(out));
  ASSERT_TRUE(got);
  EXPECT_EQ(got->id, "9");
  ASSERT_TRUE(got->error);
  EXPECT_EQ(got->error->code, Code::policy_denied);
  EXPECT_EQ(got->error->message, "deny file-write* /etc/passwd");
  EXPECT_FALSE(got->error->retryable);
}

TEST(Framing, complex_request_roundtrips) {
  const std::string params = to_json([](JsonWriter& json) {
    json.begin_object()
        .member("path", "/repo/src/main.rs")
        .member("old_string", "let x = 1;\nlet y = 2;")
        .member("new_string", "let x = 42;")
        .end_object();
  });
  Bytes out;
  ASSERT_TRUE(append_request(out, {.id = "e-1", .method = "fs.edit", .deadline_ms = 5000, .token = "t.s"}, params));
  auto got = decode(only_body(out));
  ASSERT_TRUE(got);
  EXPECT_EQ(got->params.get("path").as_string(), "/repo/src/main.rs");
  EXPECT_EQ(got->params.get("old_string").as_string(), "let x = 1;\nlet y = 2;");
  EXPECT_EQ(got->params.get("new_string").as_string(), "let x = 42;");
  EXPECT_EQ(got->deadline_ms, 5000U);
  EXPECT_EQ(got->token, "t.s");
}

TEST(Framing, multiple_messages_back_to_back_parse_correctly) {
  Bytes out;
  ASSERT_TRUE(append_request(out, {.id = "1", .method = "test.ping", .deadline_ms = {}, .token = {}}, {}));
  ASSERT_TRUE(append_request(out, {.id = "2", .method = "fs.read", .deadline_ms = {}, .token = {}},
                             R"({"path":"/a","max_bytes":1024})"));
  const Input input = read_to_end(as_text(out.view()));
  ASSERT_TRUE(input.end);
  ASSERT_EQ(input.bodies.size(), 2U);
  auto first = decode(input.bodies[0]), second = decode(input.bodies[1]);
  ASSERT_TRUE(first);
  ASSERT_TRUE(second);
  EXPECT_EQ(first->method, "test.ping");
  EXPECT_FALSE(first->params.exists());
  EXPECT_EQ(second->params.get("path").as_string(), "/a");
  EXPECT_EQ(second->params.get("max_bytes").as_int(), 1024);
}

TEST(Framing, clean_eof_before_any_bytes_returns_none) {
  const Input input = read_to_end("");
  EXPECT_TRUE(input.bodies.empty());
  EXPECT_TRUE(input.end);
}

TEST(Framing, eof_mid_length_prefix_is_unexpected_eof) {
  const Input input = read_to_end(std::string_view("\0\0", 2));
  ASSERT_FALSE(input.end);
  EXPECT_EQ(input.end.error().message, "unexpected end after 2 of 4 length-prefix bytes");
}

TEST(Framing, eof_mid_payload_is_unexpected_eof) {
  const Input input = read_to_end(header_of(100) + "abcd");
  ASSERT_FALSE(input.end);
  EXPECT_EQ(input.end.error().message, "unexpected end after 4 of 100 body bytes");
}

TEST(Framing, payload_size_above_cap_is_rejected) {
  const Input input = read_to_end(header_of(kMaxFrameBytes + 1));
  ASSERT_FALSE(input.end);
  EXPECT_EQ(input.end.error().code, Code::payload_too_large);
  EXPECT_NE(input.end.error().message.find("exceeds max"), std::string::npos);
}

TEST(Framing, malformed_json_payload_is_invalid_data) {
  const Input input = read_to_end(frame_of("this is not json"));
  ASSERT_TRUE(input.end);
  ASSERT_EQ(input.bodies.size(), 1U);
  const auto got = decode(input.bodies[0]);
  ASSERT_FALSE(got);
  EXPECT_EQ(got.malformed().error.code, Code::protocol_error);
  EXPECT_NE(got.malformed().error.message.find("malformed JSON"), std::string::npos);
}

TEST(Framing, write_rejects_oversize_payload_locally) {
  const std::string params = R"({"path":"/a","content":")" + std::string(kMaxFrameBytes + 100, 'x') + R"("})";
  Bytes out;
  out.append("before");
  const Status sent = append_request(out, {.id = "1", .method = "fs.write", .deadline_ms = {}, .token = {}}, params);
  ASSERT_FALSE(sent);
  EXPECT_EQ(sent.error().code, Code::payload_too_large);
  EXPECT_EQ(text_of(out), "before");
}

}  // namespace
}  // namespace sallyport::wire
