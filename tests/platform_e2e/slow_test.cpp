// Backends that are silent, slow, gone or back: what others feel of it, and what is said of it.
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
#include <csignal>

#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "os/files.h"
#include "platform_e2e/fixture.h"
#include "platform_e2e/party.h"

namespace sallyport::testing {
namespace {

using platform::Role;

// Takes connections and says nothing, ever.
class SilentPeer {
 public:
  explicit SilentPeer(std::string path)
      : path_(std::move(path)), fd_(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, path_.c_str(), path_.size());
    if (::bind(fd_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) std::abort();
    if (::listen(fd_.get(), 64) != 0) std::abort();
  }
  // Its name goes; whoever is connected stays so.
  void hide() const { ::unlink(path_.c_str()); }

 private:
  std::string path_;
  UniqueFd fd_;
};

class PlatformSlow : public PlatformDoor {
 protected:
  static std::string redis_config(const std::string& url, const std::string& roles, const std::string& secret = {}) {
    std::string text = "[platform.adapters]\nstorage = \"files\"\n" + roles +
                       "[platform.adapter_options.redis]\nurl = \"" + url + "\"\n";
    if (secret.empty()) return text;
    return text + "credential = \"redis\"\n[platform.credentials.redis]\nfrom_file = \"" + secret +
           "\"\ninject = \"password\"\n";
  }
};

TEST_F(PlatformSlow, ARedisThatIsSilentAtAuthHoldsNobodyAndTheFallbackIsTaken) {
  const TemporaryDirectory directory;
  const SilentPeer silent(directory.path() + "/redis.sock");
  ASSERT_TRUE(os::write_private_file(directory.path() + "/secret", "open-sesame\n"));
  start_platform(redis_config("unix://" + directory.path() + "/redis.sock", "cache = [\"redis\", \"memory\"]\n",
                              directory.path() + "/secret"));
  Client worker = as_container(make_container());
  ASSERT_TRUE(worker.send_request("cache", "cache.set", R"({"key":"a","value":"x"})"));
  ASSERT_TRUE(worker.send_request("storage", "storage.write", R"({"key":"a","value":"x"})"));
  const auto first = worker.next_message(), second = worker.next_message();
  ASSERT_TRUE(first && second);
  EXPECT_EQ(first->id, "storage") << "it waits for nobody";
  EXPECT_EQ(code_of(first), "OK");
  EXPECT_EQ(code_of(second), "OK") << "from the fallback";
  EXPECT_EQ(adapter_says("cache", "implementation"), "memory");
  EXPECT_NE(adapter_says("cache", "passed_over").find("redis: "), std::string::npos) << "said why";
  EXPECT_TRUE(daemon().logs("in place of another that cannot be had"));
}

TEST_F(PlatformSlow, ARedisThatIsBackIsFoundThoughASilentOneStillHoldsItsConnections) {
  const TemporaryDirectory directory;
  RedisServer redis(directory.path(), "open-sesame");
  ASSERT_TRUE(redis.start());
  ASSERT_TRUE(os::write_private_file(directory.path() + "/secret", "open-sesame\n"));
  start_platform(redis_config(redis.url(), "cache = \"redis\"\n", directory.path() + "/secret"));
  Client worker = as_container(make_container());
  ASSERT_EQ(worker.outcome("cache.set", R"({"key":"a","value":"x"})"), "OK");
  redis.stop();
  const SilentPeer silent(redis.socket());
  EXPECT_EQ(worker.outcome("cache.get", R"({"key":"a"})"), "UNAVAILABLE");
  silent.hide();
  ASSERT_TRUE(redis.start());
  EXPECT_TRUE(eventually([&] { return worker.outcome("cache.get", R"({"key":"a"})") == "OK"; })) << daemon().log();
}

TEST_F(PlatformSlow, AProgramThatNeverGreetsHoldsItsOwnRolesOnly) {
  const PythonParty sleeper("cache", "time.sleep(1000)\n");
  std::string config = sleeper.config();
  config.replace(config.find("[\"party\"]"), 9, "[\"party\", \"files\"]");
  config.replace(config.find("[platform.adapters]\n"), 20, "[platform.adapters]\nstorage = \"files\"\n");
  start_platform(config);
  Client worker = as_container(make_container()), other = as_container(make_container());
  ASSERT_TRUE(send_with_deadline(worker, "cache", "cache.get", 60'000, R"({"key":"a"})"));
  EXPECT_EQ(other.outcome("storage.write", R"({"key":"a","value":"x"})"), "OK");
  EXPECT_FALSE(worker.has_data(std::chrono::milliseconds(0))) << "it is still waited for";
  EXPECT_EQ(adapter_says("storage", "state"), "ready");
  const auto answer = worker.next_message();
  EXPECT_TRUE(code_of(answer) == "TIMEOUT" || (answer && answer->result.get("noop").as_bool() == true));
}

TEST_F(PlatformSlow, WhatIsSaidOfABackendFollowsWhatCallsSee) {
  const TemporaryDirectory directory;
  RedisServer redis(directory.path());
  ASSERT_TRUE(redis.start());
  start_platform(redis_config(redis.url(), "cache = \"redis\"\n"));
  const std::string id = make_container();
  Client worker = as_container(id);
  ASSERT_EQ(worker.outcome("cache.set", R"({"key":"a","value":"x"})"), "OK");
  EXPECT_TRUE(run_cli("platform check 2>&1").ends_with("exit 0"));
  redis.stop();
  ASSERT_EQ(worker.outcome("cache.get", R"({"key":"a"})"), "UNAVAILABLE");
  EXPECT_EQ(adapter_says("cache", "state"), "down");
  EXPECT_EQ(platform_of(id)->adapter(Role::cache).state, "down");
  const std::string check = run_cli("platform check 2>&1");
  EXPECT_NE(check.find("not there: cache"), std::string::npos) << check;
  EXPECT_TRUE(check.ends_with("exit 1")) << check;
  ASSERT_TRUE(redis.start());
  EXPECT_TRUE(eventually([&] { return adapter_says("cache", "state") == "ready"; })) << "without any call";
  EXPECT_EQ(worker.outcome("cache.get", R"({"key":"a"})"), "OK");
}

// For each Redis looks at all that everybody keeps there.
TEST_F(PlatformSlow, AttackCachesThatAreClearedAndGivenUpDoNotKeepRedisBusy) {
  const TemporaryDirectory directory;
  RedisServer redis(directory.path());
  ASSERT_TRUE(redis.start());
  constexpr int kPagesEach = 400;  // of 500 keys
  redis.ask("EVAL \"for i=1,200000 do redis.call('SET','other:'..i,'') end\" 0");
  start_platform(redis_config(redis.url(), "cache = \"redis\"\n"));
  Client worker = as_container(make_container());
  ASSERT_EQ(worker.outcome("cache.clear", "{}"), "OK");
  redis.ask("CONFIG RESETSTAT");
  constexpr int kTimes = 50;
  for (int i = 0; i < kTimes; ++i) {
    const std::string id = "c" + std::to_string(i);
    ASSERT_TRUE(worker.send_request(id, "cache.clear", "{}"));
    ASSERT_TRUE(worker.send(frame_of(R"({"type":"event","id":")" + id + R"(","method":"cancel"})")));
    EXPECT_EQ(code_of(worker.next_message()), "CANCELLED");
  }
  ASSERT_EQ(worker.outcome("cache.clear", "{}"), "OK") << "behind all of them";
  const std::string stats = redis.ask("INFO commandstats");
  const std::size_t at = stats.find("cmdstat_scan:calls=");
  ASSERT_NE(at, std::string::npos) << stats;
  EXPECT_LT(std::stoi(stats.substr(at + 19)), kTimes * kPagesEach / 4) << stats;
}

// One thread does it for all, and what it has begun it does to its end.
TEST_F(PlatformSlow, AttackListsThatAreGivenUpDoNotKeepStorageFromOthers) {
  start_platform("[platform.adapters]\nstorage = \"files\"\n");
  Client worker = as_container(make_container()), host = connect();
  ASSERT_EQ(host.outcome("storage.write", R"({"key":"k","value":"v"})"), "OK");
  ASSERT_EQ(worker.outcome("storage.write", R"({"bucket":"big","key":"k","value":"v"})"), "OK");
  const std::string bucket = daemon().root() + "/state/platform/storage/profile.plugin/big/";
  ASSERT_TRUE(std::filesystem::is_directory(bucket));
  for (int i = 0; i < 20'000; ++i) std::ofstream(bucket + std::to_string(i));
  constexpr int kTimes = 3'000;
  for (int i = 0; i < kTimes; ++i) {
    const std::string id = "l" + std::to_string(i);
    ASSERT_TRUE(worker.send_request(id, "storage.list", R"({"bucket":"big","limit":1})"));
    ASSERT_TRUE(worker.send(frame_of(R"({"type":"event","id":")" + id + R"(","method":"cancel"})")));
    ASSERT_TRUE(worker.next_message());
  }
  const auto began = std::chrono::steady_clock::now();
  EXPECT_EQ(host.outcome("storage.stat", R"({"key":"k"})"), "OK");
  EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::seconds(10));
  EXPECT_EQ(worker.outcome("storage.list", R"({"bucket":"big","limit":1})"), "OK") << "it has its turn again";
}

TEST_F(PlatformSlow, ACheckPrintsJsonOnlyWhateverElseThereIsToSay) {
  start_platform("[platform.adapters]\ncache = \"memory\"\n");
  daemon().write_config("[platform.adapters]\ncache = \"memory\"\nllm = \"echo\"\n");
  const std::string both = run_cli("--json platform check 2>&1");
  EXPECT_NE(both.find("note: the warden runs with another configuration"), std::string::npos) << both;
  EXPECT_TRUE(run_cli("--json platform check 2>/dev/null").starts_with("{"));
}

TEST_F(PlatformSlow, ProfilesAreTenantsWithoutAnyContainer) {
  start_platform("[platform.adapters]\nstorage = \"files\"\n",
                 std::string("quotas = { storage_bytes = 10 }\n") + kAllGrants);
  EXPECT_EQ(quota("storage_bytes"), 0);
  const std::string shown = run_cli("platform status 2>&1");
  EXPECT_NE(shown.find("profile.plugin"), std::string::npos) << shown;
}

}  // namespace
}  // namespace sallyport::testing
