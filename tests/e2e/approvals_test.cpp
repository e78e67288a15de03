// Requests that need a human, over the doors of the real daemon, and those who try to get around him.
#include <set>

#include "approval/limits.h"
#include "e2e/approvals.h"

namespace sallyport::testing {
namespace {

TEST_F(Approvals, AParkedRequestRunsAfterAHumanSaidYes) {
  use_profile("review = { \"fs.mkdir\" = \"human\" }\n");
  Client agent = inside(), human = connect();
  ASSERT_TRUE(agent.send_request("m", "fs.mkdir", mkdir_params("wanted")));
  EXPECT_TRUE(agent.pings()) << "others do not wait with it";
  const std::string id = question(human);
  EXPECT_FALSE(made("wanted"));
  const auto shown = human.call("approval.show", named(id));
  ASSERT_EQ(code_of(shown), "OK");
  EXPECT_EQ(shown->result.get("signal").as_string(), "fs.mkdir");
  EXPECT_EQ(shown->result.get("container").as_string(), container());
  EXPECT_EQ(shown->result.get("payload").get("path").as_string(), "wanted");
  EXPECT_EQ(shown->result.get("rule").as_string(), "profile.reviewed.review.fs.mkdir");
  EXPECT_EQ(human.outcome("approval.approve", named(id)), "OK");
  EXPECT_EQ(code_of(agent.next_message()), "OK");
  EXPECT_TRUE(made("wanted"));
  EXPECT_EQ(agent.told_to_wait(), 1);
}

TEST_F(Approvals, ANoIsToldWithItsReasonAndNothingRuns) {
  use_profile("review = { \"fs.mkdir\" = \"human\" }\n");
  Client agent = inside(), human = connect();
  ASSERT_TRUE(agent.send_request("m", "fs.mkdir", mkdir_params("unwanted")));
  EXPECT_EQ(human.outcome("approval.deny", R"({"why":"too early","id":)" + quoted(question(human)) + "}"), "OK");
  const auto answer = agent.next_message();
  EXPECT_EQ(code_of(answer), "APPROVAL_DENIED");
  EXPECT_EQ(why(answer), "too early");
  EXPECT_FALSE(made("unwanted"));
}

TEST_F(Approvals, ExpiryMeansNo) {
  start_with("[warden]\ndrain_timeout_ms = 2000\n[approvals]\nexpiry = \"200ms\"\n");
  use_profile("review = { \"fs.mkdir\" = \"human\" }\n");
  Client agent = inside();
  EXPECT_EQ(agent.outcome("fs.mkdir", mkdir_params("late")), "APPROVAL_EXPIRED");
  EXPECT_FALSE(made("late"));
}

TEST_F(Approvals, AttackTheRequesterCannotApproveItself) {
  use_profile("review = { \"fs.mkdir\" = \"human\" }\n");
  Client agent = inside(), human = connect();
  ASSERT_TRUE(agent.send_request("m", "fs.mkdir", mkdir_params("own")));
  const std::string id = question(human);
  Client same = inside();
  for (const char* method : {"approval.approve", "approval.deny", "approval.show"}) {
    EXPECT_EQ(same.outcome(method, named(id)), "POLICY_DENIED") << "though its profile names approval.*";
  }
  EXPECT_EQ(same.outcome("approval.list"), "POLICY_DENIED");
  EXPECT_FALSE(made("own"));
  EXPECT_EQ(human.outcome("approval.deny", named(id)), "OK");
  EXPECT_EQ(code_of(agent.next_message()), "APPROVAL_DENIED");
}

TEST_F(Approvals, AttackAForgedFileApprovesNothing) {
  use_profile("review = { \"fs.mkdir\" = \"human\" }\n");
  Client agent = inside(), human = connect();
  ASSERT_TRUE(agent.send_request("m", "fs.mkdir", mkdir_params("forged")));
  const std::string id = question(human);
  const std::string mailbox = daemon().root() + "/state/mailbox/" + container() + "/in/new/";
  std::filesystem::create_directories(mailbox);
  std::ofstream(mailbox + "approval.json") << R"({"signal":"approval.approve","payload":{"id":)" << quoted(id) << "}}";
  std::ofstream(mailbox + id + ".json") << R"({"state":"approved","by":"host","id":)" << quoted(id) << "}";
  const auto shown = human.call("approval.show", named(id));
  EXPECT_EQ(shown->result.get("state").as_string(), "open");
  EXPECT_FALSE(made("forged"));
  EXPECT_EQ(human.outcome("approval.deny", named(id)), "OK");
  EXPECT_EQ(code_of(agent.next_message()), "APPROVAL_DENIED");
}

TEST_F(Approvals, AttackAPolicyChangeVoidsTheQuestion) {
  use_profile("review = { \"fs.mkdir\" = \"human\" }\n");
  Client agent = inside(), human = connect();
  ASSERT_TRUE(agent.send_request("m", "fs.mkdir", mkdir_params("void")));
  const std::string id = question(human);
  use_profile("review = { \"fs.mkdir\" = [\"human\"] }\nrates = { \"fs.mkdir\" = \"5/s\" }\n");
  EXPECT_EQ(code_of(agent.next_message()), "APPROVAL_DENIED");
  EXPECT_EQ(human.outcome("approval.approve", named(id)), "CONFLICT");
  EXPECT_FALSE(made("void"));
}

TEST_F(Approvals, AReloadWithoutAChangeVoidsNothing) {
  use_profile("review = { \"fs.mkdir\" = \"human\" }\n");
  Client agent = inside(), human = connect();
  ASSERT_TRUE(agent.send_request("m", "fs.mkdir", mkdir_params("kept")));
  const std::string id = question(human);
  EXPECT_EQ(human.outcome("warden.reload"), "OK");
  EXPECT_EQ(human.outcome("approval.approve", named(id)), "OK");
  EXPECT_EQ(code_of(agent.next_message()), "OK");
}

TEST_F(Approvals, ARequesterThatIsGoneTakesItsQuestionWithIt) {
  use_profile("review = { \"fs.mkdir\" = \"human\" }\n");
  Client human = connect();
  std::string id;
  {
    Client agent = inside();
    ASSERT_TRUE(agent.send_request("m", "fs.mkdir", mkdir_params("gone")));
    id = question(human);
  }
  EXPECT_TRUE(eventually([&] {
    const auto shown = human.call("approval.show", named(id));
    return shown && !shown->error && shown->result.get("state").as_string() == "withdrawn";
  }));
  EXPECT_EQ(human.outcome("approval.approve", named(id)), "CONFLICT");
  EXPECT_FALSE(made("gone"));
}

TEST_F(Approvals, ACancelledRequestIsWithdrawnAndADeadlineStillCounts) {
  use_profile("review = { \"fs.mkdir\" = \"human\" }\n");
  Client agent = inside(), human = connect();
  ASSERT_TRUE(agent.send_request("m", "fs.mkdir", mkdir_params("cancelled")));
  const std::string id = question(human);
  ASSERT_TRUE(agent.send(frame_of(R"({"id":"m","type":"event","method":"cancel"})")));
  EXPECT_EQ(code_of(agent.next_message()), "CANCELLED");
  EXPECT_TRUE(eventually([&] { return human.outcome("approval.approve", named(id)) == "CONFLICT"; }));
  ASSERT_TRUE(agent.send(
      frame_of(R"({"id":"d","type":"request","method":"fs.mkdir","params":{"path":"slow"},"deadline_ms":50})")));
  EXPECT_EQ(code_of(agent.next_message()), "TIMEOUT");
  EXPECT_FALSE(made("cancelled") || made("slow"));
}

TEST_F(Approvals, SubscribersHearOfQuestionsAndAnswers) {
  use_profile("review = { \"fs.mkdir\" = \"human\" }\n");
  Client listener = connect(), agent = inside(), human = connect();
  ASSERT_EQ(listener.outcome("warden.subscribe", R"({"events":["approval.*"]})"), "OK");
  ASSERT_TRUE(agent.send_request("m", "fs.mkdir", mkdir_params("heard")));
  auto event = listener.next_message();
  ASSERT_TRUE(event);
  EXPECT_EQ(event->method, "approval.asked");
  EXPECT_FALSE(event->params.get("payload")) << "content is for the control door's approval.show";
  const std::string id(event->params.get("id").as_string().value_or(""));
  EXPECT_EQ(human.outcome("approval.approve", named(id)), "OK");
  event = listener.next_message();
  ASSERT_TRUE(event);
  EXPECT_EQ(event->method, "approval.answered");
  EXPECT_EQ(event->params.get("state").as_string(), "approved");
}

TEST_F(Approvals, AStopWhileAQuestionIsOpenLeavesNothingBehind) {
  use_profile("review = { \"fs.mkdir\" = \"human\" }\n");
  Client agent = inside(), human = connect();
  ASSERT_TRUE(agent.send_request("m", "fs.mkdir", mkdir_params("stopped")));
  question(human);
  EXPECT_EQ(daemon().stop(), 0);
  ASSERT_TRUE(daemon().start()) << daemon().log();
  Client again = connect();
  const auto listed = again.call("approval.list");
  ASSERT_EQ(code_of(listed), "OK");
  EXPECT_EQ(listed->result.get("approvals").size(), 0U) << "a call does not outlive its connection";
}

TEST_F(Approvals, ANewProfileCountsForContainersThatRunAlready) {
  use_profile("");
  Client agent = inside();
  EXPECT_EQ(agent.outcome("fs.mkdir", mkdir_params("before")), "OK");
  use_profile("[[profile.reviewed.rule]]\nname = \"no\"\nmatch = \"fs.mkdir\"\neffect = \"deny\"\n");
  EXPECT_EQ(agent.outcome("fs.mkdir", mkdir_params("after")), "POLICY_DENIED");
  std::filesystem::remove(daemon().root() + "/profiles/reviewed.toml");
  EXPECT_EQ(connect().outcome("warden.reload"), "OK");
  EXPECT_EQ(agent.outcome("fs.stat", R"({"path":"/usr"})"), "POLICY_DENIED") << "its profile is gone";
}

TEST_F(Approvals, RatesAreCountedSayWhenToComeBackAndSurviveARestart) {
  start_with(
      "[warden]\ndrain_timeout_ms = 2000\n[[rule]]\nname = \"calm\"\nmatch = \"warden.hello\"\n"
      "principal = [\"host\"]\nrate = \"2/h\"\n");
  for (int run = 0; run < 2; ++run) {
    Client client = connect();
    if (run == 0) {
      EXPECT_EQ(client.outcome("warden.hello"), "OK");
      EXPECT_EQ(client.outcome("warden.hello"), "OK");
    }
    const auto answer = client.call("warden.hello");
    EXPECT_EQ(code_of(answer), "RATE_LIMITED") << run;
    ASSERT_TRUE(answer && answer->error);
    EXPECT_NE(answer->error->details_json.find("\"retry_after_ms\":"), std::string::npos);
    EXPECT_TRUE(client.pings());
    if (run == 0) {
      EXPECT_EQ(daemon().stop(), 0);
      ASSERT_TRUE(daemon().start()) << daemon().log();
    }
  }
}

TEST_F(Approvals, AttackWhatFollowsTheReviewIsNotReviewed) {
  use_profile("review = { \"fs.write\" = \"human\" }\n");
  Client agent = inside();
  EXPECT_EQ(agent.outcome("fs.write", R"({"path":"f","content":{"$stream":1}})"), "POLICY_DENIED");
  Client human = connect();
  const auto open = human.call("approval.list");
  ASSERT_EQ(code_of(open), "OK");
  EXPECT_EQ(open->result.get("approvals").size(), 0U);
  EXPECT_FALSE(made("f"));
}

TEST_F(Approvals, AttackASubscriptionThatWasAskedForBeforeTheSessionWasNarrowed) {
  start_with(
      "[warden]\ndrain_timeout_ms = 2000\n[[rule]]\nname = \"ears\"\nmatch = \"warden.subscribe\"\nprincipal = "
      "[\"host\"]\neffect = \"human\"\n");
  use_profile("");
  Client session = connect(), human = connect();
  ASSERT_TRUE(session.send_request("s", "warden.subscribe"));
  const std::string id = question(human);
  ASSERT_TRUE(session.send_request("n", "session.narrow", R"({"container":)" + quoted(container()) + "}"));
  EXPECT_EQ(code_of(session.next_message()), "OK");
  EXPECT_EQ(human.outcome("approval.approve", named(id)), "OK");
  const auto answer = session.next_message();
  ASSERT_TRUE(answer && answer->id == "s");
  EXPECT_EQ(code_of(answer), "POLICY_DENIED");
  EXPECT_EQ(human.outcome("warden.reload"), "OK");
  EXPECT_TRUE(session.pings()) << "and no event came before it";
}

TEST_F(Approvals, AttackWhatIsTooLargeToBeShownHidesNoOtherQuestion) {
  use_profile("review = { \"fs.*\" = \"human\" }\n");
  Client agent = inside(), human = connect();
  const auto write = [](std::size_t bytes) { return R"({"path":"f","content":")" + std::string(bytes, 'x') + "\"}"; };
  const auto refused = agent.call("fs.write", write(900'000));
  EXPECT_EQ(code_of(refused), "APPROVAL_DENIED");
  EXPECT_NE(why(refused).find("too large to be shown"), std::string::npos) << why(refused);
  for (int i = 0; i < 12; ++i) {
    ASSERT_TRUE(agent.send_request("w" + std::to_string(i), "fs.write", write(120'000)));
  }
  ASSERT_TRUE(agent.send_request("m", "fs.mkdir", mkdir_params("wanted")));
  std::set<std::string> listed;
  EXPECT_TRUE(eventually([&] {
    listed.clear();
    std::string last;
    int pages = 0;
    for (bool has_more = true; has_more; ++pages) {
      const auto page = human.call("approval.list", R"({"after":")" + last + R"("})");
      if (code_of(page) != "OK") return false;
      for (const wire::Value each : page->result.get("approvals").items()) {
        last = each.get("id").as_string().value_or("");
        listed.insert(last);
      }
      has_more = page->result.get("has_more").as_bool().value();
    }
    return listed.size() == 13 && pages > 1;
  })) << listed.size();
  for (const std::string& id : listed) {
    EXPECT_EQ(human.outcome("approval.show", named(id)), "OK");
    EXPECT_EQ(human.outcome("approval.deny", named(id)), "OK");
  }
}

TEST_F(Approvals, AttackWhatGrowsWhenItIsIndentedIsShownAsItIs) {
  use_profile("review = { \"test.echo\" = \"human\" }\n");
  Client agent = inside(), human = connect();
  std::string deep = std::string(20, '[') + "1";
  for (int i = 0; i < 50'000; ++i) deep += ",1";
  ASSERT_TRUE(agent.send_request("e", "test.echo", R"({"data":)" + deep + std::string(20, ']') + "}"));
  const std::string id = question(human);
  const auto shown = human.call("approval.show", named(id));
  ASSERT_EQ(code_of(shown), "OK");
  EXPECT_EQ(shown->result.get("pretty").as_string(), shown->result.get("payload").to_json());
}

TEST_F(Approvals, AttackWhatIsNestedTooDeepHidesNoOtherQuestion) {
  use_profile("review = { \"test.echo\" = \"human\", \"fs.mkdir\" = \"human\" }\n");
  Client agent = inside(), human = connect();
  // Readable as a request, and not inside of a list.
  EXPECT_EQ(agent.outcome("test.echo", R"({"data":)" + std::string(29, '[') + std::string(29, ']') + "}"),
            "APPROVAL_DENIED");
  ASSERT_TRUE(agent.send_request("m", "fs.mkdir", mkdir_params("wanted")));
  EXPECT_EQ(human.outcome("approval.approve", named(question(human))), "OK");
  ASSERT_TRUE(agent.send_request("e", "test.echo", R"({"data":)" + std::string(23, '[') + std::string(23, ']') + "}"));
  EXPECT_EQ(human.outcome("approval.show", named(question(human))), "OK");
}

TEST_F(Approvals, AttackWhoAsksAndGoesAgainAndAgainIsRefused) {
  use_profile("review = { \"fs.mkdir\" = \"human\" }\n");
  Client agent = inside(), human = connect();
  ASSERT_EQ(human.outcome("warden.subscribe", R"({"events":["approval.asked"]})"), "OK");
  for (int i = 0; i < 300; ++i) {
    const std::string id = std::to_string(i);
    ASSERT_TRUE(agent.send_request(id, "fs.mkdir", mkdir_params("never")));
    ASSERT_TRUE(agent.send(frame_of(R"({"id":")" + id + R"(","type":"event","method":"cancel"})")));
    EXPECT_NE(code_of(agent.next_message()), "OK");
  }
  const auto refused = agent.call("fs.mkdir", mkdir_params("never"));
  EXPECT_EQ(code_of(refused), "APPROVAL_DENIED");
  EXPECT_NE(why(refused).find("withdrawn"), std::string::npos) << why(refused);
  // Nor is whoever listens told of all of them.
  ASSERT_TRUE(human.send_request("list", "approval.list"));
  std::size_t told = 0;
  auto message = human.next_message();
  for (; message && message->id != "list"; message = human.next_message()) ++told;
  EXPECT_LE(told, static_cast<std::size_t>(approval::kMaxWithdrawn));
  ASSERT_TRUE(message);
  EXPECT_EQ(message->result.get("approvals").size(), 0U);
}

}  // namespace
}  // namespace sallyport::testing
