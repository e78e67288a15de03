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

TEST(Config, SchedulesDeploysAndSignalsAreRead) {
  const auto config = parse_config(R"([schedule]
zone = "Europe/Berlin"
max_tasks = 1
max_tasks_per_owner = 2
max_running = 3
max_run_ms = 4
[deploy.site]
repository = "/srv/site"
command = ["/bin/deploy", "{commit}", "to={name}"]
timeout_ms = 5
[signal.restock]
tier = 2
action = ["/bin/restock", "{container}"]
idempotent = true
timeout_ms = 6
[signal.restock.payload]
item = { type = "string", required = true, min = 1, max = 64 }
count = { type = "integer" }
[signal.ring]
action = "event"
)",
                                   "c.toml");
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->schedule.zone.name(), "Europe/Berlin");
  EXPECT_EQ(config->schedule.max_tasks, 1U);
  EXPECT_EQ(config->schedule.max_tasks_per_owner, 2U);
  EXPECT_EQ(config->schedule.max_running, 3U);
  EXPECT_EQ(config->schedule.max_run, Millis(4));
  const auto& site = config->deployments.at("site");
  EXPECT_EQ(site.repository, "/srv/site");
  EXPECT_EQ(site.command.size(), 3U);
  EXPECT_EQ(site.timeout, Millis(5));
  ASSERT_EQ(config->signals.size(), 2U);
  const auto& restock = config->signals[0].name == "restock" ? config->signals[0] : config->signals[1];
  const auto& ring = config->signals[0].name == "restock" ? config->signals[1] : config->signals[0];
  EXPECT_EQ(restock.tier, 2);
  EXPECT_TRUE(restock.is_idempotent);
  EXPECT_EQ(restock.timeout, Millis(6));
  ASSERT_EQ(restock.fields.size(), 2U);
  EXPECT_EQ(ring.tier, 1);
  EXPECT_TRUE(ring.command.empty());
}

TEST(Config, FaultsInSchedulesDeploysAndSignalsAreNamed) {
  constexpr std::pair<const char*, const char*> kFaults[] = {
      {"[schedule]\nzone = \"Mars/Base\"\n", "/etc/s.toml:2:8: 'zone' is wrong: there is no time zone 'Mars/Base'"},
      {"[schedule]\nmax_running = 0\n", "/etc/s.toml:2:15: 'max_running' must be an integer"},
      {"[signal]\nx = 1\n", "/etc/s.toml:2:5: signal.x must be a table"},
      {"[signal.Bad]\naction = \"event\"\n", "/etc/s.toml:1:9: 'Bad' is no signal's name"},
      {"[signal.re-stock]\naction = \"event\"\n", "/etc/s.toml:1:9: 're-stock' is no signal's name (a-z 0-9 _)"},
      {"[approvals]\nexpiry = \"200000d\"\n", "/etc/s.toml:2:10: 'expiry' is longer than a hundred years"},
      {"[approvals]\nexpiry = \"0s\"\n", "/etc/s.toml:2:10: 'expiry' must be a time such as"},
      {"[signal.deploy]\naction = \"event\"\n", "/etc/s.toml:1:9: 'deploy' is built in"},
      {"[signal.x]\ntier = 1\n", "/etc/s.toml:1:9: 'action' is missing in [signal.x]"},
      {"[signal.x]\naction = \"shell\"\n", "/etc/s.toml:2:10: 'action' must be a program's command line or \"event\""},
      {"[signal.x]\naction = [\"restock\"]\n",
       "/etc/s.toml:2:10: 'action' must begin with the program's absolute path"},
      {"[signal.x]\naction = [\"/x\", \"{payload}\"]\n",
       "/etc/s.toml:2:10: 'action' has the unknown placeholder {payload}"},
      {"[signal.x]\ntier = 3\n", "/etc/s.toml:2:8: 'tier' must be an integer from 1 to 2"},
      {"[signal.x]\naction = \"event\"\npayload = {}\n", "/etc/s.toml:3:11: a signal of tier 1 carries no payload"},
      {"[signal.x]\ntier = 2\naction = \"event\"\n[signal.x.payload]\na = { type = \"date\" }\n",
       "/etc/s.toml:5:5: 'date' in [signal.x.payload.a] is no type"},
      {"[signal.x]\nunknown = 1\n", "/etc/s.toml:2:1: unknown key 'unknown' in [signal.x]"},
      {"[deploy.x]\ncommand = [\"/x\"]\n", "/etc/s.toml:1:9: [deploy.x] needs 'repository'"},
      {"[deploy.x]\nrepository = \"x\"\ncommand = [\"/x\"]\n", "/etc/s.toml:1:9: [deploy.x] needs 'repository'"},
      {"[deploy.x]\nrepository = \"/x\"\n", "/etc/s.toml:1:9: [deploy.x] needs a 'command'"},
      {"[deploy.x]\nrepository = \"/x\"\ncommand = [\"/x\", \"{sha}\"]\n",
       "/etc/s.toml:3:11: 'command' has the unknown placeholder {sha}"},
  };
  for (const auto& [text, fault] : kFaults) {
    EXPECT_EQ(fault_in(text).substr(0, std::string_view(fault).size()), fault) << text;
  }
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
