// Quotas: reserved before, settled after, kept over a restart, and not to be raced.
#include <atomic>
#include <thread>

#include "platform/limits.h"
#include "platform_e2e/fixture.h"

namespace sallyport::testing {
namespace {

constexpr const char* kLocal =
    "[platform.adapters]\nstorage = \"files\"\nllm = \"echo\"\ncache = \"memory\"\nvector = \"sqlite\"\n";

constexpr std::int64_t kOne = 1 + platform::kObjectCost;  // what an object with a key of one byte counts for

class PlatformQuotas : public PlatformDoor {
 protected:
  std::int64_t used(const char* name) { return quota(name); }
};

TEST_F(PlatformQuotas, StorageIsCountedGivenBackAndKeptOverARestart) {
  // 100 bytes, and what two objects with such keys count for besides.
  start_platform(kLocal, std::string("quotas = { storage_bytes = 614 }\n") + kAllGrants);
  Client worker = as_container(make_container());
  const auto write = [&](Client& client, const std::string& key, std::size_t size) {
    return client.outcome("storage.write", R"({"key":")" + key + R"(","value":")" + std::string(size, 'x') + "\"}");
  };
  EXPECT_EQ(write(worker, "a", 60), "OK");
  EXPECT_EQ(write(worker, "b", 50), "QUOTA_EXCEEDED");
  EXPECT_EQ(write(worker, "a", 40), "OK") << "a replaced value gives back what it had";
  EXPECT_EQ(used("storage_bytes"), 40 + kOne);
  EXPECT_EQ(worker.outcome("storage.delete", R"({"key":"a"})"), "OK");
  EXPECT_EQ(used("storage_bytes"), 0);
  EXPECT_EQ(write(worker, "c", 90), "OK");
  worker.close();
  daemon().stop();
  ASSERT_TRUE(daemon().start());
  Client again = as_container(make_container());
  EXPECT_EQ(write(again, "d", 20), "QUOTA_EXCEEDED");
  EXPECT_EQ(used("storage_bytes"), 90 + kOne);
}

TEST_F(PlatformQuotas, AttackEmptyObjectsWithoutEnd) {
  start_platform(kLocal, std::string("quotas = { storage_bytes = 2560 }\n") + kAllGrants);
  const std::string id = make_container();
  Client worker = as_container(id);
  int written = 0;
  std::string code = "OK";
  for (; written < 100 && code == "OK"; written += code == "OK" ? 1 : 0) {
    code = worker.outcome("storage.write", R"({"key":"k)" + std::to_string(written) + R"(","value":""})");
  }
  EXPECT_EQ(code, "QUOTA_EXCEEDED");
  EXPECT_EQ(written, 9);
  EXPECT_EQ(platform_of(id)->vectors().upsert({"v"}, std::vector<float>(1, 1.0F), 1).error().code,
            Code::quota_exceeded);
}

TEST_F(PlatformQuotas, VectorsCountAsStorage) {
  start_platform(kLocal, std::string("quotas = { storage_bytes = 456 }\n") + kAllGrants);
  const auto platform = platform_of(make_container());
  const std::vector<float> one(32, 1.0F);
  ASSERT_TRUE(platform->vectors().upsert({"a"}, one, 32));
  EXPECT_EQ(platform->vectors().upsert({"b"}, one, 32).error().code, Code::quota_exceeded);
  EXPECT_EQ(*platform->vectors().remove({"a"}), 1);
  EXPECT_TRUE(platform->vectors().upsert({"b"}, one, 32));
}

TEST_F(PlatformQuotas, TokensAreSettledAsTheyWereUsed) {
  start_platform(kLocal, std::string("quotas = { tokens_per_day = 100 }\n") + kAllGrants);
  Client worker = as_container(make_container());
  const std::string ask = R"({"max_tokens":10,"messages":[{"role":"user","content":"one two three"}]})";
  EXPECT_EQ(worker.outcome("llm.complete", ask), "OK");
  EXPECT_EQ(used("tokens_per_day"), 6) << "three in, three out";
  const auto refused = worker.call("llm.complete", R"({"max_tokens":500,"messages":[{"role":"user","content":"x"}]})");
  ASSERT_TRUE(refused && refused->error);
  EXPECT_EQ(refused->error->code, Code::quota_exceeded);
}

TEST_F(PlatformQuotas, RequestsPerMinuteSayWhenToComeBack) {
  start_platform(kLocal, std::string("quotas = { requests_per_minute = 3 }\n") + kAllGrants);
  Client worker = as_container(make_container());
  std::optional<wire::Message> last;
  // A minute may turn in between: twice as many can never all fit.
  for (int i = 0; i < 8 && code_of(last) != "QUOTA_EXCEEDED"; ++i) last = worker.call("cache.get", R"({"key":"a"})");
  ASSERT_EQ(code_of(last), "QUOTA_EXCEEDED");
  EXPECT_TRUE(last->error->retryable);
  wire::Decoder decoder;
  const auto details = decoder.parse(last->error->details_json);
  const auto wait = details->root().get("retry_after_ms").as_int().value_or(-1);
  EXPECT_GT(wait, 0);
  EXPECT_LE(wait, 60'000);
}

TEST_F(PlatformQuotas, AttackTheLastUnitRacedByAHundredParallelCalls) {
  start_platform(kLocal, std::string("quotas = { storage_bytes = 3600 }\n") + kAllGrants);
  const std::string id = make_container();
  std::vector<Client> workers;
  for (int i = 0; i < 100; ++i) workers.push_back(as_container(id));
  for (int i = 0; i < 100; ++i) {
    const std::string params = R"({"key":"k)" + std::to_string(i) + R"(","value":")" + std::string(100, 'x') + "\"}";
    ASSERT_TRUE(workers[static_cast<std::size_t>(i)].send_request("w", "storage.write", params));
  }
  int written = 0, refused = 0;
  for (Client& worker : workers) {
    const std::string code = code_of(worker.next_message());
    written += code == "OK" ? 1 : 0;
    refused += code == "QUOTA_EXCEEDED" ? 1 : 0;
  }
  EXPECT_EQ(written, 10);
  EXPECT_EQ(refused, 90);
  EXPECT_LE(used("storage_bytes"), 3600);
}

TEST_F(PlatformQuotas, TheHostsCommonQuotaHoldsWhereAProfileSaysNothing) {
  start_platform(std::string(kLocal) + "[platform.quotas]\nstorage_bytes = 267\n");
  Client worker = as_container(make_container());
  EXPECT_EQ(worker.outcome("storage.write", R"({"key":"a","value":"12345678901"})"), "QUOTA_EXCEEDED");
}

TEST_F(PlatformQuotas, EachContainerIsATenantWhereTheProfileSaysSo) {
  start_platform(kLocal, std::string("tenant = \"container\"\nquotas = { storage_bytes = 267 }\n") + kAllGrants);
  Client one = as_container(make_container()), two = as_container(make_container());
  EXPECT_EQ(one.outcome("storage.write", R"({"key":"a","value":"1234567890"})"), "OK");
  EXPECT_EQ(two.outcome("storage.write", R"({"key":"a","value":"1234567890"})"), "OK");
  EXPECT_EQ(one.outcome("storage.write", R"({"key":"b","value":"1"})"), "QUOTA_EXCEEDED");
}

TEST_F(PlatformQuotas, WhatAContainerOfItsOwnLeftIsForgottenWhenTheHostSaysSo) {
  start_platform(kLocal, std::string("tenant = \"container\"\nquotas = { storage_bytes = 4096 }\n") + kAllGrants);
  const std::string id = make_container(), tenant = "container." + id;
  const auto platform = platform_of(id);
  ASSERT_TRUE(platform->storage("b").write("a", "kept"));
  ASSERT_TRUE(platform->vectors().upsert({"v"}, std::vector<float>(4, 1.0F), 4));
  const std::string named = R"({"tenant":")" + tenant + "\"}";
  EXPECT_EQ(as_container(id).outcome("platform.forget", named), "POLICY_DENIED");
  EXPECT_EQ(connect().outcome("platform.forget", R"({"tenant":"profile.plugin"})"), "INVALID_PARAMS");
  EXPECT_EQ(connect().outcome("platform.forget", named), "CONFLICT") << "it is still there";
  const std::string container = R"({"container":")" + id + "\"";
  ASSERT_EQ(connect().outcome("container.stop", container + R"(,"grace_ms":0})"), "OK");
  ASSERT_EQ(connect().outcome("container.remove", container + "}"), "OK");
  const std::string directory = daemon().root() + "/state/platform/storage/" + tenant;
  EXPECT_TRUE(std::filesystem::exists(directory));
  const std::string said = run_cli("platform forget " + tenant);
  EXPECT_NE(said.find("nothing of " + tenant + " is kept any more\nexit 0"), std::string::npos) << said;
  EXPECT_FALSE(std::filesystem::exists(directory));
  Client host = connect();
  EXPECT_EQ(member(host, "platform.recount", named, "was"), "0");
  EXPECT_EQ(member(host, "platform.recount", named, "used"), "0") << "nor are its vectors";
}

}  // namespace
}  // namespace sallyport::testing
