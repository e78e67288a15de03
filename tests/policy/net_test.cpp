// Rules about hosts, without a network.
#include "policy/net.h"

#include <gtest/gtest.h>

#include "policy/net_lists.h"
#include "policy/profile.h"

namespace sallyport::policy {
namespace {

bool is_rule(std::string_view text) { return NetRule::parse(text).has_value(); }

TEST(NetRule, WildcardsForStrangersAreRefused) {
  EXPECT_TRUE(is_rule("*.example.org"));
  EXPECT_TRUE(is_rule("*.example.co.uk:8443"));
  for (const char* text :
       {"*",           "*:443",   "*.",         "*.com",   "*.co.uk",      "*.github.io", "a.*.org",
        "*a.org",      "*.*.org", "*.10.0.0.1", "",        ":443",         "a.org:0",     "a.org:65536",
        "a.org:https", "a.org:",  "a b.org",    "u@a.org", "http://a.org", "a.org/path",  "b\xc3\xbc.de",
        "[::1",        "-a.org"}) {
    EXPECT_FALSE(is_rule(text)) << text;
  }
}

TEST(NetRule, WithoutAPortItMeansTheWebAndADenialAllOfIt) {
  const auto policy = NetPolicy::make({"a.org", "[2606:4700::1]:53"}, {"10.1.2.3"}, {});
  ASSERT_TRUE(policy);
  const Host a = *parse_host("a.org"), v6 = *parse_host("[2606:4700::1]");
  EXPECT_TRUE(decide(*policy, a, 443).is_allowed);
  EXPECT_TRUE(decide(*policy, a, 80).is_allowed);
  EXPECT_FALSE(decide(*policy, a, 22).is_allowed);
  EXPECT_TRUE(decide(*policy, v6, 53).is_allowed);
  EXPECT_FALSE(decide(*policy, v6, 54).is_allowed);
  EXPECT_EQ(decide(*policy, a, 22).remedy, "a.org:22");
  EXPECT_FALSE(decide_address(*policy, a, 443, *parse_address("10.1.2.3")).is_allowed);
}

TEST(NetRule, IsWithinAnotherOnlyIfAllOfItIs) {
  const auto is_within = [](const char* rule, const char* other) {
    return NetRule::parse(rule)->is_within(*NetRule::parse(other));
  };
  EXPECT_TRUE(is_within("a.example.org", "a.example.org"));
  EXPECT_TRUE(is_within("a.example.org:443", "a.example.org"));
  EXPECT_TRUE(is_within("a.example.org", "*.example.org"));
  EXPECT_TRUE(is_within("*.a.example.org:80", "*.example.org"));
  EXPECT_TRUE(is_within("*.example.org", "*.example.org"));
  EXPECT_TRUE(is_within("192.0.2.7:5432", "192.0.2.7:5432"));
  EXPECT_FALSE(is_within("a.example.org", "a.example.org:443")) << "80, too";
  EXPECT_FALSE(is_within("a.example.org:8443", "a.example.org"));
  EXPECT_FALSE(is_within("example.org", "*.example.org"));
  EXPECT_FALSE(is_within("*.example.org", "example.org"));
  EXPECT_FALSE(is_within("*.example.org", "*.a.example.org"));
  EXPECT_FALSE(is_within("*.example.org", "a.example.org"));
  EXPECT_FALSE(is_within("notexample.org", "*.example.org"));
  EXPECT_FALSE(is_within("192.0.2.7:5432", "192.0.2.7:5433"));
}

TEST(NetRule, ADeniedAddressIsDeniedUnderEveryName) {
  const auto policy = NetPolicy::make({"a.org", "10.1.2.3:443"}, {"10.1.2.3", "1.2.3.4:443"}, {});
  ASSERT_TRUE(policy);
  EXPECT_FALSE(decide_address(*policy, *parse_host("a.org"), 443, *parse_address("10.1.2.3")).is_allowed);
  EXPECT_FALSE(decide_address(*policy, *parse_host("a.org"), 443, *parse_address("1.2.3.4")).is_allowed);
  EXPECT_TRUE(decide_address(*policy, *parse_host("a.org"), 80, *parse_address("1.2.3.4")).is_allowed);
}

TEST(Host, EverySpecialRangeIsKnown) {
  const auto what = [](const char* text) { return std::string(special_range(*parse_address(text))); };
  EXPECT_EQ(what("93.184.216.34"), "");
  EXPECT_EQ(what("2606:4700::1"), "");
  for (const char* text : {"0.1.2.3",
                           "10.255.0.1",
                           "100.127.255.255",
                           "127.255.255.254",
                           "169.254.0.1",
                           "172.31.0.1",
                           "192.168.0.1",
                           "198.19.0.1",
                           "203.0.113.9",
                           "239.1.1.1",
                           "255.255.255.255",
                           "::",
                           "::1",
                           "::ffff:8.8.8.8",
                           "::8.8.8.8",
                           "64:ff9b::808:808",
                           "64:ff9b:1::1",
                           "2001::1",
                           "2001:db8::1",
                           "2002:808:808::1",
                           "fc00::1",
                           "fdff::1",
                           "fe80::1",
                           "febf::1",
                           "fec0::1",
                           "ff0e::1",
                           "2606:4700::5efe:a00:1",
                           "4000::1",
                           "100::1"}) {
    EXPECT_NE(what(text), "") << text;
  }
  EXPECT_EQ(what("100.63.255.255"), "");
  EXPECT_EQ(what("172.32.0.1"), "");
  EXPECT_EQ(what("168.63.129.16"), "cloud metadata");
}

TEST(NetLists, TheBuiltInOnesAreSoundAndTheAgentProfileUsesThem) {
  for (const auto& [name, text] : builtin_net_lists()) {
    const auto rules = expand_net_lists({"@" + name}, "/nowhere");
    ASSERT_TRUE(rules) << rules.error().message;
    EXPECT_FALSE(rules->empty()) << name;
  }
  EXPECT_FALSE(expand_net_lists({"@none"}, "/nowhere"));
  EXPECT_FALSE(expand_net_lists({"@../etc/passwd"}, "/nowhere"));
  const auto profiles = Profiles::load("/nowhere/profiles");
  ASSERT_TRUE(profiles);
  const Profile* agent = profiles->find("agent");
  ASSERT_NE(agent, nullptr);
  const auto policy = NetPolicy::make(agent->net_allow, agent->net_deny, agent->net_limits);
  ASSERT_TRUE(policy);
  EXPECT_TRUE(decide(*policy, *parse_host("api.anthropic.com"), 443).is_allowed);
  EXPECT_FALSE(decide(*policy, *parse_host("api.anthropic.com"), 80).is_allowed);
}

TEST(NetProfile, AFaultNamesLineAndWord) {
  const auto wrong = parse_profiles("[profile.p]\nnet.allow = [\"a.org\", \"*.com\"]\n", "f.toml");
  ASSERT_FALSE(wrong);
  EXPECT_NE(wrong.error().message.find("f.toml:2:"), std::string::npos);
  EXPECT_NE(wrong.error().message.find("*.com"), std::string::npos);
  for (const char* limit : {"bytes = 0", "idle = \"0s\"", "duration = \"0s\"", "tunnels = 0", "requests = 0",
                            "idle = \"9999999h\"", "duration = \"366d\""}) {
    EXPECT_FALSE(parse_profiles(std::string("[profile.p]\nnet.limits = { ") + limit + " }\n", "f.toml")) << limit;
  }
  EXPECT_FALSE(parse_profiles("[profile.p]\nnet.limits = { bites = 1 }\n", "f.toml"));
  const auto good =
      parse_profiles("[profile.p]\nnet.limits = { bytes = \"1GiB\", tunnels = 5, idle = \"3s\" }\n", "f.toml");
  ASSERT_TRUE(good) << good.error().message;
  EXPECT_EQ(good->at(0).net_limits.bytes, 1ULL << 30);
  EXPECT_EQ(good->at(0).net_limits.tunnels, 5U);
}

}  // namespace
}  // namespace sallyport::policy
