#include "mailbox/message.h"

#include <gtest/gtest.h>

#include <fstream>

namespace sallyport::mailbox {
namespace {

constexpr const char* kId = "6ba7b810-9dad-41d1-80b4-00c04fd430c8";
constexpr wire::Field kPayload[] = {{.name = "text", .type = wire::Type::string, .required = true}};

std::variant<Message, Malformed> parse(std::string_view text) {
  static wire::Decoder decoder;
  Bytes padded;
  padded.append(text);
  padded.reserve(text.size() + 1);
  return parse_message(decoder, padded.view());
}
bool is_accepted(std::string_view text) { return std::holds_alternative<Message>(parse(text)); }

TEST(MailboxMessage, TakesASignalAlone) {
  const auto parsed = parse(R"({"signal":"context_reset"})");
  ASSERT_TRUE(std::holds_alternative<Message>(parsed));
  EXPECT_EQ(std::get<Message>(parsed).signal, "context_reset");
  EXPECT_EQ(std::get<Message>(parsed).request_id, "");
  EXPECT_FALSE(std::get<Message>(parsed).payload);
}

TEST(MailboxMessage, RefusesWhatIsNoObjectWithAClosedSetOfKeys) {
  for (const char* text : {"", "null", "[]", "[{\"signal\":\"x\"}]", "\"context_reset\"", "{}", "{\"signal\":null}",
                           R"({"signal":"x","group":"admin"})", R"({"signal":"x","approved":true})",
                           R"({"Signal":"x"})", R"({"signal":"x","signal":"y"})", R"({"signal":"x"} x)",
                           R"({"signal":"Context_Reset"})", R"({"signal":"../x"})", R"({"signal":""})"}) {
    EXPECT_FALSE(is_accepted(text)) << text;
  }
}

TEST(MailboxMessage, TakesOnlyLowerCaseUuidsAsIds) {
  EXPECT_TRUE(is_request_id(kId));
  for (const std::string text : {"", "../../../../etc/passwd", "/etc/passwd", "6BA7B810-9DAD-41D1-80B4-00C04FD430C8",
                                 "6ba7b810-9dad-41d1-80b4-00c04fd430c", "6ba7b810-9dad-41d1-80b4-00c04fd430c8 ",
                                 "6ba7b8109dad41d180b400c04fd430c8", "../../..-../.-../.-../.-../../../../"}) {
    EXPECT_FALSE(is_request_id(text)) << text;
    EXPECT_FALSE(is_accepted(R"({"signal":"x","request_id":")" + text + R"(","payload":{}})")) << text;
  }
  EXPECT_FALSE(is_accepted(R"({"signal":"x","request_id":"6ba7b810-9dad-41d1-80b4-00c04fd430\u0000","payload":{}})"));
  EXPECT_TRUE(is_request_id(make_request_id()));
}

TEST(MailboxMessage, KeepsAUsableIdOfWhatItRefuses) {
  const auto parsed = parse(std::string(R"({"signal":7,"request_id":")") + kId + "\"}");
  ASSERT_TRUE(std::holds_alternative<Malformed>(parsed));
  EXPECT_EQ(std::get<Malformed>(parsed).request_id, kId);
}

TEST(MailboxMessage, TakesTheExamplesOfTheDocumentation) {
  std::ifstream page(SALLYPORT_DOCS "/mailbox.md");
  int examples = 0;
  bool is_example = false;
  for (std::string line; std::getline(page, line);) {
    if (line.starts_with("```")) {
      is_example = line == "```json message";
    } else if (is_example) {
      EXPECT_TRUE(is_accepted(line)) << line;
      ++examples;
    }
  }
  EXPECT_GE(examples, 2);
}

TEST(MailboxMessage, ATierSaysWhatAMessageCarries) {
  wire::Decoder decoder;
  const auto fits = decoder.parse(R"({"text":"x"})"), wrong = decoder.parse(R"({"text":"x","more":1})");
  const Signal one{.name = "one", .tier = 1, .action = {}},
      two{.name = "two", .tier = 2, .payload = kPayload, .action = {}};
  EXPECT_TRUE(check_shape(one, "", {}));
  EXPECT_FALSE(check_shape(one, kId, {}));
  EXPECT_FALSE(check_shape(one, "", fits->root()));
  EXPECT_TRUE(check_shape(two, kId, fits->root()));
  EXPECT_FALSE(check_shape(two, "", fits->root()));
  EXPECT_FALSE(check_shape(two, kId, {}));
  const Status refused = check_shape(two, kId, wrong->root());
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().message, "payload.more: unknown parameter");
}

// Subscribers and whoever reviews it are told of it some levels further down.
TEST(MailboxMessage, AttackAPayloadThatCouldNotBeToldAgain) {
  wire::Decoder decoder;
  static constexpr wire::Field kAny[] = {{.name = "data", .type = wire::Type::object}};
  const Signal signal{.name = "two", .tier = 2, .payload = kAny, .action = {}};
  const auto is_taken = [&](int depth) {
    std::string text = R"({"data":)";
    for (int i = 1; i < depth; ++i) text += i + 1 < depth ? R"({"a":)" : "{";
    const auto payload = decoder.parse(text + std::string(static_cast<std::size_t>(depth), '}'));
    EXPECT_TRUE(payload) << text;
    return static_cast<bool>(check_shape(signal, kId, payload->root()));
  };
  EXPECT_TRUE(is_taken(24));
  EXPECT_FALSE(is_taken(25));
}

}  // namespace
}  // namespace sallyport::mailbox
