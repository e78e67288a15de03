// What calls cost when their outcome is late, unknown, unsaid or a lie.
#include <csignal>

#include <algorithm>
#include <future>

#include "platform/limits.h"
#include "platform_e2e/fixture.h"
#include "platform_e2e/party.h"

namespace sallyport::testing {
namespace {

constexpr const char* kLocal = "[platform.adapters]\nstorage = \"files\"\nvector = \"sqlite\"\n";
constexpr const char* kMegabyte = "quotas = { storage_bytes = 1048576 }\n";

class PlatformSpends : public PlatformDoor {
 protected:
  // All that the tenant has, by its own list.
  static std::int64_t listed(Client& worker) {
    const auto answer = worker.call("storage.list", R"({"limit":1000})");
    std::int64_t bytes = 0;
    if (!answer || answer->error) return -1;
    for (const wire::Value object : answer->result.get("objects").items()) {
      bytes += object.get("size").as_int().value_or(0) + platform::kObjectCost +
               static_cast<std::int64_t>(object.get("key").as_string().value_or("").size());
    }
    return bytes;
  }
  bool nothing_is_open(const char* name) {
    return eventually([&] { return quota(name, "reserved") == 0; });
  }
};

TEST_F(PlatformSpends, AttackWritesThatMissShortDeadlinesAreCountedIfTheyWereMade) {
  start_platform(kLocal, std::string(kMegabyte) + kAllGrants);
  Client worker = as_container(make_container());
  ASSERT_EQ(code_of(worker.call("storage.list", "{}")), "OK");
  const pid_t adapters = adapters_pid();
  for (int i = 0; i < 60; ++i) {
    const std::string params =
        R"({"key":"k)" + std::to_string(i) + R"(","value":")" + std::string(100'000, 'x') + "\"}";
    // However fast they are, some of them are late.
    const bool is_late = i % 12 == 0;
    if (is_late) ::kill(adapters, SIGSTOP);
    ASSERT_TRUE(send_with_deadline(worker, "w", "storage.write", 1 + static_cast<std::uint32_t>(i) % 9, params));
    const std::string code = code_of(worker.next_message());
    if (is_late) ::kill(adapters, SIGCONT);
    EXPECT_TRUE((code == "OK" && !is_late) || code == "TIMEOUT" || code == "QUOTA_EXCEEDED") << code;
  }
  ASSERT_TRUE(nothing_is_open("storage_bytes"));
  EXPECT_EQ(listed(worker), quota("storage_bytes"));
  EXPECT_LE(listed(worker), 1'048'576);
}

TEST_F(PlatformSpends, AttackWritesThatAreCancelledAreCountedIfTheyWereMade) {
  start_platform(kLocal, std::string(kMegabyte) + kAllGrants);
  Client worker = as_container(make_container());
  for (int i = 0; i < 40; ++i) {
    const std::string id = "w" + std::to_string(i);
    ASSERT_TRUE(worker.send_request(
        id, "storage.write", R"({"key":"k)" + std::to_string(i) + R"(","value":")" + std::string(60'000, 'x') + "\"}"));
    ASSERT_TRUE(worker.send(frame_of(R"({"type":"event","id":")" + id + R"(","method":"cancel"})")));
    const std::string code = code_of(worker.next_message());
    EXPECT_TRUE(code == "OK" || code == "CANCELLED" || code == "QUOTA_EXCEEDED") << code;
  }
  ASSERT_TRUE(nothing_is_open("storage_bytes"));
  EXPECT_EQ(listed(worker), quota("storage_bytes"));
}

TEST_F(PlatformSpends, AStreamThatNeverComesHoldsItsReservationUntilTheDeadlineOnly) {
  start_platform(kLocal, std::string(kMegabyte) + kAllGrants);
  Client worker = as_container(make_container());
  ASSERT_TRUE(
      send_with_deadline(worker, "w", "storage.write", 200, R"({"key":"a","size":1000000,"value":{"$stream":1}})"));
  EXPECT_EQ(code_of(worker.next_message()), "TIMEOUT");
  ASSERT_TRUE(nothing_is_open("storage_bytes"));
  EXPECT_EQ(quota("storage_bytes"), 0);
}

TEST_F(PlatformSpends, AWriteThatTheDiskRefusesCostsNothing) {
  start_platform("[platform.adapters]\nstorage = \"files\"\n", std::string(kMegabyte) + kAllGrants);
  Client worker = as_container(make_container());
  ASSERT_EQ(worker.outcome("storage.write", R"({"bucket":"b","key":"a","value":"x"})"), "OK");
  // A file where the bucket was.
  for (const auto& entry : std::filesystem::recursive_directory_iterator(daemon().root() + "/state")) {
    if (!entry.is_directory() || entry.path().filename() != "b") continue;
    std::filesystem::remove_all(entry.path());
    std::ofstream(entry.path()) << "no directory";
    break;
  }
  EXPECT_EQ(worker.outcome("storage.write", R"({"bucket":"b","key":"a","value":"xyz"})"), "IO_ERROR");
  EXPECT_EQ(quota("storage_bytes"), 2 + platform::kObjectCost);
}

TEST_F(PlatformSpends, IdsOfVectorsCountAndAreGivenBack) {
  start_platform(kLocal, std::string(kMegabyte) + kAllGrants);
  const auto platform = platform_of(make_container());
  const std::vector<float> one(8, 1.0F);
  const std::string id(160, 'i');
  ASSERT_TRUE(platform->vectors().upsert({id}, one, 8));
  EXPECT_EQ(quota("storage_bytes"), 160 + 32 + 2 + platform::kObjectCost);
  EXPECT_EQ(*platform->vectors().remove({id}), 1);
  EXPECT_EQ(quota("storage_bytes"), 0);
}

TEST_F(PlatformSpends, WhatWasLostCountOfIsCountedAnew) {
  start_platform(kLocal, std::string(kMegabyte) + kAllGrants);
  const std::string id = make_container();
  Client worker = as_container(id);
  ASSERT_EQ(worker.outcome("storage.write", R"({"key":"a","value":"12345"})"), "OK");
  const std::vector<float> one(8, 1.0F);
  ASSERT_TRUE(platform_of(id)->vectors().upsert({"v"}, one, 8));
  // They die over a write whose bytes never came: nobody knows, so it counts.
  ASSERT_TRUE(worker.send_request("w", "storage.write", R"({"key":"b","size":500000,"value":{"$stream":1}})"));
  ASSERT_TRUE(eventually([&] { return quota("storage_bytes", "reserved") == 500'257; }));
  ASSERT_EQ(::kill(adapters_pid(), SIGKILL), 0);
  EXPECT_EQ(code_of(worker.next_message()), "UNAVAILABLE");
  EXPECT_EQ(quota("storage_bytes"), 500'257 + (5 + 1 + 256) + (35 + 256));
  EXPECT_EQ(worker.outcome("platform.recount", R"({"tenant":"profile.plugin"})"), "POLICY_DENIED");
  const std::string said = run_cli("platform recount profile.plugin 2>&1");
  EXPECT_NE(said.find("has 553 bytes stored; 500810 were counted"), std::string::npos) << said;
  EXPECT_EQ(quota("storage_bytes"), 553);
}

// ---- tokens ----

// A model that says of its use what it likes.
class Model {
 public:
  Model()
      : web_([this](const WebServer::Request& request, int connection) {
          if (request.method == "GET") {
            WebServer::write(connection, WebServer::json("{}"));
          } else if (request.body.find("\"stream\":true") != std::string::npos) {
            WebServer::write(connection, WebServer::stream_head() + WebServer::token("one ") + "data: [DONE]\n\n");
          } else if (request.path == "/v1/embeddings") {
            WebServer::write(connection, WebServer::json(R"({"data":[{"index":0,"embedding":[1,0]}])" + usage + "}"));
          } else {
            WebServer::write(connection, WebServer::json(R"({"choices":[{"message":{"content":")" + text +
                                                         R"("},"finish_reason":"stop"}])" + usage + "}"));
          }
        }) {}
  WebServer& web() { return web_; }
  std::string text = "hello", usage;  // changed only between requests

 private:
  WebServer web_;
};

constexpr const char* kTokens = "quotas = { tokens_per_day = 1000000 }\n";
constexpr const char* kAsk50 = R"({"max_tokens":50,"messages":[{"role":"user","content":"hi"}]})";

TEST_F(PlatformSpends, WithoutPlausibleUsageWhatWasReservedIsSpent) {
  Model model;
  start_platform(openai(model.web()), std::string(kTokens) + kAllGrants);
  Client worker = as_container(make_container());
  const auto cost = [&](const char* method, const char* params) {
    const std::int64_t before = quota("tokens_per_day");
    const std::string code = worker.outcome(method, params);
    EXPECT_EQ(quota("tokens_per_day", "reserved"), 0) << method;
    return std::pair(code, quota("tokens_per_day") - before);
  };
  model.usage = R"(,"usage":{"prompt_tokens":5,"completion_tokens":1})";
  EXPECT_EQ(cost("llm.complete", kAsk50), std::pair(std::string("OK"), std::int64_t{6}));
  for (const char* odd :
       {"", R"(,"usage":null)", R"(,"usage":{"prompt_tokens":-100000,"completion_tokens":1})",
        R"(,"usage":{"prompt_tokens":9223372036854775807,"completion_tokens":9223372036854775807})",
        R"(,"usage":{"prompt_tokens":"none","completion_tokens":1})", R"(,"usage":{"prompt_tokens":5})"}) {
    model.usage = odd;
    const auto [code, tokens] = cost("llm.complete", kAsk50);
    EXPECT_EQ(code, "OK") << odd;
    EXPECT_GE(tokens, 50) << odd;
    EXPECT_LT(tokens, 500) << odd;
  }
  // What it says is too little for what it said.
  model.usage = R"(,"usage":{"prompt_tokens":0,"completion_tokens":0})";
  model.text = std::string(16'000, 'x');
  EXPECT_EQ(cost("llm.complete", kAsk50).second, 1000);
  // The answer was made, and is too large for anybody.
  model.text = std::string(1'200'000, 'x');
  const auto [code, tokens] = cost("llm.complete", kAsk50);
  EXPECT_EQ(code, "PAYLOAD_TOO_LARGE");
  EXPECT_GE(tokens, 50);
}

TEST_F(PlatformSpends, AStreamWithoutUsageCostsWhatWasReserved) {
  Model model;
  start_platform(openai(model.web()), std::string(kTokens) + kAllGrants);
  const auto whole =
      platform_of(make_container())->stream("hi", [](std::string_view) { return true; }, {.max_tokens = 50});
  ASSERT_TRUE(whole) << whole.error().message;
  EXPECT_GE(quota("tokens_per_day"), 50);
}

TEST_F(PlatformSpends, EmbeddingsAndTheirDimensionsCostToo) {
  Model model;
  start_platform(openai(model.web()), std::string(kTokens) + kAllGrants);
  const std::string id = make_container();
  ASSERT_TRUE(platform_of(id)->embed({"a text without usage"}));
  Client worker = as_container(id);
  const std::int64_t embedded = quota("tokens_per_day");
  EXPECT_GT(embedded, 0);
  EXPECT_EQ(member(worker, "embeddings.dimensions", "{}", "dimensions"), "2");
  EXPECT_EQ(quota("tokens_per_day"), embedded) << "known from the answer before";
  EXPECT_EQ(model.web().requests().back().path, "/v1/embeddings");
}

TEST_F(PlatformSpends, AskingForDimensionsThatNobodyKnowsCostsTokens) {
  Model model;
  start_platform(openai(model.web()), std::string(kTokens) + kAllGrants);
  Client worker = as_container(make_container());
  EXPECT_EQ(member(worker, "embeddings.dimensions", "{}", "dimensions"), "2");
  EXPECT_GT(quota("tokens_per_day"), 0);
}

TEST_F(PlatformSpends, AModelThatMayHaveWorkedBeforeItFailedCostsWhatWasReserved) {
  std::string status;  // changed only between requests
  WebServer web([&](const auto& request, int connection) {
    WebServer::write(connection, request.method == "GET" ? WebServer::json("{}") : WebServer::json("", status));
  });
  start_platform(openai(web),
                 "quotas = { tokens_per_day = 1000000, requests_per_minute = 1000 }\n" + std::string(kAllGrants));
  Client worker = as_container(make_container());
  const auto cost = [&](const char* said) {
    status = said;
    const std::int64_t before = quota("tokens_per_day");
    EXPECT_EQ(worker.outcome("llm.complete", kAsk50), "UNAVAILABLE") << said;
    EXPECT_EQ(quota("tokens_per_day", "reserved"), 0) << said;
    return quota("tokens_per_day") - before;
  };
  EXPECT_EQ(cost("503 Service Unavailable"), 0) << "it says that it did nothing";
  for (const char* said : {"500 Internal Server Error", "502 Bad Gateway", "504 Gateway Timeout"}) {
    EXPECT_GE(cost(said), 50) << said;
  }
  EXPECT_GT(quota("requests_per_minute"), 0);
}

TEST_F(PlatformSpends, AttackATenantThatAsksSlowModelsOftenHoldsUpNobodyAndPaysForWhatWasAskedOnly) {
  std::promise<void> release;
  WebServer web([released = release.get_future().share()](const auto& request, int connection) {
    if (request.body.find("slowly") != std::string::npos) released.wait_for(kPatience);
    WebServer::write(connection, WebServer::json(R"({"choices":[{"message":{"content":"yes"}}]})"));
  });
  start_platform(openai(web),
                 "tenant = \"container\"\nquotas = { tokens_per_day = 1000000 }\n" + std::string(kAllGrants));
  const auto asked = [&] {
    const auto all = web.requests();
    return std::count_if(all.begin(), all.end(), [](const auto& each) { return each.method == "POST"; });
  };
  const std::string busy = make_container();
  const auto tokens = [&](const char* what) { return quota("tokens_per_day", what, "container." + busy); };
  constexpr const char* kSlowly = R"({"messages":[{"role":"user","content":"slowly"}],"max_tokens":50})";
  Client worker = as_container(busy), other = as_container(make_container());
  for (int i = 0; i < 16; ++i) ASSERT_TRUE(worker.send_request("h" + std::to_string(i), "llm.complete", kSlowly));
  ASSERT_TRUE(eventually([&] { return asked() == 16; }));
  const std::int64_t reserved = tokens("reserved");
  for (int i = 0; i < 4; ++i) {
    ASSERT_TRUE(send_with_deadline(worker, "late" + std::to_string(i), "llm.complete", 300, kSlowly));
  }
  for (int i = 0; i < 4; ++i) EXPECT_EQ(code_of(worker.next_message()), "TIMEOUT");
  EXPECT_TRUE(eventually([&] { return tokens("reserved") == reserved; }));
  EXPECT_EQ(tokens("used"), 0) << "they waited, and nobody was asked";
  EXPECT_EQ(asked(), 16);
  // Behind them in the line, and of another tenant.
  ASSERT_TRUE(worker.send_request("last", "llm.complete", kSlowly));
  ASSERT_TRUE(send_with_deadline(other, "other", "llm.complete", 10'000, kAsk));
  EXPECT_EQ(code_of(other.next_message()), "OK");
  release.set_value();
  for (int i = 0; i < 17; ++i) EXPECT_EQ(code_of(worker.next_message()), "OK");
  EXPECT_EQ(asked(), 18);
}

TEST_F(PlatformSpends, AModelThatIsNotThereCostsNothing) {
  start_platform(
      "[platform.adapters]\nllm = \"openai\"\n[platform.adapter_options.openai]\nurl = \"http://127.0.0.1:1/v1\"\n"
      "models = { small = \"m\" }\n",
      std::string(kTokens) + kAllGrants);
  Client worker = as_container(make_container());
  EXPECT_EQ(member(worker, "llm.complete", kAsk50, "noop"), "true");
  EXPECT_EQ(quota("tokens_per_day"), 0);
}

// ---- what others claim ----

// Storage that claims to have grown by the number that a key is.
constexpr const char* kLiar = R"py(
def answer(method, p):
  if method == "storage.write" and p["key"] == "silent": return {"size": 1}
  return {"size": 1, "deleted": True, "stored_bytes": int(p["key"])}
)py";

TEST_F(PlatformSpends, AttackAThirdPartysCountIsBelievedWithinWhatCanBe) {
  const PythonParty liar("storage", kLiar);
  start_platform(liar.config(), std::string(kMegabyte) + kAllGrants);
  Client worker = as_container(make_container());
  const auto write = [&](const std::string& key) {
    return worker.outcome("storage.write", R"({"key":")" + key + R"(","value":")" + std::string(100, 'x') + "\"}");
  };
  ASSERT_EQ(write("100"), "OK") << daemon().log();
  EXPECT_EQ(quota("storage_bytes"), 100);
  ASSERT_EQ(write("4611686018427387904"), "OK");
  EXPECT_EQ(quota("storage_bytes"), 100 + (100 + 19 + 256)) << "no more than was reserved for it";
  ASSERT_EQ(write("silent"), "OK");
  EXPECT_EQ(quota("storage_bytes"), 475 + (100 + 6 + 256)) << "what is not said is what was reserved";
  ASSERT_EQ(worker.outcome("storage.delete", R"({"key":"1000"})"), "OK");
  EXPECT_EQ(quota("storage_bytes"), 837) << "nothing grows by being deleted";
  ASSERT_EQ(worker.outcome("storage.delete", R"({"key":"-100"})"), "OK");
  EXPECT_EQ(quota("storage_bytes"), 737);
}

}  // namespace
}  // namespace sallyport::testing
