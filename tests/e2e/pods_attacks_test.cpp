// Everything around pods that goes wrong, by accident or on purpose.
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <iterator>
#include <thread>

#include "e2e/site.h"
#include "os/peer.h"
#include "pod/limits.h"
#include "pods.h"
#include "support/client.h"

namespace sallyport::testing {
namespace {

std::string text_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// ---- killed in every state ----

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
    EXPECT_EQ(attached.status, 4);
    EXPECT_NE(attached.output.find("died"), std::string::npos) << attached.output;
    EXPECT_FALSE(client && client->reads_to_the_end());
    EXPECT_EQ(sallyport("pod wait victim").status, 5);
  }
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

// ---- output ----

TEST_F(Pods, LoseNoByteBeforeTheExit) {
  ASSERT_EQ(sallyport("up").status, 0);
  auto warden = sallyport::Client::connect_unix(root_.path() + "/run/warden.sock");
  ASSERT_TRUE(warden);
  const std::size_t runs = scaled(1000);
  for (std::size_t i = 0; i < runs; ++i) {
    const std::string name = "run" + std::to_string(i);
    const auto made = (*warden)->call(
        "pod.create", R"({"name":")" + name + R"(","command":["sh","-c","seq 1 1500; printf the-last-byte"]})");
    ASSERT_TRUE(made) << made.error().describe();
    auto client = attach(name);
    ASSERT_TRUE(client && client->reads_to_the_end()) << i;
    ASSERT_TRUE(client->output.ends_with("1500\r\nthe-last-byte")) << i << ": " << client->output.size();
    ASSERT_TRUE(client->output.starts_with("1\r\n2\r\n")) << i;
    ASSERT_EQ(client->told->exit_offset, client->output.size()) << i;
    ASSERT_TRUE(client->client->call("pod.wait", R"({"collect":true})"));
  }
}

TEST_F(Pods, DoNotWaitForAStalledClient) {
  make("job",
       "read x; for i in $(seq 1 60000); do echo \"line $i: as much as any job may say and more\"; done; exit 3");
  auto stalled = attach("job");
  ASSERT_TRUE(stalled);
  stalled->type("\r");
  // It never reads; the job ends all the same, and another client sees the end of it.
  auto beside = attach("job", R"("role":"view")");
  ASSERT_TRUE(beside && beside->sees("line 60000:"));
  EXPECT_EQ(sallyport("pod wait job").status, 3);
  // When it reads again it gets a gap and the end, not megabytes.
  ASSERT_TRUE(stalled->reads_to_the_end());
  EXPECT_GT(stalled->told->skipped, 1U << 20);
  EXPECT_LT(stalled->output.size(), 1U << 20);
  EXPECT_NE(stalled->output.find("line 60000:"), std::string::npos);
}

TEST_F(Pods, AnswerCtrlCBehindASlowClientBeforeItHasReadMuch) {
  make("spam",
       "trap 'trap - INT; printf \"the-%s\\n\" prompt; exec sleep 1000' INT; while :; do echo "
       "0123456789012345678901234567890123456789012345678901234567890123456789; done");
  auto slow = attach("spam");
  ASSERT_TRUE(slow && slow->sees("0123456789"));
  // 500 KB/s, until it has shown how slow it is; then the key.
  const auto read_slowly = [&](std::size_t bytes) {
    const std::size_t until = slow->output.size() + bytes;
    while (slow->output.size() < until && slow->output.find("the-prompt") == std::string::npos && slow->read_some()) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
  };
  // The client library reads what has arrived in one go, so the pace is that of its grants.
  read_slowly(1'000'000);
  slow->output.clear();
  slow->type("\x03");
  read_slowly(10'000'000);
  ASSERT_NE(slow->output.find("the-prompt"), std::string::npos);
  EXPECT_LT(slow->output.find("the-prompt"), 512U << 10) << "at most the credit and a repaint stood before it";
}

TEST_F(Pods, TellWhoeverInterruptsOfAGapAtOnce) {
  make("spam",
       "trap 'trap - INT; printf \"the-%s\\n\" prompt; exec sleep 1000' INT; echo up; while :; do echo "
       "0123456789012345678901234567890123456789012345678901234567890123456789; done");
  auto stalled = attach("spam");
  ASSERT_TRUE(stalled);
  // Nothing is read, so all of its credit is on the way, and it has shown no pace.
  ASSERT_TRUE(has_said("spam", 1U << 20));
  stalled->type("\x03");
  ASSERT_TRUE(eventually([&] { return stalled->client->dispatch(Millis(50)) && stalled->told->interrupts > 0; }));
  EXPECT_EQ(stalled->told->interrupts, 1);
  const std::uint64_t next = stalled->told->gap_offset, skipped = stalled->told->skipped;
  const std::uint32_t first = stalled->stream;
  while (stalled->stream == first) ASSERT_TRUE(stalled->read_some());
  // The notice is true: what was sent ends where the gap begins, or some of it is repeated.
  const std::uint64_t end = stalled->offset + stalled->output.size();
  EXPECT_GE(stalled->output.size(), 200U << 10);
  if (skipped > 0) {
    EXPECT_EQ(next, end + skipped);
  } else {
    EXPECT_LE(next, end);
  }
  stalled->output.clear();
  ASSERT_TRUE(stalled->sees("the-prompt"));
  EXPECT_LT(stalled->output.size(), 192U << 10);
}

TEST_F(Pods, TakeCtrlCForAKeyWhereTheProgramDoes) {
  make("keys",
       "stty raw -echo; printf up; yes 012345678901234567890123456789 & dd bs=1 count=1 of=/dev/null status=none; kill "
       "%1; wait; printf the-%s end; read x");
  auto client = attach("keys");
  ASSERT_TRUE(client);
  ASSERT_TRUE(has_said("keys", 1U << 20));
  client->type("\x03");
  ASSERT_TRUE(client->sees("the-end"));
  EXPECT_EQ(client->told->interrupts, 0);
}

TEST_F(Pods, RememberTheEndOfAHundredThousandLinesInBoundedMemory) {
  make("long", "for i in $(seq 1 100000); do echo \"scrollback line $i\"; done; echo fin; read x");
  auto client = attach("long", R"("role":"view")");
  ASSERT_TRUE(client && client->sees("fin"));
  const std::int64_t memory = own_kib(daemon_pid("long"));
  EXPECT_GT(memory, 0);
  EXPECT_LT(memory, kIsSanitized ? INT64_MAX : 12 * 1024);
  auto late = attach("long", R"("role":"view")");
  ASSERT_TRUE(late && late->sees("scrollback line 100000\r\nfin"));
  EXPECT_LE(late->output.size(), pod::kDefaultRingBytes);
  EXPECT_GT(late->output.size(), pod::kDefaultRingBytes / 2);
}

TEST_F(Pods, EndAResizeStormWithTheLastSize) {
  make("storm", "echo up; while :; do stty size; read -t 0.05 x; done");
  auto client = attach("storm");
  ASSERT_TRUE(client && client->sees("up"));
  for (int i = 0; i < 1000; ++i) {
    ASSERT_TRUE(client->client->call("pod.resize", R"({"size":{"rows":)" + std::to_string(10 + i % 50) +
                                                       R"(,"columns":)" + std::to_string(20 + i % 100) + "}}"));
  }
  ASSERT_TRUE(client->client->call("pod.resize", R"({"size":{"rows":61,"columns":123}})"));
  EXPECT_TRUE(client->sees("61 123"));
  for (const char* odd : {R"({"size":{"rows":0,"columns":80}})", R"({"size":{"rows":5000,"columns":80}})", "{}",
                          R"({"size":{"rows":-1,"columns":80}})"}) {
    const auto refused = client->client->call("pod.resize", odd);
    ASSERT_FALSE(refused) << odd;
    EXPECT_EQ(refused.error().code, Code::invalid_params);
  }
}

TEST_F(Pods, SurviveAViewerThatGoesWhileTheSizeChanges) {
  make("resized", "echo up; while read x; do echo \"said $x\"; done");
  auto viewer = attach("resized", R"("role":"view")");
  ASSERT_TRUE(viewer && viewer->sees("up"));
  auto controller = attach("resized");
  ASSERT_TRUE(controller && controller->sees("up"));
  // It finds out that the viewer is gone when it tells it of the new size.
  const pid_t pod = daemon_pid("resized");
  ASSERT_EQ(::kill(pod, SIGSTOP), 0);
  std::optional<Result<Answer>> answer;
  const auto sent = controller->client->start("pod.resize", R"({"size":{"rows":33,"columns":99}})",
                                              [&](Result<Answer> came) { answer = std::move(came); });
  viewer.reset();
  ASSERT_EQ(::kill(pod, SIGCONT), 0);
  ASSERT_TRUE(sent);
  while (!answer) ASSERT_TRUE(controller->client->dispatch(Millis(60'000)));
  EXPECT_TRUE(*answer) << answer->error().describe();
  controller->type("still\r");
  EXPECT_TRUE(controller->sees("said still")) << controller->output;
}

// Each had credit of its own, and left.
TEST_F(Pods, KeepLittleOfWhatManyTypeAndTheAgentDoesNotRead) {
  make("deaf", "stty raw -echo; echo up; exec sleep 1000");
  auto first = attach("deaf");
  ASSERT_TRUE(first && first->sees("up"));
  const auto before = os::memory_pss_kib(daemon_pid("deaf"));
  ASSERT_TRUE(before);
  const std::string keys(200'000, 'x');
  for (int i = 0; i < 150; ++i) {
    auto next = attach("deaf", R"("take":true)");
    ASSERT_TRUE(next && next->type(keys));
    std::this_thread::sleep_for(std::chrono::milliseconds(10));  // or it leaves before it is read
  }
  if (kIsSanitized) return;  // which keeps what is freed
  std::uint64_t after = 0;
  EXPECT_TRUE(eventually([&] {
    const auto now = os::memory_pss_kib(daemon_pid("deaf"));
    after = now ? *now : UINT64_MAX;
    return after < *before + 4096;
  })) << *before
      << " KiB became " << after << " with 29,000 typed";
}

TEST_F(Pods, AnswerDeviceQueriesOnlyWhileNobodyIsAttached) {
  const std::string ask =
      "ask() { stty raw -echo; printf '\\033[c'; IFS= read -r -d c -t $1 r; stty sane; "
      "printf 'answer<%q>\\n' \"$r\"; }; asked() { while [ ! -e $1 ]; do sleep 0.01; done; ask $2; }; ";
  const auto let = [&](const char* file) { std::ofstream(root_.path() + "/project/" + file) << "go"; };
  make("alone", ask + "asked first 60; asked second 0.3; asked third 60; read x");
  const auto logged = [&](std::string_view text) {
    return eventually([&] { return sallyport("pod log alone").output.find(text) != std::string::npos; });
  };
  let("first");
  EXPECT_TRUE(logged("62;22")) << sallyport("pod log alone").output;
  auto viewer = attach("alone", R"("role":"view")");
  ASSERT_TRUE(viewer);
  let("second");
  EXPECT_TRUE(viewer->sees("answer<''>")) << viewer->output;
  // Who follows the log has no terminal to answer with.
  viewer.reset();
  auto follower = connect("alone");
  ASSERT_TRUE(follower && follower->call("pod.log", R"({"follow":true})"));
  ASSERT_TRUE(eventually([&] { return follower->call("pod.status")->value().get("clients").as_uint() == 1U; }));
  let("third");
  EXPECT_TRUE(eventually([&] {
    const std::string log = sallyport("pod log alone").output;
    return log.find("62;22") != log.rfind("62;22");
  })) << sallyport("pod log alone").output;
  make("controlled", ask + "read x; ask 0.3; read x");
  auto controller = attach("controlled");
  ASSERT_TRUE(controller);
  controller->type("go\r");
  EXPECT_TRUE(controller->sees("answer<''>")) << controller->output;
}

// ---- who may come in ----

TEST_F(Pods, KeepTheirTokenOutOfArgumentsEnvironmentAndLogs) {
  make("secret", "sleep 1000", "--tcp");
  const pod::Record found = record("secret");
  const std::string hex = to_hex(found.token);
  const std::string raw(found.token.begin(), found.token.end());
  const std::string proc = "/proc/" + std::to_string(found.binding.pid);
  const auto agent = connect("secret")->call("pod.status");
  ASSERT_TRUE(agent);
  for (const std::string& path :
       {proc + "/cmdline", proc + "/environ", place("secret").log_path(), root_.path() + "/state/warden.log"}) {
    const std::string text = text_of(path);
    EXPECT_EQ(text.find(hex), std::string::npos) << path;
    EXPECT_EQ(text.find(raw), std::string::npos) << path;
  }
  EXPECT_EQ(agent->json().find(hex), std::string::npos);
  EXPECT_EQ(sallyport("--json pod ls").output.find(hex), std::string::npos);
  EXPECT_EQ(sallyport("call pod.list").output.find(hex), std::string::npos);
}

TEST_F(Pods, CannotSeeTheirOwnState) {
  // The state directory inside the workspace: it must be hidden even so.
  const std::string inside = root_.path() + "/project";
  std::ofstream(inside + "/peek.sh") << "find . -name pod.json 2>/dev/null; echo looked; read x";
  const std::string command = "cd '" + inside + "' && " + environment() + "SALLYPORT_RUNTIME_DIR='" + root_.path() +
                              "/run2' SALLYPORT_STATE_DIR='" + inside + "/state' " SALLYPORT_CLI " ";
  ASSERT_EQ(std::system((command + "pod new --name peek -- bash peek.sh >/dev/null").c_str()), 0);
  auto found = pod::find(pod::Place(inside + "/state/pods", "peek"));
  ASSERT_TRUE(found);
  auto client = pod::connect(*found);
  ASSERT_TRUE(client);
  auto attached = Attached::to(std::move(*client));
  ASSERT_TRUE(attached && attached->sees("looked"));
  EXPECT_EQ(attached->output.find("pod.json"), std::string::npos) << attached->output;
  ::kill(static_cast<pid_t>(found->binding.pid), SIGKILL);
  EXPECT_EQ(std::system((command + "down >/dev/null").c_str()), 0);
}

TEST_F(Pods, RefuseWhoHasNotTheToken) {
  make("tcp", "echo up; sleep 1000", "--tcp");
  pod::Record wrong = record("tcp");
  wrong.token[5] ^= 1;
  const auto refused = pod::connect(wrong);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::unauthenticated);
  pod::Record empty = record("tcp");
  empty.token = {};
  EXPECT_FALSE(pod::connect(empty));
  pod::Record elsewhere = record("tcp");
  ++elsewhere.binding.start_time;
  EXPECT_FALSE(pod::connect(elsewhere)) << "bound to the process, not only to the token";
  for (const std::string& bytes :
       {std::string("GET / HTTP/1.1\r\nHost: x\r\n\r\n"), std::string("\0\0\0\0", 4),
        std::string("\xff\xff\xff\xff", 4), std::string("\0\0\0\x23\x02\x01\x00", 7) + std::string(32, 'n'),
        request_frame("1", "pod.wait")}) {
    Client raw = Client::tcp(record("tcp").address);
    ASSERT_TRUE(raw);
    raw.send(bytes);
    EXPECT_TRUE(raw.is_closed_by_peer());
  }
  const auto status = connect("tcp")->call("pod.status");
  ASSERT_TRUE(status);
  EXPECT_GE(status->value().get("counters").get("refused").as_int().value_or(0), 6);
  EXPECT_NE(text_of(place("tcp").log_path()).find("refused"), std::string::npos);
}

TEST_F(Pods, ShowASquatterOnADeadPodsPortNothing) {
  make("tcp", "sleep 1000", "--tcp");
  const pod::Record dead = record("tcp");
  // Whoever was connected ends first, or the kernel keeps the port for a while.
  kill_warden();
  ::kill(static_cast<pid_t>(dead.binding.pid), SIGKILL);
  ASSERT_TRUE(becomes("tcp", pod::Life::lost));
  const UniqueFd squatter{::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  const int on = 1;
  ::setsockopt(squatter.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<std::uint16_t>(std::stoi(dead.address.substr(dead.address.find(':') + 1))));
  ASSERT_TRUE(eventually(
      [&] { return ::bind(squatter.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0; }));
  ASSERT_EQ(::listen(squatter.get(), 8), 0);
  std::string heard;
  std::thread listening([&] {
    const UniqueFd victim{::accept(squatter.get(), nullptr, nullptr)};
    char block[4096];
    ssize_t count = ::recv(victim.get(), block, sizeof block, 0);
    if (count > 0) heard.assign(block, static_cast<std::size_t>(count));
    // It reflects what it heard: a proof made of the victim's own bytes.
    if (count > 0) ::send(victim.get(), block, static_cast<std::size_t>(count), MSG_NOSIGNAL);
    while ((count = ::recv(victim.get(), block, sizeof block, 0)) > 0)
      heard.append(block, static_cast<std::size_t>(count));
  });
  // As a client would that read the record an instant before the daemon died.
  const auto refused = pod::connect(dead);
  listening.join();
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::unauthenticated);
  EXPECT_EQ(heard.size(), 4U + 35U) << "HELLO and nothing else";
  EXPECT_EQ(heard.find(std::string(dead.token.begin(), dead.token.end())), std::string::npos);
  EXPECT_EQ(sallyport("pod attach tcp").status, 4) << "and later ones are told that it died";
}

TEST_F(Pods, CostLittleForAThousandWhoDoNotProveThemselves) {
  make("tcp", "echo up; sleep 1000", "--tcp");
  const pod::Record found = record("tcp");
  ASSERT_TRUE(attach("tcp"));
  const std::int64_t before = own_kib(daemon_pid("tcp"));
  ASSERT_GT(before, 0);
  std::vector<Client> crowd;
  for (int i = 0; i < 1000; ++i) {
    crowd.push_back(Client::tcp(found.address));
    if (crowd.back()) crowd.back().send(std::string("\0\0\0\x23\x02", 5));
  }
  // Those who can prove themselves still come in.
  EXPECT_TRUE(eventually([&] { return bool(pod::connect(found)); }));
  EXPECT_LE(own_kib(daemon_pid("tcp")), before + (kIsSanitized ? 1 << 20 : 1024)) << "1 MiB for all of them";
}

// It promises to read far more than it is sent, reads much of it, and is gone while more is sent.
TEST_F(Pods, SurviveFollowersThatGoWhileTheyAreWrittenTo) {
  make("loud", "yes 'something that is said over and over again'");
  const pod::Record found = record("loud");
  for (int round = 0; round < 40; ++round) {
    Client client = Client::unix_socket(found.address);
    ASSERT_TRUE(client) << "after " << round;
    for (int i = 1; i <= 16; ++i) client.send_request(std::to_string(i), "pod.log", R"({"follow":true})");
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    for (int i = 1; i <= 16; ++i) {
      client.send(frame_of(R"({"type":"event","method":"stream.credit","params":{"stream":)" + std::to_string(2 * i) +
                           R"(,"bytes":100000000}})"));
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    std::string block(1 << 20, '\0');
    for (std::size_t got = 0, want = static_cast<std::size_t>(1 + round % 15) << 20; got < want;) {
      const ssize_t count =
          client.has_data(std::chrono::milliseconds(20)) ? ::read(client.fd(), block.data(), block.size()) : 0;
      if (count <= 0) break;
      got += static_cast<std::size_t>(count);
    }
  }
  EXPECT_EQ(life("loud"), pod::Life::running);
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

TEST_F(Pods, AskForARedrawForWhoeverComesSoonAfterAnother) {
  make("drawn", "trap 'echo winch' WINCH; echo up; while :; do sleep 0.02; done");
  const auto winches = [&] {
    const std::string log = sallyport("pod log drawn").output;
    std::size_t count = 0;
    for (std::size_t at = log.find("winch"); at != std::string::npos; at = log.find("winch", at + 1)) ++count;
    return count;
  };
  auto first = attach("drawn", R"("role":"view")");
  ASSERT_TRUE(first && first->sees("winch"));
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  const std::size_t before = winches();
  auto second = attach("drawn", R"("role":"view")");
  ASSERT_TRUE(second);
  EXPECT_TRUE(eventually([&] { return winches() > before; }));
}

TEST_F(Pods, RefuseAStateFileThatIsNotTheirs) {
  make("one", "echo up; while read x; do echo \"said $x\"; done");
  const std::string path = place("one").record_path(), aside = root_.path() + "/aside";
  ASSERT_EQ(::chmod(path.c_str(), 0644), 0);
  EXPECT_EQ(sallyport("pod attach one").status, 1);
  ASSERT_EQ(::chmod(path.c_str(), 0600), 0);
  // Put in its place at once: one that is only gone, the pod writes again.
  ASSERT_EQ(std::system(("cp -p '" + path + "' '" + aside + "'").c_str()), 0);
  std::filesystem::create_symlink(aside, aside + ".link");
  std::filesystem::rename(aside + ".link", path);
  EXPECT_EQ(sallyport("pod attach one").status, 1);
  EXPECT_NE(sallyport("pod ls").output.find("tampered"), std::string::npos);
  // None of it was taken for the pod's death: restored, it is as it was.
  std::filesystem::rename(aside, path);
  auto client = attach("one");
  ASSERT_TRUE(client);
  client->type("still here\r");
  EXPECT_TRUE(client->sees("said still here"));
}

TEST_F(Pods, PutBackWhatSomebodyRemoves) {
  make("one", "echo up; while read x; do echo \"said $x\"; done");
  const pid_t daemon = daemon_pid("one");
  auto client = attach("one");
  ASSERT_TRUE(client && client->sees("up"));
  const std::string directory = place("one").path();
  int round = 0;
  for (const char* gone : {"/pod.json", "/pod.sock", "/lock", "/lock moved", "/lock replaced", "", " moved"}) {
    const std::string_view name = gone;
    if (name.ends_with(" replaced")) {
      std::ofstream(root_.path() + "/other") << "other";
      std::filesystem::rename(root_.path() + "/other", directory + "/lock");
    } else if (name.ends_with(" moved")) {
      const std::string path = directory + std::string(name.substr(0, name.size() - 6));
      std::filesystem::rename(path, path + "-elsewhere");
    } else {
      std::filesystem::remove_all(directory + gone);
    }
    // Who was there goes on, and who comes finds it.
    const std::string word = "round" + std::to_string(++round);
    client->type(word + "\r");
    EXPECT_TRUE(client->sees("said " + word)) << gone;
    ASSERT_TRUE(eventually([&] {
      const auto found = place("one").read();
      return life("one") == pod::Life::running && found && pod::connect(*found);
    })) << gone;
    auto later = attach("one", R"("role":"view")");
    ASSERT_TRUE(later && later->sees("said " + word)) << gone;
  }
  EXPECT_EQ(daemon_pid("one"), daemon);
  // The name is its own still, and its exit is recorded where it belongs.
  EXPECT_EQ(sallyport("pod new --name one -- true").status, 1);
  EXPECT_EQ(sallyport("pod kill one").status, 0);
  ASSERT_TRUE(client->reads_to_the_end());
  EXPECT_EQ(sallyport("pod wait one").status, 137);
  EXPECT_FALSE(place("one").exists()) << "collected, so gone for good";
}

}  // namespace
}  // namespace sallyport::testing
