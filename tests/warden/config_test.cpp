#include "warden/config.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include "support/daemon.h"

namespace sallyport::warden {
namespace {

std::string fault_in(std::string_view text) {
  const auto config = parse_config(text, "/etc/s.toml");
  if (config) return "accepted";
  EXPECT_EQ(config.error().code, Code::invalid_params);
  return config.error().message;
}

TEST(Config, EveryKeyIsRead) {
  const auto config = parse_config(R"([warden]
idle_timeout_ms = 1
frame_timeout_ms = 2
drain_timeout_ms = 3
max_connections = 4
max_in_flight = 5
require_pidfd = true
[host]
methods = ["a.*", "b"]
token_methods = ["b"]
)",
                                   "c.toml");
  ASSERT_TRUE(config);
  EXPECT_EQ(config->session.idle_timeout, Millis(1));
  EXPECT_EQ(config->session.frame_timeout, Millis(2));
  EXPECT_EQ(config->drain_timeout, Millis(3));
  EXPECT_EQ(config->max_connections, 4U);
  EXPECT_EQ(config->max_in_flight, 5U);
  EXPECT_TRUE(config->require_pidfd);
  EXPECT_EQ(config->host.methods, (std::vector<std::string>{"a.*", "b"}));
  EXPECT_EQ(config->host.token_methods, (std::vector<std::string>{"b"}));
}

TEST(Config, AnEmptyTextIsTheDefault) {
  const auto config = parse_config("", "c.toml");
  ASSERT_TRUE(config);
  EXPECT_EQ(config->max_connections, Config().max_connections);
  EXPECT_EQ(config->host.methods, (std::vector<std::string>{"*"}));
}

TEST(Config, AFaultNamesFileLineColumnAndWord) {
  const auto has = [](const std::string& fault, const std::string& place, const std::string& word) {
    EXPECT_TRUE(fault.starts_with("/etc/s.toml:" + place + ":")) << fault;
    EXPECT_NE(fault.find(word), std::string::npos) << fault;
  };
  has(fault_in("[warden]\nidle_timeout = 5\n"), "2:1", "idle_timeout");
  has(fault_in("[warden]\n\n  idle_timeout_ms = \"5\"\n"), "3:21", "idle_timeout_ms");
  has(fault_in("[warden]\nidle_timeout_ms = 0\n"), "2:19", "idle_timeout_ms");
  has(fault_in("[warden]\nidle_timeout_ms = 1.5\n"), "2:19", "idle_timeout_ms");
  has(fault_in("[warden]\nmax_connections = 9999999999\n"), "2:19", "max_connections");
  has(fault_in("[warden]\nrequire_pidfd = 1\n"), "2:17", "require_pidfd");
  has(fault_in("[host]\nmethods = \"*\"\n"), "2:11", "methods");
  has(fault_in("[wardn]\n"), "1:2", "wardn");
  has(fault_in("[warden]\nidle_timeout_ms = \n"), "2:19", "expected value");
  has(fault_in("[warden]\nidle_timeout_ms = 1\nidle_timeout_ms = 2\n"), "3:19", "redefine");
}

TEST(Config, MethodsAreNamesAndNothingElse) {
  EXPECT_NE(fault_in("[host]\nmethods = [1]\n"), "accepted");
  EXPECT_NE(fault_in("[host]\nmethods = [\"\"]\n"), "accepted");
  EXPECT_NE(fault_in("[host]\nmethods = [[\"a\"]]\n"), "accepted");
  EXPECT_EQ(fault_in("[host]\nmethods = []\n"), "accepted") << "nothing at all may be called";
}

TEST(Config, AnAbsentFileIsTheDefaultAndAnUnreadableOneAFault) {
  sallyport::testing::TemporaryDirectory directory;
  EXPECT_TRUE(load_config(directory.path() + "/none.toml"));
  const auto unreadable = load_config(directory.path());
  ASSERT_FALSE(unreadable);
  EXPECT_NE(unreadable.error().message.find(directory.path()), std::string::npos);
}

}  // namespace
}  // namespace sallyport::warden
