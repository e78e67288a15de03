#include "policy/engine.h"

#include <gtest/gtest.h>

#include "policy/tokens.h"

namespace sallyport::policy {
namespace {

class FakeClock final : public Clock {
 public:
  SteadyTime steady() const override { return steady_now; }
  std::int64_t unix_millis() const override { return now; }
  SteadyTime steady_now{std::chrono::hours(1)};
  std::int64_t now = 1'000'000;
};

const Principal kHost = Principal::host();
const Principal kContainer = Principal::container("c1");

class Policy : public ::testing::Test {
 protected:
  std::string decision(const Engine& engine, const Principal& principal, std::string_view method,
                       std::string_view token = {}, std::uint64_t process = 7) const {
    const Question question{principal, process, method, token};
    const auto permit = engine.permit(question, engine.consider(question), {});
    EXPECT_EQ(engine.permit_at_once(question).has_value(), permit.has_value()) << "both ways say the same";
    if (!permit) return std::string(to_string(permit.error().code));
    EXPECT_EQ(permit->principal(), principal);
    EXPECT_EQ(permit->method(), method);
    return "PERMIT";
  }

  FakeClock clock_;
  Tokens tokens_{clock_};
};

TEST_F(Policy, TheHostMayDoAllByDefaultAndEverybodyElseNothing) {
  const Engine engine(HostPolicy(), tokens_);
  EXPECT_EQ(decision(engine, kHost, "test.ping"), "PERMIT");
  EXPECT_EQ(decision(engine, kHost, "anything.at.all"), "PERMIT");
  EXPECT_EQ(decision(engine, kContainer, "test.ping"), "POLICY_DENIED");
  EXPECT_EQ(decision(engine, Principal::container("host"), "test.ping"), "POLICY_DENIED");
}

TEST_F(Policy, TheHostMayDoOnlyWhatItsPolicyNames) {
  const Engine engine({.methods = {"fs.*", "test.ping"}, .token_methods = {}}, tokens_);
  EXPECT_EQ(decision(engine, kHost, "fs.read"), "PERMIT");
  EXPECT_EQ(decision(engine, kHost, "test.ping"), "PERMIT");
  EXPECT_EQ(decision(engine, kHost, "test.pingg"), "POLICY_DENIED");
  EXPECT_EQ(decision(engine, kHost, "fs"), "POLICY_DENIED");
  EXPECT_EQ(decision(engine, kHost, "fsx.read"), "POLICY_DENIED");
  EXPECT_EQ(decision(engine, kHost, ""), "POLICY_DENIED");
}

TEST_F(Policy, WhoMayDoAllIsStillHeldToEveryRule) {
  const auto rules = parse_rules(R"(
[[rule]]
name = "keep"
match = ["fs.remove"]
principal = ["host"]
effect = "deny"
[[rule]]
name = "slowly"
match = ["test.echo"]
principal = ["host"]
rate = "1/h"
)",
                                 "rules.toml");
  ASSERT_TRUE(rules) << rules.error().describe();
  Engine engine(HostPolicy(), tokens_);
  engine.replace(HostPolicy(), *rules);
  EXPECT_EQ(decision(engine, kHost, "test.ping"), "PERMIT");
  EXPECT_EQ(decision(engine, kHost, "fs.remove"), "POLICY_DENIED");
  EXPECT_FALSE(engine.permit_at_once({kHost, 7, "test.echo", {}})) << "somebody must count it";
  engine.replace(HostPolicy());
  EXPECT_EQ(decision(engine, kHost, "fs.remove"), "PERMIT");
}

TEST_F(Policy, AnEmptyListAllowsNothing) {
  const Engine engine({.methods = {}, .token_methods = {}}, tokens_);
  EXPECT_EQ(decision(engine, kHost, "test.ping"), "POLICY_DENIED");
}

TEST_F(Policy, ADenialTellsTheCallerNothingOfTheRules) {
  const Engine engine({.methods = {"secret.rule"}, .token_methods = {}}, tokens_);
  const Question question{kContainer, 7, "test.ping", ""};
  const auto permit = engine.permit(question, engine.consider(question), {});
  ASSERT_FALSE(permit);
  EXPECT_EQ(permit.error().message, "policy does not allow this method");
  EXPECT_EQ(permit.error().details_json, "");
}

TEST_F(Policy, AReplacedPolicyCountsFromTheNextQuestion) {
  Engine engine(HostPolicy(), tokens_);
  engine.replace({.methods = {"a"}, .token_methods = {}});
  EXPECT_EQ(decision(engine, kHost, "b"), "POLICY_DENIED");
}

TEST_F(Policy, ATokenMethodNeedsATokenAsWell) {
  const Engine engine({.methods = {"fs.*"}, .token_methods = {"fs.write", "exec.*"}}, tokens_);
  const std::string token = tokens_.create(kHost, 7, {"*"}, Millis(1000));
  EXPECT_EQ(decision(engine, kHost, "fs.read"), "PERMIT");
  EXPECT_EQ(decision(engine, kHost, "fs.write"), "UNAUTHENTICATED");
  EXPECT_EQ(decision(engine, kHost, "fs.write", token), "PERMIT");
  EXPECT_EQ(decision(engine, kHost, "exec.run", token), "POLICY_DENIED") << "a token grants nothing by itself";
}

TEST_F(Policy, NoTokenIsDemandedOfASignalNorOfTheMethodThatMakesOne) {
  Engine engine({.methods = {"*"}, .token_methods = {"*"}}, tokens_);
  engine.set_container("c1", {.methods = {"*"}, .token_methods = {"*"}, .signals = {"*"}, .profile = "p"});
  EXPECT_EQ(decision(engine, kContainer, "schedule_task"), "PERMIT") << "a message in a mailbox cannot carry one";
  EXPECT_EQ(decision(engine, kContainer, "signal.raise"), "UNAUTHENTICATED");
  for (const Principal& principal : {kHost, kContainer}) {
    EXPECT_EQ(decision(engine, principal, "token.create"), "PERMIT");
    EXPECT_EQ(decision(engine, principal, "fs.read"), "UNAUTHENTICATED");
  }
}

TEST_F(Policy, ATokenIsBoundToItsPrincipal) {
  const std::string token = tokens_.create(kContainer, 7, {"*"}, Millis(1000));
  EXPECT_TRUE(tokens_.check(token, kContainer, 7, "m"));
  EXPECT_FALSE(tokens_.check(token, kHost, 7, "m"));
  EXPECT_FALSE(tokens_.check(token, Principal::container("c2"), 7, "m"));
}

TEST_F(Policy, ATokenIsBoundToItsProcess) {
  const std::string token = tokens_.create(kHost, 7, {"*"}, Millis(1000));
  EXPECT_FALSE(tokens_.check(token, kHost, 8, "m"));
  EXPECT_FALSE(tokens_.check(token, kHost, 0, "m"));
  const std::string highest = tokens_.create(kHost, UINT64_MAX, {"*"}, Millis(1000));
  EXPECT_TRUE(tokens_.check(highest, kHost, UINT64_MAX, "m"));
}

TEST_F(Policy, ATokenEndsWithItsTime) {
  const std::string token = tokens_.create(kHost, 7, {"*"}, Millis(1000));
  clock_.steady_now += Millis(999);
  clock_.now += 86'400'000;
  EXPECT_TRUE(tokens_.check(token, kHost, 7, "m")) << "what the wall clock is set to does not matter";
  clock_.steady_now += Millis(1);
  const Status expired = tokens_.check(token, kHost, 7, "m");
  ASSERT_FALSE(expired);
  EXPECT_EQ(expired.error().detail, "expired");
  clock_.now -= 2 * 86'400'000;
  EXPECT_FALSE(tokens_.check(token, kHost, 7, "m")) << "nor does setting it back help";
}

TEST_F(Policy, ATokenCoversOnlyItsMethods) {
  const std::string token = tokens_.create(kHost, 7, {"fs.*", "test.ping"}, Millis(1000));
  EXPECT_TRUE(tokens_.check(token, kHost, 7, "fs.read"));
  EXPECT_FALSE(tokens_.check(token, kHost, 7, "test.pong"));
  EXPECT_FALSE(tokens_.check(tokens_.create(kHost, 7, {}, Millis(1000)), kHost, 7, "fs.read"));
}

TEST_F(Policy, AnAlteredTokenIsWorthNothing) {
  const std::string token = tokens_.create(kHost, 7, {"fs.read"}, Millis(1000));
  for (std::size_t i = 0; i < token.size(); ++i) {
    for (const char c : {'A', 'z', '.', '=', ' '}) {
      std::string altered = token;
      if (altered[i] == c) continue;
      altered[i] = c;
      EXPECT_FALSE(tokens_.check(altered, kHost, 7, "fs.read")) << i << c;
    }
  }
  for (std::size_t length = 0; length < token.size(); ++length) {
    EXPECT_FALSE(tokens_.check(token.substr(0, length), kHost, 7, "fs.read")) << length;
  }
  EXPECT_FALSE(tokens_.check(token + "A", kHost, 7, "fs.read"));
  EXPECT_FALSE(tokens_.check(token + ".", kHost, 7, "fs.read"));
}

TEST_F(Policy, ATokenOfAnotherKeyIsWorthNothing) {
  const Tokens others(clock_);
  EXPECT_FALSE(tokens_.check(others.create(kHost, 7, {"*"}, Millis(1000)), kHost, 7, "m"));
}

TEST_F(Policy, AMethodNameWithQuotesCannotForgeAClaim) {
  const std::string token = tokens_.create(kHost, 7, {R"(x"],"methods":["*)"}, Millis(1000));
  EXPECT_FALSE(tokens_.check(token, kHost, 7, "fs.read"));
  EXPECT_TRUE(tokens_.check(token, kHost, 7, R"(x"],"methods":["*)"));
}

TEST(Patterns, MatchWholeNamesAndWholeGroups) {
  EXPECT_TRUE(matches("*", "anything"));
  EXPECT_TRUE(matches("fs.*", "fs.read"));
  EXPECT_TRUE(matches("fs.*", "fs.a.b"));
  EXPECT_FALSE(matches("fs.*", "fs"));
  EXPECT_FALSE(matches("fs.*", "fsread"));
  EXPECT_FALSE(matches("fs", "fs.read"));
  EXPECT_FALSE(matches("fs.re*", "fs.read")) << "a star stands only behind a dot";
  EXPECT_FALSE(matches("", "x"));
}

TEST(Principals, ContainerIdsAreShortAndPlain) {
  for (const char* id : {"a", "c1", "0", "a-b_c", "host"}) EXPECT_TRUE(Principal::is_container_id(id)) << id;
  for (const char* id : {"", "-a", "_a", "A", "a.b", "a/b", "..", "a b", "é"})
    EXPECT_FALSE(Principal::is_container_id(id)) << id;
  EXPECT_TRUE(Principal::is_container_id(std::string(64, 'a')));
  EXPECT_FALSE(Principal::is_container_id(std::string(65, 'a')));
}

}  // namespace
}  // namespace sallyport::policy
