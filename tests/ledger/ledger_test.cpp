#include "ledger/ledger.h"

#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <thread>

#include "fixture.h"
#include "ledger/journal.h"
#include "ledger/query.h"
#include "support/daemon.h"

namespace sallyport::ledger {
namespace {

Page all(Database& database) {
  auto page = run_query(database, {.limit = kMaxQueryRecords});
  EXPECT_TRUE(page);
  return page ? std::move(*page) : Page();
}

TEST_F(LedgerTest, TheOrderOfSubmissionIsTheOrderInTheChain) {
  open();
  for (int i = 0; i < 50; ++i) {
    ASSERT_TRUE(ledger_->append(entry("buffered." + std::to_string(i))));
    Submission durable;
    durable.entries.push_back(entry("durable." + std::to_string(i)));
    ledger_->submit(std::move(durable));
  }
  ASSERT_TRUE(commit(entry("last")));
  Page page;
  look([&](Database& database) { page = all(database); });
  ASSERT_EQ(page.records.size(), 102U);
  EXPECT_EQ(page.records[0].entry.method, "ledger.open");
  for (std::size_t i = 0; i < 50; ++i) {
    EXPECT_EQ(page.records[1 + 2 * i].entry.method, "buffered." + std::to_string(i));
    EXPECT_EQ(page.records[2 + 2 * i].entry.method, "durable." + std::to_string(i));
  }
  EXPECT_EQ(page.records[1].entry.durability, Durability::buffered);
  EXPECT_EQ(page.records[2].entry.durability, Durability::durable);
}

TEST_F(LedgerTest, ABufferedRecordIsWrittenWithoutAnybodyAsking) {
  open();
  ASSERT_TRUE(ledger_->append(entry("x")));
  while (ledger_->health().last_seq < 2) std::this_thread::yield();
  EXPECT_EQ(ledger_->health().backlog, 0U);
}

TEST_F(LedgerTest, AnAcknowledgedRecordIsInTheDatabaseAndInTheFile) {
  open();
  ASSERT_TRUE(commit(entry("exec.run")));
  const std::string file = read_text(audit_directory(directory_.path()) + "/" + export_file_name(1));
  EXPECT_NE(file.find("\"method\":\"exec.run\""), std::string::npos);
  const Report report = verify({}, ledger_->health().exported_seq);
  EXPECT_TRUE(report.is_intact()) << describe(report);
  EXPECT_EQ(report.file_records, report.records);
}

TEST_F(LedgerTest, OneOfAnEarlierVersionIsBroughtUpToDate) {
  open();
  ASSERT_TRUE(commit(entry("before")));
  close();
  {
    auto database = Database::open(database_path(directory_.path()), Database::Access::write, "");
    ASSERT_TRUE(database);
    ASSERT_TRUE((*database)->execute("DROP TABLE journal; CREATE TABLE journal(old TEXT); PRAGMA user_version = 1"));
  }
  open();
  ASSERT_TRUE(commit(entry("after")));
  std::optional<bool> is_new;
  Submission submission;
  submission.work = [&](Transaction& transaction) -> Status {
    JournalRow row;
    row.key = {"one", "request"};
    row.subject = "schedule_task";
    row.state = "accepted";
    TRY(const Accepted accepted, accept(transaction, std::move(row), entry("schedule_task")));
    is_new = accepted.is_new;
    return ok();
  };
  ASSERT_TRUE(commit(std::move(submission)));
  EXPECT_EQ(is_new, true);
}

TEST_F(LedgerTest, TombstonesOfTheSecondVersionAreKept) {
  const auto row_of = [](const std::string& request) {
    JournalRow row;
    row.key = {"one", request};
    row.subject = "schedule_task";
    row.state = "accepted";
    return row;
  };
  const auto accept_both = [&](std::vector<bool>& is_new) {
    Submission submission;
    submission.work = [&](Transaction& transaction) -> Status {
      for (const char* request : {"open", "expired"}) {
        TRY(const Accepted accepted, accept(transaction, row_of(request), entry("schedule_task")));
        is_new.push_back(accepted.is_new);
      }
      return ok();
    };
    return submission;
  };
  open();
  std::vector<bool> is_new;
  ASSERT_TRUE(commit(accept_both(is_new)));
  close();
  {
    auto database = Database::open(database_path(directory_.path()), Database::Access::write, "");
    ASSERT_TRUE(database);
    ASSERT_TRUE((*database)->execute(
        "UPDATE journal SET state = 'expired', is_open = 0 WHERE request = 'expired'; DROP TABLE tombstones;"
        "CREATE INDEX journal_open ON journal(number) WHERE is_open = 1;"
        "CREATE INDEX journal_answered ON journal(number) WHERE answer IS NOT NULL; PRAGMA user_version = 2"));
  }
  open();
  ASSERT_TRUE(commit(accept_both(is_new)));
  EXPECT_EQ(is_new, (std::vector<bool>{true, true, false, false}));
  look([](Database& database) {
    EXPECT_EQ((*find_row(database, {"one", "expired"}))->state, "expired");
    EXPECT_EQ((*find_row(database, {"one", "open"}))->state, "accepted");
    EXPECT_EQ(*count_rows(database, "one"), 2);
  });
}

TEST_F(LedgerTest, AWorkThatFailsCleanCostsTheOthersNothing) {
  open();
  std::vector<bool> results;
  {
    const auto together = ledger_->hold();
    for (const bool fails : {false, true, false}) {
      Submission submission;
      submission.fails_clean = true;
      submission.work = [fails](Transaction& transaction) -> Status {
        if (fails) return Error::make(Code::conflict, "no");
        return transaction.record(entry("kept"));
      };
      submission.done = [&results](const Status& status) { results.push_back(status.has_value()); };
      ledger_->submit(std::move(submission));
    }
  }
  inbox_.run_until([&] { return results.size() == 3; });
  EXPECT_EQ(results, (std::vector<bool>{true, false, true}));
}

TEST_F(LedgerTest, AWorkThatDidNotFailCleanAsItSaidUndoesTheWholeCommit) {
  open();
  Submission submission;
  submission.fails_clean = true;
  submission.work = [](Transaction& transaction) -> Status {
    TRY(transaction.record(entry("half")));
    return Error::make(Code::conflict, "no");
  };
  const Status status = commit(std::move(submission));
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, Code::unavailable);
  ASSERT_TRUE(commit(entry("after")));
  close();
  EXPECT_TRUE(verify().is_intact());
  EXPECT_EQ(read_text(audit_directory(directory_.path()) + "/" + export_file_name(1)).find("\"half\""),
            std::string::npos);
}

TEST_F(LedgerTest, ManySubmissionsShareACommit) {
  open();
  int done = 0;
  for (int i = 0; i < 2000; ++i) {
    Submission durable;
    durable.entries.push_back(entry("x"));
    durable.done = [&](const Status& status) { done += status ? 1 : 0; };
    ledger_->submit(std::move(durable));
  }
  inbox_.run_until([&] { return done == 2000; });
  close();
  const Report report = verify();
  EXPECT_TRUE(report.is_intact()) << describe(report);
  EXPECT_EQ(report.records, 2002U);
  EXPECT_EQ(report.checkpoints, 2U);  // at 1024, and at the end
}

TEST_F(LedgerTest, SubmissionsFromManyThreadsAllArrive) {
  open();
  std::atomic<int> done{0};
  std::vector<std::thread> threads;
  threads.reserve(4);
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 200; ++i) {
        EXPECT_TRUE(ledger_->append(entry("buffered")));
        Submission durable;
        durable.entries.push_back(entry("durable"));
        durable.done = [&](const Status& status) { done += status ? 1 : 0; };
        ledger_->submit(std::move(durable));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  inbox_.run_until([&] { return done == 800; });
  close();
  EXPECT_EQ(verify().records, 1602U);
}

TEST_F(LedgerTest, AFailedWorkUndoesItselfAndNothingElse) {
  open();
  Submission good, bad, after;
  good.entries.push_back(entry("good"));
  bad.work = [](Transaction& transaction) -> Status {
    TRY(transaction.record(entry("bad")));
    TRY(write_meta(transaction.database(), "bad", "1"));
    return Error::make(Code::conflict, "changed my mind");
  };
  std::optional<Status> refused;
  bad.done = [&](Status status) { refused = std::move(status); };
  after.entries.push_back(entry("after"));
  ledger_->submit(std::move(good));
  ledger_->submit(std::move(bad));
  ASSERT_TRUE(commit(std::move(after)));
  ASSERT_TRUE(refused.has_value());
  EXPECT_EQ(refused->error().code, Code::conflict);
  Page page;
  look([&](Database& database) {
    page = all(database);
    EXPECT_FALSE(read_meta(database, "bad")->has_value());
  });
  ASSERT_EQ(page.records.size(), 3U);
  EXPECT_EQ(page.records[1].entry.method, "good");
  EXPECT_EQ(page.records[2].entry.method, "after");
  close();
  EXPECT_TRUE(verify().is_intact());
}

TEST_F(LedgerTest, TheChainGoesOnAfterARestart) {
  for (int i = 0; i < 3; ++i) {
    open();
    ASSERT_TRUE(commit(entry("x")));
    close();
  }
  const Report report = verify();
  EXPECT_TRUE(report.is_intact()) << describe(report);
  EXPECT_EQ(report.records, 9U);
  EXPECT_EQ(report.files, 1U);
}

TEST_F(LedgerTest, RotationBySizeKeepsTheChain) {
  Ledger::Options small = options();
  small.export_file_bytes = 4096;
  for (int run = 0; run < 3; ++run) {
    open(small);
    for (int i = 0; i < 40; ++i) ASSERT_TRUE(commit(entry("x")));
    close();
  }
  const Report report = verify();
  EXPECT_TRUE(report.is_intact()) << describe(report);
  EXPECT_GT(report.files, 5U);
  EXPECT_EQ(report.file_records, report.records);
}

TEST_F(LedgerTest, EverythingIsPrivate) {
  open();
  ASSERT_TRUE(commit(entry("x")));
  for (const auto& file : std::filesystem::recursive_directory_iterator(directory_.path())) {
    struct stat info{};
    ASSERT_EQ(::lstat(file.path().c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 077U, 0U) << file.path();
  }
}

TEST_F(LedgerTest, RefusesASecondWriter) {
  open();
  const auto second = Ledger::open(options());
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, Code::conflict);
}

TEST_F(LedgerTest, RefusesToStartWithoutItsKey) {
  open();
  close();
  std::filesystem::remove(key_path(directory_.path()));
  const auto reopened = Ledger::open(options());
  ASSERT_FALSE(reopened);
  EXPECT_EQ(reopened.error().code, Code::conflict);
  EXPECT_FALSE(std::filesystem::exists(key_path(directory_.path())));
}

TEST_F(LedgerTest, RefusesASymlinkInPlaceOfTheDatabase) {
  const TemporaryDirectory elsewhere;
  write_text(elsewhere.path() + "/target", "");
  std::filesystem::create_symlink(elsewhere.path() + "/target", database_path(directory_.path()));
  EXPECT_FALSE(Ledger::open(options()));
}

TEST_F(LedgerTest, ClosingWritesWhatIsBuffered) {
  open();
  for (int i = 0; i < 10; ++i) ASSERT_TRUE(ledger_->append(entry("x")));
  close();
  const Report report = verify();
  EXPECT_EQ(report.records, 12U);
  EXPECT_TRUE(report.is_intact()) << describe(report);
  EXPECT_TRUE(report.note.empty()) << report.note;
}

TEST_F(LedgerTest, WhoeverAsksAClosedOneIsToldAtOnce) {
  open();
  ASSERT_TRUE(ledger_->close());
  std::vector<Code> told;
  const auto note = [&](const Status& status) { told.push_back(status ? Code::internal_error : status.error().code); };
  bool has_looked = false;
  ledger_->read({.work = [&](Database&) { has_looked = true; }, .done = note});
  ledger_->submit({.entries = {entry("late")}, .done = note});
  EXPECT_EQ(told, (std::vector{Code::unavailable, Code::unavailable}));
  EXPECT_FALSE(has_looked);
}

TEST_F(LedgerTest, AQueryFiltersAndPages) {
  open();
  for (int i = 0; i < 10; ++i) {
    Entry denied = entry(i % 2 == 0 ? "fs.read" : "fs.write");
    denied.code = i < 5 ? "POLICY_DENIED" : std::string(kOk);
    denied.principal = i == 3 ? "host" : "container/one";
    clock_.pass(Millis(1000));
    ASSERT_TRUE(commit(denied));
  }
  const auto ask = [&](const Query& query) {
    Page page;
    look([&](Database& database) { page = *run_query(database, query); });
    return page;
  };
  EXPECT_EQ(ask({.method = "fs.*"}).records.size(), 10U);
  EXPECT_EQ(ask({.method = "fs.read"}).records.size(), 5U);
  EXPECT_EQ(ask({.principal = "host"}).records.size(), 1U);
  EXPECT_EQ(ask({.decision = "deny"}).records.size(), 5U);
  EXPECT_EQ(ask({.method = "fs.*", .decision = "allow"}).records.size(), 5U);
  EXPECT_EQ(ask({.decision = "POLICY_DENIED"}).records.size(), 5U);
  EXPECT_EQ(ask({.since_ms = clock_.wall_ms - 2000}).records.size(), 3U);
  EXPECT_EQ(ask({.until_ms = clock_.wall_ms - 9000, .method = "fs.*"}).records.size(), 1U);
  const Page first = ask({.method = "fs.*", .limit = 3});
  EXPECT_EQ(first.records.size(), 3U);
  EXPECT_TRUE(first.has_more);
  const Page second = ask({.method = "fs.*", .limit = 100, .cursor = first.cursor});
  EXPECT_EQ(second.records.size(), 7U);
  EXPECT_FALSE(second.has_more);
  EXPECT_EQ(ask({.method = "nothing'; DROP TABLE audit; --"}).records.size(), 0U);
}

// A log that is never folded grows without end, and makes every start slower.
TEST(Database, KnowsHowLongItsLogIsAndFoldsIt) {
  const sallyport::testing::TemporaryDirectory directory;
  for (const auto access : {Database::Access::write, Database::Access::write_lazily}) {
    const std::string path = directory.path() + (access == Database::Access::write ? "/synced" : "/lazy");
    const auto database = Database::open(path, access);
    ASSERT_TRUE(database) << database.error().describe();
    ASSERT_TRUE((*database)->execute("CREATE TABLE t(x)"));
    const int first = (*database)->log_pages();
    EXPECT_GT(first, 0);
    ASSERT_TRUE((*database)->execute("INSERT INTO t VALUES(zeroblob(100000))"));
    EXPECT_GT((*database)->log_pages(), first + 20);
    (*database)->fold_log();
    EXPECT_EQ((*database)->log_pages(), 0);
    // It begins anew instead of growing.
    const auto log_bytes = [&] { return std::filesystem::file_size(path + "-wal"); };
    const auto before = log_bytes();
    ASSERT_TRUE((*database)->execute("INSERT INTO t VALUES(1)"));
    EXPECT_EQ(log_bytes(), before);
  }
}

TEST(Database, WhatIsCommittedLazilySurvivesTheProcess) {
  const sallyport::testing::TemporaryDirectory directory;
  const std::string path = directory.path() + "/lazy";
  const pid_t writer = ::fork();
  if (writer == 0) {
    const auto database = Database::open(path, Database::Access::write_lazily);
    const bool is_done = database && (*database)->execute("CREATE TABLE t(x); INSERT INTO t VALUES(7)");
    ::kill(::getpid(), is_done ? SIGKILL : SIGTERM);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(writer, &status, 0), writer);
  ASSERT_EQ(WTERMSIG(status), SIGKILL);
  const auto database = Database::open(path, Database::Access::read);
  ASSERT_TRUE(database) << database.error().describe();
  auto row = (*database)->prepare("SELECT x FROM t");
  ASSERT_TRUE(row);
  EXPECT_TRUE(*row->step());
  EXPECT_EQ(row->integer(0), 7);
}

}  // namespace
}  // namespace sallyport::ledger
