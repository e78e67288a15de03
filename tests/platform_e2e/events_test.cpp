// Events between plugins: who hears them, and what those cost who do not listen to what they subscribed.
#include <algorithm>

#include "platform_e2e/fixture.h"

namespace sallyport::testing {
namespace {

class PlatformChannels : public PlatformDoor {
 protected:
  static constexpr int kSubscriptions = 50;

  void start_events(const std::string& kind) {
    if (kind == "redis") {
      ASSERT_TRUE(redis_.start());
    }
    start_platform("[platform.adapters]\ncache = \"memory\"\nevents = \"" + kind +
                   "\"\n[platform.adapter_options.redis]\nurl = \"" + redis_.url() + "\"\n");
  }
  Client subscribed_often(const std::string& container) {
    Client client = as_container(container);
    for (int i = 0; i < kSubscriptions; ++i) {
      EXPECT_TRUE(client.send_request("s" + std::to_string(i), "events.subscribe", R"({"topics":["*"]})"));
    }
    for (int i = 0; i < kSubscriptions; ++i) EXPECT_EQ(client.next_message()->method, "events.subscribed");
    return client;
  }
  static std::string publication(std::size_t bytes) {
    return R"({"topic":"t","payload":")" + std::string(bytes, 'x') + "\"}";
  }

  const TemporaryDirectory directory_;
  RedisServer redis_{directory_.path()};
};

class PlatformEventsFlood : public PlatformChannels, public ::testing::WithParamInterface<const char*> {};

TEST_P(PlatformEventsFlood, AttackSubscribersThatDoNotReadCostNobodyMemoryOrTime) {
  start_events(GetParam());
  const std::string container = make_container();
  std::vector<Client> deaf;
  for (int i = 0; i < 4; ++i) deaf.push_back(subscribed_often(container));
  Client host = connect();
  ASSERT_EQ(host.outcome("cache.set", R"({"key":"k","value":"v"})"), "OK");
  const std::int64_t before = peak_kib(daemon().pid());
  std::vector<Client> speakers;
  for (int i = 0; i < 20; ++i) speakers.push_back(as_container(container));
  for (Client& speaker : speakers) {
    ASSERT_TRUE(speaker.send_request("p", "events.publish", publication(900'000)));
  }
  // Behind what was published before it, on the same link, and behind nothing else: nobody reads yet.
  EXPECT_EQ(member(host, "cache.get", R"({"key":"k"})", "value"), "\"v\"");
  std::int64_t published = 0;
  for (Client& speaker : speakers) {
    // More than a tenant may have under way is refused.
    const std::string code = code_of(speaker.next_message());
    EXPECT_TRUE(code == "OK" || code == "RATE_LIMITED") << code;
    published += code == "OK" ? 1 : 0;
  }
  EXPECT_GE(published, 10);
  // 200 copies of 20 would be 3.6 GB.
  if (!kIsSanitized) {
    EXPECT_LT(peak_kib(adapters_pid()), 100 << 10);
    EXPECT_LT(peak_kib(daemon().pid()) - before, 160 << 10);
  }
  // Who reads again is told how many it missed before the next.
  Client& reader = deaf[0];
  deaf.erase(deaf.begin() + 1, deaf.end());
  std::map<std::string, std::int64_t> heard, lost;
  std::set<std::string> up_to_date;
  const auto read_all = [&] {
    ASSERT_TRUE(reader.send_request("done", "test.ping"));
    for (auto message = reader.next_message(); message && message->id != "done"; message = reader.next_message()) {
      const std::string id(message->id);
      if (message->method == "events.lost") lost[id] += message->params.get("count").as_int().value_or(0);
      if (message->method != "events.message") continue;
      ++heard[id];
      if (message->params.get("payload").as_string() == "x") up_to_date.insert(id);
    }
  };
  read_all();
  // Until nothing of the flood is on its way any more, and all hear the same.
  ASSERT_TRUE(eventually([&] {
    up_to_date.clear();
    published += speakers[0].outcome("events.publish", publication(1)) == "OK" ? 1 : 0;
    read_all();
    return up_to_date.size() == kSubscriptions;
  }));
  EXPECT_GE(lost.size(), kSubscriptions - 5U);
  // The last of several that were asked about may still be on its way.
  EXPECT_TRUE(eventually([&] {
    read_all();
    return std::all_of(heard.begin(), heard.end(),
                       [&](const auto& each) { return each.second + lost[each.first] >= published; });
  }));
  for (const auto& [id, count] : heard) EXPECT_EQ(count + lost[id], published) << id;
}

TEST_P(PlatformEventsFlood, WhatDoesNotFitIsRefusedAndNotLost) {
  start_events(GetParam());
  const std::string container = make_container();
  Client listener = subscribed_often(container), speaker = as_container(container);
  EXPECT_EQ(speaker.outcome("events.publish", publication(1'040'000)), "PAYLOAD_TOO_LARGE");
  ASSERT_EQ(speaker.outcome("events.publish", publication(1'030'000)), "OK");
  for (int i = 0; i < 3; ++i) {
    const auto message = listener.next_message();
    ASSERT_TRUE(message);
    EXPECT_EQ(message->method, "events.message");
    EXPECT_EQ(message->params.to_json(), publication(1'030'000));
  }
}

TEST_F(PlatformChannels, WhatOthersSayOnItsChannelsDoesNotHarmTheAdapters) {
  start_events("redis");
  Client listener = subscribed_often(make_container());
  const pid_t pid = adapters_pid();
  const std::string deep = std::string(31, '[') + std::string(31, ']');
  for (int i = 0; i < 10; ++i) {
    for (const std::string& said :
         {deep, std::string(R"({"$stream":7})"), std::string(R"([{"$stream":9}])"), std::string("no JSON")}) {
      redis_.ask("PUBLISH sallyport-events:profile.plugin:t '" + said + "'");
    }
  }
  // Longer than a topic may be, and a payload that is longer in our spelling (1e+05).
  redis_.ask("PUBLISH sallyport-events:profile.plugin:" + std::string(129, 't') + " 2");
  redis_.ask(
      "EVAL \"return redis.call('PUBLISH', 'sallyport-events:profile.plugin:t', '[' .. "
      "string.rep('1e5,', 250000) .. '1]')\" 0");
  redis_.ask("PUBLISH sallyport-events:profile.plugin:t 1");
  const auto message = listener.next_message();
  ASSERT_TRUE(message);
  EXPECT_EQ(message->params.to_json(), R"({"topic":"t","payload":1})");
  EXPECT_EQ(adapters_pid(), pid);
  EXPECT_EQ(daemon().log().find("event dropped"), std::string::npos);
}

TEST_F(PlatformChannels, ASubscriptionThatRedisRefusesIsNoneAndIsHadOnceItIsAllowed) {
  start_events("redis");
  Client worker = as_container(make_container());
  redis_.ask("ACL SETUSER default resetchannels");
  ASSERT_TRUE(worker.send_request("refused", "events.subscribe", R"({"topics":["*"]})"));
  EXPECT_EQ(code_of(worker.next_message()), "UNAVAILABLE");
  redis_.ask("ACL SETUSER default allchannels");
  ASSERT_TRUE(eventually([&] {
    return worker.send_request("s", "events.subscribe", R"({"topics":["*"]})") &&
           worker.next_message()->method == "events.subscribed";
  }));
  redis_.ask("PUBLISH sallyport-events:profile.plugin:t 1");
  EXPECT_EQ(worker.next_message()->params.to_json(), R"({"topic":"t","payload":1})");
}

TEST_F(PlatformChannels, ARedisThatWantsACredentialWhichNobodyHasIsNotReady) {
  RedisServer redis(directory_.path(), "open-sesame");
  ASSERT_TRUE(redis.start());
  start_platform("[platform.adapters]\nevents = \"redis\"\n[platform.adapter_options.redis]\nurl = \"" + redis.url() +
                 "\"\n");
  EXPECT_EQ(adapter_says("events", "state"), "noop");
}

TEST_F(PlatformChannels, NobodyIsToldThatItHearsBeforeRedisHasSaidSo) {
  start_events("redis");
  Client first = as_container(make_container()), second = as_container(make_container());
  ASSERT_EQ(adapter_says("events", "state"), "ready");
  redis_.ask("CLIENT PAUSE 60000 ALL");
  ASSERT_TRUE(first.send_request("s", "events.subscribe", R"({"topics":["*"]})"));
  EXPECT_FALSE(first.has_data(std::chrono::milliseconds(300)));
  ASSERT_TRUE(second.send_request("s", "events.subscribe", R"({"topics":["*"]})"));
  EXPECT_FALSE(second.has_data(std::chrono::milliseconds(300)));
  redis_.stop();
  EXPECT_EQ(code_of(first.next_message()), "UNAVAILABLE");
  EXPECT_EQ(code_of(second.next_message()), "UNAVAILABLE");
}

TEST_F(PlatformChannels, WhoSubscribedHearsAgainAfterRedisWasAway) {
  start_events("redis");
  Client listener = as_container(make_container());
  ASSERT_TRUE(listener.send_request("s", "events.subscribe", R"({"topics":["*"]})"));
  ASSERT_EQ(listener.next_message()->method, "events.subscribed");
  redis_.stop();
  ASSERT_TRUE(redis_.start());
  ASSERT_TRUE(eventually([&] {
    redis_.ask("PUBLISH sallyport-events:profile.plugin:t 1");
    return listener.has_data(std::chrono::milliseconds(200));
  }));
  EXPECT_EQ(listener.next_message()->params.to_json(), R"({"topic":"t","payload":1})");
}

INSTANTIATE_TEST_SUITE_P(Kinds, PlatformEventsFlood, ::testing::Values("memory", "redis"));

}  // namespace
}  // namespace sallyport::testing
