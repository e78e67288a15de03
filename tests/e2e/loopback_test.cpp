// The loopback TCP door: mutual proof, and everybody who has none.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <iterator>
#include <thread>

#include "base/random.h"
#include "door.h"

namespace sallyport::testing {
namespace {

using std::chrono::milliseconds;

// What the daemon publishes for those who may read it.
struct Published {
  std::string address;
  wire::Binding binding;
  wire::Token token{};

  explicit Published(const std::string& path) {
    std::ifstream file(path);
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    wire::Decoder decoder;
    const auto document = decoder.parse(text);
    EXPECT_TRUE(document) << text;
    if (!document) return;
    const wire::Value root = document->root();
    address = std::string(root.get("address").as_string().value_or(""));
    binding = {address, std::string(root.get("boot_id").as_string().value_or("")),
               root.get("pid").as_uint().value_or(0), root.get("start_time").as_uint().value_or(0)};
    const auto bytes = from_hex(root.get("token").as_string().value_or(""));
    EXPECT_TRUE(bytes && bytes->size() == token.size());
    if (bytes && bytes->size() == token.size()) std::copy(bytes->begin(), bytes->end(), token.begin());
  }
};

class Loopback : public Door {
 protected:
  void SetUp() override { start({.arguments = {"--tcp"}}); }

  Published published() { return Published(daemon().loopback_file()); }
  Client dial() { return Client::tcp(published().address); }

  static wire::Nonce fresh_nonce() {
    wire::Nonce nonce;
    fill_random(nonce);
    return nonce;
  }
  // Says HELLO and returns the body of the CHALLENGE.
  static std::string challenge_for(Client& client, wire::HandshakeClient& handshake) {
    Bytes hello;
    handshake.start(hello);
    EXPECT_TRUE(client.send(as_text(hello.view())));
    return client.next_body().value_or("");
  }
  static std::string proof_for(Client& client, wire::HandshakeClient& handshake) {
    Bytes proof;
    EXPECT_TRUE(handshake.receive(as_bytes(challenge_for(client, handshake)), proof));
    return text_of(proof);
  }
  Client authenticated() {
    const Published known = published();
    Client client = Client::tcp(known.address);
    wire::HandshakeClient handshake(known.token, known.binding, fresh_nonce());
    EXPECT_TRUE(client.send(proof_for(client, handshake)));
    return client;
  }
  // Not a byte in answer, then the end.
  static void expect_silence_and_close(Client& client) { EXPECT_EQ(client.next_body(), std::nullopt); }
};

TEST_F(Loopback, WhoeverHoldsTheTokenIsServed) {
  Client client = authenticated();
  const auto hello = client.call("warden.hello");
  ASSERT_EQ(code_of(hello), "OK");
  EXPECT_EQ(hello->result.get("identity").as_string(), "proof");
  EXPECT_EQ(hello->result.get("principal").as_string(), "host");
}

TEST_F(Loopback, RequestsMayFollowTheProofAtOnce) {
  const Published known = published();
  Client client = Client::tcp(known.address);
  wire::HandshakeClient handshake(known.token, known.binding, fresh_nonce());
  const std::string proof = proof_for(client, handshake);
  ASSERT_TRUE(client.send(proof + request_frame("1", "test.ping") + request_frame("2", "test.ping")));
  EXPECT_EQ(client.next_message()->id, "1");
  EXPECT_EQ(client.next_message()->id, "2");
}

TEST_F(Loopback, TheHandshakeMayComeOneByteAtATime) {
  const Published known = published();
  Client client = Client::tcp(known.address);
  wire::HandshakeClient handshake(known.token, known.binding, fresh_nonce());
  Bytes hello, proof;
  handshake.start(hello);
  for (const char byte : text_of(hello)) ASSERT_TRUE(client.send({&byte, 1}));
  ASSERT_TRUE(handshake.receive(as_bytes(client.next_body().value_or("")), proof));
  for (const char byte : text_of(proof)) ASSERT_TRUE(client.send({&byte, 1}));
  EXPECT_TRUE(client.pings());
}

TEST_F(Loopback, TheAddressIsPublishedInAFileOfOursAloneWhichGoesWithTheDaemon) {
  struct stat info{};
  ASSERT_EQ(::stat(daemon().loopback_file().c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777, 0600U);
  EXPECT_TRUE(published().address.starts_with("127.0.0.1:"));
  ASSERT_EQ(daemon().stop(), 0);
  EXPECT_NE(::stat(daemon().loopback_file().c_str(), &info), 0);
}

TEST_F(Loopback, AnotherTokenIsRefused) {
  const Published known = published();
  wire::Token wrong = known.token;
  wrong[31] ^= 1;
  Client client = Client::tcp(known.address);
  wire::HandshakeClient handshake(wrong, known.binding, fresh_nonce());
  const std::string challenge = challenge_for(client, handshake);
  Bytes out;
  EXPECT_FALSE(handshake.receive(as_bytes(challenge), out)) << "the client finds out first";
  ASSERT_TRUE(client.send(frame_of("\x02\x03" + std::string(32, 'p'))));
  expect_silence_and_close(client);
  EXPECT_GE(counter("refused"), 1);
}

TEST_F(Loopback, AReplayedHandshakeIsRefused) {
  const Published known = published();
  const wire::Nonce nonce = fresh_nonce();
  std::string proof;
  {
    Client honest = Client::tcp(known.address);
    wire::HandshakeClient handshake(known.token, known.binding, nonce);
    proof = proof_for(honest, handshake);
    ASSERT_TRUE(honest.send(proof));
    ASSERT_TRUE(honest.pings());
  }
  Client thief = Client::tcp(known.address);
  wire::HandshakeClient same(known.token, known.binding, nonce);
  challenge_for(thief, same);
  ASSERT_TRUE(thief.send(proof + request_frame("1", "warden.shutdown")));
  expect_silence_and_close(thief);
}

TEST_F(Loopback, AReflectedMacIsRefused) {
  const Published known = published();
  Client client = dial();
  wire::HandshakeClient handshake(wire::Token{}, known.binding, fresh_nonce());
  const std::string challenge = challenge_for(client, handshake);
  ASSERT_EQ(challenge.size(), 67U);
  ASSERT_TRUE(client.send(frame_of("\x02\x03" + challenge.substr(35))));
  expect_silence_and_close(client);
}

TEST_F(Loopback, AProofMadeOnAnotherConnectionIsRefused) {
  const Published known = published();
  Client first = dial(), second = dial();
  wire::HandshakeClient one(known.token, known.binding, fresh_nonce()), two(known.token, known.binding, fresh_nonce());
  const std::string proof = proof_for(first, one);
  challenge_for(second, two);
  ASSERT_TRUE(second.send(proof));
  expect_silence_and_close(second);
}

TEST_F(Loopback, TruncatedEmptyAndForeignHandshakesAreRefused) {
  const std::string hello = std::string("\x02\x01\x01", 3) + std::string(32, 'n');
  std::string other_version = hello;
  other_version[2] = 2;
  for (const std::string& bytes :
       {frame_of(hello.substr(0, 34)), frame_of(hello + "x"), frame_of(other_version), header_of(0), header_of(129),
        header_of(0xffffffff), frame_of("\x02\x03" + std::string(32, 'p')), frame_of("\x02"),
        request_frame("1", "warden.shutdown"), chunk_frame(1, "data")}) {
    Client client = dial();
    ASSERT_TRUE(client);
    client.send(bytes);
    expect_silence_and_close(client);
  }
  EXPECT_GE(counter("refused"), 10);
}

TEST_F(Loopback, ABrowserPostingToThePortIsRefusedAndLearnsNothing) {
  Client client = dial();
  ASSERT_TRUE(client.send("POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 60\r\n\r\n" +
                          request_frame("1", "warden.shutdown")));
  expect_silence_and_close(client);
}

TEST_F(Loopback, ARequestBeforeTheProofIsNeverLookedAt) {
  Client client = dial();
  wire::HandshakeClient handshake(wire::Token{}, published().binding, fresh_nonce());
  challenge_for(client, handshake);
  ASSERT_TRUE(client.send(request_frame("1", "warden.shutdown")));
  expect_silence_and_close(client);
  EXPECT_EQ(daemon().log().find("stopping"), std::string::npos);
}

TEST_F(Loopback, ASlowLorisBeforeAuthenticationIsClosed) {
  Client silent = dial(), dribbling = dial();
  ASSERT_TRUE(dribbling.send(header_of(35)));
  std::size_t sent = 0;
  while (sent < 30 && dribbling.send("\x02")) {
    ++sent;
    std::this_thread::sleep_for(milliseconds(400));
  }
  EXPECT_LT(sent, 30U);
  EXPECT_TRUE(silent.is_closed_by_peer());
}

TEST_F(Loopback, AtMostEightWaitAndTheOldestGivesWay) {
  std::vector<Client> waiting;
  for (std::size_t i = 0; i < wire::kMaxHandshakesWaiting; ++i) waiting.push_back(dial());
  Client ninth = dial();
  EXPECT_TRUE(waiting.front().is_closed_by_peer());
  // The youngest of the eight can still prove itself.
  const Published known = published();
  wire::HandshakeClient handshake(known.token, known.binding, fresh_nonce());
  ASSERT_TRUE(waiting.back().send(proof_for(waiting.back(), handshake)));
  EXPECT_TRUE(waiting.back().pings());
}

// Who only connects costs nothing to send away, and there can be any number of them.
TEST_F(Loopback, OneThatHasSaidNothingGivesWayBeforeOneThatHas) {
  const Published known = published();
  std::vector<Client> waiting;
  waiting.push_back(dial());
  wire::HandshakeClient handshake(known.token, known.binding, fresh_nonce());
  const std::string proof = proof_for(waiting.front(), handshake);
  while (waiting.size() < wire::kMaxHandshakesWaiting) waiting.push_back(dial());
  Client ninth = dial();
  EXPECT_TRUE(waiting[1].is_closed_by_peer());
  ASSERT_TRUE(waiting.front().send(proof));
  EXPECT_TRUE(waiting.front().pings());
}

TEST_F(Loopback, AThousandUnauthenticatedConnectionsDoNotKeepTheHonestOut) {
  const std::string address = published().address;
  std::vector<Client> crowd;
  for (int i = 0; i < 1000; ++i) {
    crowd.push_back(Client::tcp(address));
    ASSERT_TRUE(crowd.back());
    if (i % 3 == 0) crowd.back().send("GET ");
  }
  EXPECT_TRUE(authenticated().pings());
  EXPECT_TRUE(
      eventually([&] { return counter("refused") >= 1000 - static_cast<std::int64_t>(wire::kMaxHandshakesWaiting); }));
  EXPECT_TRUE(eventually([&] { return status_number(daemon().socket_path(), {"sessions"}) == 1; }));
}

TEST_F(Loopback, TheDaemonEndsWellWhileHandshakesWait) {
  Client silent = dial(), refused = dial();
  refused.send("GET / HTTP/1.1\r\n\r\n");
  ASSERT_TRUE(reaches("refused", 1));
  EXPECT_EQ(daemon().stop(), 0);
}

// ---- the port of a dead daemon ----

UniqueFd listen_on(const std::string& address) {
  UniqueFd fd{::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  const int on = 1;
  ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  sockaddr_in where{};
  where.sin_family = AF_INET;
  where.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  where.sin_port = htons(static_cast<std::uint16_t>(std::stoi(address.substr(address.rfind(':') + 1))));
  if (::bind(fd.get(), reinterpret_cast<const sockaddr*>(&where), sizeof where) != 0 || ::listen(fd.get(), 8) != 0) {
    return {};
  }
  return fd;
}

TEST_F(Loopback, APortSquatterInFrontOfADeadDaemonIsDetectedAndLearnsNothing) {
  const Published known = published();
  daemon().kill_now();
  const UniqueFd squatter = listen_on(known.address);
  ASSERT_TRUE(squatter) << "the port is free after a kill";
  Client client = Client::tcp(known.address);
  ASSERT_TRUE(client);
  Client victim(UniqueFd(::accept4(squatter.get(), nullptr, nullptr, SOCK_CLOEXEC)));
  wire::HandshakeClient handshake(known.token, known.binding, fresh_nonce());
  Bytes hello, proof;
  handshake.start(hello);
  ASSERT_TRUE(client.send(as_text(hello.view())));
  const std::string heard = victim.next_body().value_or("");
  EXPECT_EQ(heard.find(std::string(as_text(known.token))), std::string::npos);
  // The best it can do: repeat what it heard, or make something up.
  ASSERT_TRUE(victim.send(frame_of(std::string("\x02\x02\x01", 3) + heard.substr(3) + std::string(32, 'm'))));
  EXPECT_FALSE(handshake.receive(as_bytes(client.next_body().value_or("")), proof));
  EXPECT_TRUE(proof.empty());
}

TEST_F(Loopback, ASquatterThatPassesOnToALivingDaemonIsDetected) {
  const Published dead = published();
  daemon().kill_now();
  ASSERT_TRUE(daemon().start());
  const Published alive = published();
  // The client still believes in the dead daemon; its bytes reach the living one.
  Client client = Client::tcp(alive.address);
  for (const wire::Token& token : {dead.token, alive.token}) {
    Client again = Client::tcp(alive.address);
    wire::HandshakeClient handshake(token, dead.binding, fresh_nonce());
    Bytes proof;
    EXPECT_FALSE(handshake.receive(as_bytes(challenge_for(again, handshake)), proof));
  }
}

}  // namespace
}  // namespace sallyport::testing
