// A warden in this process, with the check of its peers or its clock replaced.
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "support/client.h"
#include "support/daemon.h"
#include "warden/warden.h"

namespace sallyport::warden {
namespace {

using sallyport::testing::Client;
using sallyport::testing::code_of;
using sallyport::testing::TemporaryDirectory;

// Set by somebody, as a wall clock may be.
class WallClock final : public Clock {
 public:
  SteadyTime steady() const override { return system_.steady(); }
  std::int64_t unix_millis() const override { return system_.unix_millis() + offset_ms; }
  std::atomic<std::int64_t> offset_ms = 0;

 private:
  SystemClock system_;
};

class Verifier : public ::testing::Test {
 protected:
  void start(ipc::PeerVerifier verifier) {
    Options options;
    options.paths.runtime_dir = directory_.path() + "/run";
    options.paths.state_dir = directory_.path() + "/state";
    options.paths.config_file = directory_.path() + "/sallyport.toml";
    options.version = "test";
    auto warden = Warden::start(std::move(options), log_, clock_, std::move(verifier));
    ASSERT_TRUE(warden) << warden.error().describe();
    warden_ = std::move(*warden);
    thread_ = std::thread([this] { warden_->run(); });
  }
  void TearDown() override {
    if (!thread_.joinable()) return;
    ipc::Loop& loop = warden_->sessions().loop();
    loop.post([&loop] { loop.stop(); });
    thread_.join();
  }
  Client connect() const { return Client::unix_socket(directory_.path() + "/run/warden.sock"); }

  TemporaryDirectory directory_;
  WallClock clock_;
  Log log_{-1, LogFormat::text, LogLevel::error, clock_};
  std::unique_ptr<Warden> warden_;
  std::thread thread_;
};

TEST_F(Verifier, ThatFailsRefusesTheConnectionBeforeAByteIsRead) {
  std::atomic<int> asked = 0;
  start([&](int) -> Result<os::Peer> {
    ++asked;
    return Error::make(Code::unauthenticated, "peer identity cannot be verified", "made to fail");
  });
  for (int i = 0; i < 3; ++i) {
    Client client = connect();
    ASSERT_TRUE(client);
    client.send_request("1", "warden.shutdown");
    const auto answer = client.next_message();
    EXPECT_EQ(code_of(answer), "UNAUTHENTICATED");
    EXPECT_EQ(answer->id, "") << "nothing of what was sent was looked at";
    EXPECT_EQ(answer->error->message, "peer identity cannot be verified") << "the reason is for the log only";
    EXPECT_EQ(client.next_body(), std::nullopt);
  }
  EXPECT_EQ(asked, 3);
}

TEST_F(Verifier, ThatFailsAtTimesRefusesOnlyThoseConnections) {
  std::atomic<int> asked = 0;
  start([&](int socket) -> Result<os::Peer> {
    if (++asked % 2 == 0) return Error::make(Code::unauthenticated, "no");
    return os::identify_peer(socket);
  });
  EXPECT_TRUE(connect().pings());
  EXPECT_EQ(connect().outcome("test.ping"), "UNAUTHENTICATED");
  Client client = connect();
  const auto status = client.call("warden.status");
  ASSERT_EQ(code_of(status), "OK");
  EXPECT_EQ(status->result.get("counters").get("refused").as_int(), 1);
}

TEST_F(Verifier, SaysWhoThePeerIsWhateverThePeerSays) {
  start([](int socket) -> Result<os::Peer> {
    TRY(os::Peer peer, os::identify_peer(socket));
    peer.identity.pid = 4242;
    return peer;
  });
  Client client = connect();
  const auto hello = client.call("warden.hello");
  ASSERT_EQ(code_of(hello), "OK");
  EXPECT_EQ(hello->result.get("peer").get("pid").as_int(), 4242);
}

TEST_F(Verifier, AWardensAgeDoesNotFollowTheWallClock) {
  start([](int socket) { return os::identify_peer(socket); });
  for (const std::int64_t hours : {-5, 5}) {
    clock_.offset_ms = hours * 3'600'000;
    const auto status = connect().call("warden.status");
    ASSERT_EQ(code_of(status), "OK");
    const auto uptime = status->result.get("uptime_ms").as_int();
    ASSERT_TRUE(uptime);
    EXPECT_GE(*uptime, 0);
    EXPECT_LT(*uptime, 3'600'000);
  }
}

}  // namespace
}  // namespace sallyport::warden
