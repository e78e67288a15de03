// Connections shared among threads, against the real daemon.
#include "client/pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "support/client.h"
#include "support/daemon.h"

namespace sallyport {
namespace {

using testing::Daemon;

class Pool : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(daemon_.start()) << daemon_.log(); }
  void TearDown() override {
    if (daemon_.pid() > 0) {
      EXPECT_EQ(daemon_.stop(), 0);
    }
  }
  ClientPool::Connect connect() {
    return [this] {
      ++connected_;
      return Client::connect_unix(daemon_.socket_path());
    };
  }

  Daemon daemon_{{.config = "[warden]\ndrain_timeout_ms = 500\n"}};
  std::atomic<int> connected_ = 0;
};

TEST_F(Pool, ManyThreadsShareAFewConnections) {
  ClientPool pool(connect(), 3);
  std::atomic<int> good = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&] {
      for (int each = 0; each < 50; ++each) good += pool.call("test.ping").has_value() ? 1 : 0;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(good, 400);
  EXPECT_LE(connected_, 3);
}

TEST_F(Pool, AnErrorOfAMethodKeepsTheConnection) {
  ClientPool pool(connect(), 1);
  EXPECT_EQ(pool.call("no.such.method").error().code, Code::method_not_found);
  EXPECT_TRUE(pool.call("test.ping"));
  EXPECT_EQ(connected_, 1);
}

TEST_F(Pool, NobodyInheritsWhatAnotherOneLeft) {
  ClientPool pool(connect(), 1);
  const auto leave = [&](const char* what, auto&& work) {
    int before = 0;
    {
      auto lease = pool.take();
      ASSERT_TRUE(lease);
      before = connected_;
      work(*lease->operator->());
    }
    auto next = pool.take();
    ASSERT_TRUE(next);
    EXPECT_EQ(connected_, before + 1) << what;
    bool was_bothered = false;
    (*next)->on_event([&](const auto&) { was_bothered = true; });
    EXPECT_TRUE((*next)->call("warden.reload"));
    EXPECT_TRUE((*next)->call("test.ping"));
    EXPECT_FALSE(was_bothered) << what;
  };
  leave("a handler", [](Client& client) { client.on_event([](const auto&) {}); });
  leave("a subscription", [](Client& client) { EXPECT_TRUE(client.call("warden.subscribe")); });
  leave("a served method",
        [](Client& client) { client.serve("x", [](const auto&) { return Result<std::string>("1"); }); });
  leave("a call on its way",
        [](Client& client) { EXPECT_TRUE(client.start("test.sleep", R"({"ms":60000})", [](const auto&) {})); });
  leave("an open stream", [](Client& client) { EXPECT_TRUE(client.open_stream()); });
}

TEST_F(Pool, AUsedConnectionThatIsAsNewIsUsedAgain) {
  ClientPool pool(connect(), 2);
  for (int i = 0; i < 5; ++i) {
    auto lease = pool.take();
    ASSERT_TRUE(lease);
    EXPECT_TRUE((*lease)->call("test.ping"));
  }
  EXPECT_EQ(connected_, 1);
}

TEST_F(Pool, ALostConnectionIsReplacedAndTheCallThatNoticesIsTold) {
  ClientPool pool(connect(), 1);
  ASSERT_TRUE(pool.call("test.ping"));
  daemon_.kill_now();
  EXPECT_FALSE(pool.call("test.ping")) << "nobody is there";
  ASSERT_TRUE(daemon_.start());
  EXPECT_TRUE(pool.call("test.ping"));
}

TEST_F(Pool, WhoeverWaitsGetsTheConnectionThatComesBack) {
  ClientPool pool(connect(), 1);
  std::atomic<bool> is_taken = false;
  std::thread waiter;
  {
    auto lease = pool.take();
    ASSERT_TRUE(lease);
    waiter = std::thread([&] { is_taken = pool.take().has_value(); });
    EXPECT_TRUE((*lease)->call("test.sleep", R"({"ms":50})"));
    EXPECT_FALSE(is_taken);
  }
  waiter.join();
  EXPECT_TRUE(is_taken);
}

}  // namespace
}  // namespace sallyport
