// Disks that fail: nothing acknowledged is lost, nothing unacknowledged is done, and it goes on afterwards.
#include <fcntl.h>
#include <sqlite3.h>

#include <thread>

#include "faulty_vfs.h"
#include "fixture.h"
#include "ledger/layout.h"
#include "ledger/queue.h"
#include "small_filesystem.h"

namespace sallyport::ledger {
namespace {

class Faulty : public LedgerTest {
 protected:
  void SetUp() override {
    Ledger::Options with = options();
    with.vfs = kFaultyVfs;
    faults_.on_write = 0;
    faults_.on_sync = 0;
    open(with);
  }
  void TearDown() override {
    faults_.on_write = 0;
    faults_.on_sync = 0;
  }
  Faults& faults_ = faulty_vfs();
};

TEST_F(Faulty, EioOnFsyncFailsWhatIsDurableAndRunsNothing) {
  ASSERT_TRUE(commit(entry("before")));
  const std::uint64_t last = ledger_->health().last_seq;
  faults_.on_sync = SQLITE_IOERR_FSYNC;
  const Status failed = commit(entry("lost"));
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().code, Code::unavailable);
  EXPECT_TRUE(failed.error().retryable);
  EXPECT_FALSE(ledger_->health().is_writable);
  EXPECT_EQ(ledger_->health().last_seq, last);
  faults_.on_sync = 0;
  ASSERT_TRUE(commit(entry("after")));
  EXPECT_TRUE(ledger_->health().is_good()) << ledger_->health().error;
  close();
  const Report report = verify();
  EXPECT_TRUE(report.is_intact()) << describe(report);
  const std::string file = read_text(audit_directory(directory_.path()) + "/" + export_file_name(1));
  EXPECT_EQ(file.find("\"lost\""), std::string::npos);
  EXPECT_NE(file.find("\"after\""), std::string::npos);
}

TEST_F(Faulty, EveryDurableCommitIsSynced) {
  ASSERT_TRUE(commit(entry("first")));
  const int before = faults_.syncs;
  ASSERT_TRUE(commit(entry("second")));
  EXPECT_GT(faults_.syncs, before);
}

TEST_F(Faulty, ACommitIsHandedToTheKernelInOnePiece) {
  ASSERT_TRUE(commit(entry("first")));
  const int before = faults_.writes;
  ASSERT_TRUE(commit(entry("second")));
  EXPECT_EQ(faults_.writes, before + 1);
}

TEST_F(Faulty, WhatWaitsForTheDiskIsNotDoneWhenItFails) {
  bool was_done = false;
  const auto with_sequel = [&] {
    Submission submission;
    submission.entries.push_back(entry("x"));
    submission.on_disk = [&] { was_done = true; };
    return submission;
  };
  faults_.on_sync = SQLITE_IOERR_FSYNC;
  EXPECT_FALSE(commit(with_sequel()));
  EXPECT_FALSE(was_done);
  faults_.on_sync = 0;
  EXPECT_TRUE(commit(with_sequel()));
  EXPECT_TRUE(was_done) << "before the completion";
}

TEST_F(Faulty, AnIoErrorOnWriteFailsAndRecovers) {
  faults_.on_write = SQLITE_IOERR_WRITE;
  for (int i = 0; i < 5; ++i) ASSERT_FALSE(commit(entry("lost")));
  faults_.on_write = 0;
  ASSERT_TRUE(commit(entry("after")));
  close();
  EXPECT_TRUE(verify().is_intact()) << describe(verify());
}

TEST_F(Faulty, WhatIsBufferedWaitsForTheDiskInOrder) {
  ASSERT_TRUE(commit(entry("first")));
  faults_.on_write = SQLITE_FULL;
  for (int i = 0; i < 20; ++i) ASSERT_TRUE(ledger_->append(entry("kept." + std::to_string(i))));
  ASSERT_FALSE(commit(entry("refused")));
  faults_.on_write = 0;
  ASSERT_TRUE(commit(entry("last")));
  std::vector<Record> records;
  look([&](Database& database) { records = *read_records(database, 2, 100); });
  ASSERT_EQ(records.size(), 21U);
  for (std::size_t i = 0; i < 20; ++i) EXPECT_EQ(records[i].entry.method, "kept." + std::to_string(i));
  EXPECT_EQ(records[20].entry.method, "last");
}

TEST_F(Faulty, WhatIsBufferedIsWrittenWithoutAnybodyAskingOnceTheDiskWorksAgain) {
  ASSERT_TRUE(commit(entry("first")));
  faults_.on_write = SQLITE_FULL;
  ASSERT_TRUE(ledger_->append(entry("kept")));
  while (ledger_->health().failures == 0) std::this_thread::yield();
  faults_.on_write = 0;
  while (ledger_->health().last_seq < 3) std::this_thread::yield();
}

TEST_F(Faulty, HealthIsGoodAgainWithoutAnybodyWriting) {
  ASSERT_TRUE(commit(entry("before")));
  faults_.on_write = SQLITE_FULL;
  ASSERT_FALSE(commit(entry("lost")));
  EXPECT_FALSE(ledger_->health().is_good());
  faults_.on_write = 0;
  for (int i = 0; i < 3000 && !ledger_->health().is_good(); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  EXPECT_TRUE(ledger_->health().is_good());
  close();
}

TEST_F(Faulty, ABacklogThatIsFullRefusesAndSaysLaterHowMuchWasLost) {
  ASSERT_TRUE(commit(entry("first")));
  faults_.on_write = SQLITE_FULL;
  std::size_t taken = 0;
  Status status = ok();
  while ((status = ledger_->append(entry("x")))) ++taken;
  EXPECT_EQ(status.error().code, Code::unavailable);
  EXPECT_GE(taken, kMaxBacklog / 2);
  faults_.on_write = 0;
  ASSERT_TRUE(commit(entry("last")));
  close();
  const Report report = verify();
  EXPECT_TRUE(report.is_intact()) << describe(report);
  EXPECT_GE(report.records, taken);
  std::string all;
  for (const auto& file : std::filesystem::directory_iterator(audit_directory(directory_.path()))) {
    all += read_text(file.path());
  }
  EXPECT_NE(all.find("\"ledger.dropped\""), std::string::npos);
}

TEST_F(Faulty, AQueryWorksWhileTheDiskCannotBeWritten) {
  ASSERT_TRUE(commit(entry("first")));
  faults_.on_write = SQLITE_FULL;
  ASSERT_FALSE(commit(entry("refused")));
  std::size_t found = 0;
  look([&](Database& database) { found = read_records(database, 0, 100)->size(); });
  EXPECT_EQ(found, 2U);
}

TEST_F(Faulty, ClosingOnAFailingDiskSaysThatTheEndIsLost) {
  ASSERT_TRUE(commit(entry("first")));
  faults_.on_write = SQLITE_FULL;
  ASSERT_TRUE(ledger_->append(entry("lost")));
  const Status closed = ledger_->close();
  ASSERT_FALSE(closed);
  EXPECT_EQ(closed.error().code, Code::unavailable);
  ledger_.reset();
  faults_.on_write = 0;
  EXPECT_TRUE(verify().is_intact()) << describe(verify());
}

// More of it than one commit takes.
TEST_F(Faulty, NobodyWaitsBehindABacklogThatCannotBeWritten) {
  ASSERT_TRUE(commit(entry("first")));
  faults_.on_write = SQLITE_FULL;
  for (std::size_t i = 0; i < kMaxGroup + 1000; ++i) ASSERT_TRUE(ledger_->append(entry("waits")));
  const Status failed = commit(entry("durable"));
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().code, Code::unavailable);
  EXPECT_FALSE(ledger_->close()) << "it ends, and says what is lost";
  ledger_.reset();
  faults_.on_write = 0;
  EXPECT_TRUE(verify().is_intact()) << describe(verify());
}

// ---- real file systems ----

#define ON_SMALL_FILESYSTEM(options, scenario)                                                     \
  if (const std::string found = on_small_filesystem(options, scenario); found.starts_with("skip")) \
    GTEST_SKIP() << found;                                                                         \
  else                                                                                             \
    EXPECT_EQ(found, "")

// A ledger in a child process, without GoogleTest's help.
struct Scenario {
  explicit Scenario(const std::string& mount_point) : directory(mount_point + "/state") {}

  std::string open() {
    auto opened = Ledger::open({.state_dir = directory, .clock = clock, .export_file_bytes = 16 << 10});
    if (!opened) return opened.error().describe();
    ledger = std::move(*opened);
    ledger->start(inbox.post());
    return "";
  }
  Status commit(const Entry& durable, bool may_use_reserve = false) {
    std::optional<Status> result;
    Submission submission;
    submission.may_use_reserve = may_use_reserve;
    submission.entries.push_back(durable);
    submission.done = [&](Status status) { result = std::move(status); };
    ledger->submit(std::move(submission));
    inbox.run_until([&] { return result.has_value(); });
    return *result;
  }
  // Closes, verifies, and checks that what was acknowledged is there.
  std::string settle(std::uint64_t acknowledged) {
    if (const Status closed = ledger->close(); !closed) return "close: " + closed.error().describe();
    ledger.reset();
    const auto report = verify_state(directory, {}, {});
    if (!report) return "verify: " + report.error().describe();
    if (!report->is_intact()) return to_json(*report);
    if (!report->note.empty()) return report->note;
    if (report->records != acknowledged + 2) return "records: " + std::to_string(report->records);
    return "";
  }

  std::string directory;
  SystemClock clock;
  Inbox inbox;
  std::unique_ptr<Ledger> ledger;
};

TEST(RealDisk, DiskFullStopsAndRecoversAndLosesNothing) {
  ON_SMALL_FILESYSTEM("size=2m", [](const std::string& mount_point) -> std::string {
    Scenario scenario(mount_point);
    if (const std::string failed = scenario.open(); !failed.empty()) return failed;
    std::uint64_t acknowledged = 0;
    for (int i = 0; i < 20; ++i) acknowledged += scenario.commit(entry("before")) ? 1 : 0;
    if (acknowledged != 20) return "could not write to an empty disk";
    // Somebody else fills the disk to the last byte.
    const std::string filler = mount_point + "/filler";
    {
      const UniqueFd fd{::open(filler.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600)};
      const std::string block(4096, 'x');
      while (::write(fd.get(), block.data(), block.size()) > 0) {
      }
    }
    int refused = 0;
    for (int i = 0; i < 400; ++i) {
      if (scenario.commit(entry("on a full disk"))) {
        ++acknowledged;
      } else {
        ++refused;
      }
    }
    if (refused == 0) return "nothing was refused on a full disk";
    if (scenario.ledger->health().is_good()) return "health says that all is well";
    std::filesystem::remove(filler);
    for (int i = 0; i < 20; ++i) {
      if (!scenario.commit(entry("after"))) return "did not recover";
      ++acknowledged;
    }
    return scenario.settle(acknowledged);
  });
}

TEST(RealDisk, RoomIsKeptBackForWhatStopsThings) {
  ON_SMALL_FILESYSTEM("size=8m", [](const std::string& mount_point) -> std::string {
    Scenario scenario(mount_point);
    if (const std::string failed = scenario.open(); !failed.empty()) return failed;
    const std::string filler = mount_point + "/filler";
    {
      const UniqueFd fd{::open(filler.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600)};
      const std::string block(4096, 'x');
      while (::write(fd.get(), block.data(), block.size()) > 0) {
      }
    }
    std::uint64_t acknowledged = 0;
    while (scenario.commit(entry("on a full disk"))) ++acknowledged;
    for (int i = 0; i < 10; ++i) {
      if (!scenario.commit(entry("stop"), true)) return "the reserve was of no use";
      ++acknowledged;
    }
    // And it is kept back again once there is room.
    std::filesystem::remove(filler);
    if (!scenario.commit(entry("after"))) return "did not recover";
    ++acknowledged;
    if (std::filesystem::file_size(reserve_path(scenario.directory)) == 0) return "the reserve was not taken again";
    return scenario.settle(acknowledged);
  });
}

TEST(RealDisk, InodesExhaustedStopsTheExportAndNotTheLedger) {
  ON_SMALL_FILESYSTEM("size=8m,nr_inodes=20", [](const std::string& mount_point) -> std::string {
    Scenario scenario(mount_point);
    if (const std::string failed = scenario.open(); !failed.empty()) return failed;
    if (!scenario.commit(entry("first"))) return "could not write to an empty disk";
    std::uint64_t acknowledged = 1;
    std::vector<std::string> fillers;
    for (int i = 0;; ++i) {
      const std::string name = mount_point + "/filler" + std::to_string(i);
      const UniqueFd fd{::open(name.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600)};
      if (!fd) break;
      fillers.push_back(name);
    }
    // Enough to need a new file; the ledger itself needs none.
    for (int i = 0; i < 200; ++i) {
      if (!scenario.commit(entry("without inodes"))) return "the ledger stopped";
      ++acknowledged;
    }
    if (scenario.ledger->health().is_good()) return "health says that all is well";
    for (const std::string& name : fillers) std::filesystem::remove(name);
    if (!scenario.commit(entry("after"))) return "did not recover";
    ++acknowledged;
    if (!scenario.ledger->health().is_good()) return "not well again: " + scenario.ledger->health().error;
    return scenario.settle(acknowledged);
  });
}

TEST(RealDisk, InodesExhaustedBeforeTheStartIsAClearError) {
  ON_SMALL_FILESYSTEM("size=8m,nr_inodes=3", [](const std::string& mount_point) -> std::string {
    Scenario scenario(mount_point);
    return scenario.open().empty() ? "it started" : "";
  });
}

}  // namespace
}  // namespace sallyport::ledger
