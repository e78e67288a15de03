// What becomes of pods whose birth fails, whose files are not theirs, who are lost, and whose end takes time.
#include <sys/stat.h>
#include <unistd.h>

#include <thread>

#include "e2e/site.h"
#include "pod/limits.h"
#include "pods.h"
#include "support/client.h"

namespace sallyport::testing {
namespace {

std::string text_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// ---- birth ----

// A warden that starts this script in place of sallyport-pod. It has the real one as $real, and the descriptors that
// the real one would have.
class PodsBornBadly : public Pods {
 protected:
  void start_warden(const std::string& script) {
    const std::string programs = std::filesystem::path(SALLYPORT_CLI).parent_path(), own = root_.path() + "/bin";
    std::filesystem::create_directories(own);
    // A link would lead the warden to the programs beside its target.
    std::filesystem::copy_file(programs + "/sallyportd", own + "/sallyportd");
    std::filesystem::copy_file(programs + "/sallyport", own + "/sallyport");
    std::filesystem::create_symlink(programs + "/sallyport-launcher", own + "/sallyport-launcher");
    std::ofstream(own + "/sallyport-pod")
        << "#!/bin/bash\nPATH=/usr/bin:/bin\nreal='" << programs << "/sallyport-pod'\nrecord='" << pods_dir()
        << "/born/pod.json'\nnote='" << root_.path() << "/agent'\n"
        << script;
    ASSERT_EQ(::chmod((own + "/sallyport-pod").c_str(), 0700), 0);
    const Ran up = run_shell(environment() + own + "/sallyport up 2>&1");
    ASSERT_EQ(up.status, 0) << up.output;
  }
  // In the script: notes the agent's pid and when it started, while there is a record of it.
  static constexpr const char* kNote =
      "until [ -e \"$record\" ]; do sleep 0.02; done; agent=$(sed 's/.*\"agent_pid\":\\([0-9]*\\).*/\\1/' "
      "\"$record\"); echo \"$agent $(cut -d' ' -f22 /proc/$agent/stat)\" >\"$note\"\n";
  // It did run, and does not any more.
  bool is_agent_ended() const {
    std::ifstream note(root_.path() + "/agent");
    pid_t pid = 0;
    std::uint64_t started = 0;
    EXPECT_TRUE(note >> pid >> started);
    return eventually([&] { return !os::is_process_alive(pid, started); });
  }
};

TEST_F(PodsBornBadly, EndWithTheirAgentIfTheirRecordIsTamperedWith) {
  // Another token, and the pid of somebody who has nothing to do with it.
  const pid_t innocent = ::fork();
  if (innocent == 0) {
    ::pause();
    ::_exit(0);
  }
  start_warden(std::string("said=$(\"$real\" 2>&1 >/dev/null)\n") + kNote +
               "sed -i 's/\"token\":\"..../\"token\":\"0000/; s/\"pid\":[0-9]*/\"pid\":" + std::to_string(innocent) +
               "/' \"$record\"\nprintf %s \"$said\" >&2\n");
  const Ran made = sallyport("pod new --name born -- sleep 1000");
  EXPECT_EQ(made.status, 1);
  EXPECT_TRUE(has(made.output, "tampered with")) << made.output;
  EXPECT_TRUE(is_agent_ended());
  EXPECT_FALSE(place("born").exists());
  EXPECT_EQ(::kill(innocent, 0), 0);
  ::kill(innocent, SIGKILL);
  int status = 0;
  ::waitpid(innocent, &status, 0);
  EXPECT_EQ(WTERMSIG(status), SIGKILL) << "killed by this test and nobody before";
}

TEST_F(PodsBornBadly, EndWithTheirAgentIfTheyAreNotReadyInTime) {
  start_warden(std::string("\"$real\" 2>/dev/null\n") + kNote + "sleep 1000\n");
  const Ran made = sallyport("pod new --name born -- sleep 1000");
  EXPECT_NE(made.status, 0);
  EXPECT_TRUE(has(made.output, "not ready in time")) << made.output;
  EXPECT_TRUE(is_agent_ended());
  EXPECT_FALSE(place("born").exists());
  EXPECT_EQ(sallyport("pod ls").output, "");
}

TEST_F(PodsBornBadly, EndWithTheirAgentIfTheirMakerDidNotWait) {
  start_warden(std::string("said=$(\"$real\" 2>&1 >/dev/null)\n") + kNote + "sleep 1; printf %s \"$said\" >&2\n");
  Client client = Client::unix_socket(root_.path() + "/run/warden.sock");
  ASSERT_TRUE(client.send(frame_of(R"({"id":"1","type":"request","method":"pod.create","deadline_ms":500,)"
                                   R"("params":{"name":"born","command":["sleep","1000"]}})")));
  EXPECT_EQ(code_of(client.next_message()), "TIMEOUT");
  EXPECT_TRUE(eventually([&] { return !place("born").exists(); }));
  EXPECT_TRUE(is_agent_ended());
  EXPECT_EQ(sallyport("pod ls").output, "");
}

// ---- names that are taken ----

TEST_F(Pods, SayOfATakenNameWhatBecameOfIt) {
  make("ended", "exit 7");
  ASSERT_TRUE(becomes("ended", pod::Life::exited));
  const Ran again = sallyport("pod new --name ended -- true");
  EXPECT_EQ(again.status, 1);
  EXPECT_TRUE(has(again.output, "has ended and its status was not collected; run: sallyport pod wait ended"))
      << again.output;
  EXPECT_EQ(sallyport("pod wait ended").status, 7);
  make("ended", "exit 8");
  EXPECT_EQ(sallyport("pod wait ended").status, 8);
}

// ---- tampered with ----

TEST_F(Pods, SayThatTheyWereTamperedWithAndHowToGoOn) {
  make("one", "echo up; read x");
  const std::string path = place("one").record_path();
  ASSERT_EQ(::chmod(path.c_str(), 0644), 0);
  EXPECT_EQ(life("one"), pod::Life::tampered);
  const Ran listed = sallyport("pod ls");
  EXPECT_TRUE(has(listed.output, "one                      tampered")) << listed.output;
  EXPECT_TRUE(has(listed.output, "remove " + path)) << listed.output;
  EXPECT_TRUE(has(sallyport("--json pod ls").output, R"("state":"tampered")"));
  EXPECT_TRUE(has(sallyport("call pod.list").output, R"("state":"tampered")"));
  const Ran attached = sallyport("pod attach one");
  EXPECT_EQ(attached.status, 1);
  EXPECT_TRUE(has(attached.output, "remove " + path)) << attached.output;
  EXPECT_TRUE(has(sallyport("pod new --name one -- true").output, "is running, and its state file was tampered with"));
  // What it says to do helps.
  ASSERT_EQ(::unlink(path.c_str()), 0);
  ASSERT_TRUE(becomes("one", pod::Life::running));
  EXPECT_TRUE(attach("one"));
}

// ---- lost ----

TEST_F(Pods, AreListedAsLostUntilSomebodyIsTold) {
  make("victim", "echo up; sleep 1000");
  ::kill(daemon_pid("victim"), SIGKILL);
  ASSERT_TRUE(becomes("victim", pod::Life::lost));
  // Neither another pod nor another warden makes it vanish.
  make("other", "sleep 1000");
  ASSERT_EQ(sallyport("down").status, 0);
  ASSERT_EQ(sallyport("up").status, 0);
  EXPECT_TRUE(has(sallyport("pod ls").output, "victim                   lost"));
  const Ran again = sallyport("pod new --name victim -- true");
  EXPECT_EQ(again.status, 1);
  EXPECT_TRUE(has(again.output, "was lost")) << again.output;
  // For good: to ask again is of no use.
  const Ran called = sallyport("--json call pod.wait '{\"pod\":\"victim\"}'");
  EXPECT_TRUE(has(called.output, R"("retryable":false)") && has(called.output, R"("state":"lost")")) << called.output;
  EXPECT_EQ(sallyport("pod kill victim").status, 5) << "from whomever it is heard";
  const Ran attached = sallyport("--json pod attach victim");
  EXPECT_TRUE(has(attached.output, R"("retryable":false)")) << attached.output;
  const Ran waited = sallyport("pod wait victim");
  EXPECT_EQ(waited.status, 5) << waited.output;
  EXPECT_TRUE(has(waited.output, "the pod is lost: its daemon died")) << waited.output;
  // Now somebody knows.
  EXPECT_FALSE(place("victim").exists());
  EXPECT_EQ(sallyport("pod wait victim").status, 1);
  make("victim", "exit 3");
  EXPECT_EQ(sallyport("pod wait victim").status, 3);
}

TEST_F(Pods, TellWhoeverWaitsThatTheyAreLost) {
  make("victim", "echo up; sleep 1000");
  const pid_t daemon = daemon_pid("victim");
  const auto witness = connect("victim");
  Ran waited;
  std::thread waiting([&] { waited = sallyport("pod wait victim"); });
  // A second client beside this one: it waits, or is about to.
  EXPECT_TRUE(eventually([&] {
    const auto status = witness->call("pod.status");
    return status && status->value().get("counters").get("requests").as_int().value_or(0) > 0 &&
           status->value().get("counters").get("accepted").as_int().value_or(0) >= 3;
  }));
  ::kill(daemon, SIGKILL);
  waiting.join();
  EXPECT_EQ(waited.status, 5) << waited.output;
}

// ---- the end ----

TEST_F(Pods, AnswerWhileTheirWorkspaceIsLookedThroughAndTellTheirEndAfterIt) {
  // On a busy machine it may be over before we ask.
  bool was_asked_meanwhile = false;
  for (int i = 0; i < 20 && !was_asked_meanwhile; ++i) {
    const std::string name = "builder" + std::to_string(i);
    make(name, "mkdir -p " + name + "/.git/hooks; cd " + name +
                   "; echo 'ref: refs/heads/main' > .git/HEAD; echo evil > .git/hooks/post-checkout; "
                   "for i in $(seq 1 20); do touch $(seq -f f$i-%g 1 500); done; echo built; read x; exit 6");
    auto client = attach(name);
    ASSERT_TRUE(client && client->sees("built"));
    auto asking = connect(name);
    ASSERT_TRUE(asking);
    client->type("\r");
    EXPECT_TRUE(eventually([&] {
      for (;;) {
        const auto status = asking->call("pod.status");
        if (!status) return false;
        const auto state = status->value().get("state").as_string().value_or("");
        const bool is_sandbox_over = status->value().get("agent_pid").as_int() == 0;
        was_asked_meanwhile = was_asked_meanwhile || (state == "draining" && is_sandbox_over);
        if (state == "exited") return true;
      }
    }));
    const std::string hook = root_.path() + "/project/" + name + "/.git/hooks/post-checkout";
    EXPECT_FALSE(std::filesystem::exists(hook));
    EXPECT_TRUE(std::filesystem::exists(hook + ".quarantined"));
    EXPECT_TRUE(has(text_of(place(name).log_path()), "quarantined")) << "and it is known who did it";
    ASSERT_TRUE(client->reads_to_the_end());
    EXPECT_EQ(client->told->exit_code, 6);
    // What is looked through is bounded, in time too.
    std::filesystem::remove_all(root_.path() + "/project/" + name);
  }
  EXPECT_TRUE(was_asked_meanwhile);
}

// ---- small things ----

TEST_F(Pods, TellWhoIsOneTooMany) {
  for (const char* flags : {"", "--tcp"}) {
    const std::string name = *flags == '\0' ? "full" : "full-tcp";
    make(name, "sleep 1000", flags);
    std::vector<std::unique_ptr<sallyport::Client>> crowd;
    Result<Answer> answer = Error::make(Code::not_found, "nobody was refused");
    for (std::size_t i = 0; i <= pod::kMaxConnections; ++i) {
      crowd.push_back(connect(name));
      ASSERT_TRUE(crowd.back());
      answer = crowd.back()->call("pod.status");
      if (!answer) break;
    }
    ASSERT_FALSE(answer) << name;
    EXPECT_EQ(answer.error().code, Code::unavailable);
    EXPECT_TRUE(has(answer.error().message, "64 connections already")) << answer.error().describe();
    const Ran attached = sallyport("pod log " + name);
    EXPECT_TRUE(has(attached.output, "64 connections already")) << attached.output;
    // One that leaves makes room.
    crowd.clear();
    EXPECT_TRUE(eventually([&] { return connect(name)->call("pod.status").has_value(); })) << name;
  }
}

TEST_F(Pods, TakeSignalsInAnySpelling) {
  for (const char* spelling : {"term", "SIGTERM", "sigTerm", "15"}) {
    make("polite", "trap 'exit 3' TERM; echo up; while :; do sleep 0.05; done");
    auto client = attach("polite", R"("role":"view")");
    ASSERT_TRUE(client && client->sees("up"));
    const Ran killed = sallyport(std::string("pod kill polite --signal ") + spelling);
    ASSERT_EQ(killed.status, 0) << spelling << ": " << killed.output;
    EXPECT_EQ(sallyport("pod wait polite").status, 3) << spelling;
  }
  const Ran odd = sallyport("pod kill polite --signal sigodd");
  EXPECT_EQ(odd.status, 2);
  EXPECT_TRUE(has(odd.output, "no such signal: sigodd")) << odd.output;
}

TEST_F(Pods, TakeNoNameThatCannotBeOne) {
  for (const char* command : {"new --name ../x -- true", "new --name 'A B' -- true", "attach ../x", "log ../x",
                              "wait A", "kill A", "stop A"}) {
    const Ran ran = sallyport("pod " + std::string(command));
    EXPECT_EQ(ran.status, 2) << command;
    EXPECT_TRUE(has(ran.output, "a pod's name has 1 to 48 of a-z")) << command << ": " << ran.output;
  }
}

TEST_F(Pods, LeaveNothingOpenInAWardenThatMadeMany) {
  make("first", "true");
  auto warden = sallyport::Client::connect_unix(root_.path() + "/run/warden.sock");
  ASSERT_TRUE(warden);
  const auto status = (*warden)->call("warden.status");
  ASSERT_TRUE(status);
  const std::string descriptors = "/proc/" + std::to_string(*status->value().get("pid").as_int()) + "/fd";
  const auto open = [&] {
    return std::distance(std::filesystem::directory_iterator(descriptors), std::filesystem::directory_iterator());
  };
  const auto before = open();
  for (int i = 0; i < 20; ++i) {
    const std::string name = "p" + std::to_string(i);
    ASSERT_TRUE((*warden)->call("pod.create", R"({"command":["true"],"name":")" + name + "\"}"));
    ASSERT_TRUE((*warden)->call("pod.wait", R"({"pod":")" + name + R"(","collect":true})"));
  }
  EXPECT_TRUE(eventually([&] { return open() <= before + 2; })) << before << " became " << open();
}

TEST_F(Pods, RefuseVariablesWithoutAName) {
  const Ran made = sallyport("pod new --name one --env =x -- true");
  EXPECT_EQ(made.status, 2);
  EXPECT_TRUE(has(made.output, "--env takes NAME=VALUE")) << made.output;
  EXPECT_FALSE(place("one").exists());
}

// ---- strangers ----

TEST_F(Pods, LogSomeRefusalsAndCountTheOthers) {
  make("tcp", "sleep 1000", "--tcp");
  const std::string address = record("tcp").address;
  const auto said = [&] {
    std::pair<long, long> lines_and_others = {0, 0};
    std::ifstream log(place("tcp").log_path());
    for (std::string line; std::getline(log, line);) {
      if (has(line, "loopback connection refused")) ++lines_and_others.first;
      const std::size_t at = has(line, "lines were left out") ? line.find("count=") : std::string::npos;
      if (at != std::string::npos) lines_and_others.second += std::strtol(line.c_str() + at + 6, nullptr, 10);
    }
    return lines_and_others;
  };
  // Fewer at once than may wait, so that each is looked at.
  constexpr int kRounds = 16, kAtOnce = 6;
  for (int i = 0; i < kRounds; ++i) {
    std::vector<Client> crowd;
    for (int j = 0; j < kAtOnce; ++j) {
      crowd.push_back(Client::tcp(address));
      EXPECT_TRUE(crowd.back());
      crowd.back().send("GET / HTTP/1.1\r\n\r\n");
    }
    for (Client& one : crowd) EXPECT_TRUE(one.is_closed_by_peer());
  }
  EXPECT_TRUE(eventually([&] { return said().first + said().second == kRounds * kAtOnce; }))
      << said().first << " and " << said().second;
  EXPECT_GT(said().second, 0);
}

}  // namespace
}  // namespace sallyport::testing
