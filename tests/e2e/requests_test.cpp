// What a well-behaved client gets: pipelining, deadlines, cancel, back-pressure, limits.
#include <unistd.h>

#include <set>

#include "door.h"

namespace sallyport::testing {
namespace {

class Requests : public Door {
 protected:
  static std::string sleep_frame(const std::string& id, int ms, std::optional<std::uint32_t> deadline = {}) {
    Bytes out;
    EXPECT_TRUE(wire::append_request(out, {.id = id, .method = "test.sleep", .deadline_ms = deadline, .token = {}},
                                     "{\"ms\":" + std::to_string(ms) + "}"));
    return text_of(out);
  }
};

TEST_F(Requests, PingIsAnsweredWithPong) {
  Client client = connect();
  const auto answer = client.call("test.ping");
  ASSERT_EQ(code_of(answer), "OK");
  EXPECT_EQ(answer->result.to_json(), R"({"pong":true})");
}

TEST_F(Requests, HelloSaysWhoWeAreAndHowItIsKnown) {
  Client client = connect();
  const auto answer = client.call("warden.hello");
  ASSERT_EQ(code_of(answer), "OK");
  const wire::Value hello = answer->result;
  EXPECT_EQ(hello.get("principal").as_string(), "host");
  EXPECT_EQ(hello.get("peer").get("pid").as_int(), ::getpid());
  EXPECT_EQ(hello.get("peer").get("uid").as_int(), ::getuid());
  EXPECT_EQ(hello.get("peer").get("gid").as_int(), ::getgid());
  EXPECT_TRUE(hello.get("identity").as_string() == "pidfd" || hello.get("identity").as_string() == "pid-checked");
}

TEST_F(Requests, AreAnsweredAsTheyFinishNotAsTheyCame) {
  Client client = connect();
  ASSERT_TRUE(client.send(sleep_frame("slow", 400) + sleep_frame("quick", 1) + request_frame("now", "test.ping")));
  EXPECT_EQ(client.next_message()->id, "now");
  EXPECT_EQ(client.next_message()->id, "quick");
  EXPECT_EQ(client.next_message()->id, "slow");
}

TEST_F(Requests, ADeadlineEndsARequest) {
  Client client = connect();
  ASSERT_TRUE(client.send(sleep_frame("late", 60'000, 20)));
  const auto answer = client.next_message();
  EXPECT_EQ(code_of(answer), "TIMEOUT");
  EXPECT_TRUE(answer->error->retryable);
  EXPECT_EQ(counter("timeouts"), 1);
  EXPECT_EQ(status_number(daemon().socket_path(), {"in_flight"}), 1) << "only the question itself";
  EXPECT_TRUE(client.pings()) << "and nothing comes for it later";
}

TEST_F(Requests, ADeadlineThatIsMetChangesNothing) {
  Client client = connect();
  ASSERT_TRUE(client.send(sleep_frame("fine", 1, 60'000)));
  EXPECT_EQ(code_of(client.next_message()), "OK");
  EXPECT_EQ(counter("timeouts"), 0);
}

TEST_F(Requests, CancelEndsARequest) {
  Client client = connect();
  ASSERT_TRUE(client.send(sleep_frame("long", 60'000)));
  ASSERT_TRUE(client.send(frame_of(R"({"id":"long","type":"event","method":"cancel"})")));
  const auto answer = client.next_message();
  EXPECT_EQ(code_of(answer), "CANCELLED");
  EXPECT_EQ(answer->id, "long");
  EXPECT_EQ(counter("cancelled"), 1);
  ASSERT_TRUE(client.send(frame_of(R"({"id":"long","type":"event","method":"cancel"})")));
  EXPECT_TRUE(client.pings()) << "a second cancel is no fault";
}

TEST_F(Requests, BackPressureStopsReadingAtTheLimitAndDropsNothing) {
  Client client = connect();
  std::string all;
  for (std::size_t i = 0; i < wire::kMaxInFlight; ++i) all += sleep_frame("s" + std::to_string(i), 60'000);
  ASSERT_TRUE(client.send(all));
  ASSERT_TRUE(client.send(request_frame("behind", "test.ping")));
  ASSERT_TRUE(eventually([&] {
    return status_number(daemon().socket_path(), {"in_flight"}) == static_cast<std::int64_t>(wire::kMaxInFlight) + 1;
  }));
  EXPECT_FALSE(client.has_data(std::chrono::milliseconds(100))) << "the ping waits behind the limit";
  EXPECT_TRUE(connect().pings()) << "others are not held up";
}

TEST_F(Requests, BeyondTheLimitOfOneConnectionAllAreAnsweredInTheEnd) {
  Client client = connect();
  const std::size_t count = 4 * wire::kMaxInFlight;
  std::string all;
  for (std::size_t i = 0; i < count; ++i) all += sleep_frame(std::to_string(i), 5);
  ASSERT_TRUE(client.send(all));
  std::set<std::string, std::less<>> seen;
  for (std::size_t i = 0; i < count; ++i) {
    const auto answer = client.next_message();
    ASSERT_EQ(code_of(answer), "OK");
    EXPECT_TRUE(seen.emplace(answer->id).second) << "answered twice: " << answer->id;
  }
}

TEST_F(Requests, BeyondTheLimitOfAPrincipalAreRefusedAndRetryable) {
  start_with("[warden]\nmax_in_flight = 3\ndrain_timeout_ms = 200\n");
  Client first = connect(), second = connect();
  ASSERT_TRUE(first.send(sleep_frame("1", 60'000) + sleep_frame("2", 60'000)));
  ASSERT_TRUE(second.send(sleep_frame("3", 60'000)));
  ASSERT_TRUE(eventually([&] { return first.outcome("test.ping") == "RATE_LIMITED"; }));
  ASSERT_TRUE(second.send(frame_of(R"({"id":"3","type":"event","method":"cancel"})")));
  EXPECT_EQ(code_of(second.next_message()), "CANCELLED");
  EXPECT_TRUE(second.pings()) << "there is room again";
}

TEST_F(Requests, ConnectionsBeyondTheLimitAreRefusedAndThereIsRoomAgainLater) {
  start_with("[warden]\nmax_connections = 3\n");
  std::vector<Client> crowd;
  for (int i = 0; i < 3; ++i) {
    crowd.push_back(connect());
    ASSERT_TRUE(crowd.back().pings());
  }
  Client refused = connect();
  EXPECT_EQ(code_for_nobody(refused.next_message()), "RATE_LIMITED");
  EXPECT_TRUE(refused.is_closed_by_peer());
  crowd.pop_back();
  EXPECT_TRUE(eventually([&] { return connect().pings(); }));
}

TEST_F(Requests, AnEchoOfTheLargestJsonComesBack) {
  Client client = connect();
  for (const std::size_t size : {0U, 1U, 4000U, 70'000U, 1'000'000U}) {
    const std::string text(size, 'q');
    const auto answer = client.call("test.echo", R"({"data":")" + text + "\"}");
    ASSERT_EQ(code_of(answer), "OK");
    EXPECT_EQ(answer->result.get("data").as_string(), text);
  }
}

TEST_F(Requests, AResultThatWouldNotFitItsFrameIsAnErrorInstead) {
  Client client = connect();
  const std::string id(128, 'i');
  const std::string head = R"({"id":")" + id + R"(","type":"request","method":"test.echo","params":{"data":[)";
  std::string numbers;
  while (head.size() + numbers.size() < wire::kMaxFrameBytes - 40) numbers += "1e1,";
  ASSERT_TRUE(client.send(frame_of(head + numbers + "1]}}")));
  EXPECT_EQ(code_of(client.next_message()), "PAYLOAD_TOO_LARGE") << "10.0 is longer than 1e1";
  EXPECT_TRUE(client.pings());
}

TEST_F(Requests, NarrowingASessionTakesEverythingFromItForGood) {
  Client client = connect();
  const std::string narrowed = R"({"container":")" + powerless_container(client) + "\"}";
  ASSERT_EQ(client.outcome("session.narrow", narrowed), "OK");
  for (const char* method : {"test.ping", "warden.status", "warden.shutdown", "session.narrow", "no.such.method"}) {
    EXPECT_EQ(client.outcome(method, narrowed), "POLICY_DENIED") << method;
  }
  EXPECT_TRUE(connect().pings()) << "other sessions keep their rights";
}

TEST_F(Requests, ANarrowedSessionHearsNoMoreEvents) {
  Client client = connect();
  ASSERT_EQ(client.outcome("warden.subscribe", R"({"events":["warden.reloaded"]})"), "OK");
  ASSERT_EQ(client.outcome("session.narrow", R"({"container":")" + powerless_container(client) + "\"}"), "OK");
  ASSERT_EQ(connect().outcome("warden.reload"), "OK");
  EXPECT_EQ(client.outcome("test.ping"), "POLICY_DENIED") << "the next message is the answer, not an event";
}

TEST_F(Requests, NarrowingCountsForWhatIsAlreadyInThePipe) {
  Client client = connect();
  const std::string narrowed = R"({"container":")" + powerless_container(client) + "\"}";
  ASSERT_TRUE(client.send(request_frame("a", "session.narrow", narrowed) + request_frame("b", "warden.shutdown")));
  EXPECT_EQ(code_of(client.next_message()), "OK");
  EXPECT_EQ(code_of(client.next_message()), "POLICY_DENIED");
}

TEST_F(Requests, NarrowingToWhatIsNoContainerIsRefused) {
  Client client = connect();
  for (const char* id : {"", "../x", "A", "a/b", "a b", "-a", "c1", "host"}) {
    EXPECT_EQ(client.outcome("session.narrow", std::string(R"({"container":")") + id + "\"}"), "NOT_FOUND") << id;
  }
  EXPECT_TRUE(client.pings()) << "and takes nothing away";
}

TEST_F(Requests, AContainerThatIsCalledHostIsNotTheHost) {
  Client client = connect();
  const std::string id = powerless_container(client, "host");
  ASSERT_EQ(client.outcome("session.narrow", R"({"container":")" + id + "\"}"), "OK");
  EXPECT_EQ(client.outcome("test.ping"), "POLICY_DENIED");
}

TEST_F(Requests, TheHostMayCallOnlyWhatItsPolicyNames) {
  start_with("[host]\nmethods = [\"test.*\", \"warden.hello\"]\n");
  Client client = connect();
  EXPECT_EQ(client.outcome("warden.hello"), "OK");
  EXPECT_EQ(client.outcome("warden.status"), "POLICY_DENIED");
  EXPECT_EQ(client.outcome("testing"), "POLICY_DENIED");
  EXPECT_EQ(client.outcome("no.such.method"), "POLICY_DENIED") << "nothing is said about what there is";
}

}  // namespace
}  // namespace sallyport::testing
