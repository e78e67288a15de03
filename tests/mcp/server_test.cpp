// The protocol layer, line by line.
#include <gtest/gtest.h>

#include "mcp/server.h"

namespace sallyport::mcp {
namespace {

class Counting final : public Tools {
 public:
  explicit Counting(std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
      tools_.push_back({"tool" + std::to_string(i), "T", "D", R"({"type":"object"})", "", true, false, true});
    }
  }
  const std::vector<Tool>& list() const override { return tools_; }
  void call(std::shared_ptr<ToolCall> call) override { calls.push_back(std::move(call)); }

  std::vector<std::shared_ptr<ToolCall>> calls;

 private:
  std::vector<Tool> tools_;
};

class Mcp : public ::testing::Test {
 protected:
  // Sends a line and returns what came back since, without the last newline.
  std::string say(std::string_view line) {
    server_.input().feed(as_bytes(std::string(line) + "\n"));
    server_.handle_input();
    return heard();
  }
  std::string heard() {
    std::string text(as_text(server_.output().view()));
    server_.output().clear();
    if (text.ends_with('\n')) text.pop_back();
    return text;
  }
  std::string initialize(const std::string& revision = "2025-11-25") {
    return say(R"({"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":")" + revision +
               R"(","capabilities":{},"clientInfo":{"name":"t","version":"1"}}})");
  }
  static bool has(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

  Counting tools_{5};
  Server server_{{"s", "S", "1", "I", 2}, tools_};
};

TEST_F(Mcp, EveryRevisionItKnowsIsAgreedTo) {
  for (const char* revision : {"2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"}) {
    Server fresh({"s", "S", "1", "I"}, tools_);
    fresh.input().feed(as_bytes(R"({"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":")" +
                                std::string(revision) + "\"}}\n"));
    fresh.handle_input();
    EXPECT_TRUE(has(std::string(as_text(fresh.output().view())), std::string(R"("protocolVersion":")") + revision));
  }
}

TEST_F(Mcp, AnUnknownRevisionIsAnsweredWithTheNewestItKnows) {
  EXPECT_TRUE(has(initialize("2099-01-01"), R"("protocolVersion":"2025-11-25")"));
}

TEST_F(Mcp, ARevisionThatIsNoStringIsSaidToBe) {
  EXPECT_TRUE(has(say(R"({"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":3}})"),
                  "protocolVersion must be a string"));
  EXPECT_TRUE(has(say(R"({"jsonrpc":"2.0","id":0,"method":"initialize","params":{}})"), "protocolVersion is missing"));
}

TEST_F(Mcp, TheStatelessRevisionsDiscoveryIsNoMethod) {
  EXPECT_EQ(say(R"({"jsonrpc":"2.0","id":"x","method":"server/discover","params":{}})"),
            R"({"jsonrpc":"2.0","id":"x","error":{"code":-32601,"message":"Method not found"}})");
}

TEST_F(Mcp, BeforeInitializeOnlyAPingIsAnswered) {
  EXPECT_TRUE(has(say(R"({"jsonrpc":"2.0","id":1,"method":"tools/list"})"), "-32600"));
  EXPECT_EQ(say(R"({"jsonrpc":"2.0","id":2,"method":"ping"})"), R"({"jsonrpc":"2.0","id":2,"result":{}})");
}

TEST_F(Mcp, ASecondInitializeIsRefused) {
  initialize();
  EXPECT_TRUE(has(initialize(), "-32600"));
}

TEST_F(Mcp, ToolsComeInPages) {
  initialize();
  std::string page = say(R"({"jsonrpc":"2.0","id":1,"method":"tools/list"})");
  EXPECT_TRUE(has(page, "tool1") && !has(page, "tool2") && has(page, R"("nextCursor":"2")")) << page;
  page = say(R"({"jsonrpc":"2.0","id":2,"method":"tools/list","params":{"cursor":"4"}})");
  EXPECT_TRUE(has(page, "tool4") && !has(page, "nextCursor")) << page;
  for (const char* cursor : {R"("5")", R"("")", R"("x")", R"("-1")", "2", R"("99999999999999999999999")"}) {
    EXPECT_TRUE(
        has(say(std::string(R"({"jsonrpc":"2.0","id":3,"method":"tools/list","params":{"cursor":)") + cursor + "}}"),
            "-32602"))
        << cursor;
  }
}

TEST_F(Mcp, WhatIsNoMessageIsRefusedAndTheSessionGoesOn) {
  constexpr std::pair<const char*, const char*> kCases[] = {
      {"{", "-32700"},
      {R"({"jsonrpc":"2.0","id":1,"id":1,"method":"ping"})", "-32700"},
      {"\xff", "-32700"},
      {"7", "-32600"},
      {"[]", "-32600"},
      {R"([{"jsonrpc":"2.0","id":1,"method":"ping"}])", "-32600"},
      {R"({"id":1,"method":"ping"})", "-32600"},
      {R"({"jsonrpc":"1.0","id":1,"method":"ping"})", "-32600"},
      {R"({"jsonrpc":"2.0","id":null,"method":"ping"})", "-32600"},
      {R"({"jsonrpc":"2.0","id":1.5,"method":"ping"})", "-32600"},
      {R"({"jsonrpc":"2.0","id":1,"method":7})", "-32600"},
      {R"({"jsonrpc":"2.0","id":1,"method":"ping","params":[]})", "-32600"},
      {R"({"jsonrpc":"2.0","id":1,"method":"ping","more":1})", "-32600"},
      {R"({"jsonrpc":"2.0","id":1})", "-32600"},
      {R"({"jsonrpc":"2.0","id":1,"method":"tools/call","params":{}})", "-32600"},
  };
  for (const auto& [line, code] : kCases) EXPECT_TRUE(has(say(line), code)) << line;
  EXPECT_TRUE(has(initialize(), "result"));
}

TEST_F(Mcp, DeepNestingIsRefused) {
  const std::string deep = R"({"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":)" + std::string(100'000, '[') +
                           std::string(100'000, ']') + "}}";
  EXPECT_TRUE(has(say(deep), "-32700"));
}

TEST_F(Mcp, ALineBeyondTheLimitIsNeitherKeptNorTheEnd) {
  const std::string piece(1 << 20, 'x');
  for (std::size_t fed = 0; fed <= kMaxLineBytes + piece.size(); fed += piece.size()) {
    server_.input().feed(as_bytes(piece));
    server_.handle_input();
  }
  EXPECT_EQ(heard(), "");
  EXPECT_TRUE(has(say("the rest of it"), R"("id":null,"error":{"code":-32600,)"));
  EXPECT_TRUE(has(say(R"({"jsonrpc":"2.0","id":2,"method":"ping"})"), "result"));
}

TEST_F(Mcp, ALineBeyondTheLimitIsRefusedUnderItsIdAtEitherEnd) {
  const std::string params = R"("params":{"id":9,"x":")" + std::string(kMaxLineBytes, 'x') + R"("})";
  EXPECT_TRUE(has(say(R"({"jsonrpc":"2.0","id":7,)" + params + "}"), R"("id":7,"error":{"code":-32600,)"));
  EXPECT_TRUE(has(say("{" + params + R"(,"jsonrpc":"2.0","id":"a-1" })"), R"("id":"a-1","error":{"code":-32600,)"));
  EXPECT_TRUE(has(say("{" + params + "}"), R"("id":null,)")) << "the one inside is not the message's";
}

TEST_F(Mcp, WhatCannotBeParsedIsRefusedUnderItsIdWhereThatIsCertain) {
  constexpr std::pair<const char*, const char*> kCases[] = {
      {R"({"jsonrpc":"2.0","id":5,"params":{"n":99999999999999999999}})", "5"},
      {R"({"params":{"n":1e999,"id":6},"id" : "x" })", R"("x")"},
      {R"({"a":"}\",\"id\":3,","id":-4,"b":[[}})", "-4"},
      {R"({"params":{"n":99999999999999999999,"id":6}})", "null"},
      {R"({"params":[99999999999999999999,{"id":6}]})", "null"},
      {R"({"n":99999999999999999999,"x\"id":6})", "null"},
      {R"({"n":99999999999999999999,"x":"\"id\":\"6"})", "null"},
      {R"({"id":99999999999999999999})", "null"},
      {R"({"id":007})", "null"},
      {R"({"n":99999999999999999999,"id":"a\"b"})", "null"},
      {R"({"n":99999999999999999999,"id":{}})", "null"},
      {R"([{"n":99999999999999999999,"id":1}])", "null"},
      {R"({"id":1)", "null"},
      {"}", "null"},
      {"\"}", "null"},
  };
  for (const auto& [line, id] : kCases) {
    EXPECT_TRUE(has(say(line), std::string(R"({"jsonrpc":"2.0","id":)") + id + R"(,"error":{"code":-32700,)")) << line;
  }
  initialize();
  say(R"({"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"tool0"}})");
  EXPECT_TRUE(has(say(kCases[0].first), R"("id":null,)")) << "the id is in flight";
}

TEST_F(Mcp, BytesMayComeOneByOneAndLinesMayEndAsOnWindows) {
  for (const char c : std::string("\r\n  \n{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"ping\"}\r\n")) {
    server_.input().feed(as_bytes(std::string_view(&c, 1)));
    server_.handle_input();
  }
  EXPECT_EQ(heard(), R"({"jsonrpc":"2.0","id":2,"result":{}})");
}

TEST_F(Mcp, NotificationsAndResponsesAreNotAnswered) {
  initialize();
  EXPECT_EQ(say(R"({"jsonrpc":"2.0","method":"notifications/initialized"})"), "");
  EXPECT_EQ(say(R"({"jsonrpc":"2.0","method":"no/such"})"), "");
  EXPECT_EQ(say(R"({"jsonrpc":"2.0","id":9,"result":{}})"), "");
  EXPECT_EQ(say(R"({"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":77}})"), "");
}

TEST_F(Mcp, ACallIsAnsweredWhenItIsFinishedAndOnlyOnce) {
  initialize();
  EXPECT_EQ(say(R"({"jsonrpc":"2.0","id":"a","method":"tools/call","params":{"name":"tool0","arguments":{"x":1}}})"),
            "");
  ASSERT_EQ(tools_.calls.size(), 1U);
  EXPECT_EQ(tools_.calls[0]->arguments().get("x").as_int(), 1);
  EXPECT_TRUE(has(say(R"({"jsonrpc":"2.0","id":"a","method":"ping"})"), R"("id":null)")) << "the id is in flight";
  tools_.calls[0]->finish_text(false, "done");
  tools_.calls[0]->finish_text(false, "again");
  EXPECT_EQ(heard(),
            R"({"jsonrpc":"2.0","id":"a","result":{"content":[{"type":"text","text":"done"}],"isError":false}})");
}

TEST_F(Mcp, AStringAndANumberAreDifferentIds) {
  initialize();
  say(R"({"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"tool0"}})");
  say(R"({"jsonrpc":"2.0","id":"1","method":"tools/call","params":{"name":"tool0"}})");
  EXPECT_EQ(tools_.calls.size(), 2U);
}

TEST_F(Mcp, WhatIsMalformedIsNotRefusedUnderAnIdThatIsAwaited) {
  initialize();
  say(R"({"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"tool0"}})");
  EXPECT_TRUE(has(say(R"({"jsonrpc":"2.0","id":5,"method":7})"), R"("id":null,"error")"));
  EXPECT_TRUE(has(say(R"({"jsonrpc":"2.0","id":5,"method":"ping","params":[]})"), R"("id":null,"error")"));
  EXPECT_TRUE(has(say(R"({"jsonrpc":"2.0","id":6,"method":7})"), R"("id":6,"error")"));
  tools_.calls.front()->finish_text(false, "x");
  EXPECT_TRUE(has(heard(), R"("id":5,"result")"));
}

TEST_F(Mcp, ABatchHoldsTheAnswerToEachOfItsMessagesAlsoTheMalformed) {
  initialize("2025-03-26");
  EXPECT_EQ(say(R"([{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"tool0"}},)"
                R"({"jsonrpc":"2.0","id":5,"method":7},{"jsonrpc":"2.0","id":6,"method":7},7,)"
                R"({"jsonrpc":"2.0","id":5,"method":"ping"}])"),
            "");
  tools_.calls.front()->finish_text(false, "x");
  const std::string answers = heard();
  EXPECT_TRUE(answers.starts_with('[') && answers.ends_with(']') && !has(answers, "\n")) << answers;
  wire::Decoder decoder;
  const auto document = decoder.parse(as_bytes(answers));
  ASSERT_TRUE(document);
  std::vector<std::string> shapes;
  for (const wire::Value answer : document->root().items()) {
    shapes.push_back(answer.get("id").to_json() + (answer.get("error") ? " error" : " result"));
  }
  EXPECT_EQ(shapes, (std::vector<std::string>{"null error", "6 error", "null error", "null error", "5 result"}));
}

TEST_F(Mcp, ABatchOfNothingButMalformedMessagesIsAnsweredAsOne) {
  initialize("2025-03-26");
  const std::string answers = say(R"([7,{"jsonrpc":"2.0","id":6,"method":7}])");
  EXPECT_TRUE(answers.starts_with("[{") && answers.ends_with("}]") && !has(answers, "\n")) << answers;
}

TEST_F(Mcp, ACallThatIsSilentBeatsOnlyForWhoWantsProgress) {
  initialize();
  say(R"({"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"tool0","_meta":{"progressToken":"t"}}})");
  say(R"({"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"tool0"}})");
  ToolCall &wants = *tools_.calls[0], &does_not = *tools_.calls[1];
  const SteadyTime later = std::chrono::steady_clock::now() + kHeartbeat;
  EXPECT_LE(wants.beat(later - kHeartbeat), later) << "asked again in time";
  EXPECT_EQ(heard(), "");
  wants.beat(later);
  EXPECT_EQ(heard(),
            R"({"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"t","progress":1.0}})");
  wants.report("news");
  EXPECT_TRUE(has(heard(), R"("progress":2.0,"message":"news")"));
  EXPECT_EQ(does_not.beat(later), SteadyTime::max());
  EXPECT_EQ(heard(), "");
}

TEST_F(Mcp, AToolSaysWhetherItReachesBeyondItsSandbox) {
  initialize();
  EXPECT_TRUE(has(say(R"({"jsonrpc":"2.0","id":1,"method":"tools/list"})"), R"("openWorldHint":false)"));
}

TEST_F(Mcp, ACancelledCallIsToldAndNeverAnswered) {
  initialize();
  say(R"({"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"tool0"}})");
  bool is_cancelled = false;
  tools_.calls[0]->on_cancel([&] { is_cancelled = true; });
  say(R"({"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":5,"reason":"enough"}})");
  EXPECT_TRUE(is_cancelled && tools_.calls[0]->is_over());
  tools_.calls[0]->finish_text(false, "late");
  EXPECT_EQ(heard(), "");
  EXPECT_EQ(server_.calls_in_flight(), 0U);
}

TEST_F(Mcp, ProgressGoesOnlyToWhoAskedForIt) {
  initialize();
  say(R"({"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"tool0"}})");
  say(R"({"jsonrpc":"2.0","id":6,"method":"tools/call","params":{"name":"tool0","_meta":{"progressToken":"t"}}})");
  tools_.calls[0]->progress(1, std::nullopt, "no");
  tools_.calls[1]->progress(1, 2, "yes");
  EXPECT_EQ(
      heard(),
      R"({"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"t","progress":1.0,"total":2.0,"message":"yes"}})");
}

TEST_F(Mcp, CallsInFlightAreBounded) {
  initialize();
  for (std::size_t i = 0; i < kMaxCalls; ++i) {
    say(R"({"jsonrpc":"2.0","id":)" + std::to_string(i) + R"(,"method":"tools/call","params":{"name":"tool0"}})");
  }
  EXPECT_TRUE(has(say(R"({"jsonrpc":"2.0","id":"more","method":"tools/call","params":{"name":"tool0"}})"), "-32000"));
}

TEST_F(Mcp, TheOldRevisionsSeeNoStructuredContent) {
  initialize("2025-03-26");
  say(R"({"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"tool0"}})");
  tools_.calls[0]->finish(false, [](wire::JsonWriter& json) { json.key("content").raw("[]"); }, R"({"x":1})");
  EXPECT_EQ(heard(), R"({"jsonrpc":"2.0","id":5,"result":{"content":[],"isError":false}})");
}

TEST_F(Mcp, ABatchOfItsOneRevisionIsAnsweredAsOne) {
  initialize("2025-03-26");
  EXPECT_EQ(say(R"([{"jsonrpc":"2.0","id":1,"method":"ping"},{"jsonrpc":"2.0","method":"notifications/x"},)"
                R"({"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"tool0"}}])"),
            "");
  tools_.calls[0]->finish_text(false, "x");
  const std::string both = heard();
  EXPECT_TRUE(both.starts_with(R"([{"jsonrpc":"2.0","id":1,"result":{}},{"jsonrpc":"2.0","id":2,)")) << both;
  EXPECT_TRUE(both.ends_with("]"));
  EXPECT_EQ(say(R"([{"jsonrpc":"2.0","method":"notifications/x"}])"), "");
}

}  // namespace
}  // namespace sallyport::mcp
