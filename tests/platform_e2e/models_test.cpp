// Models behind HTTP: what they answer, and servers that are slow, rude or broken.
#include <sys/socket.h>

#include <future>

#include "platform/limits.h"
#include "platform_e2e/fixture.h"

namespace sallyport::testing {
namespace {

using platform::Role;

class PlatformModels : public PlatformDoor {};

TEST_F(PlatformModels, AModelAnswersAndStreams) {
  WebServer web([](const WebServer::Request& request, int connection) {
    if (request.body.find("\"stream\":true") != std::string::npos) {
      WebServer::write(connection, WebServer::stream_head() + WebServer::token("one ") + WebServer::token("two"));
      WebServer::write(connection,
                       "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n"
                       "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":7,\"completion_tokens\":2}}\n\n"
                       "data: [DONE]\n\n");
      return;
    }
    if (request.path == "/v1/embeddings") {
      WebServer::write(connection,
                       WebServer::json(R"({"data":[{"index":1,"embedding":[0,1]},{"index":0,"embedding":[1,0.5]}],)"
                                       R"("usage":{"prompt_tokens":3}})"));
      return;
    }
    WebServer::write(connection,
                     WebServer::json(R"({"choices":[{"message":{"content":"hello"},"finish_reason":"stop"}],)"
                                     R"("usage":{"prompt_tokens":5,"completion_tokens":1}})"));
  });
  start_platform(openai(web));
  const auto platform = platform_of(make_container());
  EXPECT_EQ(platform->adapter(Role::llm).models, std::vector<std::string>{"small"});
  const auto completed =
      platform->complete("hi", {.model = {}, .system = "be brief", .max_tokens = 9, .temperature = 0.5});
  ASSERT_TRUE(completed) << completed.error().message;
  EXPECT_EQ(completed->text, "hello");
  EXPECT_EQ(completed->input_tokens, 5);
  EXPECT_TRUE(completed->is_model);
  EXPECT_NE(web.requests().back().body.find(R"("model":"model-1")"), std::string::npos);
  EXPECT_NE(web.requests().back().body.find(R"("max_tokens":9)"), std::string::npos);
  EXPECT_NE(web.requests().back().body.find(R"("temperature":0.5)"), std::string::npos);
  std::string streamed;
  const auto whole = platform->stream("hi", [&](std::string_view text) {
    streamed += text;
    return true;
  });
  ASSERT_TRUE(whole) << whole.error().message;
  EXPECT_EQ(streamed, "one two");
  EXPECT_EQ(whole->output_tokens, 2);
  const auto vectors = platform->embed({"a", "b"});
  ASSERT_TRUE(vectors) << vectors.error().message;
  EXPECT_EQ(vectors->vectors, (std::vector<float>{1, 0.5F, 0, 1}));
}

TEST_F(PlatformModels, TooManyRequestsSayWhenToComeBack) {
  WebServer web([](const auto& request, int connection) {
    WebServer::write(connection, request.method == "GET"
                                     ? WebServer::json("{}")
                                     : WebServer::json("{}", "429 Too Many Requests", "Retry-After: 7\r\n"));
  });
  start_platform(openai(web));
  Client worker = as_container(make_container());
  const auto answer = worker.call("llm.complete", kAsk);
  ASSERT_EQ(code_of(answer), "RATE_LIMITED");
  EXPECT_EQ(answer->error->details_json, R"({"retry_after_ms":7000})");
}

TEST_F(PlatformModels, AttackATimeToComeBackBeyondAllNumbersIsADay) {
  WebServer web([](const auto& request, int connection) {
    WebServer::write(connection, request.method == "GET" ? WebServer::json("{}")
                                                         : WebServer::json("{}", "429 Too Many Requests",
                                                                           "Retry-After: 9223372036854775807\r\n"));
  });
  start_platform(openai(web));
  Client worker = as_container(make_container());
  const auto answer = worker.call("llm.complete", kAsk);
  ASSERT_EQ(code_of(answer), "RATE_LIMITED");
  EXPECT_EQ(answer->error->details_json, R"({"retry_after_ms":86400000})");
}

TEST_F(PlatformModels, AStreamCutInTheMiddleIsAnErrorAfterWhatCame) {
  WebServer web([](const auto& request, int connection) {
    if (request.method == "GET") {
      WebServer::write(connection, WebServer::json("{}"));
      return;
    }
    WebServer::write(connection, WebServer::stream_head() + WebServer::token("one ") + "data: {\"choi");
  });
  start_platform(openai(web));
  const auto platform = platform_of(make_container());
  std::string streamed;
  const auto whole = platform->stream("hi", [&](std::string_view text) {
    streamed += text;
    return true;
  });
  ASSERT_FALSE(whole);
  EXPECT_EQ(whole.error().code, Code::io_error);
  EXPECT_TRUE(whole.error().retryable);
  EXPECT_EQ(streamed, "one ");
}

TEST_F(PlatformModels, AStreamEndsWithItsLastWordWhoeverHoldsTheConnection) {
  std::promise<void> over;
  WebServer web([held = over.get_future().share()](const auto& request, int connection) {
    if (request.method == "GET") {
      WebServer::write(connection, WebServer::json("{}"));
      return;
    }
    WebServer::write(connection, WebServer::stream_head() + WebServer::token("one ") + "data: [DONE]\n\n");
    held.wait();
  });
  start_platform(openai(web));
  const auto whole = platform_of(make_container())->stream("hi", [](std::string_view) { return true; });
  over.set_value();
  ASSERT_TRUE(whole) << whole.error().describe();
  EXPECT_EQ(whole->text, "one ");
}

TEST_F(PlatformModels, WhatIsNoHttpIsABrokenAnswer) {
  WebServer web([](const auto& request, int connection) {
    WebServer::write(connection, request.method == "GET" ? WebServer::json("{}") : "what do you want?\r\n\r\n");
  });
  start_platform(openai(web));
  EXPECT_EQ(as_container(make_container()).outcome("llm.complete", kAsk), "IO_ERROR");
}

TEST_F(PlatformModels, AFaultToldWithinAStreamIsNoSuccess) {
  WebServer web([](const auto& request, int connection) {
    WebServer::write(connection, request.method == "GET"
                                     ? WebServer::json("{}")
                                     : WebServer::stream_head() + WebServer::token("one ") +
                                           "data: {\"error\":{\"message\":\"secret of the backend\"}}\n\n"
                                           "data: [DONE]\n\n");
  });
  start_platform(openai(web));
  const auto whole = platform_of(make_container())->stream("hi", [](std::string_view) { return true; });
  ASSERT_FALSE(whole);
  EXPECT_EQ(whole.error().code, Code::io_error);
  EXPECT_EQ(whole.error().message.find("secret"), std::string::npos);
}

TEST_F(PlatformModels, WhatIsNoVectorIsNotPassedOn) {
  std::string many = "0";
  for (std::int64_t i = 0; i < platform::kMaxDimensions; ++i) many += ",0";
  const std::string bad[] = {R"({"data":[{"index":0,"embedding":[1,1e300]}]})",
                             R"({"data":[{"index":0,"embedding":[1]},{"index":0,"embedding":[2]}]})",
                             R"({"data":[{"index":0,"embedding":[)" + many + "]}]}"};
  std::atomic<std::size_t> turn = 0;
  WebServer web([&](const auto& request, int connection) {
    WebServer::write(connection, WebServer::json(request.method == "GET" ? "{}" : bad[turn]));
  });
  start_platform(openai(web));
  const auto platform = platform_of(make_container());
  for (turn = 0; turn < std::size(bad); ++turn) {
    const auto embedded = platform->embed({"a"});
    ASSERT_FALSE(embedded) << turn;
    EXPECT_EQ(embedded.error().code, Code::io_error) << turn;
  }
}

TEST_F(PlatformModels, AnAnswerCutInTheMiddleIsAnError) {
  WebServer web([](const auto& request, int connection) {
    WebServer::write(connection, request.method == "GET"
                                     ? WebServer::json("{}")
                                     : "HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n{\"choices\"");
  });
  start_platform(openai(web));
  EXPECT_EQ(as_container(make_container()).outcome("llm.complete", kAsk), "IO_ERROR");
}

TEST_F(PlatformModels, GarbageAndHugeAnswersAreRefused) {
  std::atomic<int> turn = 0;
  WebServer web([&](const auto& request, int connection) {
    if (request.method == "GET") {
      WebServer::write(connection, WebServer::json("{}"));
    } else if (turn == 0) {
      WebServer::write(connection, WebServer::json("<html>not what you want</html>"));
    } else if (turn == 1) {
      WebServer::write(connection, WebServer::json(R"({"choices":"none"})"));
    } else if (turn == 2) {
      const std::string block(1 << 20, 'x');
      if (!WebServer::write(connection, "HTTP/1.1 200 OK\r\n\r\n{\"choices\":\"")) return;
      for (int i = 0; i < 64 && WebServer::write(connection, block); ++i) {
      }
    } else if (turn == 3) {
      WebServer::write(connection, WebServer::json("secret of the backend", "500 Internal Server Error"));
    } else {
      WebServer::write(connection, WebServer::json("", "302 Found", "Location: http://169.254.169.254/latest\r\n"));
    }
  });
  start_platform(openai(web));
  Client worker = as_container(make_container());
  const char* expected[] = {"IO_ERROR", "IO_ERROR", "PAYLOAD_TOO_LARGE", "UNAVAILABLE", "UNAVAILABLE"};
  for (const char* code : expected) {
    const auto answer = worker.call("llm.complete", kAsk);
    EXPECT_EQ(code_of(answer), code) << turn;
    if (answer && answer->error) {
      EXPECT_EQ(answer->error->message.find("secret"), std::string::npos);
    }
    ++turn;
  }
  EXPECT_EQ(daemon().log().find("secret of the backend"), std::string::npos);
}

TEST_F(PlatformModels, ASlowModelMissesItsDeadlineAndACancelledOneIsLetGo) {
  std::atomic<int> gone = 0;
  WebServer web([&](const auto& request, int connection) {
    if (request.method == "GET") {
      WebServer::write(connection, WebServer::json("{}"));
      return;
    }
    WebServer::write(connection, WebServer::stream_head() + WebServer::token("first"));
    char byte = 0;
    // Ends when the adapters hang up.
    while (::recv(connection, &byte, 1, 0) > 0) {
    }
    ++gone;
  });
  start_platform(openai(web));
  const std::string id = make_container();
  Client worker = as_container(id);
  // Long enough to reach the model on a busy machine: who never heard of the question cannot let it go.
  constexpr std::uint32_t kDeadlineMs = 3000;
  Bytes frame;
  ASSERT_TRUE(wire::append_request(
      frame, {.id = "slow", .method = "llm.complete", .deadline_ms = kDeadlineMs, .token = {}}, kAsk));
  ASSERT_TRUE(worker.send(text_of(frame)));
  EXPECT_EQ(code_of(worker.next_message()), "TIMEOUT");
  EXPECT_TRUE(eventually([&] { return gone == 1; }));
  const auto cancelled = platform_of(id)->stream("hi", [](std::string_view) { return false; });
  ASSERT_FALSE(cancelled);
  EXPECT_EQ(cancelled.error().code, Code::cancelled);
  EXPECT_TRUE(eventually([&] { return gone == 2; }));
}

}  // namespace
}  // namespace sallyport::testing
