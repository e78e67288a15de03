// The audit of the real daemon: what it records, when, and what it does when it cannot.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>
#include <filesystem>
#include <fstream>

#include "ledger/layout.h"
#include "ledger/ledger.h"
#include "ledger/query.h"
#include "ledger/verification.h"
#include "support/client.h"
#include "support/daemon.h"

namespace sallyport::testing {
namespace {

using ledger::Record;

class WardenAudit : public ::testing::Test {
 protected:
  // The disk is made to fail by a limit on file sizes, which needs no rights and can be lifted.
  static DaemonOptions with(std::string config) {
    return {.config = std::move(config), .before_exec = [] { ::signal(SIGXFSZ, SIG_IGN); }};
  }
  void start(const std::string& config = "[warden]\ndrain_timeout_ms = 2000\n") {
    daemon_.emplace(with(config));
    ASSERT_TRUE(daemon_->start());
  }
  Client client() { return Client::unix_socket(daemon_->socket_path()); }
  std::string state_dir() const { return daemon_->root() + "/state"; }

  // As another process sees it, at this very moment.
  std::vector<Record> records(ledger::Query query = {}) {
    query.limit = ledger::kMaxQueryRecords;
    const auto database = ledger::Database::open(ledger::database_path(state_dir()), ledger::Database::Access::read);
    EXPECT_TRUE(database);
    const auto page = ledger::run_query(**database, query);
    EXPECT_TRUE(page);
    return page->records;
  }
  ledger::Report verify() {
    const auto report = ledger::verify_state(state_dir(), {}, {});
    EXPECT_TRUE(report) << report.error().describe();
    return *report;
  }
  void limit_files(rlim_t bytes) {
    const rlimit limit{bytes, RLIM_INFINITY};
    ASSERT_EQ(::prlimit(daemon_->pid(), RLIMIT_FSIZE, &limit, nullptr), 0);
  }
  // Waits for a record of this method that says this.
  bool has_record(const std::string& method, const std::string& code, const std::string& rule) {
    return eventually([&] {
      for (const Record& record : records({.method = method})) {
        if (record.entry.code == code && record.entry.rule.find(rule) != std::string::npos) return true;
      }
      return false;
    });
  }
  // A container with this command; its id.
  std::string create(const std::string& command, const std::string& more = {}) {
    const auto made =
        client().call("container.create", R"({"config":{"command":["sh","-c",")" + command + "\"]" + more + "}}");
    EXPECT_TRUE(made && !made->error) << (made && made->error ? made->error->message : "no answer");
    return made && !made->error ? std::string(made->result.get("container").as_string().value_or("")) : "";
  }
  std::int64_t last_seq() { return status_number(daemon_->socket_path(), {"ledger", "last_seq"}); }

  std::optional<Daemon> daemon_;
};

TEST_F(WardenAudit, ADurableMethodIsOnTheDiskBeforeItsReply) {
  start();
  ASSERT_EQ(client().outcome("warden.reload"), "OK");
  const auto found = records({.method = "warden.reload"});
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(found[0].entry.stage, ledger::Stage::decision);
  EXPECT_EQ(found[1].entry.stage, ledger::Stage::outcome);
  for (const Record& record : found) {
    EXPECT_EQ(record.entry.durability, ledger::Durability::durable);
    EXPECT_EQ(record.entry.principal, "host");
    EXPECT_EQ(record.entry.peer_pid, ::getpid());
    EXPECT_EQ(record.entry.code, "OK");
  }
}

TEST_F(WardenAudit, AFailedOutcomeIsRecordedWithItsCode) {
  start();
  daemon_->write_config("nonsense");
  ASSERT_EQ(client().outcome("warden.reload"), "INVALID_PARAMS");
  const auto found = records({.method = "warden.reload"});
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(found[1].entry.code, "INVALID_PARAMS");
}

TEST_F(WardenAudit, APingLeavesNoTrace) {
  start();
  Client peer = client();
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(peer.pings());
  ASSERT_EQ(peer.outcome("warden.reload"), "OK");
  EXPECT_FALSE(records({.method = "warden.reload"}).empty());
  EXPECT_TRUE(records({.method = "test.ping"}).empty());
}

TEST_F(WardenAudit, ARefusalIsRecorded) {
  start("[host]\nmethods = [\"test.*\", \"warden.*\"]\n");
  Client peer = client();
  ASSERT_EQ(peer.outcome("token.create", R"({"methods":["x"],"ttl_ms":1000})"), "POLICY_DENIED");
  ASSERT_EQ(peer.outcome("test.sleep", R"({"ms":"soon"})"), "INVALID_PARAMS");
  ASSERT_TRUE(eventually([&] { return records({.decision = "deny"}).size() == 2; }));
  const auto found = records({.decision = "deny"});
  EXPECT_EQ(found[0].entry.code, "POLICY_DENIED");
  EXPECT_EQ(found[0].entry.method, "token.create");
  EXPECT_EQ(found[1].entry.code, "INVALID_PARAMS");
}

TEST_F(WardenAudit, AttackFillTheDiskWithRefusals) {
  start();
  Client peer = client();
  constexpr int kFlood = 8'000;
  for (int i = 0; i < kFlood; ++i) ASSERT_EQ(peer.outcome("no.such"), "METHOD_NOT_FOUND");
  ASSERT_TRUE(eventually([&] { return status_number(daemon_->socket_path(), {"ledger", "backlog"}) == 0; }));
  EXPECT_LT(last_seq(), kFlood);
  EXPECT_EQ(daemon_->stop(), 0);
  const auto database = ledger::Database::open(ledger::database_path(state_dir()), ledger::Database::Access::read);
  ASSERT_TRUE(database);
  auto noted = (*database)->prepare("SELECT count(*) FROM audit WHERE method = 'audit.suppressed'");
  ASSERT_TRUE(noted && *noted->step());
  EXPECT_GE(noted->integer(0), 1);
}

TEST_F(WardenAudit, ABufferedMethodIsRecordedInOrder) {
  start();
  Client peer = client();
  for (int i = 0; i < 20; ++i) ASSERT_EQ(peer.outcome("token.create", R"({"methods":["x"],"ttl_ms":1000})"), "OK");
  ASSERT_TRUE(eventually([&] { return records({.method = "token.create"}).size() == 40; }));
  const auto found = records({.method = "token.create"});
  for (std::size_t i = 0; i < found.size(); ++i) {
    EXPECT_EQ(found[i].entry.stage, i % 2 == 0 ? ledger::Stage::decision : ledger::Stage::outcome);
    EXPECT_EQ(found[i].entry.request_id, found[i - i % 2].entry.request_id);
  }
}

TEST_F(WardenAudit, ALedgerThatCannotBeWrittenStopsWhatIsDurableAndNothingElse) {
  start();
  Client peer = client();
  ASSERT_EQ(peer.outcome("warden.reload"), "OK");
  limit_files(0);
  EXPECT_EQ(peer.outcome("warden.reload"), "UNAVAILABLE");
  EXPECT_TRUE(peer.pings());
  const auto status = peer.call("warden.status");
  ASSERT_TRUE(status);
  EXPECT_EQ(status->result.get("ledger").get("ok").as_bool(), false);
  EXPECT_EQ(status->result.get("ledger").get("writable").as_bool(), false);
  EXPECT_EQ(peer.outcome("audit.query"), "OK");
  limit_files(RLIM_INFINITY);
  EXPECT_EQ(peer.outcome("warden.reload"), "OK");
  EXPECT_EQ(status_number(daemon_->socket_path(), {"ledger", "failures"}) > 0, true);
  // The handler ran twice, not three times.
  ASSERT_TRUE(daemon_->logs("reloaded"));
  std::size_t reloads = 0;
  const std::string log = daemon_->log();
  for (std::size_t at = 0; (at = log.find(" reloaded", at)) != std::string::npos; ++at) ++reloads;
  EXPECT_EQ(reloads, 2U);
  EXPECT_EQ(daemon_->stop(), 0);
  EXPECT_TRUE(verify().is_intact()) << to_json(verify());
}

TEST_F(WardenAudit, AfterKillNineTheChainVerifiesAndGoesOn) {
  start();
  for (int round = 0; round < 3; ++round) {
    Client peer = client();
    for (int i = 0; i < 20; ++i) {
      ASSERT_EQ(peer.outcome("token.create", R"({"methods":["x"],"ttl_ms":1000})"), "OK");
      ASSERT_EQ(peer.outcome("warden.reload"), "OK");
    }
    daemon_->kill_now();
    const ledger::Report report = verify();
    EXPECT_TRUE(report.is_intact()) << to_json(report);
    EXPECT_EQ(records({.method = "warden.reload"}).size(), 40U * (static_cast<std::size_t>(round) + 1));
    ASSERT_TRUE(daemon_->start());
  }
}

TEST_F(WardenAudit, AShutdownWritesWhatIsBuffered) {
  start();
  ASSERT_EQ(client().outcome("token.create", R"({"methods":["x"],"ttl_ms":1000})"), "OK");
  EXPECT_EQ(daemon_->stop(), 0);
  EXPECT_EQ(records({.method = "token.create"}).size(), 2U);
  const ledger::Report report = verify();
  EXPECT_TRUE(report.is_intact()) << to_json(report);
  EXPECT_EQ(report.file_records, report.records);
}

TEST_F(WardenAudit, SecretsOfARequestNeverEnter) {
  start();
  Client peer = client();
  const auto answer = peer.call("token.create", R"({"methods":["canary-7c1d"],"ttl_ms":1000})");
  ASSERT_TRUE(answer);
  const std::string token(answer->result.get("token").as_string().value_or("?"));
  ASSERT_EQ(peer.outcome("warden.reload", {}, token), "OK");
  EXPECT_EQ(daemon_->stop(), 0);
  const auto found = records({.method = "token.create"});
  ASSERT_EQ(found.size(), 2U);
  EXPECT_TRUE(found[0].entry.payload_sha256.has_value());
  for (const auto& file : std::filesystem::recursive_directory_iterator(state_dir())) {
    if (!file.is_regular_file()) continue;
    std::ifstream stream(file.path(), std::ios::binary);
    const std::string content{std::istreambuf_iterator<char>(stream), {}};
    EXPECT_EQ(content.find("canary-7c1d"), std::string::npos) << file.path();
    EXPECT_EQ(content.find(token), std::string::npos) << file.path();
  }
}

TEST_F(WardenAudit, HowAContainerEndedIsRecorded) {
  start();
  const std::string id = create("exit 7");
  EXPECT_TRUE(has_record("container.exited", "OK", "exit code 7"));
  EXPECT_EQ(records({.principal = "container/" + id, .method = "container.exited"}).size(), 1U);
}

TEST_F(WardenAudit, AContainerThatWasEndedByALimitIsRecorded) {
  start();
  create("sleep 1000", R"(,"profile":{"limits":{"duration":"1s"}})");
  EXPECT_TRUE(has_record("container.exited", "QUOTA_EXCEEDED", "killed at the end of its time"));
  create("sleep 1000", R"(,"profile":{"limits":{"idle":"1s"}})");
  EXPECT_TRUE(has_record("container.exited", "TIMEOUT", "idling"));
  // Each of them is below it.
  create("for i in 1 2 3 4; do python3 -c 'import time; held = bytes([1]) * (40 << 20); time.sleep(1000)' & done; wait",
         R"(,"profile":{"limits":{"memory":"64MiB"}})");
  EXPECT_TRUE(has_record("container.exited", "QUOTA_EXCEEDED", "killed above its limit of memory"));
}

TEST_F(WardenAudit, AViolationIsRecordedOnceHoweverOftenItIsTried) {
  start();
  const std::string id = create("for i in 1 2 3 4 5; do unshare -m true; done; exit 0");
  EXPECT_TRUE(has_record("container.violation", "POLICY_DENIED", "seccomp, "));
  EXPECT_TRUE(has_record("container.exited", "OK", "exit code 0"));
  EXPECT_EQ(records({.principal = "container/" + id, .method = "container.violation"}).size(), 1U);
}

TEST_F(WardenAudit, LostAndRestartedContainersAreRecordedOnce) {
  start();
  const std::string lost = create("sleep 1000"), kept = create("sleep 1000", R"(,"restart":true)");
  for (int i = 0; i < 2; ++i) {
    daemon_->kill_now();
    ASSERT_TRUE(daemon_->start()) << daemon_->log();
    EXPECT_TRUE(has_record("container.restarted", "OK", "it goes on as container/"));
  }
  EXPECT_EQ(records({.principal = "container/" + lost, .method = "container.lost"}).size(), 1U);
  EXPECT_EQ(records({.principal = "container/" + kept, .method = "container.restarted"}).size(), 1U);
  EXPECT_TRUE(verify().is_intact());
}

TEST_F(WardenAudit, TwoWardensCannotShareALedger) {
  start();
  const SystemClock clock;
  const auto second = ledger::Ledger::open({.state_dir = state_dir(), .clock = clock});
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, Code::conflict);
}

// ---- the methods ----

TEST_F(WardenAudit, QueryFiltersAndPages) {
  start();
  Client peer = client();
  for (int i = 0; i < 5; ++i) ASSERT_EQ(peer.outcome("warden.reload"), "OK");
  const auto page = peer.call("audit.query", R"({"method":"warden.*","limit":3})");
  ASSERT_TRUE(page);
  EXPECT_EQ(page->result.get("records").size(), 3U);
  EXPECT_EQ(page->result.get("has_more").as_bool(), true);
  const auto cursor = page->result.get("cursor").as_int().value_or(0);
  const auto rest = peer.call("audit.query", R"({"method":"warden.*","cursor":)" + std::to_string(cursor) + "}");
  ASSERT_TRUE(rest);
  EXPECT_EQ(rest->result.get("records").size(), 7U);
  EXPECT_EQ(peer.outcome("audit.query", R"({"limit":0})"), "INVALID_PARAMS");
  EXPECT_EQ(peer.outcome("audit.query", R"({"sql":"x"})"), "INVALID_PARAMS");
}

TEST_F(WardenAudit, VerifyChecksAgainstAKeptCheckpoint) {
  start();
  Client peer = client();
  ASSERT_EQ(peer.outcome("warden.reload"), "OK");
  const auto signed_now = peer.call("audit.checkpoint");
  ASSERT_TRUE(signed_now);
  const std::string kept = signed_now->result.to_json();
  const auto report = peer.call("audit.verify", "{\"against\":" + kept + "}");
  ASSERT_TRUE(report);
  EXPECT_EQ(report->result.get("intact").as_bool(), true) << report->result.to_json();
  EXPECT_EQ(peer.outcome("audit.verify", R"({"against":{"seq":1}})"), "INVALID_PARAMS");
  // Everything is replaced by a fresh ledger: the warden itself cannot tell, the kept checkpoint can.
  EXPECT_EQ(daemon_->stop(), 0);
  std::filesystem::remove_all(state_dir());
  ASSERT_TRUE(daemon_->start());
  const auto rolled_back = client().call("audit.verify", "{\"against\":" + kept + "}");
  ASSERT_TRUE(rolled_back);
  EXPECT_EQ(rolled_back->result.get("intact").as_bool(), false);
}

TEST_F(WardenAudit, VerifyFindsALineChangedUnderARunningWarden) {
  start();
  Client peer = client();
  ASSERT_EQ(peer.outcome("warden.reload"), "OK");
  const std::string file = ledger::audit_directory(state_dir()) + "/" + ledger::export_file_name(1);
  std::ifstream stream(file, std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(stream), {}};
  text.replace(text.find("warden.reload"), 6, "worden");
  std::ofstream(file, std::ios::binary | std::ios::trunc) << text;
  const auto report = peer.call("audit.verify");
  ASSERT_TRUE(report);
  EXPECT_EQ(report->result.get("intact").as_bool(), false);
}

}  // namespace
}  // namespace sallyport::testing
