// Containers beyond the end of their warden.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <csignal>

#include <filesystem>
#include <fstream>
#include <thread>

#include "e2e/containers.h"
#include "os/process.h"

namespace sallyport::testing {
namespace {

TEST_F(Containers, ThatWereRunningWhenTheWardenDiedAreLostAndRestartedWhereAskedFor) {
  std::string plain, kept;
  {
    Client client = connect();
    plain = create(client, R"(,"name":"plain")");
    kept = create(client, R"(,"name":"kept","restart":true,"command":["sleep","1000"])");
  }
  daemon().kill_now();
  ASSERT_TRUE(daemon().start());
  Client client = connect();
  EXPECT_EQ(state_of(client, plain), "lost");
  EXPECT_TRUE(eventually([&] { return states_of("kept", client) == Names{"running"}; }));
}

TEST_F(Containers, WhoWaitsForALaunchWhenTheWardenStopsIsToldAndTheContainerIsStartedLater) {
  Client client = connect();
  ASSERT_EQ(::kill(launcher(), SIGSTOP), 0);
  const std::string records = daemon().root() + "/state/containers";
  ASSERT_TRUE(client.send_request("1", "container.create", R"({"config":{"name":"kept","restart":true}})"));
  ASSERT_TRUE(eventually([&] { return !std::filesystem::is_empty(records); }));
  daemon().signal(SIGTERM);
  EXPECT_EQ(code_of(client.next_message()), "UNAVAILABLE");
  EXPECT_EQ(daemon().wait(), 0);
  ASSERT_TRUE(daemon().start());
  Client later = connect();
  EXPECT_TRUE(eventually([&] { return states_of("kept", later) == Names{"running"}; }));
}

// As a sandbox of the directory above could do it. A link that is named is meant; one that comes later is not.
TEST_F(Containers, AreNotStartedAgainWhereALinkHasTakenThePlaceOfTheirWorkspace) {
  const std::string below = workspace() + "/below", named = daemon().root() + "/named";
  std::filesystem::create_directories(below);
  std::filesystem::create_directory_symlink(below, named);
  {
    Client client = connect();
    const auto made =
        client.call("container.create", R"({"config":{"name":"kept","restart":true,"workspace":")" + named + R"("}})");
    ASSERT_TRUE(made && !made->error);
    EXPECT_EQ(made->result.get("workspace").as_string(), below);
  }
  daemon().kill_now();
  std::filesystem::rename(below, below + ".moved");
  std::filesystem::create_directory_symlink("/usr", below);
  ASSERT_TRUE(daemon().start());
  Client client = connect();
  EXPECT_TRUE(eventually([&] { return daemon().log().find("cannot restart a container") != std::string::npos; }));
  EXPECT_NE(states_of("kept", client), Names{"running"});
}

// Each stop comes before what the last warden left is forgotten: it must not be started for each of them.
TEST_F(Containers, AreStartedAgainOnceHoweverOftenTheWardenStopsMeanwhile) {
  {
    Client client = connect();
    create(client, R"(,"labels":{"kept":"yes"},"restart":true,"command":["sleep","1000"])");
  }
  for (int i = 0; i < 3; ++i) {
    daemon().kill_now();
    ASSERT_TRUE(daemon().start());
  }
  Client client = connect();
  EXPECT_TRUE(eventually([&] { return states_of("", client) == Names{"running"}; }));
}

TEST_F(Containers, WhoWaitsForACommandWhenTheWardenStopsIsToldThatItWasKilled) {
  Client client = connect();
  const std::string id = create(client, "");
  ASSERT_TRUE(client.send_request("exec", "container.exec",
                                  R"({"container":")" + id + R"(","command":["sh","-c","echo up; sleep 1000"]})"));
  const auto started = client.next_message();
  ASSERT_TRUE(started && started->type == wire::MessageType::event);
  daemon().signal(SIGTERM);
  std::optional<std::int64_t> signal;
  while (const auto body = client.next_body()) {
    if (wire::parse_chunk(as_bytes(*body))) continue;
    auto message = decode(*body);
    if (message && message->type == wire::MessageType::response) signal = message->result.get("signal").as_int();
  }
  EXPECT_EQ(signal, SIGKILL);
  EXPECT_EQ(daemon().wait(), 0);
}

}  // namespace
}  // namespace sallyport::testing
