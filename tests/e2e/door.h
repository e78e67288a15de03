// One running daemon per test, stopped in good order at the end: whatever was done to it, it must still
// serve, and it must end with status 0 (a leak found by a sanitizer would change that).
#pragma once

#include <gtest/gtest.h>

#include "support/client.h"
#include "support/daemon.h"

namespace sallyport::testing {

class Door : public ::testing::Test {
 protected:
  // Tests that need other settings call this first; the others get the defaults.
  void start(DaemonOptions options = {}) {
    daemon_ = std::make_unique<Daemon>(std::move(options));
    ASSERT_TRUE(daemon_->start()) << daemon_->log();
  }
  void start_with(const std::string& config) { start({.config = config}); }

  Daemon& daemon() {
    if (!daemon_) start();
    return *daemon_;
  }
  Client connect() { return Client::unix_socket(daemon().socket_path()); }
  std::int64_t counter(const char* name) { return status_number(daemon().socket_path(), {"counters", name}); }
  std::int64_t memory_kib() { return status_number(daemon().socket_path(), {"memory_kib"}); }
  bool reaches(const char* name, std::int64_t count) {
    return eventually([&] { return counter(name) >= count; });
  }

  void TearDown() override {
    if (!daemon_ || daemon_->pid() <= 0) return;
    EXPECT_TRUE(connect().pings()) << "the daemon must go on serving";
    EXPECT_EQ(daemon_->stop(), 0);
  }

  std::unique_ptr<Daemon> daemon_;
};

// A container whose profile allows no method at all, to narrow a session to.
inline std::string powerless_container(Client& client, const std::string& name = "powerless") {
  const auto answer =
      client.call("container.create", R"({"config":{"name":")" + name + R"(","profile":{"methods":[]}}})");
  if (!answer || answer->error) return "no container was made";
  return std::string(answer->result.get("container").as_string().value_or(""));
}

}  // namespace sallyport::testing
