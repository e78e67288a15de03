// Approvals and policy on the command line.
#include <pty.h>
#include <sys/wait.h>
#include <unistd.h>

#include <thread>
#include <vector>

#include "e2e/approvals.h"
#include "support/shell.h"

namespace sallyport::testing {
namespace {

class ApprovalCommands : public Approvals {
 protected:
  std::string cli(const std::string& arguments, int* status = nullptr) {
    const Ran ran = run_shell(places_in(daemon().root()) + SALLYPORT_CLI " " + arguments + " 2>&1 </dev/null");
    if (status != nullptr) *status = ran.status;
    return ran.output;
  }
};

TEST_F(ApprovalCommands, ListShowApproveAndDeny) {
  use_profile("review = { \"fs.mkdir\" = \"human\" }\n");
  EXPECT_EQ(cli("approvals"), "nothing waits for approval\n");
  Client agent = inside(), human = connect();
  ASSERT_TRUE(agent.send_request("m", "fs.mkdir", mkdir_params("by-cli")));
  const std::string id = question(human);
  EXPECT_NE(cli("approvals ls").find(id + "  fs.mkdir  container/" + container()), std::string::npos);
  EXPECT_NE(cli("approvals ls").find(R"({"path":"by-cli"})"), std::string::npos) << cli("approvals ls");
  EXPECT_EQ(cli("names approvals"), id + "\n") << "what completion offers";
  const std::string shown = cli("approvals show " + id);
  EXPECT_NE(shown.find("rule       profile.reviewed.review.fs.mkdir"), std::string::npos) << shown;
  EXPECT_NE(shown.find("\"path\": \"by-cli\""), std::string::npos) << shown;
  EXPECT_NE(cli("--json approvals show " + id).find("\"sha256\":"), std::string::npos);
  EXPECT_EQ(cli("approvals approve " + id), id + " approved\n");
  int status = 0;
  EXPECT_NE(cli("approvals deny " + id + " --why no", &status).find("the question is over: approved by host/uid"),
            std::string::npos);
  EXPECT_EQ(status, 1);
  EXPECT_EQ(code_of(agent.next_message()), "OK");
  cli("approvals approve nonsense", &status);
  EXPECT_EQ(status, 1);
}

TEST_F(ApprovalCommands, AttackTerminalEscapesAndBidiTricksAreShownAsWhatTheyAre) {
  use_profile("review = { \"fs.mkdir\" = \"human\" }\n");
  Client agent = inside(), human = connect();
  ASSERT_TRUE(agent.send_request("m", "fs.mkdir", R"({"path":"a\u001b[2J\u202egpj.exe\u200b\u009b1m"})"));
  const std::string id = question(human);
  for (const std::string& command : {std::string("approvals"), "approvals show " + id}) {
    const std::string out = cli(command);
    EXPECT_EQ(out.find('\x1b'), std::string::npos) << command;
    EXPECT_EQ(out.find("\u202e"), std::string::npos) << command;
    EXPECT_EQ(out.find("\u200b"), std::string::npos) << command;
    EXPECT_EQ(out.find("\u009b"), std::string::npos) << command;
    EXPECT_NE(out.find("\\u202e"), std::string::npos) << out;
  }
  EXPECT_EQ(human.outcome("approval.deny", named(id)), "OK");
}

TEST_F(ApprovalCommands, OnATerminalEachIsShownInFullAndAskedAbout) {
  use_profile("review = { \"fs.mkdir\" = \"human\" }\n");
  Client agent = inside(), human = connect();
  ASSERT_TRUE(agent.send_request("m", "fs.mkdir", mkdir_params("typed")));
  question(human);
  int terminal = -1;
  const pid_t child = ::forkpty(&terminal, nullptr, nullptr, nullptr);
  if (child == 0) {
    ::setenv("SALLYPORT_RUNTIME_DIR", daemon().runtime_dir().c_str(), 1);
    ::execl(SALLYPORT_CLI, "sallyport", "approvals", nullptr);
    ::_exit(127);
  }
  const UniqueFd owned{terminal};
  std::string out;
  std::size_t asked_at = 0;
  // What is no answer is asked about again, and nothing else is answered by it.
  std::vector<std::string> answers = {"a\n", "yes\n"};
  char block[4096];
  // Until its end: then the terminal has nobody left.
  for (ssize_t count = 0; (count = ::read(terminal, block, sizeof block)) > 0;) {
    out.append(block, static_cast<std::size_t>(count));
    const std::size_t asked = out.find("quit (q)? ", asked_at);
    if (asked == std::string::npos || answers.empty()) continue;
    asked_at = asked + 1;
    ASSERT_GT(::write(terminal, answers.back().data(), answers.back().size()), 0);
    answers.pop_back();
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0) << out;
  EXPECT_NE(out.find("\"path\": \"typed\""), std::string::npos) << out;
  EXPECT_NE(out.find("approved"), std::string::npos) << out;
  EXPECT_EQ(code_of(agent.next_message()), "OK");
  EXPECT_TRUE(made("typed"));
}

TEST_F(ApprovalCommands, AttackWhatWasTypedBeforeAQuestionAnswersNone) {
  use_profile("review = { \"fs.mkdir\" = \"human\" }\n");
  Client agent = inside(), human = connect();
  ASSERT_TRUE(agent.send_request("m", "fs.mkdir", mkdir_params("typed-ahead")));
  const std::string id = question(human);
  int terminal = -1;
  const pid_t child = ::forkpty(&terminal, nullptr, nullptr, nullptr);
  if (child == 0) {
    ::usleep(200'000);  // until it is typed
    ::setenv("SALLYPORT_RUNTIME_DIR", daemon().runtime_dir().c_str(), 1);
    ::execl(SALLYPORT_CLI, "sallyport", "approvals", nullptr);
    ::_exit(127);
  }
  const UniqueFd owned{terminal};
  ASSERT_EQ(::write(terminal, "a\n", 2), 2);
  std::string out;
  char block[4096];
  for (ssize_t count = 0; (count = ::read(terminal, block, sizeof block)) > 0;) {
    out.append(block, static_cast<std::size_t>(count));
    if (!out.ends_with("quit (q)? ")) continue;
    ASSERT_EQ(::write(terminal, "q\n", 2), 2);
  }
  ::waitpid(child, nullptr, 0);
  EXPECT_EQ(human.outcome("approval.deny", named(id)), "OK") << out;
  EXPECT_FALSE(made("typed-ahead"));
}

TEST_F(ApprovalCommands, PolicyIsCheckedShownAndExplained) {
  start_with(
      "[warden]\ndrain_timeout_ms = 2000\n[[rule]]\nname = \"no-stat\"\nmatch = \"fs.stat\"\neffect = \"deny\"\n"
      "when = { path = { prefix = \"/etc\" } }\n");
  use_profile("");
  const std::string named_container = "--container " + container();
  std::string out = cli("policy explain " + named_container + " fs.stat '{\"path\":\"/etc/x\"}'");
  EXPECT_NE(out.find("deny  fs.stat for container/" + container()), std::string::npos) << out;
  EXPECT_NE(out.find("'rule.no-stat' (" + daemon().config_file() + ":3) denies it"), std::string::npos) << out;
  EXPECT_NE(out.find("matched   profile.reviewed.methods"), std::string::npos) << out;
  EXPECT_NE(cli("policy explain " + named_container + " fs.stat '{\"path\":\"/usr\"}'").find("allow"),
            std::string::npos);
  EXPECT_NE(cli("policy explain " + named_container + " deploy").find("no rule allows it (default deny)"),
            std::string::npos);
  // What is refused whatever the rules say is not explained as allowed.
  EXPECT_NE(cli("policy explain " + named_container + " approval.approve").find("deny"), std::string::npos);
  EXPECT_NE(cli("policy explain " + named_container + " container.adopt").find("control door only"), std::string::npos);
  EXPECT_NE(cli("policy explain signal.raise").find("signals are raised by containers only"), std::string::npos);
  EXPECT_NE(cli("policy explain deploy").find("signals are raised by containers only"), std::string::npos);
  EXPECT_NE(cli("policy show").find("rule.no-stat: deny for fs.stat, if its payload fits"), std::string::npos);
  std::ofstream(daemon().root() + "/bad.toml") << "[[rule]]\nname = \"x\"\nmatch = \"a\"\neffect = \"nope\"\n";
  int status = 0;
  out = cli("policy check " + daemon().root() + "/bad.toml", &status);
  EXPECT_NE(out.find("bad.toml:4:10: 'nope' is none of allow, deputy, human, deny"), std::string::npos) << out;
  EXPECT_EQ(status, 1);
  Client agent = inside();
  EXPECT_EQ(agent.outcome("fs.stat", R"({"path":"/etc/hostname"})"), "POLICY_DENIED");
  EXPECT_EQ(agent.outcome("fs.stat", R"({"path":"/usr"})"), "OK");
  EXPECT_EQ(agent.outcome("policy.explain", R"({"method":"fs.stat","principal":"host"})"), "POLICY_DENIED");
  EXPECT_EQ(agent.outcome("policy.explain", R"({"method":"fs.stat"})"), "OK");
  for (const char* none : {"fs.stats", "deploi", "fs.*", "*"}) {
    EXPECT_EQ(agent.outcome("policy.explain", std::string(R"({"method":")") + none + "\"}"), "NOT_FOUND") << none;
  }
}

TEST_F(ApprovalCommands, WhoeverWaitsForAHumanIsTold) {
  start_with(
      "[warden]\ndrain_timeout_ms = 2000\n[[rule]]\nname = \"careful\"\nmatch = \"*\"\nprincipal = [\"host\"]\n"
      "effect = \"human\"\n");
  Client human = connect();
  std::string said;
  std::thread waiting([&] { said = cli("call env.get '{\"name\":\"X\"}'"); });
  const std::string id = question(human);
  EXPECT_EQ(human.outcome("approval.deny", named(id)), "OK") << "answering is not reviewed itself";
  waiting.join();
  EXPECT_NE(said.find("waiting for a human: " + id), std::string::npos) << said;
  // Under this policy nobody's ping is answered at once.
  EXPECT_EQ(daemon().stop(), 0);
}

TEST_F(ApprovalCommands, AReloadWithAFaultKeepsTheOldPolicyAndSaysSoEverywhere) {
  use_profile("review = { \"fs.mkdir\" = \"human\" }\n");
  std::ofstream(daemon().root() + "/profiles/reviewed.toml") << "[profile.reviewed]\nsignals = [\"a.b\"]\n";
  Client client = connect();
  const auto answer = client.call("warden.reload");
  EXPECT_EQ(code_of(answer), "INVALID_PARAMS");
  EXPECT_NE(why(answer).find("reviewed.toml:2:11: 'signals' has 'a.b'"), std::string::npos) << why(answer);
  EXPECT_NE(why(answer).find("the old configuration stays in force"), std::string::npos);
  EXPECT_NE(cli("status").find("reviewed.toml:2:11"), std::string::npos);
  EXPECT_TRUE(daemon().logs("reload failed; the network is denied to all containers until it is mended"));
  EXPECT_NE(cli("policy explain --container " + container() + " fs.mkdir").find("review"), std::string::npos);
}

TEST_F(ApprovalCommands, AReloadThatCannotReadTheGroupsSaysSoAndChangesNothing) {
  const std::string groups = daemon().root() + "/state/groups";
  std::filesystem::remove_all(groups);
  std::ofstream(groups) << "no directory";
  Client client = connect();
  EXPECT_NE(code_of(client.call("warden.reload")), "OK");
  EXPECT_NE(cli("status").find("groups"), std::string::npos) << cli("status");
  std::filesystem::remove(groups);
  EXPECT_EQ(client.outcome("warden.reload"), "OK");
}

}  // namespace
}  // namespace sallyport::testing
