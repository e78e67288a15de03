// The host side of signals in the real daemon: raised from inside a container, done outside.
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <array>
#include <ctime>
#include <filesystem>
#include <fstream>

#include "e2e/door.h"
#include "support/shell.h"

namespace sallyport::testing {
namespace {

namespace fs = std::filesystem;

// Nothing here is reviewed: reviews have tests of their own.
constexpr const char* kProfile = R"(
[profile.worker]
fs.read = ["/usr", "/etc"]
fs.write = ["${workspace}"]
exec = ["/usr/**"]
methods = ["test.*", "signal.raise"]
signals = ["*"]
agent = ["/bin/sh", "-c", "read -r line; eval \"$line\""]
env = { PATH = "/usr/bin:/bin" }
[profile.mute]
fs.read = ["/usr", "/etc"]
exec = ["/usr/**"]
signals = ["*"]
env = { PATH = "/usr/bin:/bin" }
)";

class SignalsDoor : public Door {
 protected:
  void begin(const std::string& config = {}) {
    DaemonOptions options;
    options.config += config;
    daemon_ = std::make_unique<Daemon>(options);
    fs::create_directories(daemon_->root() + "/profiles");
    fs::create_directories(daemon_->root() + "/desk");
    std::ofstream(daemon_->root() + "/profiles/test.toml") << kProfile;
    ASSERT_TRUE(daemon_->start()) << daemon_->log();
    listen();
  }
  void listen() {
    events_ = std::make_unique<Client>(connect());
    ASSERT_EQ(events_->outcome("warden.subscribe", R"({"events":["*"]})"), "OK");
  }

  std::string work(const std::string& name) const { return daemon_->root() + "/desk/" + name; }
  std::string read(const std::string& path) const {
    std::ifstream file(path);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  static std::string quoted(const std::string& text) {
    return wire::to_json([&](wire::JsonWriter& json) { json.value(text); });
  }

  // Runs a script in a container until it ends; the last line of it should say how it went. Its id.
  std::string run(const std::string& script, const std::string& profile = "worker", const std::string& group = {}) {
    Client client = connect();
    const std::string place =
        group.empty() ? R"(,"workspace":)" + quoted(daemon_->root() + "/desk") : R"(,"group":)" + quoted(group);
    const auto made = client.call("container.create",
                                  std::string("{") + (group.empty() ? R"("template":)" + quoted(profile) + "," : "") +
                                      R"("config":{"command":["sh","-c",)" + quoted(script) + "]" + place + "}}");
    if (!made || made->error) return made ? made->error->message : "no answer";
    const std::string id(made->result.get("container").as_string().value_or(""));
    EXPECT_EQ(client.outcome("container.wait", R"({"container":")" + id + "\"}"), "OK");
    return id;
  }
  // A task for the next second but one.
  static std::string task(const std::string& prompt) {
    const std::time_t soon = std::time(nullptr) + 2;
    std::array<char, 32> when{};
    std::strftime(when.data(), when.size(), "%Y-%m-%dT%H:%M:%SZ", std::gmtime(&soon));
    return wire::to_json([&](wire::JsonWriter& json) {
      json.begin_object().member("prompt", prompt).member("schedule", std::string(when.data())).end_object();
    });
  }
  // Raises a signal from inside and waits for its answer, which is then in work/answer.
  std::string ask(const std::string& signal, const std::string& payload) {
    std::ofstream(work("payload")) << payload;
    return run("sallyport-signal " + signal + " --payload payload --wait > answer");
  }
  // The next event of a name, as JSON.
  std::string event(const std::string& name) {
    while (const auto message = events_->next_message()) {
      if (message->method == name) return message->params.to_json();
    }
    return "none";
  }
  std::string result(const std::string& method, const std::string& params = "{}") {
    Client client = connect();
    const auto answer = client.call(method, params);
    if (!answer) return "CLOSED";
    return answer->error ? std::string(to_string(answer->error->code)) : answer->result.to_json();
  }
  Ran sallyport(const std::string& arguments) const {
    return run_shell(places_in(daemon_->root()) + SALLYPORT_CLI " " + arguments + " 2>&1");
  }

  std::unique_ptr<Client> events_;
};

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

TEST_F(SignalsDoor, MessagesComeFromTheOutputAndNeverFromTheMailbox) {
  begin();
  const std::string id = run(R"(echo '{"type":"message","text":"hello"}'; sallyport-signal message_ready)");
  const std::string message = event("container.message");
  EXPECT_TRUE(has(message, R"("text":"hello")")) << message;
  EXPECT_TRUE(has(message, "\"" + id + "\"")) << message;
  // A file that carries text is refused, whatever it says.
  run(R"(cd /run/sallyport/mailbox/in; echo '{"signal":"message_ready","text":"injected"}' > tmp/x; mv tmp/x new/x;
      while test -e new/x; do sleep 0.02; done; echo '{"type":"message","text":"end"}'; sallyport-signal message_ready)");
  EXPECT_TRUE(has(event("container.message"), R"("text":"end")"));
}

TEST_F(SignalsDoor, AScheduledPromptRunsInAFreshContainerAndIsAudited) {
  begin();
  const std::string id = ask("schedule_task", task("echo ran > ran; echo '{\"type\":\"message\",\"text\":\"done\"}'"));
  EXPECT_TRUE(has(read(work("answer")), R"("task")")) << read(work("answer"));
  const std::string message = event("container.message");
  EXPECT_TRUE(has(message, R"("text":"done")")) << message;
  EXPECT_FALSE(has(message, id)) << "it must be a container of its own";
  const std::string finished = event("schedule.finished");
  EXPECT_TRUE(has(finished, R"("outcome":"done")")) << finished;
  EXPECT_EQ(read(work("ran")), "ran\n");
  EXPECT_TRUE(has(result("schedule.list"), R"("state":"finished")"));
  const Ran listed = sallyport("schedule ls");
  EXPECT_EQ(listed.status, 0);
  EXPECT_TRUE(has(listed.output, "finished")) << listed.output;
  EXPECT_TRUE(has(result("audit.query", R"({"method":"schedule.finished"})"), "outcome=done"));
  EXPECT_EQ(sallyport("audit verify").status, 0);
}

TEST_F(SignalsDoor, WhatIsScheduledSurvivesAKillAndRunsLate) {
  begin();
  ask("schedule_task", task("echo late > late"));
  EXPECT_TRUE(has(read(work("answer")), R"("task")")) << read(work("answer"));
  daemon_->kill_now();
  ASSERT_TRUE(daemon_->start()) << daemon_->log();
  EXPECT_TRUE(eventually([&] { return read(work("late")) == "late\n"; }));
  EXPECT_TRUE(eventually([&] { return has(result("schedule.list"), R"("last_outcome":"done")"); }))
      << result("schedule.list");
}

TEST_F(SignalsDoor, TasksAreListedAndRemovedAtTheControlDoorOnly) {
  begin();
  ask("create_periodic_agent", R"({"name":"reporter","schedule":"0 3 * * *","instructions":"true"})");
  const std::string answer = read(work("answer"));
  ASSERT_TRUE(has(answer, R"("next_run":")")) << answer;
  const std::string id = answer.substr(answer.find("t-"), 18);
  EXPECT_TRUE(has(sallyport("schedule ls").output, "reporter"));
  EXPECT_EQ(result("schedule.list", R"({"after":")" + id + "\"}"), R"({"tasks":[],"has_more":false})");
  EXPECT_EQ(sallyport("schedule rm t-0000000000000000").status, 1);
  EXPECT_EQ(sallyport("schedule rm " + id).output, "removed\n");
  EXPECT_EQ(result("schedule.list"), R"({"tasks":[],"has_more":false})");
  EXPECT_EQ(connect().outcome("schedule.list", R"({"after":")" + id + "\"}"), "NOT_FOUND");
  // Whatever a profile allows.
  Client client = connect();
  const auto made = client.call("container.create", R"({"template":"worker","config":{}})");
  ASSERT_EQ(code_of(made), "OK");
  ASSERT_EQ(client.outcome("session.narrow", R"({"container":)" + made->result.get("container").to_json() + "}"), "OK");
  EXPECT_EQ(client.outcome("schedule.list"), "POLICY_DENIED");
  EXPECT_EQ(client.outcome("group.list"), "POLICY_DENIED");
}

TEST_F(SignalsDoor, AProfileWithoutAnAgentIsToldWhy) {
  begin();
  run(R"(echo '{"prompt":"x","schedule":"@daily"}' | sallyport-signal schedule_task --payload - --wait > /run/sallyport/session/answer)",
      "mute");
  std::string answer;
  for (const auto& entry : fs::recursive_directory_iterator(daemon_->root() + "/state/mailbox")) {
    if (entry.path().filename() == "answer") answer = read(entry.path());
  }
  EXPECT_TRUE(has(answer, "no agent command")) << answer;
}

TEST_F(SignalsDoor, AGroupIsRegisteredUsedAndReset) {
  begin();
  ask("register_group", R"({"name":"family","folder":"family","trigger":"@x","config":{"settings":{"tone":"kind"}}})");
  ASSERT_TRUE(has(read(work("answer")), R"("group":"family")")) << read(work("answer"));
  EXPECT_TRUE(has(sallyport("group ls").output, "family"));
  run("echo remembered > /run/sallyport/session/note; pwd > where", "", "family");
  run("cp /run/sallyport/session/note .; sallyport-signal context_reset", "", "family");
  const std::string place = daemon_->root() + "/state/workspaces/family";
  EXPECT_EQ(read(place + "/note"), "remembered\n");
  EXPECT_EQ(event("container.context_reset").substr(0, 1), "{");
  EXPECT_TRUE(fs::is_empty(daemon_->root() + "/state/groups/family/session"));
  const Ran inspected = sallyport("group inspect family --json");
  EXPECT_TRUE(has(inspected.output, R"("tone":"kind")")) << inspected.output;
  // It is still there for the next warden.
  EXPECT_EQ(daemon_->stop(), 0);
  ASSERT_TRUE(daemon_->start());
  EXPECT_TRUE(has(result("group.list"), R"("group":"family")"));
  EXPECT_EQ(result("container.create", R"({"config":{"group":"nobody"}})"), "NOT_FOUND");
  EXPECT_EQ(result("container.create", R"({"config":{"group":"family","workspace":"/tmp"}})"), "INVALID_PARAMS");
}

TEST_F(SignalsDoor, DeployAndDeclaredSignalsRunWhatTheConfigurationSays) {
  const TemporaryDirectory outside;
  const auto script = [&](const std::string& name, const std::string& text) {
    std::ofstream(outside.path() + "/" + name) << "#!/bin/sh\n" << text << "\n";
    fs::permissions(outside.path() + "/" + name, fs::perms::owner_all);
    return outside.path() + "/" + name;
  };
  const std::string git = "git -C " + outside.path() + "/repo -c user.name=t -c user.email=t@example.org ";
  ASSERT_EQ(std::system(("git init -q " + outside.path() + "/repo && " + git + "commit -q --allow-empty -m one && " +
                         git + "rev-parse HEAD > " + outside.path() + "/commit")
                            .c_str()),
            0);
  begin("[deploy.site]\nrepository = " + quoted(outside.path() + "/repo") + "\ncommand = [" +
        quoted(script("deploy", "echo $1 > " + outside.path() + "/deployed")) +
        ", \"{commit}\"]\n[signal.ring]\ntier = 1\naction = \"event\"\n" + "[signal.restock]\ntier = 2\naction = [" +
        quoted(script("restock", "cat")) +
        "]\n[signal.restock.payload]\nitem = { type = \"string\", required = true, max = 8 }\n");
  const std::string commit = read(outside.path() + "/commit").substr(0, 40);
  run(R"(echo '{"commit":")" + commit +
      R"(","repository":"site"}' | sallyport-signal deploy --payload - --wait > deploy;
      echo '{"commit":"0000000000000000000000000000000000000000"}' | sallyport-signal deploy --payload - --wait > missing;
      echo '{"item":"milk"}' | sallyport-signal restock --payload - --wait > restock;
      echo '{"item":"far too long"}' | sallyport-signal restock --payload - --wait > long; sallyport-signal ring)");
  EXPECT_TRUE(has(read(work("deploy")), R"("exit_code":0)")) << read(work("deploy"));
  EXPECT_EQ(read(outside.path() + "/deployed"), commit + "\n");
  EXPECT_TRUE(has(read(work("missing")), "no such commit")) << read(work("missing"));
  EXPECT_TRUE(has(read(work("restock")), R"("item":"milk")")) << read(work("restock"));
  EXPECT_TRUE(has(read(work("long")), "INVALID_PARAMS")) << read(work("long"));
  EXPECT_TRUE(has(event("signal.ring"), R"("signal":"ring")"));
  // A reload declares anew.
  daemon_->write_config("[signal.other]\naction = \"event\"\n");
  EXPECT_EQ(sallyport("call warden.reload").status, 0);
  run("sallyport-signal other; sallyport-signal ring");
  EXPECT_TRUE(has(event("signal.other"), R"("signal":"other")"));
}

}  // namespace
}  // namespace sallyport::testing
