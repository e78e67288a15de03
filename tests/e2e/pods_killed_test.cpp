// A pod's agent, daemon, client or warden is killed, in every state.
#include <unistd.h>

#include <thread>

#include "e2e/site.h"
#include "os/peer.h"
#include "pod/limits.h"
#include "pods.h"

namespace sallyport::testing {
namespace {

TEST_F(Pods, SurviveTheirAgentsDeath) {
  make("agent", "echo up; sleep 1000");
  auto client = attach("agent");
  ASSERT_TRUE(client && client->sees("up"));
  const pid_t agent = agent_pid("agent");
  ASSERT_GT(agent, 0);
  ::kill(agent, SIGKILL);
  ASSERT_TRUE(client->reads_to_the_end());
  EXPECT_EQ(client->told->exit_code, 137);
  EXPECT_EQ(sallyport("pod wait agent").status, 137);
}

TEST_F(Pods, AreToldLostWhenTheirDaemonIsKilledAndTakeTheirAgentAlong) {
  for (const bool is_attached : {false, true}) {
    make("victim", "echo up; sleep 1000");
    std::optional<Attached> client;
    if (is_attached) {
      client = attach("victim");
      ASSERT_TRUE(client && client->sees("up"));
    }
    const pid_t agent = agent_pid("victim");
    const auto agent_start = os::process_start_time(agent);
    ASSERT_TRUE(agent_start);
    ::kill(daemon_pid("victim"), SIGKILL);
    ASSERT_TRUE(becomes("victim", pod::Life::lost));
    EXPECT_TRUE(eventually([&] { return !os::is_process_alive(agent, *agent_start); })) << "nothing runs unwatched";
    EXPECT_NE(sallyport("pod ls").output.find("lost"), std::string::npos);
    const Ran attached = sallyport("pod attach victim");
    EXPECT_EQ(attached.status, 5);
    EXPECT_NE(attached.output.find("died"), std::string::npos) << attached.output;
    EXPECT_FALSE(client && client->reads_to_the_end());
    EXPECT_EQ(sallyport("pod wait victim").status, 5);
  }
}

TEST_F(Pods, TellWhoeverFollowsTheirLogThatTheyAreLost) {
  make("victim", "echo up; sleep 1000");
  Ran followed;
  std::thread following([&] { followed = sallyport("pod log --follow victim"); });
  const auto witness = connect("victim");
  EXPECT_TRUE(eventually([&] {
    const auto status = witness->call("pod.status");
    return status && status->value().get("clients").as_int() == 1;
  }));
  ::kill(daemon_pid("victim"), SIGKILL);
  following.join();
  EXPECT_EQ(followed.status, 5);
  EXPECT_TRUE(has(followed.output, "the pod is lost: its daemon died")) << followed.output;
}

TEST_F(Pods, GoOnWhenTheirClientIsKilledInAFlood) {
  make("flood",
       "for i in $(seq 1 40000); do echo \"line $i of a flood that nobody may hold up\"; done; echo fin; read x");
  const pid_t client = ::fork();
  if (client == 0) {
    auto attached = attach("flood");
    if (attached) attached->read_some();
    ::pause();
    ::_exit(0);
  }
  auto other = attach("flood", R"("role":"view")");
  ::kill(client, SIGKILL);
  ::waitpid(client, nullptr, 0);
  ASSERT_TRUE(other && other->sees("fin"));
  EXPECT_EQ(life("flood"), pod::Life::running);
}

TEST_F(Pods, AreListedTruthfullyByAWardenThatStartsInTheMiddle) {
  make("running", "sleep 1000");
  make("ended", "exit 5");
  make("dead", "sleep 1000");
  ASSERT_TRUE(becomes("ended", pod::Life::exited));
  kill_warden();
  ::kill(daemon_pid("dead"), SIGKILL);
  ASSERT_TRUE(becomes("dead", pod::Life::lost));
  const Ran listed = sallyport("pod ls");
  EXPECT_NE(listed.output.find("dead                     lost"), std::string::npos) << listed.output;
  ASSERT_EQ(sallyport("up").status, 0);
  const Ran called = sallyport("call pod.list");
  EXPECT_NE(called.output.find(R"("pod":"running","state":"running")"), std::string::npos) << called.output;
  EXPECT_NE(called.output.find(R"("pod":"ended","state":"exited")"), std::string::npos) << called.output;
  EXPECT_NE(called.output.find(R"("pod":"dead","state":"lost")"), std::string::npos) << called.output;
}

// The moment is swept over all of a pod's beginning: somewhere in it lies every step.
TEST_F(Pods, AreThereOrNotWhereverTheWardenIsKilledWhileItMakesThem) {
  constexpr int kMoments = 12;
  for (int i = 0; i < kMoments; ++i) {
    ASSERT_EQ(sallyport("up").status, 0);
    const std::string name = "made" + std::to_string(i);
    auto warden = sallyport::Client::connect_unix(root_.path() + "/run/warden.sock");
    ASSERT_TRUE(warden);
    const auto peer = os::identify_peer((*warden)->fd());
    ASSERT_TRUE(peer);
    const auto started = os::process_start_time(peer->identity.pid);
    ASSERT_TRUE(started);
    const std::string params = R"({"name":")" + name + R"(","command":["sleep","1000"]})";
    if (i == kMoments - 1) {
      ASSERT_TRUE((*warden)->call("pod.create", params));
    } else {
      ASSERT_TRUE((*warden)->start("pod.create", params, [](const Result<Answer>&) {}));
      std::this_thread::sleep_for(std::chrono::milliseconds(i * i));
    }
    ::kill(peer->identity.pid, SIGKILL);
    ASSERT_TRUE(eventually([&] { return !os::is_process_alive(peer->identity.pid, *started); }));
  }
  ASSERT_EQ(sallyport("up").status, 0);
  // Whoever was being born went on by itself, or died and left nothing that is taken for alive.
  const auto all = [&] { return pod::look_at_all(pods_dir()); };
  ASSERT_TRUE(eventually([&] {
    const auto seen = all();
    return std::none_of(seen.begin(), seen.end(),
                        [](const auto& each) { return each.second.life == pod::Life::starting; });
  }));
  std::size_t alive = 0;
  for (const auto& [name, seen] : all()) {
    if (seen.life != pod::Life::running) continue;
    ++alive;
    EXPECT_TRUE(has(sallyport("pod ls").output, name));
    EXPECT_TRUE(attach(name, R"("role":"view")")) << name;
    EXPECT_EQ(sallyport("pod kill " + name).status, 0) << name;
    EXPECT_EQ(sallyport("pod wait " + name).status, 137) << name;
  }
  EXPECT_GT(alive, 0U) << "the last one was answered";
}

// Likewise over its end: the status is there whole, or the pod is lost.
TEST_F(Pods, KeepTheirStatusOrAreLostWhereverTheirDaemonIsKilledAtTheEnd) {
  ASSERT_EQ(sallyport("up").status, 0);
  for (int i = 0; i < 12; ++i) {
    const std::string name = "ending" + std::to_string(i);
    make(name, "seq 1 20000; exit 7", i % 2 == 0 ? "" : "--tcp");
    const pid_t daemon = daemon_pid(name);
    std::this_thread::sleep_for(std::chrono::milliseconds(i * 3));
    ::kill(daemon, SIGKILL);
    ASSERT_TRUE(eventually([&] { return life(name) == pod::Life::lost || life(name) == pod::Life::collectable; })) << i;
    const Ran waited = sallyport("pod wait " + name);
    EXPECT_TRUE(waited.status == 7 || waited.status == 5) << i << ": " << waited.status << ' ' << waited.output;
  }
}

}  // namespace
}  // namespace sallyport::testing
