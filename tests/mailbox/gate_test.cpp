// Requests that wait for a human at the real gate: through crashes, full disks and changes of the policy.
#include <fcntl.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>

#include "mailbox/mail.h"

namespace sallyport::testing {
namespace {

class MailGate : public Mail {
 protected:
  MailGate() { uses_gate_ = true; }

  std::vector<std::string> questions() {
    std::vector<std::string> ids;
    Client client = connect();
    const auto answer = client.call("approval.list");
    if (!answer || answer->error) return {"no answer"};
    for (const wire::Value one : answer->result.get("approvals").items()) {
      ids.emplace_back(one.get("id").as_string().value_or(""));
    }
    return ids;
  }
  std::string question() {
    std::vector<std::string> ids;
    EXPECT_TRUE(eventually([&] { return (ids = questions()).size() == 1; }));
    return ids.empty() ? "" : ids[0];
  }
  std::string approve(const std::string& id) {
    Client client = connect();
    return client.outcome("approval.approve", R"({"id":")" + id + "\"}");
  }
  // How many records there are of a method.
  std::size_t recorded(const std::string& method, const std::string& code = {}) {
    Client client = connect();
    const auto answer = client.call("audit.query", R"({"method":")" + method + R"(","decision":")" + code + "\"}");
    return answer && !answer->error ? answer->result.get("records").size() : 0;
  }
};

// ---- a crash between the approval and the action ----

TEST_F(MailGate, KilledAfterTheApprovalItIsDoneOnce) {
  for (const char* fault : {"human_wait", "human_said", "human_approved", "ready"}) {
    container_.clear();
    start(fault);
    container();
    drop(request("test_human", id_of(1)));
    if (std::string(fault) == "human_wait") {
      ASSERT_EQ(daemon().wait(), -SIGKILL);
      restart();
      approve(question());
    } else {
      approve(question());
      ASSERT_EQ(daemon().wait(), -SIGKILL) << fault;
      restart();
    }
    EXPECT_EQ(outcome(id_of(1)), "OK") << fault;
    EXPECT_EQ(acted(id_of(1)), 1) << fault;
    EXPECT_TRUE(questions().empty()) << fault;
    finish();
  }
}

// The gate's own edges: the question is there, the answer is, and it is over; each before anybody was told.
TEST_F(MailGate, KilledWhileItIsAskedOrAnsweredItIsDoneOnce) {
  for (const char* fault : {"asked", "answer_stored"}) {
    container_.clear();
    start(fault);
    container();
    drop(request("test_human", id_of(1)));
    if (std::string(fault) == "answer_stored") {
      EXPECT_EQ(approve(question()), "CLOSED");
    }
    ASSERT_EQ(daemon().wait(), -SIGKILL) << fault;
    restart();
    if (std::string(fault) == "asked") {
      EXPECT_EQ(approve(question()), "OK");
    }
    EXPECT_EQ(outcome(id_of(1)), "OK") << fault;
    EXPECT_EQ(acted(id_of(1)), 1) << fault;
    EXPECT_TRUE(questions().empty()) << fault;
    EXPECT_EQ(recorded("approval.asked"), 1U) << fault;
    EXPECT_EQ(recorded("approval.approved"), 1U) << fault;
    finish();
  }
}

TEST_F(MailGate, KilledWhileAQuestionIsWithdrawnItIsNotDone) {
  start("settled");
  container();
  drop(request("test_human", id_of(1)));
  const std::string id = question();
  Client client = connect();
  const std::string named = R"({"container":")" + container() + "\"";
  EXPECT_EQ(client.outcome("container.stop", named + R"(,"grace_ms":0})"), "OK");
  client.outcome("container.remove", named + "}");
  ASSERT_EQ(daemon().wait(), -SIGKILL);
  restart();
  EXPECT_TRUE(questions().empty());
  EXPECT_EQ(approve(id), "CONFLICT");
  EXPECT_EQ(acted(id_of(1)), 0);
}

// A call dies with its warden: what a human said about it is on record, and nothing is done.
TEST_F(MailGate, KilledWhileACallIsApprovedItIsNotDone) {
  for (const char* fault : {"asked", "answer_stored"}) {
    container_.clear();
    start(fault);
    daemon().write_config(config_ + "[[rule]]\nname = \"ask\"\nmatch = \"fs.write\"\neffect = \"human\"\n");
    EXPECT_EQ(connect().outcome("warden.reload"), "OK");
    Client worker = connect();
    ASSERT_EQ(worker.outcome("session.narrow", R"({"container":")" + container() + "\"}"), "OK");
    const std::string path = daemon().root() + "/workspace/written";
    ASSERT_TRUE(worker.send_request("w", "fs.write", R"({"path":")" + path + R"(","content":"x"})"));
    if (std::string(fault) == "answer_stored") approve(question());
    ASSERT_EQ(daemon().wait(), -SIGKILL) << fault;
    restart();
    EXPECT_TRUE(eventually([&] { return questions().empty(); })) << fault;
    EXPECT_FALSE(std::filesystem::exists(path)) << fault;
    finish();
  }
}

TEST_F(MailGate, AnApprovalDoesNotOutliveItsQuestionInTheJournal) {
  start("human_approved");
  container();
  drop(request("test_human", id_of(1)));
  approve(question());
  ASSERT_EQ(daemon().wait(), -SIGKILL);
  set_clock(std::chrono::hours(25));
  restart();
  EXPECT_EQ(outcome(id_of(1)), "APPROVAL_EXPIRED");
  EXPECT_EQ(acted(id_of(1)), 0);
}

TEST_F(MailGate, AnApprovalUnderAnotherPolicyIsAskedForAgain) {
  start("human_approved");
  container();
  drop(request("test_human", id_of(1)));
  approve(question());
  ASSERT_EQ(daemon().wait(), -SIGKILL);
  daemon().write_config(config_ + "[[rule]]\nname = \"more\"\nmatch = \"test_once\"\neffect = \"human\"\n");
  restart();
  const std::string again = question();
  EXPECT_EQ(acted(id_of(1)), 0);
  EXPECT_EQ(approve(again), "OK");
  EXPECT_EQ(outcome(id_of(1)), "OK");
  EXPECT_EQ(acted(id_of(1)), 1);
}

// ---- questions that nobody waits for ----

TEST_F(MailGate, TheQuestionsOfARemovedContainerGoWithIt) {
  start();
  container();
  drop(request("test_human", id_of(1)));
  const std::string id = question();
  Client client = connect();
  const std::string named = R"({"container":")" + container() + R"(","grace_ms":0})";
  EXPECT_EQ(client.outcome("container.stop", named), "OK");
  EXPECT_EQ(client.outcome("container.remove", R"({"container":")" + container() + "\"}"), "OK");
  EXPECT_TRUE(eventually([&] { return questions().empty(); }));
  EXPECT_EQ(approve(id), "CONFLICT");
}

TEST_F(MailGate, APolicyThatChangedWhileNoWardenRanLeavesNoQuestionBehind) {
  start();
  container();
  drop(request("test_human", id_of(1)));
  const std::string before = question();
  daemon().kill_now();
  daemon().write_config(config_ + "[[rule]]\nname = \"more\"\nmatch = \"test_once\"\neffect = \"human\"\n");
  restart();
  std::string now;
  EXPECT_TRUE(eventually([&] {
    const auto ids = questions();
    return ids.size() == 1 && (now = ids[0]) != before;
  }));
  EXPECT_EQ(approve(now), "OK");
  EXPECT_EQ(outcome(id_of(1)), "OK");
}

TEST_F(MailGate, ASignalThatIsDeclaredNoMoreLeavesNoQuestionBehind) {
  start();
  container_ = create("sleepy", "sleeper");
  drop(request("asked", id_of(1), "{}"));
  const std::string id = question();
  daemon().kill_now();
  std::string config = config_;
  config.resize(config.find("[signal.asked]"));
  daemon().write_config(config);
  std::string profiles;
  {
    std::ifstream file(daemon().root() + "/profiles/test.toml");
    profiles.assign(std::istreambuf_iterator<char>(file), {});
  }
  const std::string review = "asked = \"human\", ";
  ASSERT_NE(profiles.find(review), std::string::npos);
  profiles.erase(profiles.find(review), review.size());
  std::ofstream(daemon().root() + "/profiles/test.toml") << profiles;
  restart();
  EXPECT_EQ(outcome(id_of(1)), "METHOD_NOT_FOUND");
  EXPECT_TRUE(eventually([&] { return questions().empty(); }));
  EXPECT_EQ(approve(id), "CONFLICT");
}

// ---- what a human is shown and asked ----

TEST_F(MailGate, AHumanIsShownTheCommandThatWillRun) {
  start();
  container_ = create("sleepy", "sleeper");
  drop(request("asked", id_of(1), "{}"));
  const std::string id = question();
  Client client = connect();
  const auto shown = client.call("approval.show", R"({"id":")" + id + "\"}");
  ASSERT_TRUE(shown && !shown->error);
  EXPECT_EQ(shown->result.get("runs").to_json(), R"(["/usr/bin/env","KEY=)" + container() + "/" + id_of(1) + "\"]");
  EXPECT_EQ(approve(id), "OK");
  EXPECT_EQ(outcome(id_of(1)), "OK");
}

TEST_F(MailGate, AnApprovalOfACommandIsNoneOfTheCommandThatAReloadPutInItsPlace) {
  start();
  container_ = create("sleepy", "sleeper");
  std::string config = config_;
  const std::string command = "KEY={key}";
  ASSERT_NE(config.find(command), std::string::npos);
  const std::string other = config.replace(config.find(command), command.size(), "OTHER={key}");
  const std::string deploy = "[deploy.site]\nrepository = \"/srv/site\"\ncommand = [\"/bin/true\"]\n";
  int id = 0;
  for (const std::string& next : {other, other + deploy, other}) {
    drop(request("asked", id_of(++id), "{}"));
    const std::string asked = question();
    daemon().write_config(next);
    EXPECT_EQ(connect().outcome("warden.reload"), "OK");
    EXPECT_EQ(approve(asked), "CONFLICT");
    EXPECT_EQ(outcome(id_of(id)), "APPROVAL_DENIED");
  }
}

TEST_F(MailGate, NobodyIsAskedAboutWhatCannotBeDone) {
  start();
  container_ = create("sleepy", "sleeper");
  drop(request("schedule_task", id_of(1), R"({"prompt":"x","schedule":"0 9 * * 1"})"));
  EXPECT_EQ(outcome(id_of(1)), "CONFLICT") << "the profile has no agent";
  EXPECT_EQ(recorded("approval.asked"), 0U);
}

TEST_F(MailGate, AReloadAndItsPolicyAreRecorded) {
  start();
  EXPECT_TRUE(eventually([&] { return recorded("policy.loaded") == 1; }));
  daemon().signal(SIGHUP);
  EXPECT_TRUE(eventually([&] { return recorded("policy.loaded") == 2; }));
  daemon().write_config(config_ + "[[rule]]\nname = \"typo\"\nmatch = \"fs.reed\"\neffect = \"deny\"\n");
  daemon().signal(SIGHUP);
  EXPECT_TRUE(eventually([&] { return recorded("policy.loaded", "INVALID_PARAMS") == 1; }));
  EXPECT_TRUE(daemon().logs("no method or signal has that name"));
  daemon().write_config(config_ +
                        "[[rule]]\nname = \"typo\"\nmatch = \"fs.read\"\nprofile = [\"nosuch\"]\neffect = \"deny\"\n");
  Client client = connect();
  EXPECT_EQ(client.outcome("warden.reload"), "INVALID_PARAMS");
  EXPECT_TRUE(daemon().logs("profile 'nosuch', and there is none"));
}

// ---- a full disk ----

void fill(const std::string& path) {
  const UniqueFd file{::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600)};
  const std::string block(4096, 'x');
  while (::write(file.get(), block.data(), block.size()) > 0) continue;
  ASSERT_EQ(errno, ENOSPC);
}

TEST_F(MailGate, TheHostCanStopAContainerOnAFullDisk) {
  start_on_tmpfs("size=8m");
  const std::string first = container(), second = create("other");
  Client client = connect();
  // Each on a connection of its own: one that still works has more to say.
  const auto is_stuck = [&] {
    return connect().outcome("container.exec", R"({"container":")" + first + R"(","command":["true"]})") ==
           "UNAVAILABLE";
  };
  fill(state_dir() + "/filler");
  EXPECT_TRUE(eventually(is_stuck));
  EXPECT_EQ(client.outcome("container.stop", R"({"container":")" + first + R"(","grace_ms":0})"), "OK");
  EXPECT_EQ(recorded("container.stop"), 2U) << "decision and outcome, on what was kept back";
  // Somebody takes that as well: it is recorded when it can be.
  fill(state_dir() + "/filler2");
  EXPECT_TRUE(eventually([&] {
    Client another = connect();
    return another.outcome("container.remove", R"({"container":"nobody"})") == "NOT_FOUND" &&
           daemon().log().find("done without a record") != std::string::npos;
  }));
  EXPECT_EQ(client.outcome("container.stop", R"({"container":")" + second + R"(","grace_ms":0})"), "OK");
  for (const char* name : {"/filler", "/filler2"}) ::unlink((state_dir() + name).c_str());
  EXPECT_TRUE(eventually([&] { return recorded("container.stop") == 4; }));
}

TEST_F(MailGate, TheHostCanStopTheWardenOnAFullDisk) {
  start_on_tmpfs("size=8m");
  container();
  fill(state_dir() + "/filler");
  {
    Client client = connect();
    EXPECT_EQ(client.outcome("warden.shutdown"), "OK");
  }
  EXPECT_EQ(daemon().wait(), 0);
}

TEST_F(MailGate, AttackFillTheDiskThroughInTmp) {
  start_on_tmpfs("size=64m");
  const std::string other = create("quiet");
  Client watching = connect();
  // As much as there is.
  run("dd if=/dev/zero of=$SALLYPORT_MAILBOX/in/tmp/fill bs=1M count=3000 2>/dev/null; sleep 1000");
  const auto state_of_container = [&] {
    const auto answer = watching.call("container.inspect", R"({"container":")" + container() + "\"}");
    return answer && !answer->error ? std::string(answer->result.get("state").as_string().value_or("")) : "";
  };
  EXPECT_TRUE(eventually([&] { return state_of_container() == "exited"; }));
  EXPECT_TRUE(eventually([&] { return std::filesystem::is_empty(mailbox(container()) + "/in/tmp"); }));
  EXPECT_TRUE(eventually([&] { return recorded("container.violation") == 1; }));
  // And nobody else has to suffer for it.
  EXPECT_TRUE(eventually([&] {
    return watching.outcome("container.exec", R"({"container":")" + other + R"(","command":["true"]})") == "OK";
  }));
}

TEST_F(MailGate, AttackFillTheDiskBesideInTmp) {
  start_on_tmpfs("size=64m");
  run("mkdir $SALLYPORT_MAILBOX/in/other; dd if=/dev/zero of=$SALLYPORT_MAILBOX/in/other/fill bs=1M count=3000 "
      "2>/dev/null; sleep 1000");
  EXPECT_TRUE(eventually([&] { return recorded("container.violation") == 1; }));
  EXPECT_TRUE(eventually([&] { return !std::filesystem::exists(mailbox(container()) + "/in/other"); }));
}

TEST_F(MailGate, AttackPutAnotherDirectoryInThePlaceOfInTmp) {
  start();
  run("mv $SALLYPORT_MAILBOX/in/tmp $SALLYPORT_MAILBOX/in/x; mkdir $SALLYPORT_MAILBOX/in/tmp; sleep 1000");
  EXPECT_TRUE(eventually([&] { return recorded("container.violation") == 1; }));
}

TEST_F(MailGate, AttackFillTheMailboxWithFiles) {
  start();
  run("i=0; while [ $i -lt 1500 ]; do : > $SALLYPORT_MAILBOX/in/tmp/$i; i=$((i+1)); done; sleep 1000");
  EXPECT_TRUE(eventually([&] { return recorded("container.violation") == 1; }));
  EXPECT_TRUE(eventually([&] { return std::filesystem::is_empty(mailbox(container()) + "/in/tmp"); }));
}

TEST_F(MailGate, AttackFloodOfSignalsWithoutARate) {
  start();
  container_ = create("loud", "chatty");
  for (int i = 0; i < 300; ++i) drop(R"({"signal":"test_note"})");
  EXPECT_TRUE(is_emptied());
  EXPECT_TRUE(refuses("RATE_LIMITED"));
  // 120 a minute, and what a slow machine takes meanwhile.
  EXPECT_LT(actions().size(), 280U);
  EXPECT_GE(actions().size(), 120U);
}

TEST_F(MailGate, AttackTasksThatScheduleTasksCountToWhoeverBegan) {
  start();
  container_ = create("breeder", "breeder");
  run("for i in 1 2 3; do printf '{\"prompt\":\"x\",\"schedule\":\"%s\"}' "
      "$(date -u -d '+1 second' +%Y-%m-%dT%H:%M:%SZ) | sallyport-signal schedule_task --payload -; done");
  // One of the first three, and all that the two runs ask for.
  EXPECT_TRUE(eventually([&] { return recorded("schedule_task", "RATE_LIMITED") == 7; }));
  Client client = connect();
  const auto tasks = client.call("schedule.list");
  ASSERT_TRUE(tasks && !tasks->error);
  EXPECT_EQ(tasks->result.get("tasks").size(), 2U) << tasks->result.to_json();
  for (const wire::Value task : tasks->result.get("tasks").items()) {
    EXPECT_EQ(task.get("owner").as_string(), container());
  }
}

// ---- programs that a crash leaves behind ----

TEST_F(MailGate, AProgramThatACrashLeftRunningIsEndedBeforeItRunsAgain) {
  start();
  container_ = create("sleepy", "sleeper");
  drop(request("slow", id_of(1), "{}"));
  const std::string programs = state_dir() + "/programs";
  const auto running = [&] {
    std::error_code none;
    for (const auto& entry : std::filesystem::directory_iterator(programs, none)) {
      return static_cast<pid_t>(std::atoi(entry.path().filename().c_str()));
    }
    return pid_t{0};
  };
  pid_t first = 0;
  ASSERT_TRUE(eventually([&] { return (first = running()) != 0; }));
  daemon().kill_now();
  EXPECT_EQ(::kill(first, 0), 0) << "it outlives the warden";
  restart();
  EXPECT_TRUE(daemon().logs("still running, and are ended"));
  EXPECT_TRUE(eventually([&] { return ::getsid(first) != first; }));
  pid_t second = 0;
  EXPECT_TRUE(eventually([&] { return (second = running()) != 0 && second != first; })) << "it is idempotent";
}

}  // namespace
}  // namespace sallyport::testing
