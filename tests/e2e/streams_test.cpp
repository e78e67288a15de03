// Streams over the real daemon: an echo of several megabytes, credit, resets; and events.
#include <csignal>
#include <random>
#include <thread>

#include "door.h"

namespace sallyport::testing {
namespace {

// The client's side of one echo: sends within its credit, grants what it has read.
class EchoStream {
 public:
  EchoStream(Client& client, std::uint32_t stream) : client_(client), out_(stream) {
    const std::string params = R"({"data":{"$stream":)" + std::to_string(stream) + "}}";
    const auto answer = client_.call("test.echo", params);
    EXPECT_EQ(code_of(answer), "OK");
    if (answer) in_ = static_cast<std::uint32_t>(answer->result.get("data").get("$stream").as_int().value_or(0));
  }

  std::uint32_t in() const { return in_; }

  // Sends all of it and its end; returns what came back until its end.
  std::string exchange(std::string_view data, std::size_t piece) {
    std::string echoed;
    bool is_over = false, has_ended = false;
    while (!is_over) {
      if (data.empty() && !has_ended) {
        has_ended = client_.send(chunk_frame(out_, ""));
      } else if (!data.empty() && credit_ > 0 && !client_.has_data(std::chrono::milliseconds(0))) {
        const std::size_t size = std::min({data.size(), piece, credit_});
        if (!client_.send(chunk_frame(out_, data.substr(0, size)))) break;
        data.remove_prefix(size);
        credit_ -= size;
        continue;
      }
      const auto body = client_.next_body();
      if (!body) break;
      is_over = take(*body, echoed);
    }
    EXPECT_TRUE(is_over);
    return echoed;
  }

 private:
  bool take(std::string_view body, std::string& echoed) {
    if (wire::frame_kind(as_bytes(body)) == wire::FrameKind::chunk) {
      const auto chunk = wire::parse_chunk(as_bytes(body));
      EXPECT_TRUE(chunk);
      EXPECT_EQ(chunk->stream, in_);
      if (chunk->data.empty()) return true;
      echoed += as_text(chunk->data);
      ungranted_ += chunk->data.size();
      if (ungranted_ >= wire::kInitialCredit / 2) {
        client_.send(frame_of(R"({"type":"event","method":"stream.credit","params":{"stream":)" + std::to_string(in_) +
                              ",\"bytes\":" + std::to_string(ungranted_) + "}}"));
        ungranted_ = 0;
      }
      return false;
    }
    auto message = decode(body);
    EXPECT_TRUE(message) << body;
    EXPECT_EQ(message->method, "stream.credit");
    EXPECT_EQ(message->params.get("stream").as_int(), out_);
    credit_ += static_cast<std::size_t>(message->params.get("bytes").as_int().value_or(0));
    return false;
  }

  Client& client_;
  std::uint32_t out_, in_ = 0;
  std::size_t credit_ = wire::kInitialCredit;
  std::size_t ungranted_ = 0;
};

std::string noise(std::size_t size) {
  std::mt19937_64 random(size);
  std::string data(size, '\0');
  for (char& c : data) c = static_cast<char>(random());
  return data;
}

class StreamsOverTheWire : public Door {};

TEST_F(StreamsOverTheWire, SeveralMegabytesComeBackUnchanged) {
  Client client = connect();
  EchoStream stream(client, 1);
  EXPECT_EQ(stream.in() % 2, 0U) << "the accepting side's numbers are even";
  const std::string data = noise(8 << 20);
  EXPECT_TRUE(stream.exchange(data, 60'000) == data);
}

TEST_F(StreamsOverTheWire, ChunksOfTheLargestSizeComeBackUnchanged) {
  Client client = connect();
  EchoStream stream(client, 1);
  const std::string data = noise(5'000'001);
  EXPECT_TRUE(stream.exchange(data, wire::kMaxChunkBytes) == data);
}

TEST_F(StreamsOverTheWire, SmallAndLargeChunksKeepTheirOrder) {
  Client client = connect();
  EchoStream stream(client, 1);
  const std::string data = noise(wire::kInitialCredit);
  std::string frames;
  std::mt19937 random(1);
  for (std::size_t at = 0; at < data.size();) {
    // From a few bytes to more than what is passed on in one piece, in one write with other messages between them.
    const std::size_t size = std::size_t{1} << random() % 18;
    frames += chunk_frame(1, data.substr(at, size)) + request_frame("p" + std::to_string(at), "test.ping", "{}");
    at += size;
  }
  std::thread sender([&] { client.send(frames); });
  std::string echoed;
  while (echoed.size() < data.size()) {
    const auto body = client.next_body();
    if (!body) break;
    if (body->front() == 1) echoed += body->substr(wire::kChunkHeaderBytes);
  }
  sender.join();
  EXPECT_TRUE(echoed == data);
}

TEST_F(StreamsOverTheWire, AnEmptyStreamEndsWell) {
  Client client = connect();
  EXPECT_EQ(EchoStream(client, 1).exchange("", 1), "");
  EXPECT_EQ(EchoStream(client, 3).exchange("x", 1), "x") << "and the next one gets a new number";
}

TEST_F(StreamsOverTheWire, ManyStreamsOneAfterTheOther) {
  Client client = connect();
  for (std::uint32_t i = 0; i < 100; ++i) ASSERT_EQ(EchoStream(client, 2 * i + 1).exchange("hello", 2), "hello") << i;
}

TEST_F(StreamsOverTheWire, NoMoreThanTheLimitAreOpenAtOnce) {
  Client client = connect();
  for (std::uint32_t i = 0; i < wire::kMaxOpenStreams; ++i) EchoStream(client, 2 * i + 1);
  EXPECT_EQ(client.outcome("test.echo", R"({"data":{"$stream":1001}})"), "RATE_LIMITED");
}

TEST_F(StreamsOverTheWire, AResetOfTheSourceResetsTheEcho) {
  Client client = connect();
  EchoStream stream(client, 1);
  ASSERT_TRUE(client.send(frame_of(
      R"({"type":"event","method":"stream.reset","params":{"stream":1,"error":{"code":"IO_ERROR","message":"disk","retryable":false}}})")));
  const auto event = client.next_message();
  ASSERT_TRUE(event);
  EXPECT_EQ(event->method, "stream.reset");
  EXPECT_EQ(event->params.get("stream").as_int(), stream.in());
  EXPECT_EQ(event->params.get("error").get("code").as_string(), "IO_ERROR");
  EXPECT_TRUE(client.pings());
}

TEST_F(StreamsOverTheWire, AResetOfTheEchoResetsTheSource) {
  Client client = connect();
  EchoStream stream(client, 1);
  ASSERT_TRUE(client.send(frame_of(R"({"type":"event","method":"stream.reset","params":{"stream":)" +
                                   std::to_string(stream.in()) +
                                   R"(,"error":{"code":"CANCELLED","message":"enough","retryable":false}}})")));
  ASSERT_TRUE(client.send(chunk_frame(1, "for nobody")));
  const auto event = client.next_message();
  ASSERT_TRUE(event);
  EXPECT_EQ(event->method, "stream.reset");
  EXPECT_EQ(event->params.get("stream").as_int(), 1);
  ASSERT_TRUE(client.send(chunk_frame(1, "still on its way")));
  EXPECT_TRUE(client.pings()) << "chunks that cross a reset are no fault";
}

TEST_F(StreamsOverTheWire, AStreamThatItsRequestDoesNotTakeIsReset) {
  Client client = connect();
  ASSERT_TRUE(client.send_request("1", "no.such.method", R"({"data":{"$stream":1}})"));
  EXPECT_EQ(code_of(client.next_message()), "METHOD_NOT_FOUND");
  const auto event = client.next_message();
  ASSERT_TRUE(event);
  EXPECT_EQ(event->method, "stream.reset");
  EXPECT_EQ(event->params.get("stream").as_int(), 1);
}

TEST_F(StreamsOverTheWire, AReaderThatGrantsNothingStopsTheSenderNotTheDaemon) {
  Client client = connect();
  EchoStream stream(client, 1);
  const std::string piece(64 << 10, 's');
  for (std::size_t sent = 0; sent < wire::kInitialCredit; sent += piece.size()) {
    ASSERT_TRUE(client.send(chunk_frame(1, piece)));
  }
  // One megabyte comes back; what was taken out of the stream meanwhile is granted again, and no more.
  std::size_t echoed = 0;
  while (echoed < wire::kInitialCredit) {
    const auto body = client.next_body();
    ASSERT_TRUE(body);
    if (body->front() == 1) echoed += body->size() - wire::kChunkHeaderBytes;
  }
  EXPECT_EQ(echoed, wire::kInitialCredit);
  EXPECT_TRUE(connect().pings());
}

TEST_F(StreamsOverTheWire, AConnectionThatEndsWithOpenStreamsLeavesNothingBehind) {
  for (int i = 0; i < 20; ++i) {
    Client client = connect();
    EchoStream first(client, 1), second(client, 3);
    client.send(chunk_frame(1, noise(100'000)));
  }
  EXPECT_TRUE(eventually([&] { return status_number(daemon().socket_path(), {"sessions"}) == 1; }));
}

// ---- events ----

class Events : public Door {};

TEST_F(Events, ReachTheSubscriberUnderItsRequestsId) {
  Client subscriber = connect();
  ASSERT_TRUE(subscriber.send_request("sub", "warden.subscribe", R"({"events":["warden.*"]})"));
  ASSERT_EQ(code_of(subscriber.next_message()), "OK");
  ASSERT_EQ(connect().outcome("warden.reload"), "OK");
  const auto event = subscriber.next_message();
  ASSERT_TRUE(event);
  EXPECT_EQ(event->type, wire::MessageType::event);
  EXPECT_EQ(event->id, "sub");
  EXPECT_EQ(event->method, "warden.reloaded");
}

TEST_F(Events, OnlyThoseThatWereAskedFor) {
  Client subscriber = connect();
  ASSERT_EQ(subscriber.outcome("warden.subscribe", R"({"events":["session.*"]})"), "OK");
  ASSERT_EQ(connect().outcome("warden.reload"), "OK");
  EXPECT_TRUE(subscriber.pings()) << "nothing came before the pong";
}

TEST_F(Events, TheLastOneSaysThatTheWardenStops) {
  Client subscriber = connect();
  ASSERT_EQ(subscriber.outcome("warden.subscribe"), "OK");
  daemon().signal(SIGTERM);
  const auto event = subscriber.next_message();
  ASSERT_TRUE(event);
  EXPECT_EQ(event->method, "warden.stopping");
  EXPECT_EQ(subscriber.next_body(), std::nullopt);
  EXPECT_EQ(daemon().wait(), 0);
}

TEST_F(Events, EndWithTheSubscriber) {
  {
    Client subscriber = connect();
    ASSERT_EQ(subscriber.outcome("warden.subscribe"), "OK");
    EXPECT_EQ(status_number(daemon().socket_path(), {"subscribers"}), 1);
  }
  EXPECT_TRUE(eventually([&] { return status_number(daemon().socket_path(), {"subscribers"}) == 0; }));
  EXPECT_EQ(connect().outcome("warden.reload"), "OK");
}

TEST_F(Events, EndWithACancelOfTheirRequestAndMakeRoom) {
  Client subscriber = connect();
  for (int i = 0; i < 100; ++i) {
    const std::string id = "sub" + std::to_string(i);
    ASSERT_TRUE(subscriber.send_request(id, "warden.subscribe", R"({"events":["warden.*"]})"));
    ASSERT_EQ(code_of(subscriber.next_message()), "OK") << i;
    if (i == 0) continue;
    ASSERT_TRUE(subscriber.send(frame_of(R"({"type":"event","method":"cancel","id":")" + id + "\"}")));
  }
  ASSERT_TRUE(subscriber.pings());
  EXPECT_EQ(status_number(daemon().socket_path(), {"subscribers"}), 1) << "the one that was not cancelled";
  ASSERT_EQ(connect().outcome("warden.reload"), "OK");
  const auto event = subscriber.next_message();
  ASSERT_TRUE(event);
  EXPECT_EQ(event->id, "sub0");
}

TEST_F(Events, SubscriptionsOfOneSessionAreLimited) {
  Client subscriber = connect();
  std::size_t accepted = 0;
  while (accepted < 1000 && subscriber.outcome("warden.subscribe") == "OK") ++accepted;
  EXPECT_GT(accepted, 0U);
  EXPECT_LT(accepted, 1000U) << "each costs memory for as long as the session lasts";
}

TEST_F(Events, ASubscriberThatDoesNotReadLosesEventsNotTheWardensMemory) {
  Client subscriber = connect();
  // As often as it may: one reload makes as many events.
  while (subscriber.outcome("warden.subscribe", R"({"events":["warden.*"]})") == "OK") {
  }
  Client host = connect();
  constexpr int kReloads = 3000;
  for (int done = 0; done < kReloads; done += 100) {
    std::string batch;
    for (int i = 0; i < 100; ++i) batch += request_frame(std::to_string(i), "warden.reload");
    ASSERT_TRUE(host.send(batch));
    for (int i = 0; i < 100; ++i) ASSERT_EQ(code_of(host.next_message()), "OK");
  }
  EXPECT_LT(memory_kib(), kIsSanitized ? 1 << 20 : 64 << 10);
  // Reading again, it is told how many it missed.
  ASSERT_TRUE(subscriber.send_request("done", "test.ping"));
  for (auto message = subscriber.next_message(); message && message->id != "done";
       message = subscriber.next_message()) {
  }
  ASSERT_EQ(host.outcome("warden.reload"), "OK");
  const auto notice = subscriber.next_message();
  ASSERT_TRUE(notice);
  EXPECT_EQ(notice->method, "events.lost");
  const std::int64_t lost = notice->params.get("count").as_int().value_or(0);
  EXPECT_GT(lost, 1);
  EXPECT_LT(lost, kReloads);
}

TEST_F(StreamsOverTheWire, OneTooManyIsRefusedAndResetAndCostsNothingElse) {
  Client client = connect();
  for (std::uint32_t i = 0; i < wire::kMaxOpenStreams; ++i) {
    ASSERT_EQ(client.outcome("test.echo", R"({"data":{"$stream":)" + std::to_string(2 * i + 1) + "}}"), "OK");
  }
  ASSERT_TRUE(client.send_request("important", "test.sleep", R"({"ms":300})"));
  // Pipelined, as the protocol allows: the chunks are on their way before the refusal is.
  std::string burst = request_frame("extra", "test.echo", R"({"data":{"$stream":33}})");
  for (int i = 0; i < 3 * wire::kMaxMalformed; ++i) burst += chunk_frame(33, "much ado");
  ASSERT_TRUE(client.send(burst));
  bool was_reset = false;
  std::string refused, slept;
  while (slept.empty()) {
    const auto message = client.next_message();
    ASSERT_TRUE(message) << "the connection must stay";
    if (message->method == "stream.reset") {
      was_reset = true;
      EXPECT_EQ(message->params.get("stream").as_int(), 33);
      EXPECT_EQ(message->params.get("error").get("code").as_string(), "RATE_LIMITED");
    } else if (message->id == "extra") {
      refused = code_of(message);
    } else {
      EXPECT_EQ(message->id, "important");
      slept = code_of(message);
    }
  }
  EXPECT_TRUE(was_reset);
  EXPECT_EQ(refused, "RATE_LIMITED");
  EXPECT_EQ(slept, "OK");
  EXPECT_EQ(counter("malformed"), 0);
  // With one closed there is room for the next.
  ASSERT_TRUE(client.send(chunk_frame(1, "")));
  EXPECT_TRUE(eventually([&] {
    static std::uint32_t stream = 33;
    stream += 2;
    client.send_request("again", "test.echo", R"({"data":{"$stream":)" + std::to_string(stream) + "}}");
    for (;;) {
      const auto body = client.next_body();
      if (!body) return false;
      if (auto message = decode(*body); message && message->id == "again") return !message->error;
    }
  }));
}

}  // namespace
}  // namespace sallyport::testing
