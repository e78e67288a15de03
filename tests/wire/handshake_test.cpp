#include "wire/handshake.h"

#include <gtest/gtest.h>

#include <functional>

#include "support/wire.h"

namespace sallyport::wire {
namespace {

using sallyport::testing::bodies_of;
using sallyport::testing::text_of;

Token token_of(std::uint8_t byte) {
  Token token;
  token.fill(byte);
  return token;
}
Nonce nonce_of(std::uint8_t byte) {
  Nonce nonce;
  nonce.fill(byte);
  return nonce;
}
Binding binding() { return {"127.0.0.1:4000", "boot-1", 100, 2000}; }

struct Transcript {
  std::string hello, challenge, proof;
};

HandshakeServer server_with(const Token& token, Binding bound, std::uint8_t nonce = 2) {
  return {token, std::move(bound), nonce_of(nonce)};
}
HandshakeClient client_with(const Token& token, Binding bound, std::uint8_t nonce = 1) {
  return {token, std::move(bound), nonce_of(nonce)};
}

std::string hello_of(HandshakeClient& client) {
  Bytes out;
  client.start(out);
  return bodies_of(text_of(out)).at(0);
}

// One body in; the body that came out, or "" if none or refused.
template <typename Side>
std::string answer(Side& side, std::string_view body, bool* is_accepted = nullptr) {
  Bytes out;
  const bool is_good = bool(side.receive(as_bytes(body), out));
  if (is_accepted != nullptr) *is_accepted = is_good;
  EXPECT_TRUE(is_good || out.empty()) << "a refusal must say nothing";
  const auto bodies = bodies_of(text_of(out));
  return bodies.empty() ? "" : bodies[0];
}

Transcript honest_run() {
  HandshakeServer server = server_with(token_of(7), binding());
  HandshakeClient client = client_with(token_of(7), binding());
  Transcript transcript;
  transcript.hello = hello_of(client);
  transcript.challenge = answer(server, transcript.hello);
  transcript.proof = answer(client, transcript.challenge);
  answer(server, transcript.proof);
  EXPECT_TRUE(server.is_done());
  return transcript;
}

TEST(Handshake, BothSidesThatHoldTheTokenAgree) {
  const Transcript transcript = honest_run();
  EXPECT_EQ(transcript.hello.size(), 35U);
  EXPECT_EQ(transcript.challenge.size(), 67U);
  EXPECT_EQ(transcript.proof.size(), 34U);
}

TEST(Handshake, TheTokenNeverCrossesTheWire) {
  const Transcript transcript = honest_run();
  const std::string token(kTokenBytes, 7);
  for (const std::string& body : {transcript.hello, transcript.challenge, transcript.proof}) {
    EXPECT_EQ(body.find(token.substr(0, 8)), std::string::npos);
  }
}

TEST(Handshake, AClientWithAnotherTokenIsRefused) {
  HandshakeServer server = server_with(token_of(7), binding());
  HandshakeClient client = client_with(token_of(8), binding());
  const std::string challenge = answer(server, hello_of(client));
  bool is_accepted = true;
  EXPECT_EQ(answer(client, challenge, &is_accepted), "");
  EXPECT_FALSE(is_accepted) << "a client must not prove itself to a server without the token";
}

TEST(Handshake, AServerRefusesAProofMadeWithAnotherToken) {
  HandshakeServer right = server_with(token_of(7), binding()), wrong = server_with(token_of(8), binding());
  HandshakeClient client = client_with(token_of(8), binding());
  const std::string hello = hello_of(client);
  answer(right, hello);
  const std::string proof = answer(client, answer(wrong, hello));
  ASSERT_FALSE(proof.empty());
  bool is_accepted = true;
  answer(right, proof, &is_accepted);
  EXPECT_FALSE(is_accepted);
  EXPECT_FALSE(right.is_done());
}

TEST(Handshake, EveryFieldOfTheBindingCounts) {
  const std::vector<std::function<void(Binding&)>> changes = {
      [](Binding& b) { b.address = "127.0.0.1:4001"; },
      [](Binding& b) { b.boot_id = "boot-2"; },
      [](Binding& b) { b.pid = 101; },
      [](Binding& b) { b.start_time = 2001; },
      [](Binding& b) {
        b.address += "b";
        b.boot_id = "oot-1";
      },  // the same bytes, cut elsewhere
  };
  for (std::size_t i = 0; i < changes.size(); ++i) {
    Binding other = binding();
    changes[i](other);
    HandshakeServer server = server_with(token_of(7), binding());
    HandshakeClient client = client_with(token_of(7), other);
    bool is_accepted = true;
    answer(client, answer(server, hello_of(client)), &is_accepted);
    EXPECT_FALSE(is_accepted) << i;
  }
}

TEST(Handshake, AReplayedRunIsRefused) {
  const Transcript recorded = honest_run();
  HandshakeServer server = server_with(token_of(7), binding(), 3);
  const std::string challenge = answer(server, recorded.hello);
  EXPECT_NE(challenge, recorded.challenge);
  bool is_accepted = true;
  answer(server, recorded.proof, &is_accepted);
  EXPECT_FALSE(is_accepted);
  EXPECT_FALSE(server.is_done());
}

TEST(Handshake, AReplayedChallengeDoesNotConvinceAClient) {
  const Transcript recorded = honest_run();
  HandshakeClient client = client_with(token_of(7), binding(), 9);
  hello_of(client);
  bool is_accepted = true;
  answer(client, recorded.challenge, &is_accepted);
  EXPECT_FALSE(is_accepted);
}

TEST(Handshake, AServersOwnMacReflectedIsNoProof) {
  HandshakeServer server = server_with(token_of(7), binding());
  HandshakeClient client = client_with(token_of(7), binding());
  const std::string challenge = answer(server, hello_of(client));
  bool is_accepted = true;
  answer(server, std::string("\x02\x03") + challenge.substr(35), &is_accepted);
  EXPECT_FALSE(is_accepted);
  EXPECT_FALSE(server.is_done());
}

TEST(Handshake, AServersNonceReflectedAsTheClientsGivesNoProof) {
  // An attacker without the token opens two connections and feeds each one's bytes to the other.
  HandshakeServer first = server_with(token_of(7), binding(), 2), second = server_with(token_of(7), binding(), 3);
  HandshakeClient anybody = client_with(token_of(1), binding());
  const std::string challenge = answer(first, hello_of(anybody));
  const std::string nonce = challenge.substr(3, kNonceBytes);
  const std::string other = answer(second, std::string("\x02\x01\x01", 3) + nonce);
  ASSERT_FALSE(other.empty());
  bool is_accepted = true;
  answer(first, std::string("\x02\x03") + other.substr(35), &is_accepted);
  EXPECT_FALSE(is_accepted);
}

TEST(Handshake, TruncatedAndExtendedBodiesAreRefused) {
  const Transcript honest = honest_run();
  for (std::size_t length = 0; length < honest.hello.size(); ++length) {
    HandshakeServer server = server_with(token_of(7), binding());
    bool is_accepted = true;
    answer(server, honest.hello.substr(0, length), &is_accepted);
    EXPECT_FALSE(is_accepted) << length;
  }
  for (std::size_t length = 0; length < honest.proof.size(); ++length) {
    HandshakeServer server = server_with(token_of(7), binding());
    answer(server, honest.hello);
    bool is_accepted = true;
    answer(server, honest.proof.substr(0, length), &is_accepted);
    EXPECT_FALSE(is_accepted) << length;
  }
  HandshakeServer server = server_with(token_of(7), binding());
  bool is_accepted = true;
  answer(server, honest.hello + "x", &is_accepted);
  EXPECT_FALSE(is_accepted);
  HandshakeClient client = client_with(token_of(7), binding());
  hello_of(client);
  answer(client, honest.challenge.substr(0, 66), &is_accepted);
  EXPECT_FALSE(is_accepted);
}

TEST(Handshake, AnotherVersionIsRefused) {
  Transcript honest = honest_run();
  for (const char version : {'\0', '\2', '\xff'}) {
    HandshakeServer server = server_with(token_of(7), binding());
    honest.hello[2] = version;
    bool is_accepted = true;
    answer(server, honest.hello, &is_accepted);
    EXPECT_FALSE(is_accepted);
    HandshakeClient client = client_with(token_of(7), binding());
    hello_of(client);
    honest.challenge[2] = version;
    answer(client, honest.challenge, &is_accepted);
    EXPECT_FALSE(is_accepted);
  }
}

TEST(Handshake, AProofBeforeTheHelloIsRefused) {
  HandshakeServer server = server_with(token_of(7), binding());
  bool is_accepted = true;
  answer(server, honest_run().proof, &is_accepted);
  EXPECT_FALSE(is_accepted);
  EXPECT_FALSE(server.is_done());
}

TEST(Handshake, ASecondHelloAndAnythingAfterTheEndAreRefused) {
  const Transcript honest = honest_run();
  HandshakeServer server = server_with(token_of(7), binding());
  answer(server, honest.hello);
  bool is_accepted = true;
  answer(server, honest.hello, &is_accepted);
  EXPECT_FALSE(is_accepted);
  HandshakeServer done = server_with(token_of(7), binding());
  answer(done, honest.hello);
  answer(done, honest.proof);
  ASSERT_TRUE(done.is_done());
  answer(done, honest.proof, &is_accepted);
  EXPECT_FALSE(is_accepted);
}

TEST(Handshake, AServerServesOneConnectionAfterTheOtherAndMixesNoTwo) {
  HandshakeServer server = server_with(token_of(7), binding(), 2);
  const Transcript honest = honest_run();
  answer(server, honest.hello);
  server.restart(nonce_of(3));
  bool is_accepted = true;
  answer(server, honest.proof, &is_accepted);
  EXPECT_FALSE(is_accepted) << "the hello was another connection's";
  EXPECT_EQ(server.why_refused(), "unexpected handshake frame");
  server.restart(nonce_of(4));
  EXPECT_EQ(server.why_refused(), "");
  const std::string challenge = answer(server, honest.hello);
  ASSERT_FALSE(challenge.empty());
  EXPECT_NE(challenge, honest.challenge);
  answer(server, honest.proof, &is_accepted);
  EXPECT_FALSE(is_accepted) << "the proof was another connection's";
  server.restart(nonce_of(2));
  answer(server, honest.hello);
  answer(server, honest.proof, &is_accepted);
  EXPECT_TRUE(is_accepted && server.is_done());
  server.restart(nonce_of(5));
  EXPECT_FALSE(server.is_done());
}

TEST(Handshake, EveryBitOfTheProofCounts) {
  const Transcript honest = honest_run();
  for (std::size_t bit = 0; bit < kMacBytes * 8; ++bit) {
    HandshakeServer server = server_with(token_of(7), binding());
    answer(server, honest.hello);
    std::string proof = honest.proof;
    proof[2 + bit / 8] = static_cast<char>(proof[2 + bit / 8] ^ (1 << (bit % 8)));
    bool is_accepted = true;
    answer(server, proof, &is_accepted);
    ASSERT_FALSE(is_accepted) << bit;
  }
}

TEST(Crypto, KnownAnswers) {
  EXPECT_EQ(to_hex(sha256(as_bytes("abc"))), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(to_hex(hmac_sha256(as_bytes("Jefe"), as_bytes("what do ya want for nothing?"))),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
  EXPECT_TRUE(constant_time_equal(as_bytes("same"), as_bytes("same")));
  EXPECT_FALSE(constant_time_equal(as_bytes("same"), as_bytes("sama")));
  EXPECT_FALSE(constant_time_equal(as_bytes("same"), as_bytes("sam")));
}

}  // namespace
}  // namespace sallyport::wire
