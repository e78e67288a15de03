#include <gtest/gtest.h>

#include "platform/address.h"
#include "platform/config.h"
#include "platform/embedded.h"
#include "platform/memory_cache.h"
#include "platform/tree_toml.h"

namespace sallyport::platform {
namespace {

Result<Config> from_toml(const std::string& text) {
  TRY(const toml::table root, policy::toml_table::parse(text, "sallyport.toml"));
  return parse_config(tree_from_toml(*root.get("platform")), "sallyport.toml");
}

Result<Config> from_json(const std::string& text) {
  TRY(const Node tree, tree_from_json(text, "platform.json"));
  return parse_config(tree, "platform.json");
}

std::string refusal(const Result<Config>& config) { return config ? "accepted" : config.error().message; }

constexpr const char* kFull = R"([platform]
on_init_failure = "error"
allow_adapters = ["files", "redis", "memory", "openai", "hashing", "mine"]
[platform.adapters]
storage = "files"
cache = ["redis", "memory"]
llm = "openai"
embeddings = "hashing"
events = "mine"
[platform.placement]
embeddings = "worker"
[platform.adapter_options.redis]
url = "unix:///run/redis.sock"
credential = "redis"
[platform.adapter_options.openai]
url = "https://api.example.com/v1"
credential = "llm"
models = { small = "model-1" }
[platform.credentials.redis]
from_file = "/etc/redis.secret"
inject = "password"
[platform.credentials.llm]
from_env = "LLM_API_KEY"
hosts = ["api.example.com"]
paths = ["/v1/*"]
[platform.quotas]
requests_per_minute = 600
[platform.third_party.mine]
path = "/opt/mine"
sha256 = "0000000000000000000000000000000000000000000000000000000000000000"
roles = ["events"]
)";

TEST(PlatformConfig, IsReadWholeAndMeansTheSameAsJson) {
  const auto config = from_toml(kFull);
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->adapters.at(Role::cache), (std::vector<std::string>{"redis", "memory"}));
  EXPECT_TRUE(config->is_init_failure_an_error);
  EXPECT_EQ(config->hosts_of("openai"), std::vector<std::string>{"api.example.com"});
  EXPECT_EQ(config->quotas.requests_per_minute, 600);
  const auto again = from_json(to_json(*config));
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(to_json(*again), to_json(*config));
  EXPECT_EQ(hash_of(*again), hash_of(*config));
}

TEST(PlatformConfig, FaultsNameFileLineColumnAndWordInToml) {
  EXPECT_EQ(refusal(from_toml("[platform]\nadaptors = 1\n")), "sallyport.toml:2:1: unknown key 'adaptors' in platform");
  EXPECT_EQ(refusal(from_toml("[platform.adapters]\nstorage = 7\n")),
            "sallyport.toml:2:11: 'storage' must be text or an array of texts");
}

TEST(PlatformConfig, FaultsNameFileLineColumnAndWordInJson) {
  EXPECT_EQ(refusal(from_json("{\n  \"adapters\": {\n    \"storag\": \"files\"\n  }\n}")).substr(0, 49),
            "platform.json:3:5: there is no role 'storag'; the");
  EXPECT_EQ(refusal(from_json("{\"on_init_failure\":\n \"never\"}")),
            "platform.json:2:2: 'on_init_failure' must be \"noop\" or \"error\"");
  EXPECT_EQ(refusal(from_json("{\n  \"adapters\": {\n    \"cache\" \"memory\"\n  }\n}")),
            "platform.json:3:13: is no valid JSON: malformed JSON: a member without a colon");
  EXPECT_EQ(refusal(from_json("{\n  \"adapters\": {},\n}")),
            "platform.json:3:1: is no valid JSON: malformed JSON: a member without a name");
  EXPECT_EQ(refusal(from_json("{\n  \"on_init_failure\": \"no\nop\"}")),
            "platform.json:2:25: is no valid JSON: malformed JSON: a control character in a string");
  EXPECT_EQ(refusal(from_json("{\"adapters\":{},\n\"adapters\":{}}")),
            "platform.json:2:15: is no valid JSON: malformed JSON: duplicate key");
}

// ---- secrets ----

TEST(PlatformConfig, AttackKeysThatWouldHoldASecretAreRefused) {
  for (const char* key :
       {"password", "api_key", "apiKey", "API-KEY", "token", "secret", "access_key", "Authorization"}) {
    const std::string text =
        "[platform.adapter_options.redis]\nurl = \"redis://h:1\"\n" + std::string(key) + " = \"x\"\n";
    const std::string said = refusal(from_toml(text));
    EXPECT_NE(said.find("sallyport.toml:3:1: "), std::string::npos) << key << said;
    EXPECT_NE(said.find("would hold a secret"), std::string::npos) << key << said;
  }
}

TEST(PlatformConfig, AttackInterpolationIsRefusedAndNeverDone) {
  for (const char* value : {"${API_KEY}", "https://h/${X}", "$(cat /etc/passwd)"}) {
    const std::string said =
        refusal(from_toml("[platform.adapter_options.openai]\nurl = \"" + std::string(value) + "\"\n"));
    EXPECT_NE(said.find("nothing is interpolated"), std::string::npos) << said;
  }
}

TEST(PlatformConfig, AttackAddressesWithUserInfoAreRefused) {
  for (const char* url : {"redis://user:pass@h:1", "redis://:pass@h", "https://key@h/v1"}) {
    const std::string said =
        refusal(from_toml("[platform.adapter_options.redis]\nurl = \"" + std::string(url) + "\"\n"));
    EXPECT_NE(said.find("user info"), std::string::npos) << said;
  }
}

// What fetches an address takes them out, behind the back of whoever compared its path.
TEST(PlatformConfig, AttackAddressesWithDotsInTheirPathAreRefused) {
  for (const char* path : {"/v1/../admin", "/v1/..", "/./v1", "/v1/%2e%2E/admin", "/v1/.%2e/admin"}) {
    const std::string said =
        refusal(from_toml("[platform.adapter_options.openai]\nurl = \"http://h" + std::string(path) + "\"\n"));
    EXPECT_NE(said.find("must have no . or .. in its path"), std::string::npos) << said;
  }
  EXPECT_TRUE(parse_address("http://h/v1.2/..x/%2f"));
}

TEST(PlatformConfig, AttackValuesThatLookLikeSecretsAreRefusedWithoutRepeatingThem) {
  const std::string said =
      refusal(from_toml("[platform.adapter_options.openai]\nmodels = { a = \"sk-abcdef123456\" }\n"));
  EXPECT_NE(said.find("looks like a secret"), std::string::npos) << said;
  EXPECT_EQ(said.find("abcdef"), std::string::npos);
}

TEST(PlatformConfig, AttackSecretsInTheMiddleOfValuesAndInNamesAreRefused) {
  for (const char* text : {"url = \"https://a.example/v1/sk-abcdef1234567890\"",
                           "models = { a = \"eyJ0eXAiOiJKV1Qi\" }", "models = { sk-abcdef1234567890 = \"m\" }"}) {
    const std::string said = refusal(from_toml("[platform.adapter_options.openai]\n" + std::string(text) + "\n"));
    EXPECT_NE(said.find("looks like a secret"), std::string::npos) << said;
    EXPECT_EQ(said.find("abcdef"), std::string::npos);
  }
  EXPECT_EQ(refusal(from_toml("[platform.adapter_options.openai]\nurl = \"https://a.example/task-1/sk-1\"\n")),
            "accepted");
}

TEST(PlatformConfig, WhatCouldNeverMatchIsRefusedAndSizesAreWrittenAsInProfiles) {
  for (const char* path : {"v1/chat", "/v1/*/chat"}) {
    EXPECT_NE(
        refusal(from_toml("[platform.credentials.k]\nfrom_env = \"K\"\npaths = [\"" + std::string(path) + "\"]\n"))
            .find("'paths' must begin with /"),
        std::string::npos);
  }
  const auto config = from_toml(
      "[platform.quotas]\nstorage_bytes = \"64MiB\"\n[platform.third_party.mine]\npath = \"/opt/mine\"\nroles = "
      "[\"cache\"]\nsha256 = \"" +
      std::string(64, 'A') + "\"\n");
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->quotas.storage_bytes, 64 << 20);
  EXPECT_EQ(config->third_party.at("mine").sha256, std::string(64, 'a'));
  EXPECT_NE(refusal(from_toml("[platform.quotas]\nstorage_bytes = \"much\"\n")).find("must be an integer"),
            std::string::npos);
}

TEST(PlatformConfig, ImplementationsOffTheAllowListAreRefused) {
  EXPECT_NE(refusal(from_toml("[platform]\nallow_adapters = [\"files\"]\n[platform.adapters]\ncache = \"memory\"\n"))
                .find("not on allow_adapters"),
            std::string::npos);
  EXPECT_NE(refusal(from_toml("[platform.adapters]\ncache = \"evil-package\"\n")).find("there is no implementation"),
            std::string::npos);
}

TEST(PlatformConfig, WhatDidNotComeWithUsMustBePinnedAndNamed) {
  const std::string party = "[platform.third_party.mine]\npath = \"/opt/mine\"\nroles = [\"cache\"]\n";
  EXPECT_NE(refusal(from_toml(party)).find("needs 'sha256'"), std::string::npos);
  const std::string pinned =
      party + "sha256 = \"" + std::string(64, '0') + "\"\n[platform.adapters]\ncache = \"mine\"\n";
  EXPECT_NE(refusal(from_toml(pinned)).find("not on allow_adapters"), std::string::npos);
  EXPECT_EQ(refusal(from_toml("[platform]\nallow_adapters = [\"mine\"]\n" + pinned)), "accepted");
}

TEST(PlatformConfig, ACredentialGoesOnlyToHostsItNames) {
  const std::string said =
      refusal(from_toml("[platform.adapter_options.openai]\nurl = \"https://evil.example\"\ncredential = \"k\"\n"
                        "[platform.credentials.k]\nfrom_env = \"K\"\nhosts = [\"api.example.com\"]\n"));
  EXPECT_NE(said.find("may not be sent to evil.example"), std::string::npos) << said;
}

TEST(PlatformConfig, PlainHttpIsForLoopbackOnly) {
  EXPECT_NE(refusal(from_toml("[platform.adapter_options.openai]\nurl = \"http://api.example.com\"\n")).find("https"),
            std::string::npos);
  EXPECT_EQ(refusal(from_toml("[platform.adapter_options.openai]\nurl = \"http://127.0.0.1:8080/v1\"\n")), "accepted");
}

TEST(PlatformConfig, OnlyWhatNeedsNothingOfTheHostRunsInAWorker) {
  const auto placed = [](const std::string& role, const std::string& implementation) {
    return refusal(from_toml("[platform.adapters]\n" + role + " = \"" + implementation +
                             "\"\n[platform.adapter_options.redis]\nurl = \"unix:///r\"\n[platform.placement]\n" +
                             role + " = \"worker\"\n"));
  };
  EXPECT_EQ(placed("storage", "files"), "accepted");
  EXPECT_EQ(placed("cache", "memory"), "accepted");
  for (const auto& [role, implementation] : {std::pair("cache", "redis"), {"cache", "sqlite"}, {"vector", "sqlite"}}) {
    EXPECT_NE(placed(role, implementation).find("neither secret nor network"), std::string::npos) << implementation;
  }
}

TEST(PlatformConfig, AThirdPartysHostsAreRulesAndWithinItsCredentials) {
  const auto hosts = [](const std::string& list, const std::string& more = "") {
    return refusal(from_toml("[platform.third_party.mine]\npath = \"/opt/mine\"\nroles = [\"cache\"]\nsha256 = \"" +
                             std::string(64, '0') + "\"\nhosts = " + list + "\n" + more));
  };
  EXPECT_EQ(hosts(R"(["api.example.com", "*.example.org:8443", "127.0.0.1:80"])"), "accepted");
  EXPECT_NE(hosts(R"(["*"])").find(":5:"), std::string::npos) << hosts(R"(["*"])");
  EXPECT_NE(hosts(R"(["http://api.example.com"])").find("'hosts'"), std::string::npos);
  const std::string credential = "credential = \"k\"\n[platform.credentials.k]\nfrom_env = \"K\"\nhosts = ";
  EXPECT_EQ(hosts(R"(["api.example.com:8443"])", credential + R"(["api.example.com"])"), "accepted");
  EXPECT_NE(hosts(R"(["evil.example"])", credential + R"(["api.example.com"])").find("may not be sent to evil.example"),
            std::string::npos);
}

// ---- what runs on both sides ----

class HandClock final : public Clock {
 public:
  SteadyTime steady() const override { return now; }
  std::int64_t unix_millis() const override { return 0; }
  SteadyTime now;
};

TEST(MemoryCache, ForgetsWhatHasEndedAndWhatWasUsedLongestAgo) {
  HandClock clock;
  MemoryCache cache(clock, 4 * 1024);
  ASSERT_TRUE(cache.set("short", "1", Millis(10)));
  clock.now += Millis(11);
  EXPECT_EQ(cache.get("short"), nullptr);
  for (int i = 0; i < 100; ++i) {
    ASSERT_TRUE(cache.set("k" + std::to_string(i), "v", {}));
    ASSERT_NE(cache.get("k0"), nullptr) << i;
  }
  EXPECT_EQ(cache.get("k1"), nullptr);
  EXPECT_FALSE(cache.set("large", std::string(8192, 'x'), {}));
}

TEST(MemoryCache, KeepsTheOldValueWhereTheNewOneIsRefused) {
  const SystemClock clock;
  MemoryCache cache(clock, 4 * 1024);
  ASSERT_TRUE(cache.set("k", "old", {}));
  EXPECT_EQ(cache.set("k", std::string(8192, 'x'), {}).error().code, Code::payload_too_large);
  const std::string* kept = cache.get("k");
  ASSERT_NE(kept, nullptr);
  EXPECT_EQ(*kept, "old");
}

float similarity(const std::string& a, const std::string& b) {
  const auto left = hash_text(a, 256), right = hash_text(b, 256);
  float sum = 0;
  for (std::size_t i = 0; i < left.size(); ++i) sum += left[i] * right[i];
  return sum;
}

TEST(HashText, IsDeterministicAndFindsAlikeTextsAlike) {
  EXPECT_EQ(hash_text("one two", 64), hash_text("One, TWO!", 64));
  EXPECT_GT(similarity("the cat sat on the mat", "a cat sat on a mat"),
            similarity("the cat sat on the mat", "quarterly revenue grew"));
}

TEST(MemoryCache, CountsOnlyWhatIsANumberAsWeWriteIt) {
  const SystemClock clock;
  MemoryCache cache(clock, 64 * 1024);
  EXPECT_EQ(*cache.add("n", 5, {}), 5);
  EXPECT_EQ(*cache.add("n", -7, {}), -2);
  for (const char* text : {"01", "-0", "+1", " 1", "1 ", "", "x", "9223372036854775808"}) {
    ASSERT_TRUE(cache.set("t", text, {}));
    EXPECT_EQ(cache.add("t", 1, {}).error().code, Code::conflict) << text;
  }
  ASSERT_TRUE(cache.set("t", "9223372036854775807", {}));
  EXPECT_EQ(cache.add("t", 1, {}).error().code, Code::conflict);
  EXPECT_EQ(cache.set_if_absent("huge", std::string(65 * 1024, 'x'), {}).error().code, Code::payload_too_large);
}

}  // namespace
}  // namespace sallyport::platform
