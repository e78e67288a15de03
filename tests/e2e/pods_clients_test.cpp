// What clients of a pod do to it and to each other: streams that they reset, events that they do not read.
#include "os/peer.h"
#include "pods.h"

namespace sallyport::testing {
namespace {

const Error kEnough = Error::make(Code::cancelled, "enough");

class PodsClients : public Pods {
 protected:
  // How many have the pod's output.
  std::int64_t clients(const std::string& name) {
    const auto client = connect(name);
    const auto status = client->call("pod.status");
    return status ? status->value().get("clients").as_int().value_or(-1) : -1;
  }
  std::unique_ptr<sallyport::Client> warden() {
    auto client = sallyport::Client::connect_unix(root_.path() + "/run/warden.sock");
    EXPECT_TRUE(client);
    return client ? std::move(*client) : nullptr;
  }
};

TEST_F(PodsClients, ThatResetTheirOutputAreNotAttachedAnyMore) {
  make("left", "echo up; while read x; do echo \"said $x\"; done");
  auto client = attach("left");
  ASSERT_TRUE(client && client->sees("up"));
  client->client->reset_stream(client->stream, kEnough);
  EXPECT_TRUE(eventually([&] { return clients("left") == 0; })) << "though nothing is said";
  // Its keys are refused, not swallowed.
  EXPECT_TRUE(eventually([&] { return client->client->dispatch(Millis(10)) && !client->type("lost\r"); }));
  // Control is free, also for the same connection.
  auto again = Attached::to(std::move(client->client));
  ASSERT_TRUE(again);
  again->type("again\r");
  EXPECT_TRUE(again->sees("said again")) << again->output;
  EXPECT_EQ(again->output.find("lost"), std::string::npos) << again->output;
}

TEST_F(PodsClients, ThatAreBehindReadTheEndOfAPodThatIsTerminated) {
  make("told",
       "trap 'printf \"the-%s\" last; exit 7' TERM; head -c 700000 /dev/zero | tr '\\0' x; while :; do sleep 0.05; "
       "done");
  auto client = attach("told");
  ASSERT_TRUE(client);
  ASSERT_TRUE(has_said("told", 700'000));
  ::kill(daemon_pid("told"), SIGTERM);
  ASSERT_TRUE(eventually([&] {
    const auto left = place("told").read();
    return left && left->wait_status;
  }));
  EXPECT_TRUE(client->reads_to_the_end());
  EXPECT_TRUE(client->output.ends_with("the-last")) << client->output.size();
  EXPECT_EQ(client->told->exit_code, 7);
  EXPECT_TRUE(becomes("told", pod::Life::collectable));
}

TEST_F(PodsClients, ThatResetOneStreamThroughTheWardenKeepTheOthers) {
  make("two", "echo up; while read x; do echo \"said $x\"; done");
  auto client = Attached::to(warden(), R"("pod":"two")");
  ASSERT_TRUE(client && client->sees("up"));
  for (const bool is_busy : {false, true}) {
    const auto log = client->client->call("pod.log", R"({"pod":"two","follow":true})");
    ASSERT_TRUE(log);
    const auto stream = static_cast<std::uint32_t>(*log->value().get("output").get("$stream").as_int());
    ASSERT_EQ(clients("two"), 2);
    if (is_busy) client->type("meanwhile\r");
    client->client->reset_stream(stream, kEnough);
    EXPECT_TRUE(eventually([&] { return clients("two") == 1; })) << is_busy;
  }
  client->type("still\r");
  EXPECT_TRUE(client->sees("said still")) << client->output;
}

TEST_F(PodsClients, ThatAreBehindReadTheEndOfAPodThatSomebodyElseCollected) {
  // Less than the credit, and more than a socket holds.
  make("shared", "stty -echo; echo up; read x; head -c 250000 /dev/zero | tr '\\0' x; printf the-last; exit 7");
  auto client = attach("shared");
  ASSERT_TRUE(client && client->sees("up"));
  ASSERT_TRUE(client->type("go\r"));
  EXPECT_EQ(sallyport("pod wait shared").status, 7);
  std::this_thread::sleep_for(Millis(300));
  EXPECT_TRUE(client->reads_to_the_end());
  EXPECT_TRUE(client->output.ends_with("the-last")) << client->output.size();
}

TEST_F(PodsClients, OfTheWardenReachTheOneThatHasTheNameNow) {
  make("again", "head -c 700000 /dev/zero | tr '\\0' x; exit 7");
  auto slow = attach("again", R"("role":"view")");
  ASSERT_TRUE(slow);
  const auto host = warden();
  const auto state = [&] {
    const auto status = host->call("pod.status", R"({"pod":"again"})");
    return status ? std::string(status->value().get("state").as_string().value_or("")) : status.error().describe();
  };
  ASSERT_TRUE(eventually([&] { return state() == "exited"; })) << state();
  const pid_t before = daemon_pid("again");
  EXPECT_EQ(sallyport("pod wait again").status, 7);
  make("again", "sleep 1000");
  ASSERT_EQ(::kill(before, 0), 0) << "it is still there for who has not read its end";
  EXPECT_EQ(state(), "running");
}

TEST_F(PodsClients, ThatDoNotReadAreToldTheLastSizeAndNotAllOfThem) {
  make("sized", "echo up; sleep 1000");
  constexpr int kSizes = 60'000, kAtOnce = 200;
  // At the pod's own door, and behind the warden, who reads what the pod says.
  for (const bool is_far : {false, true}) {
    auto viewer =
        is_far ? Attached::to(warden(), R"("pod":"sized","role":"view")") : attach("sized", R"("role":"view")");
    ASSERT_TRUE(viewer && viewer->sees("up"));
    int told = 0;
    std::int64_t last = 0;
    viewer->client->on_event([&](const wire::Message& event) {
      if (event.method != "pod.size") return;
      ++told;
      last = event.params.get("size").get("columns").as_int().value_or(0);
    });
    auto controller = attach("sized");
    ASSERT_TRUE(controller);
    int answered = 0;
    for (int i = 1; i <= kSizes; ++i) {
      const std::string columns = std::to_string(i == kSizes ? 123 : 20 + i % 100);
      ASSERT_TRUE(controller->client->start("pod.resize", R"({"size":{"rows":24,"columns":)" + columns + "}}",
                                            [&](Result<Answer>) { ++answered; }));
      while (answered < i - (i == kSizes ? 0 : kAtOnce)) ASSERT_TRUE(controller->client->dispatch(Millis(60'000)));
    }
    EXPECT_TRUE(eventually([&] { return viewer->client->dispatch(Millis(10)) && last == 123; }));
    EXPECT_LT(told, kSizes / 2) << "what its connection does not hold, nobody else keeps for it";
  }
}

TEST_F(PodsClients, ThatInterruptWithoutReadingCostTheWardenNoMemory) {
  make("deaf", "trap '' INT; while :; do echo 0123456789012345678901234567890123456789012345678901234567890123; done");
  auto client = Attached::to(warden(), R"("pod":"deaf")");
  ASSERT_TRUE(client);
  ASSERT_TRUE(has_said("deaf", 2U << 20));
  const auto its_warden = os::identify_peer(warden()->fd());
  ASSERT_TRUE(its_warden);
  const std::int64_t before = own_kib(its_warden->identity.pid);
  ASSERT_GT(before, 0);
  auto watching = connect("deaf");
  const auto said = [&] { return *watching->call("pod.status")->value().get("offset").as_uint(); };
  for (int i = 0; i < 100; ++i) {
    const std::uint64_t begun = said();
    client->type("\x03");
    ASSERT_TRUE(eventually([&] { return said() > begun + (300U << 10); }));
  }
  EXPECT_LT(own_kib(its_warden->identity.pid) - before, kIsSanitized ? INT64_MAX : 12 * 1024)
      << "KiB, of 25 MB that it was sent";
  // What it reads in the end is what is said now.
  EXPECT_TRUE(eventually([&] {
    return client->client->dispatch(Millis(50)) && client->read_some() && client->told->skipped > (10U << 20);
  }));
}

}  // namespace
}  // namespace sallyport::testing
