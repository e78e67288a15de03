// Many at once, and too many.
#include <linux/capability.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "door.h"
#include "os/process.h"

namespace sallyport::testing {
namespace {

void leave_few_descriptors() {
  const rlimit limit{.rlim_cur = 64, .rlim_max = 64};
  ::setrlimit(RLIMIT_NOFILE, &limit);
  // Without this, root raises its own limit again.
  ::prctl(PR_CAPBSET_DROP, CAP_SYS_RESOURCE, 0, 0, 0);
}

class Crowd : public Door {
 protected:
  std::vector<Client> gather(std::size_t count) {
    std::vector<Client> crowd;
    crowd.reserve(count);
    for (std::size_t i = 0; i < count; ++i) {
      crowd.push_back(connect());
      if (!crowd.back()) break;
    }
    EXPECT_EQ(crowd.size(), count);
    return crowd;
  }
};

TEST_F(Crowd, TenThousandIdleConnections) {
  const std::size_t count = scaled(10'000);
  if (os::raise_open_files_limit() < count + 200) GTEST_SKIP() << "the limit on open files is too low";
  std::vector<Client> crowd = gather(count);
  EXPECT_TRUE(eventually(
      [&] { return status_number(daemon().socket_path(), {"sessions"}) == static_cast<std::int64_t>(count) + 1; }));
  for (std::size_t i = 0; i < count; i += count / 50) ASSERT_TRUE(crowd[i].pings()) << i;
  crowd.clear();
  EXPECT_TRUE(eventually([&] { return status_number(daemon().socket_path(), {"sessions"}) == 1; }));
}

TEST_F(Crowd, AThousandBusyConnections) {
  const std::size_t count = scaled(1000);
  if (os::raise_open_files_limit() < count + 200) GTEST_SKIP() << "the limit on open files is too low";
  std::vector<Client> crowd = gather(count);
  const std::string ten = [] {
    std::string frames;
    for (int i = 0; i < 10; ++i) frames += request_frame(std::to_string(i), "test.ping");
    return frames;
  }();
  for (int round = 0; round < 5; ++round) {
    for (Client& client : crowd) ASSERT_TRUE(client.send(ten));
    for (Client& client : crowd) {
      for (int i = 0; i < 10; ++i) {
        const auto answer = client.next_message();
        ASSERT_EQ(code_of(answer), "OK");
        ASSERT_EQ(answer->id, std::to_string(i));
      }
    }
  }
  EXPECT_GE(counter("requests"), static_cast<std::int64_t>(count) * 50);
}

TEST_F(Crowd, OutOfDescriptorsItServesOnAndAcceptsAgainLater) {
  start({.before_exec = leave_few_descriptors});
  Client old = connect();
  ASSERT_TRUE(old.pings());
  std::vector<Client> crowd = gather(100);
  ASSERT_TRUE(daemon().logs("out of descriptors")) << daemon().log();
  for (int i = 0; i < 10; ++i) ASSERT_TRUE(old.pings()) << "those inside are served on";
  const auto status = old.call("warden.status");
  ASSERT_EQ(code_of(status), "OK");
  EXPECT_GE(status->result.get("counters").get("accept_failures").as_int(), 1);
  crowd.clear();
  EXPECT_TRUE(eventually([&] { return connect().pings(); }));
  EXPECT_TRUE(daemon().logs("accepting again"));
}

TEST_F(Crowd, WhoComesWhileDescriptorsAreOutIsNotTakenForAStranger) {
  start({.before_exec = leave_few_descriptors});
  std::vector<Client> crowd = gather(100);
  ASSERT_TRUE(daemon().logs("out of descriptors")) << daemon().log();
  // Nobody is told that it cannot be authenticated: the kernel keeps it until there is room.
  for (Client& client : crowd) EXPECT_FALSE(client.has_data(std::chrono::milliseconds(0)));
  crowd.erase(crowd.begin(), crowd.begin() + 80);
  for (Client& client : crowd) EXPECT_TRUE(client.pings());
}

}  // namespace
}  // namespace sallyport::testing
