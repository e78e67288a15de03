// Peers that do not read, do not send, or end in the middle.
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <thread>

#include "door.h"

namespace sallyport::testing {
namespace {

using std::chrono::milliseconds;

class SlowPeer : public Door {
 protected:
  // The sessions that are open besides the one that asks.
  bool comes_down_to(std::int64_t sessions) {
    return eventually([&] { return status_number(daemon().socket_path(), {"sessions"}) == sessions + 1; });
  }
};

TEST_F(SlowPeer, AClientThatNeverReadsIsNotReadFromAnyMore) {
  start();
  Client client = connect();
  const std::string echo = request_frame("e", "test.echo", R"({"data":")" + std::string(100'000, 'z') + "\"}");
  // Far more than all buffers on the way hold: at some point nothing more is taken.
  std::size_t sent = 0, refusals = 0;
  std::string_view rest = echo;
  while (sent < (64U << 20) && refusals < 200) {
    const std::size_t count = client.send_some(rest);
    sent += count;
    refusals = count == 0 ? refusals + 1 : 0;
    if (count == 0) std::this_thread::sleep_for(milliseconds(5));
    rest.remove_prefix(count);
    if (rest.empty()) rest = echo;
  }
  EXPECT_LT(sent, 32U << 20);
  EXPECT_LT(memory_kib(), kIsSanitized ? 1 << 20 : 64 << 10);
  EXPECT_TRUE(connect().pings());
}

TEST_F(SlowPeer, AClientThatNeverReadsIsClosedInTheEnd) {
  start_with("[warden]\nidle_timeout_ms = 400\n");
  Client client = connect();
  const std::string echo = request_frame("e", "test.echo", R"({"data":")" + std::string(100'000, 'z') + "\"}");
  while (client.send_some(echo) == echo.size()) {
  }
  EXPECT_TRUE(reaches("idle_closes", 1));
}

TEST_F(SlowPeer, AClientThatNeverSendsIsClosedWhenIdle) {
  start_with("[warden]\nidle_timeout_ms = 400\n");
  Client client = connect();
  EXPECT_TRUE(client.is_closed_by_peer());
  EXPECT_EQ(counter("idle_closes"), 1);
}

TEST_F(SlowPeer, ASlowLorisInsideAFrameIsClosedThoughItKeepsSending) {
  start_with("[warden]\nframe_timeout_ms = 300\n");
  Client client = connect();
  ASSERT_TRUE(client.pings());
  ASSERT_TRUE(client.send(header_of(100'000) + "{"));
  std::size_t sent = 0;
  while (sent < 90'000 && client.send(" ")) {
    ++sent;
    std::this_thread::sleep_for(milliseconds(10));
  }
  EXPECT_LT(sent, 90'000U);
  EXPECT_EQ(counter("idle_closes"), 1);
}

TEST_F(SlowPeer, ARequestInFlightKeepsAConnectionFromBeingIdle) {
  start_with("[warden]\nidle_timeout_ms = 400\n");
  Client client = connect();
  EXPECT_EQ(client.outcome("test.sleep", R"({"ms":1600})"), "OK");
}

TEST_F(SlowPeer, ASubscriberIsNeverIdle) {
  start_with("[warden]\nidle_timeout_ms = 400\n");
  Client client = connect();
  ASSERT_EQ(client.outcome("warden.subscribe"), "OK");
  EXPECT_FALSE(client.has_data(milliseconds(1600))) << "neither closed nor told anything";
  EXPECT_TRUE(client.pings());
}

// ---- ends ----

TEST_F(SlowPeer, AnswersStillArriveAfterAHalfClose) {
  Client client = connect();
  ASSERT_TRUE(client.send(request_frame("1", "test.ping") + request_frame("2", "test.sleep", R"({"ms":2000})") +
                          request_frame("3", "test.echo", R"({"data":")" + std::string(900'000, 'h') + "\"}")));
  client.half_close();
  EXPECT_EQ(client.next_message()->id, "1");
  EXPECT_EQ(client.next_message()->id, "3");
  EXPECT_EQ(client.next_message()->id, "2");
  EXPECT_EQ(client.next_body(), std::nullopt);
  EXPECT_TRUE(comes_down_to(0));
}

TEST_F(SlowPeer, AStreamSentBeforeAHalfCloseIsEchoed) {
  Client client = connect();
  const std::string data(300'000, 'd');
  ASSERT_TRUE(client.send(request_frame("1", "test.echo", R"({"data":{"$stream":1}})") + chunk_frame(1, data) +
                          chunk_frame(1, "")));
  client.half_close();
  ASSERT_EQ(code_of(client.next_message()), "OK");
  std::size_t echoed = 0;
  bool has_ended = false;
  while (const auto body = client.next_body()) {
    if (body->front() != 1) continue;
    echoed += body->size() - wire::kChunkHeaderBytes;
    has_ended = body->size() == wire::kChunkHeaderBytes;
  }
  EXPECT_EQ(echoed, data.size());
  EXPECT_TRUE(has_ended);
}

TEST_F(SlowPeer, AClientThatGoesAwayTakesItsRequestsWithIt) {
  {
    Client client = connect();
    for (int i = 0; i < 10; ++i) client.send_request(std::to_string(i), "test.sleep", R"({"ms":60000})");
    ASSERT_TRUE(eventually([&] { return status_number(daemon().socket_path(), {"in_flight"}) == 11; }));
  }
  EXPECT_TRUE(eventually([&] { return status_number(daemon().socket_path(), {"in_flight"}) == 1; }));
  EXPECT_TRUE(comes_down_to(0));
}

TEST_F(SlowPeer, AClientThatGoesAwayBehindItsInFlightLimitIsNoticedToo) {
  {
    Client client = connect();
    std::string all;
    for (std::size_t i = 0; i < wire::kMaxInFlight + 10; ++i) {
      all += request_frame(std::to_string(i), "test.sleep", R"({"ms":60000})");
    }
    client.send(all);
    ASSERT_TRUE(eventually([&] {
      return status_number(daemon().socket_path(), {"in_flight"}) == static_cast<std::int64_t>(wire::kMaxInFlight) + 1;
    }));
  }
  // Well before any of them would have ended by itself.
  EXPECT_TRUE(
      eventually([&] { return status_number(daemon().socket_path(), {"in_flight"}) == 1; }, milliseconds(30'000)));
  EXPECT_TRUE(comes_down_to(0));
}

TEST_F(SlowPeer, AClientKilledAtAnyPointLeavesNothingBehind) {
  const std::string bytes = request_frame("1", "test.sleep", R"({"ms":60000})") +
                            request_frame("2", "test.echo", R"({"data":{"$stream":1}})") + chunk_frame(1, "data") +
                            request_frame("3", "warden.subscribe") + request_frame("4", "test.ping");
  const std::string path = daemon().socket_path();
  for (std::size_t cut = 0; cut <= bytes.size(); cut += 5) {
    const int status = in_child([&] {
      Client client = Client::unix_socket(path);
      client.send(std::string_view(bytes).substr(0, cut));
      if (cut % 2 == 0) client.has_data(milliseconds(20));
      ::kill(::getpid(), SIGKILL);
      return 0;
    });
    ASSERT_EQ(status, -SIGKILL);
  }
  EXPECT_TRUE(comes_down_to(0));
  EXPECT_TRUE(eventually([&] { return status_number(path, {"in_flight"}) == 1; }));
  EXPECT_TRUE(eventually([&] { return status_number(path, {"subscribers"}) == 0; }));
}

}  // namespace
}  // namespace sallyport::testing
