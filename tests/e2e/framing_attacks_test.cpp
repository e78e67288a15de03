// Attacks on the framing: lengths, cuts, floods.
#include <random>
#include <thread>

#include "door.h"

namespace sallyport::testing {
namespace {

class FramingAttack : public Door {
 protected:
  // The error goes to nobody, and the connection ends.
  void expect_refused_and_closed(std::string_view bytes, const std::string& code) {
    Client client = connect();
    ASSERT_TRUE(client.send(bytes));
    EXPECT_EQ(code_for_nobody(client.next_message()), code);
    EXPECT_EQ(client.next_body(), std::nullopt);
    EXPECT_EQ(counter("protocol_closes"), 1);
  }
};

TEST_F(FramingAttack, LengthZero) { expect_refused_and_closed(header_of(0), "PROTOCOL_ERROR"); }

TEST_F(FramingAttack, LengthOfTheCapPlusOne) {
  expect_refused_and_closed(header_of(wire::kMaxFrameBytes + 1), "PAYLOAD_TOO_LARGE");
}

TEST_F(FramingAttack, LengthOfAllOnes) { expect_refused_and_closed(header_of(0xffffffff), "PAYLOAD_TOO_LARGE"); }

TEST_F(FramingAttack, LengthOfAllOnesFollowedByAMegabyte) {
  Client client = connect();
  const std::string bytes = header_of(0xffffffff) + std::string(1 << 20, 'x');
  client.send(bytes);
  EXPECT_EQ(code_for_nobody(client.next_message()), "PAYLOAD_TOO_LARGE");
  EXPECT_TRUE(client.is_closed_by_peer());
}

TEST_F(FramingAttack, AFrameOfExactlyTheCapIsServed) {
  const std::string head = R"({"id":"1","type":"request","method":"test.echo","params":{"data":")", tail = "\"}}";
  const std::string body = head + std::string(wire::kMaxFrameBytes - head.size() - tail.size(), 'e') + tail;
  Client client = connect();
  ASSERT_TRUE(client.send(frame_of(body)));
  // The same text with the envelope of a response is a little shorter: it fits.
  const auto answer = client.next_message();
  ASSERT_EQ(code_of(answer), "OK");
  EXPECT_EQ(answer->result.get("data").as_string()->size(), body.size() - head.size() - tail.size());
}

TEST_F(FramingAttack, TruncatedHeader) {
  Client client = connect();
  ASSERT_TRUE(client.send(std::string_view("\0\0", 2)));
  client.close();
  EXPECT_TRUE(daemon().logs("unexpected end after 2 of 4 length-prefix bytes")) << daemon().log();
}

TEST_F(FramingAttack, TruncatedBody) {
  Client client = connect();
  ASSERT_TRUE(client.send(header_of(100) + "abcd"));
  client.close();
  EXPECT_TRUE(daemon().logs("unexpected end after 4 of 100 body bytes")) << daemon().log();
}

TEST_F(FramingAttack, CleanEndBetweenFramesIsNoWarning) {
  Client client = connect();
  ASSERT_TRUE(client.pings());
  client.close();
  ASSERT_TRUE(eventually([&] { return status_number(daemon().socket_path(), {"sessions"}) == 1; }));
  EXPECT_EQ(daemon().log().find(" warn "), std::string::npos) << daemon().log();
}

TEST_F(FramingAttack, OneBytePerWrite) {
  Client client = connect();
  for (const char byte : request_frame("slow", "test.ping")) ASSERT_TRUE(client.send({&byte, 1}));
  const auto answer = client.next_message();
  ASSERT_EQ(code_of(answer), "OK");
  EXPECT_EQ(answer->id, "slow");
}

TEST_F(FramingAttack, TenThousandFramesInOneWrite) {
  std::string all;
  constexpr int kCount = 10'000;
  for (int i = 0; i < kCount; ++i) all += request_frame(std::to_string(i), "test.ping");
  Client client = connect();
  ASSERT_TRUE(client.send(all));
  for (int i = 0; i < kCount; ++i) {
    const auto answer = client.next_message();
    ASSERT_EQ(code_of(answer), "OK");
    ASSERT_EQ(answer->id, std::to_string(i)) << "answers that are ready at once come in order";
  }
}

TEST_F(FramingAttack, FramesSplitAtEveryByte) {
  const std::string two = request_frame("a", "test.ping") + request_frame("b", "test.ping");
  for (std::size_t cut = 1; cut < two.size(); ++cut) {
    Client client = connect();
    ASSERT_TRUE(client.send(two.substr(0, cut)));
    if (cut % 7 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    ASSERT_TRUE(client.send(two.substr(cut)));
    ASSERT_EQ(client.next_message()->id, "a");
    ASSERT_EQ(client.next_message()->id, "b");
  }
}

TEST_F(FramingAttack, RandomBytes) {
  std::mt19937 random(3);
  for (int round = 0; round < 200; ++round) {
    std::string bytes(1 + random() % 300, '\0');
    for (char& byte : bytes) byte = static_cast<char>(random());
    if (round % 2 == 0) bytes = frame_of(bytes);
    Client client = connect();
    ASSERT_TRUE(client);
    client.send(bytes);
    client.half_close();
    ASSERT_TRUE(client.is_closed_by_peer());
  }
}

}  // namespace
}  // namespace sallyport::testing
