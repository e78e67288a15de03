// Rules, profiles and their precedence: what docs/policy.md promises.
#include <gtest/gtest.h>

#include <set>

#include "policy/builtin_profiles.h"
#include "policy/made_profiles.h"
#include "policy/policy.h"
#include "policy/policy_file.h"

namespace sallyport::policy {
namespace {

class FakeClock final : public Clock {
 public:
  SteadyTime steady() const override { return {}; }
  std::int64_t unix_millis() const override { return 1'000'000; }
};

const Principal kHost = Principal::host();
const Principal kContainer = Principal::container("c1");

class Rules : public ::testing::Test {
 protected:
  // Rules in force, and a container of a profile that allows a few names.
  void use(const std::string& toml, ContainerPolicy policy = {.methods = {"fs.*", "test.ping"},
                                                              .token_methods = {},
                                                              .signals = {"deploy", "context_reset"},
                                                              .profile = "coder"}) {
    auto rules = parse_rules(toml, "test.toml");
    ASSERT_TRUE(rules) << rules.error().message;
    engine_.replace(HostPolicy(), std::move(*rules));
    engine_.set_container("c1", std::move(policy));
  }

  Decision consider(std::string_view name, const std::string& payload = {}, const Principal& who = kContainer) {
    if (!payload.empty()) document_ = std::move(*decoder_.parse(payload));
    return engine_.consider({who, 7, name, "", payload.empty() ? wire::Value() : document_.root()});
  }
  std::string says(std::string_view name, const std::string& payload = {}, const Principal& who = kContainer) {
    const Decision decision = consider(name, payload, who);
    if (decision.is_denied) return "deny";
    if (decision.needs_human) return decision.needs_deputy ? "deputy+human" : "human";
    return decision.needs_deputy ? "deputy" : "allow";
  }

  static std::string fault(const std::string& toml) {
    const auto rules = parse_rules(toml, "test.toml");
    return rules ? "no fault" : rules.error().message;
  }
  static std::string rule(const std::string& rest) { return "[[rule]]\nname = \"r\"\n" + rest; }

  FakeClock clock_;
  Tokens tokens_{clock_};
  Engine engine_{HostPolicy(), tokens_};
  wire::Decoder decoder_;
  wire::Document document_;
};

TEST_F(Rules, DefaultDenyForMethodsAndSignalsAlike) {
  use("");
  EXPECT_EQ(says("fs.read"), "allow");
  EXPECT_EQ(says("deploy"), "allow");
  EXPECT_EQ(says("container.create"), "deny");
  EXPECT_EQ(says("register_group"), "deny");
  EXPECT_EQ(says("fs.read", "", Principal::container("c2")), "deny");
  EXPECT_EQ(consider("container.create").rule, "");
}

TEST_F(Rules, TheStrictestMatchingRuleWinsWhateverTheOrder) {
  const std::string allow = "[[rule]]\nname=\"a\"\nmatch=\"deploy\"\neffect=\"allow\"\n";
  const std::string deputy = "[[rule]]\nname=\"b\"\nmatch=\"deploy\"\neffect=\"deputy\"\n";
  const std::string human = "[[rule]]\nname=\"c\"\nmatch=\"deploy\"\neffect=\"human\"\n";
  const std::string deny = "[[rule]]\nname=\"d\"\nmatch=\"deploy\"\neffect=\"deny\"\n";
  use(allow + deputy);
  EXPECT_EQ(says("deploy"), "deputy");
  EXPECT_EQ(consider("deploy").rule, "rule.b");
  use(human + deputy + allow);
  EXPECT_EQ(says("deploy"), "deputy+human") << "what any matching rule demands is demanded";
  EXPECT_EQ(consider("deploy").rule, "rule.c");
  use(deny + human + deputy + allow);
  EXPECT_EQ(says("deploy"), "deny");
  EXPECT_EQ(consider("deploy").rule, "rule.d");
  use(allow + deputy + human + deny);
  EXPECT_EQ(consider("deploy").rule, "rule.d");
  EXPECT_EQ(consider("deploy").also_matched,
            (std::vector<std::string>{"profile.coder.signals", "rule.a", "rule.b", "rule.c"}));
}

TEST_F(Rules, ARuleCanAllowWhatTheProfileDoesNotName) {
  use(rule("match = [\"container.*\"]\neffect = \"human\"\n"));
  EXPECT_EQ(says("container.create"), "human");
}

TEST_F(Rules, AReviewInAProfileOnlyDemandsAndAllowsNothing) {
  const auto profiles = parse_profiles(
      "[profile.p]\nreview = { deploy = \"human\", \"fs.*\" = [\"deputy\", \"human\"] }\n"
      "methods = [\"fs.read\"]\n",
      "p.toml");
  ASSERT_TRUE(profiles) << profiles.error().message;
  use("", container_policy((*profiles)[0]));
  EXPECT_EQ(says("deploy"), "deny");
  EXPECT_EQ(says("fs.read"), "deputy+human");
  EXPECT_EQ(says("fs.write"), "deny");
}

TEST_F(Rules, AStarInMethodsDoesNotOpenSignals) {
  use("", {.methods = {"*"}, .token_methods = {}, .profile = "p"});
  EXPECT_EQ(says("anything.at_all"), "allow");
  EXPECT_EQ(says("deploy"), "deny");
  use("", {.methods = {}, .token_methods = {}, .signals = {"*"}, .profile = "p"});
  EXPECT_EQ(says("deploy"), "allow");
  EXPECT_EQ(says("fs.read"), "deny");
}

TEST_F(Rules, ScopesByPrincipalAndProfile) {
  use("[[rule]]\nname=\"one\"\nmatch=\"fs.read\"\nprincipal=[\"container/c1\"]\neffect=\"deny\"\n"
      "[[rule]]\nname=\"two\"\nmatch=\"fs.write\"\nprofile=[\"coder\"]\neffect=\"human\"\n"
      "[[rule]]\nname=\"three\"\nmatch=\"fs.stat\"\nprofile=[\"other\"]\neffect=\"deny\"\n"
      "[[rule]]\nname=\"four\"\nmatch=\"*\"\neffect=\"deputy\"\n"
      "[[rule]]\nname=\"five\"\nmatch=\"warden.*\"\nprincipal=[\"host\"]\neffect=\"deny\"\n");
  EXPECT_EQ(says("fs.read"), "deny");
  EXPECT_EQ(says("fs.write"), "deputy+human");
  EXPECT_EQ(says("fs.stat"), "deputy");
  EXPECT_EQ(says("warden.status", "", kHost), "deny");
  EXPECT_EQ(says("fs.read", "", kHost), "allow") << "a rule without a scope speaks of containers";
  engine_.set_container("c2", {.methods = {"fs.*"}, .token_methods = {}, .profile = "other"});
  EXPECT_EQ(says("fs.read", "", Principal::container("c2")), "deputy");
  EXPECT_EQ(says("fs.stat", "", Principal::container("c2")), "deny");
}

TEST_F(Rules, EachRuleCountsOnceThoughSeveralOfItsPatternsMatch) {
  use(rule("match = [\"*\", \"a.*\", \"a.b.*\", \"a.b.c\"]\neffect = \"allow\"\n"));
  EXPECT_EQ(consider("a.b.c").rule, "rule.r");
  EXPECT_TRUE(consider("a.b.c").also_matched.empty());
  EXPECT_EQ(says("a.b.d"), "allow");
  EXPECT_TRUE(consider("a.b.d").also_matched.empty());
}

TEST_F(Rules, PayloadTests) {
  const auto denies = [&](const std::string& when, const std::string& payload) {
    use(rule("match = \"deploy\"\neffect = \"deny\"\nwhen = { " + when + " }\n"));
    return says("deploy", payload) == "deny";
  };
  EXPECT_TRUE(denies("branch = \"main\"", R"({"branch":"main"})"));
  EXPECT_FALSE(denies("branch = \"main\"", R"({"branch":"Main"})"));
  EXPECT_FALSE(denies("branch = \"main\"", R"({"branch":["main"]})"));
  EXPECT_FALSE(denies("branch = \"main\"", "{}"));
  EXPECT_FALSE(denies("branch = \"main\"", ""));
  EXPECT_TRUE(denies("n = 3", R"({"n":3})"));
  EXPECT_TRUE(denies("n = 3", R"({"n":3.0})"));
  EXPECT_FALSE(denies("n = 3", R"({"n":"3"})"));
  EXPECT_TRUE(denies("on = true", R"({"on":true})"));
  EXPECT_TRUE(denies("b = { one_of = [\"x\", \"y\", 7] }", R"({"b":7})"));
  EXPECT_FALSE(denies("b = { one_of = [\"x\", \"y\"] }", R"({"b":"z"})"));
  EXPECT_TRUE(denies("p = { prefix = \"/etc/\" }", R"({"p":"/etc/passwd"})"));
  EXPECT_FALSE(denies("p = { prefix = \"/etc/\" }", R"({"p":"/usr/etc/"})"));
  EXPECT_TRUE(denies("p = { glob = \"*.p?m\" }", R"({"p":"a/b.pem"})"));
  EXPECT_FALSE(denies("p = { glob = \"*.p?m\" }", R"({"p":"a/b.pem2"})"));
  EXPECT_TRUE(denies("t = { max_length = 3 }", R"({"t":"abc"})"));
  EXPECT_FALSE(denies("t = { max_length = 3 }", R"({"t":"abcd"})"));
  EXPECT_TRUE(denies("t = { max_length = 1 }", R"({"t":[1]})"));
  EXPECT_TRUE(denies("n = { min = 1, max = 2.5 }", R"({"n":2.5})"));
  EXPECT_FALSE(denies("n = { min = 1, max = 2.5 }", R"({"n":2.6})"));
  EXPECT_FALSE(denies("n = { min = 1 }", R"({"n":"5"})"));
  EXPECT_TRUE(denies("\"a.b.1.c\" = \"x\"", R"({"a":{"b":[0,{"c":"x"}]}})"));
  EXPECT_FALSE(denies("\"a.b.2.c\" = \"x\"", R"({"a":{"b":[0,{"c":"x"}]}})"));
  EXPECT_FALSE(denies("\"a.b.c\" = \"x\"", R"({"a":{"b":[0,{"c":"x"}]}})"));
  EXPECT_FALSE(denies("a = \"1\", b = \"2\"", R"({"a":"1"})")) << "all must hold";
}

TEST_F(Rules, UnlessTurnsAroundAndAnAbsentFieldDoesNotSlipThrough) {
  use(rule("match = \"deploy\"\neffect = \"deny\"\nunless = { prompt = { max_length = 5 } }\n"));
  EXPECT_EQ(says("deploy", R"({"prompt":"short"})"), "allow");
  EXPECT_EQ(says("deploy", R"({"prompt":"longer"})"), "deny");
  EXPECT_EQ(says("deploy", "{}"), "deny");
  EXPECT_EQ(says("deploy"), "deny");
}

TEST_F(Rules, OfSeveralRatesAllCount) {
  use("[[rule]]\nname=\"a\"\nmatch=\"deploy\"\nrate=\"100/min\"\n"
      "[[rule]]\nname=\"b\"\nmatch=\"*\"\nrate=\"5/h\"\n[[rule]]\nname=\"c\"\nmatch=\"deploy\"\nrate=\"10/s\"\n");
  const Decision decision = consider("deploy");
  EXPECT_FALSE(decision.is_denied);
  ASSERT_EQ(decision.rates.size(), 3U);
  std::set<std::string> names;
  for (const RateLimit& rate : decision.rates) names.insert(rate.rule);
  EXPECT_EQ(names, (std::set<std::string>{"rule.a", "rule.b", "rule.c"}));
  EXPECT_EQ(says("register_group"), "deny") << "a rate alone allows nothing";
}

TEST_F(Rules, WhoeverAnswersReviewsIsNotReviewed) {
  use("[[rule]]\nname=\"all\"\nmatch=\"*\"\nprincipal=[\"host\"]\neffect=\"human\"\n");
  EXPECT_TRUE(engine_.consider({kHost, 0, "container.exec", {}, {}}).needs_human);
  const Decision answering = engine_.consider({kHost, 0, "approval.approve", {}, {}});
  EXPECT_FALSE(answering.is_denied);
  EXPECT_FALSE(answering.needs_human);
}

TEST_F(Rules, WhatNeedsReviewGetsItsPermitOnlyWithAllGrants) {
  use(rule("match = \"deploy\"\neffect = [\"deputy\", \"human\"]\n"));
  const Question question{kContainer, 7, "deploy", ""};
  const Decision decision = engine_.consider(question);
  EXPECT_FALSE(engine_.permit_at_once(question));
  for (const Granted granted : {Granted{false, false}, Granted{true, false}, Granted{false, true}}) {
    const auto permit = engine_.permit(question, decision, granted);
    ASSERT_FALSE(permit);
    EXPECT_EQ(permit.error().code, Code::policy_denied);
    EXPECT_EQ(permit.error().message, "policy does not allow this signal");
  }
  EXPECT_TRUE(engine_.permit(question, decision, {true, true}));
}

TEST_F(Rules, AGrantIsWorthNothingAfterThePolicyChanged) {
  use(rule("match = \"deploy\"\neffect = \"human\"\n"));
  const Question question{kContainer, 7, "deploy", ""};
  const Decision decision = engine_.consider(question);
  ASSERT_TRUE(engine_.permit(question, decision, {true, true}));
  engine_.replace(HostPolicy());
  EXPECT_FALSE(engine_.permit(question, decision, {true, true})) << "another rule decides now, though it allows";
  engine_.set_container("c1", {});
  EXPECT_FALSE(engine_.permit(question, engine_.consider(question), {true, true}));
}

TEST_F(Rules, ADecisionAboutOtherParametersDoesNotCarryOver) {
  use(rule("match = \"deploy\"\neffect = \"human\"\nwhen = { branch = \"main\" }\n"));
  const Decision harmless = consider("deploy", R"({"branch":"dev"})");
  EXPECT_FALSE(harmless.needs_human);
  auto document = std::move(*decoder_.parse(R"({"branch":"main"})"));
  EXPECT_FALSE(engine_.permit({kContainer, 7, "deploy", "", document.root()}, harmless, {}));
}

TEST_F(Rules, TheHashIsOfEverythingThatDecides) {
  const auto hash = [&](const std::string& toml, const std::string& profiles, HostPolicy host = {}) {
    const auto parsed = parse_profiles(profiles, "p");
    EXPECT_TRUE(parsed);
    engine_.replace(std::move(host), std::move(*parse_rules(toml, "r")));
    return engine_.policy_hash();
  };
  const std::string base = hash("", "");
  EXPECT_EQ(base.size(), 64U);
  EXPECT_EQ(base, hash("", ""));
  EXPECT_NE(base, hash(rule("match=\"a\"\neffect=\"deny\"\n"), ""));
  EXPECT_NE(hash(rule("match=\"a\"\neffect=\"deny\"\n"), ""), hash(rule("match=\"a\"\neffect=\"human\"\n"), ""));
  EXPECT_NE(base, hash("", "", {.methods = {"a.b"}, .token_methods = {}}));
  const auto profiles = Profiles::load("/nonexistent");
  ASSERT_TRUE(profiles);
  engine_.replace(HostPolicy(), {}, *profiles);
  EXPECT_NE(base, engine_.policy_hash());
  const std::string with_profiles = engine_.policy_hash();
  engine_.replace(HostPolicy(), {}, *profiles, "a command");
  EXPECT_NE(with_profiles, engine_.policy_hash());
  engine_.replace(HostPolicy(), {}, *profiles);
  engine_.set_container("c9", {});
  EXPECT_EQ(with_profiles, engine_.policy_hash()) << "a new container changes no policy";
}

TEST_F(Rules, ExamplesAreTriedAtLoad) {
  const std::string head = "match = [\"deploy\"]\neffect = \"human\"\nwhen = { branch = { glob = \"rel-*\" } }\n";
  EXPECT_EQ(
      fault(rule(head +
                 "examples = { match = [{ name = \"deploy\", payload = { branch = \"rel-1\" } }], "
                 "not_match = [\"deploy\", \"fs.read\", { name = \"deploy\", payload = { branch = \"x\" } }] }\n")),
      "no fault");
  EXPECT_EQ(fault(rule(head + "examples = { match = [\"deploy\"] }\n")),
            "test.toml:6:23: the example 'deploy' of 'rule.r' should match and does not");
  EXPECT_EQ(
      fault(rule(head + "examples = { not_match = [{ name = \"deploy\", payload = { branch = \"rel-2\" } }] }\n")),
      "test.toml:6:27: the example 'deploy' of 'rule.r' should not match and does");
}

TEST_F(Rules, FaultsNameLineColumnAndWord) {
  EXPECT_EQ(fault("[[rule]]\nmatch = \"a\"\neffect = \"deny\"\n"), "test.toml:1:1: the rule has no 'name'");
  EXPECT_EQ(fault(rule("effect = \"deny\"\n")), "test.toml:1:1: 'rule.r' has no 'match'");
  EXPECT_EQ(fault(rule("match = \"a\"\n")), "test.toml:1:1: 'rule.r' has neither 'effect' nor 'rate'");
  // What could never match would deny nothing.
  EXPECT_NE(fault(rule("match = []\neffect = \"deny\"\n")).find("'match' names nothing"), std::string::npos);
  const std::string deny = "match = \"a\"\neffect = \"deny\"\nwhen = { x = ";
  EXPECT_NE(fault(rule(deny + "{ min = nan } }\n")).find("must be a number"), std::string::npos);
  EXPECT_NE(fault(rule(deny + "nan }\n")).find("must be a value or a test"), std::string::npos);
  EXPECT_NE(fault(rule(deny + "{ min = 5, max = 1 } }\n")).find("'min' is above 'max'"), std::string::npos);
  EXPECT_EQ(fault(rule(deny + "{ min = 1, max = 5 } }\n")), "no fault");
  EXPECT_EQ(fault(rule("match = \"a\"\neffect = \"perhaps\"\n")),
            "test.toml:4:10: 'perhaps' is none of allow, deputy, human, deny");
  EXPECT_EQ(fault(rule("match = [\"fs.*\", \"fs.re*\"]\neffect = \"deny\"\n")),
            "test.toml:3:18: 'match' has 'fs.re*', which is neither a name nor \"group.*\" nor \"*\"");
  EXPECT_EQ(fault(rule("match = \"a\"\neffect = \"deny\"\nwhen = { a = { matches = 1 } }\n")),
            "test.toml:5:16: unknown test 'matches'; there are equals, one_of, prefix, glob, max_length, min, max");
  EXPECT_EQ(fault(rule("match = \"a\"\nrate = \"5/fortnight\"\n")),
            "test.toml:4:8: 'rate' is no rate such as 60/min or 5/h: 5/fortnight");
  EXPECT_EQ(fault(rule("match = \"a\"\neffect = \"deny\"\nprincipal = [\"somebody\"]\n")),
            "test.toml:5:13: 'somebody' is no principal: host or container/ID");
  EXPECT_EQ(fault(rule("match = \"a\"\neffect = \"deny\"\ncolour = 1\n")),
            "test.toml:5:1: unknown key 'colour' in [rule]");
  EXPECT_EQ(fault(rule("match = \"a\"\neffect = \"deny\"\n") + rule("match = \"b\"\neffect = \"deny\"\n")),
            "test.toml:5:1: 'rule.r' is the name of an earlier rule");
  EXPECT_EQ(fault("[rule]\nname = \"x\"\n"), "test.toml:1:1: 'rule' must be written as [[rule]]");
}

TEST(ProfilePolicy, KeysAreReadAndFaultsNamed) {
  const auto fault = [](const std::string& line) {
    const auto profiles = parse_profiles("[profile.p]\n" + line + "\n", "p.toml");
    return profiles ? "no fault" : profiles.error().message;
  };
  EXPECT_EQ(fault("signals = [\"fs.read\"]"),
            "p.toml:2:11: 'signals' has 'fs.read', which is no signal's name: it has a dot");
  EXPECT_EQ(fault("methods = [\"deploy\"]"),
            "p.toml:2:11: 'methods' has 'deploy', which is no method's name: it has no dot");
  EXPECT_EQ(fault("rates = { \"llm.*\" = \"often\" }"), "p.toml:2:21: 'llm.*' is no rate such as 60/min or 5/h: often");
  EXPECT_EQ(fault("review = { deploy = \"allow\" }"), "p.toml:2:21: 'deploy' in review must be deputy, human or both");
  EXPECT_EQ(fault("deputy = \"magic\""),
            "p.toml:2:10: 'deputy' must be \"rules\" or an array of strings that begins with an absolute path");
  EXPECT_EQ(fault("deputy = [\"relative\"]"),
            "p.toml:2:10: 'deputy' must be \"rules\" or an array of strings that begins with an absolute path");
  EXPECT_EQ(fault("deputy_limits = { interval = \"soon\" }"),
            "p.toml:2:30: 'interval' is no time such as 30s, 10m or 2h: soon");
  const auto profiles = parse_profiles(R"([profile.p]
agent  = ["/usr/bin/agent", "--stdin"]
deputy = ["/usr/bin/python3", "/opt/review.py"]
deputy_limits = { prompt_length = 10, forbidden = ["x"], interval = "1h", protected_paths = ["a/*"], timeout = "5s" }
signals = ["deploy"]
rates = { deploy = "5/h" }
[[profile.p.rule]]
name = "no-main"
match = "deploy"
effect = "deny"
when = { branch = "main" }
)",
                                       "p.toml");
  ASSERT_TRUE(profiles) << profiles.error().message;
  const Profile& p = (*profiles)[0];
  EXPECT_EQ(p.agent.size(), 2U);
  EXPECT_EQ(p.deputy.size(), 2U);
  EXPECT_EQ(p.deputy_limits.prompt_length, 10U);
  EXPECT_EQ(p.deputy_limits.interval, Millis(3'600'000));
  EXPECT_EQ(p.deputy_limits.timeout, Millis(5'000));
  ASSERT_EQ(p.rules.size(), 2U);
  EXPECT_EQ(p.rules[0].name, "profile.p.rates.deploy");
  EXPECT_EQ(p.rules[1].name, "profile.p.rule.no-main");
}

TEST(ProfilePolicy, BuiltInProfilesAreWhatTheirTextSays) {
  const auto made = made_profiles();
  ASSERT_EQ(made.size(), std::size(kBuiltinProfiles));
  for (std::size_t i = 0; i < made.size(); ++i) {
    const auto parsed = parse_profiles(kBuiltinProfiles[i].text, kBuiltinSource);
    ASSERT_TRUE(parsed && parsed->size() == 1) << made[i].name;
    EXPECT_EQ(made[i].name, parsed->front().name);
    EXPECT_TRUE(made[i].make() == parsed->front()) << made[i].name;
  }
}

TEST(ProfilePolicy, BuiltInProfilesReviewEverythingThatCarriesData) {
  FakeClock clock;
  const Tokens tokens(clock);
  const auto profiles = Profiles::load("/nonexistent");
  ASSERT_TRUE(profiles) << profiles.error().message;
  for (const char* name : {"default", "build"}) {
    Engine engine(HostPolicy(), tokens);
    engine.set_container("c1", container_policy(*profiles->find(name)));
    for (const char* signal : {"message_ready", "progress_ready", "context_reset", "refresh_groups", "signal.raise"}) {
      EXPECT_TRUE(engine.permit_at_once({kContainer, 1, signal, ""})) << name << " " << signal;
    }
    for (const char* signal : {"schedule_task", "create_periodic_agent", "register_group", "deploy"}) {
      const Decision decision = engine.consider({kContainer, 1, signal, ""});
      EXPECT_TRUE(!decision.is_denied && decision.needs_deputy && decision.needs_human) << name << " " << signal;
    }
    EXPECT_TRUE(engine.consider({kContainer, 1, "approval.approve", ""}).is_denied);
  }
  Engine engine(HostPolicy(), tokens);
  engine.set_container("c1", container_policy(*profiles->find("read-only")));
  EXPECT_TRUE(engine.consider({kContainer, 1, "context_reset", ""}).is_denied);
}

TEST(Glob, MatchesWholeTexts) {
  EXPECT_TRUE(glob_matches("*", ""));
  EXPECT_TRUE(glob_matches("a*b*c", "axxbyyc"));
  EXPECT_FALSE(glob_matches("a*b*c", "axxbyy"));
  EXPECT_TRUE(glob_matches("a?c", "abc"));
  EXPECT_FALSE(glob_matches("a?c", "ac"));
  EXPECT_FALSE(glob_matches("", "a"));
  // A pattern that makes naive matchers take for ever.
  EXPECT_FALSE(glob_matches("*a*a*a*a*a*a*a*a*a*a*a*b", std::string(5000, 'a')));
}

TEST(PolicyFiles, MayHoldBothAndNameWhatIsNotPolicy) {
  const auto file =
      parse_policy_file("[warden]\nx = 1\n[profile.a]\n[[rule]]\nname=\"r\"\nmatch=\"*\"\neffect=\"deny\"\n", "f");
  ASSERT_TRUE(file) << file.error().message;
  EXPECT_EQ(file->profiles.size(), 1U);
  EXPECT_EQ(file->rules.size(), 1U);
  EXPECT_EQ(file->others, std::vector<std::string>{"warden"});
}

}  // namespace
}  // namespace sallyport::policy
