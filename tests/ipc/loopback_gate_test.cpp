// Strangers at a loopback door: what they can make a daemon spend, and who gets past them.
#include "ipc/loopback_gate.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "base/sanitized.h"
#include "ipc/listener.h"
#include "os/sockets.h"
#include "served.h"

namespace {
// By this thread, in all. Every allocation of C and C++ goes through these three.
thread_local std::uint64_t allocation_count = 0;
}  // namespace

// A sanitizer has its own.
#if !SALLYPORT_SANITIZED
extern "C" {
void* __libc_malloc(std::size_t size);
void* __libc_calloc(std::size_t count, std::size_t size);
void* __libc_realloc(void* old, std::size_t size);
void* malloc(std::size_t size) {
  ++allocation_count;
  return __libc_malloc(size);
}
void* calloc(std::size_t count, std::size_t size) {
  ++allocation_count;
  return __libc_calloc(count, size);
}
void* realloc(void* old, std::size_t size) {
  ++allocation_count;
  return __libc_realloc(old, size);
}
}
#endif

namespace sallyport::ipc {
namespace {

class Gate : public Served {
 protected:
  Gate() {
    auto listener = os::listen_loopback();
    binding_ = {listener->address, "boot", 1, 2};
    token_.fill(7);
    auto opened = Listener::open(shared_, std::move(listener->fd), "gate",
                                 [this](UniqueFd connection) { gate_->admit(std::move(connection)); });
    listener_ = std::move(*opened);
    admitted_.reserve(16);
    wait_at_most(Millis(2'000));  // longer than an honest one takes on any machine
  }
  ~Gate() override {
    listener_.reset();
    gate_.reset();
    loop_.settle();
  }

  void wait_at_most(Millis timeout) {
    gate_ = std::make_unique<LoopbackGate>(
        shared_, token_, binding_,
        [this](UniqueFd proven) {
          allocations_when_admitted_ = allocation_count;
          admitted_.push_back(std::move(proven));
        },
        timeout);
  }
  void with_the_loop_running(const std::function<void()>& strangers) {
    std::thread other([&] {
      strangers();
      loop_.post([this] { loop_.stop(); });
    });
    loop_.run();
    other.join();
  }
  std::uint64_t on_loop_count(const std::function<std::uint64_t()>& count) {
    std::uint64_t found = 0;
    on_loop([&] { found = count(); });
    return found;
  }
  std::uint64_t refused() {
    return on_loop_count([this] { return shared_.counters().refused; });
  }
  std::uint64_t allocations() {
    return on_loop_count([] { return allocation_count; });
  }
  bool eventually_refused(std::uint64_t wanted) {
    return testing::eventually([&] { return refused() >= wanted; });
  }

  testing::Client stranger(std::string_view says = {}) {
    testing::Client client = testing::Client::tcp(binding_.address);
    if (client && !says.empty()) client.send(std::string(says));
    return client;
  }
  // HELLO, then whatever this token makes of the challenge.
  testing::Client prover(const wire::Token& token) {
    testing::Client client = stranger();
    wire::Nonce nonce;
    fill_random(nonce);
    wire::HandshakeClient handshake(token_, binding_, nonce), other(token, binding_, nonce);
    Bytes hello, proof;
    handshake.start(hello);
    client.send(std::string(as_text(hello.view())));
    const std::string challenge = client.next_body().value_or("");
    EXPECT_TRUE(handshake.receive(as_bytes(challenge), proof));
    if (token != token_) proof.data()[proof.size() - 1] ^= 1;
    client.send(std::string(as_text(proof.view())));
    return client;
  }

  // Refusals are logged, too.
  Log warnings_{-1, LogFormat::text, LogLevel::warn, clock_};
  Sessions shared_{loop_, warnings_, SessionLimits()};
  wire::Token token_;
  wire::Binding binding_;
  std::vector<UniqueFd> admitted_;
  std::uint64_t allocations_when_admitted_ = 0;
  std::unique_ptr<LoopbackGate> gate_;
  std::unique_ptr<Listener> listener_;
};

#if !SALLYPORT_SANITIZED
TEST_F(Gate, AllocatesNothingForWhoeverHasProvenNothing) {
  with_the_loop_running([&] {
    // What any daemon has done before: a timer, a line in the log.
    const testing::Client first = stranger("GET / HTTP/1.1\r\n\r\n");
    ASSERT_TRUE(eventually_refused(1));
    const std::uint64_t before = allocations();
    wire::Token wrong = token_;
    wrong[0] ^= 1;
    std::vector<testing::Client> crowd;
    for (int i = 0; i < 250; ++i) {
      crowd.push_back(stranger());
      crowd.push_back(stranger(std::string_view("\0\0\0\x23\x02", 5)));
      crowd.push_back(stranger("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"));
      crowd.push_back(stranger(std::string_view("\xff\xff\xff\xff{}", 6)));
      if (i % 50 == 0) crowd.push_back(prover(wrong));
    }
    // All of them, by giving way, by what they said, or by the time they took.
    ASSERT_TRUE(eventually_refused(1 + crowd.size()));
    EXPECT_EQ(allocations(), before);
    const auto honest = prover(token_);
    ASSERT_TRUE(testing::eventually([&] { return on_loop_count([&] { return admitted_.size(); }) == 1; }));
    EXPECT_EQ(allocations_when_admitted_, before);
  });
}
#endif

TEST_F(Gate, ClosesWhoeverIsSilentWithinTheTimeInAll) {
  wait_at_most(Millis(400));
  with_the_loop_running([&] {
    testing::Client silent = stranger(), slow = stranger(std::string_view("\0\0\0\x23\x02", 5));
    EXPECT_TRUE(silent.is_closed_by_peer());
    EXPECT_TRUE(slow.is_closed_by_peer());
    EXPECT_EQ(refused(), 2U);
  });
}

TEST_F(Gate, GivesNoMoreTimeToWhoSaysALittleNowAndThen) {
  wait_at_most(Millis(400));
  with_the_loop_running([&] {
    testing::Client slow = stranger(std::string_view("\0\0\0\x23\x02", 5));
    int said = 0;
    for (; said < 30 && !slow.has_data(Millis(100)); ++said) slow.send("\x01");
    EXPECT_LT(said, 30) << "closed before it had said its greeting";
    EXPECT_TRUE(slow.is_closed_by_peer());
  });
}

TEST_F(Gate, APlaceServesTheNextWhenItsConnectionIsOver) {
  with_the_loop_running([&] {
    for (int round = 0; round < 3; ++round) {
      std::vector<testing::Client> crowd;
      for (std::size_t i = 0; i < wire::kMaxHandshakesWaiting; ++i) crowd.push_back(stranger("nonsense"));
      for (testing::Client& each : crowd) EXPECT_TRUE(each.is_closed_by_peer());
    }
    std::vector<testing::Client> honest;
    for (std::size_t i = 0; i < 2 * wire::kMaxHandshakesWaiting; ++i) honest.push_back(prover(token_));
    EXPECT_TRUE(testing::eventually([&] { return on_loop_count([&] { return admitted_.size(); }) == honest.size(); }));
    EXPECT_EQ(refused(), 3 * wire::kMaxHandshakesWaiting);
  });
}

TEST_F(Gate, WhatFollowsTheProofIsLeftForTheSession) {
  with_the_loop_running([&] {
    testing::Client client = prover(token_);
    client.send("the first request");
    ASSERT_TRUE(testing::eventually([&] { return on_loop_count([&] { return admitted_.size(); }) == 1; }));
    std::string came(64, '\0');
    const ssize_t length = ::recv(admitted_.front().get(), came.data(), came.size(), 0);
    ASSERT_GT(length, 0);
    EXPECT_EQ(came.substr(0, static_cast<std::size_t>(length)), "the first request");
  });
}

}  // namespace
}  // namespace sallyport::ipc
