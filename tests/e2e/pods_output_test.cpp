// What becomes of a pod's output and of what is typed, however its clients read and its agent behaves.
#include <unistd.h>

#include <thread>

#include "os/peer.h"
#include "pod/limits.h"
#include "pods.h"
#include "support/client.h"

namespace sallyport::testing {
namespace {

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

}  // namespace
}  // namespace sallyport::testing
