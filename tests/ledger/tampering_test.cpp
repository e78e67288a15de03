// Whoever owns the files tries to change the past. Each test is an attack.
#include <sqlite3.h>

#include "fixture.h"
#include "ledger/exporter.h"

namespace sallyport::ledger {
namespace {

class Tampering : public LedgerTest {
 protected:
  void SetUp() override {
    Ledger::Options small = options();
    small.export_file_bytes = 2048;
    open(small);
    for (int i = 0; i < 30; ++i) ASSERT_TRUE(commit(entry("method." + std::to_string(i))));
    std::optional<Checkpoint> signed_now;
    ASSERT_TRUE(commit([&](Transaction& transaction) -> Status {
      TRY(signed_now, transaction.checkpoint());
      return ok();
    }));
    kept_ = *signed_now;
    close();
    names_ = files();
    ASSERT_GE(names_.size(), 3U);
    ASSERT_TRUE(verify(kept_).is_intact()) << describe(verify(kept_));
  }

  std::vector<std::string> files() {
    std::vector<std::string> names;
    for (const auto& file : std::filesystem::directory_iterator(audit_directory(directory_.path()))) {
      names.push_back(file.path().string());
    }
    std::sort(names.begin(), names.end());
    return names;
  }

  void sql(const std::string& statement) {
    sqlite3* handle = nullptr;
    ASSERT_EQ(::sqlite3_open(database_path(directory_.path()).c_str(), &handle), SQLITE_OK);
    char* error = nullptr;
    EXPECT_EQ(::sqlite3_exec(handle, statement.c_str(), nullptr, nullptr, &error), SQLITE_OK) << error;
    ::sqlite3_free(error);
    ::sqlite3_close(handle);
  }

  // Computes every hash anew, as an adversary without the key can.
  void rehash() {
    const auto database = Database::open(database_path(directory_.path()), Database::Access::write);
    ASSERT_TRUE(database);
    const auto records = read_records(**database, 0, 1000);
    ASSERT_TRUE(records);
    Digest prev{};
    for (Record record : *records) {
      record.prev = prev;
      prev = hash_of(record);
      auto update = (*database)->prepare("UPDATE audit SET prev = ?, hash = ? WHERE seq = ?");
      ASSERT_TRUE(update);
      update->bind(ByteView(record.prev)).bind(ByteView(prev)).bind(static_cast<std::int64_t>(record.seq));
      ASSERT_TRUE(update->run());
    }
  }

  Checkpoint kept_;
  std::vector<std::string> names_;
};

// ---- the database ----

TEST_F(Tampering, AttackEditARecordOfTheLedger) {
  sql("UPDATE audit SET code = 'OK', method = 'innocent' WHERE seq = 5");
  EXPECT_TRUE(mentions(verify(), "ledger", "was changed"));
}

TEST_F(Tampering, AttackEditTheTypeOfAField) {
  sql("UPDATE audit SET payload_sha256 = x'00' WHERE seq = 5");
  EXPECT_FALSE(verify().is_intact());
}

TEST_F(Tampering, AttackDeleteARecordOfTheLedger) {
  sql("DELETE FROM audit WHERE seq = 5");
  EXPECT_TRUE(mentions(verify(), "ledger", "records 5 to 5 were removed"));
}

TEST_F(Tampering, AttackDeleteARecordAndCloseTheGap) {
  sql("DELETE FROM audit WHERE seq = 5; UPDATE audit SET seq = -seq WHERE seq > 5;"
      "UPDATE audit SET seq = -seq - 1 WHERE seq < 0");
  EXPECT_TRUE(mentions(verify(), "ledger", "was changed"));
}

TEST_F(Tampering, AttackReorderRecordsOfTheLedger) {
  sql("UPDATE audit SET seq = -5 WHERE seq = 5; UPDATE audit SET seq = 5 WHERE seq = 6;"
      "UPDATE audit SET seq = 6 WHERE seq = -5");
  EXPECT_FALSE(verify().is_intact());
}

TEST_F(Tampering, AttackTruncateTheLedger) {
  sql("DELETE FROM audit WHERE seq > 20");
  const Report report = verify();
  EXPECT_TRUE(mentions(report, "ledger", "cut off")) << describe(report);
}

TEST_F(Tampering, AttackTruncateTheLedgerAndItsCheckpoints) {
  sql("DELETE FROM audit WHERE seq > 20; DELETE FROM checkpoints");
  EXPECT_TRUE(mentions(verify(), "ledger", "the files hold record"));
}

TEST_F(Tampering, AttackEmptyTheLedger) {
  sql("DELETE FROM audit; DELETE FROM checkpoints");
  EXPECT_FALSE(verify().is_intact());
}

TEST_F(Tampering, AttackRewriteHistoryWithoutTheKey) {
  sql("UPDATE audit SET method = 'innocent' WHERE seq = 5");
  rehash();
  const Report report = verify();
  EXPECT_TRUE(mentions(report, "checkpoint", "history was rewritten")) << describe(report);
}

TEST_F(Tampering, AttackForgeACheckpoint) {
  sql("UPDATE checkpoints SET signature = zeroblob(64)");
  EXPECT_TRUE(mentions(verify(), "checkpoint", "signature does not fit"));
}

TEST_F(Tampering, AttackExchangeTheKeyInTheLedger) {
  sql("UPDATE meta SET value = '" + to_hex(SigningKey::generate().public_key()) + "' WHERE name = 'public_key'");
  EXPECT_TRUE(mentions(verify(), "audit.key", "names another key"));
}

TEST_F(Tampering, AttackRemoveTheKey) {
  std::filesystem::remove(key_path(directory_.path()));
  EXPECT_TRUE(mentions(verify(), "audit.key", "missing"));
}

TEST_F(Tampering, AttackExchangeTheKeyEverywhere) {
  // With a key of one's own everything inside can be made to fit; the kept checkpoint names the old one.
  ASSERT_TRUE(SigningKey::generate().save(key_path(directory_.path())));
  sql("UPDATE meta SET value = '" + to_hex(SigningKey::generate().public_key()) + "' WHERE name = 'public_key'");
  EXPECT_TRUE(mentions(verify(kept_), "kept checkpoint", "another key"));
}

// ---- the files ----

TEST_F(Tampering, AttackEditALineOfAFile) {
  std::string text = read_text(names_[1]);
  text.replace(text.find("method."), 7, "mathod.");
  write_text(names_[1], text);
  EXPECT_TRUE(mentions(verify(), "audit-", "was changed"));
}

TEST_F(Tampering, AttackEditALineAndItsHash) {
  std::string text = read_text(names_[1]);
  const std::string line = text.substr(0, text.find('\n'));
  wire::Decoder decoder;
  Record record = *parse_line(decoder, line);
  record.entry.code = "OK";
  record.entry.method = "innocent";
  record.hash = hash_of(record);
  write_text(names_[1], to_line(record) + text.substr(line.size()));
  EXPECT_TRUE(mentions(verify(), "audit-", "is not what the ledger holds"));
}

TEST_F(Tampering, AttackAddASpaceToALine) {
  std::string text = read_text(names_[0]);
  text.insert(text.find('\n'), " ");
  write_text(names_[0], text);
  EXPECT_TRUE(mentions(verify(), "audit-", "not a record as it was written"));
}

TEST_F(Tampering, AttackDeleteALineOfAFile) {
  std::string text = read_text(names_[1]);
  const std::size_t first = text.find('\n'), second = text.find('\n', first + 1);
  text.erase(first, second - first);
  write_text(names_[1], text);
  EXPECT_TRUE(mentions(verify(), "audit-", "are missing"));
}

TEST_F(Tampering, AttackReorderLinesOfAFile) {
  std::string text = read_text(names_[0]);
  const std::size_t first = text.find('\n') + 1, second = text.find('\n', first) + 1;
  write_text(names_[0], text.substr(first, second - first) + text.substr(0, first) + text.substr(second));
  EXPECT_TRUE(mentions(verify(), "audit-", "out of order"));
}

TEST_F(Tampering, AttackRepeatALine) {
  const std::string text = read_text(names_[0]);
  write_text(names_[0], text.substr(0, text.find('\n') + 1) + text);
  EXPECT_TRUE(mentions(verify(), "audit-", "comes again"));
}

TEST_F(Tampering, AttackInsertALine) {
  std::string text = read_text(names_[0]);
  text.insert(text.find('\n') + 1, "{\"seq\":2,\"method\":\"forged\"}\n");
  write_text(names_[0], text);
  EXPECT_TRUE(mentions(verify(), "audit-", "changed or inserted"));
}

TEST_F(Tampering, AttackTruncateTheLastFile) {
  const std::string text = read_text(names_.back());
  write_text(names_.back(), text.substr(0, text.find('\n') + 1));
  EXPECT_TRUE(mentions(verify(), "audit", "the files end at record"));
}

TEST_F(Tampering, AttackTruncateTheLastFileInsideALine) {
  const std::string text = read_text(names_.back());
  write_text(names_.back(), text.substr(0, text.size() - 10));
  EXPECT_TRUE(mentions(verify(), "audit-", "ends inside a line"));
}

TEST_F(Tampering, AttackRotateWithAGap) {
  std::filesystem::remove(names_[1]);
  EXPECT_TRUE(mentions(verify(), "audit-", "are missing"));
}

TEST_F(Tampering, AttackDeleteTheOldestFile) {
  std::filesystem::remove(names_[0]);
  EXPECT_TRUE(mentions(verify(), "audit-", "are missing"));
}

TEST_F(Tampering, AttackDeleteTheNewestFile) {
  std::filesystem::remove(names_.back());
  EXPECT_TRUE(mentions(verify(), "audit", "the files end at record"));
}

TEST_F(Tampering, AttackDeleteAllFiles) {
  std::filesystem::remove_all(audit_directory(directory_.path()));
  EXPECT_TRUE(mentions(verify(), "audit", "the files end at record 0"));
}

TEST_F(Tampering, AttackEmptyAFile) {
  write_text(names_[1], "");
  EXPECT_TRUE(mentions(verify(), "audit-", "was emptied"));
}

TEST_F(Tampering, AttackRenameAFileIntoAnotherPlace) {
  std::filesystem::rename(names_[1], audit_directory(directory_.path()) + "/" + export_file_name(99));
  EXPECT_FALSE(verify().is_intact());
}

TEST_F(Tampering, ARestartDoesNotHideATruncatedFile) {
  const std::string text = read_text(names_.back());
  write_text(names_.back(), text.substr(0, text.find('\n') + 1));
  open();
  EXPECT_FALSE(ledger_->health().is_good());
  ASSERT_TRUE(commit(entry("afterwards")));
  EXPECT_FALSE(ledger_->health().is_good());
  close();
  EXPECT_TRUE(mentions(verify(), "audit-", "are missing")) << describe(verify());
}

TEST_F(Tampering, ARestartDoesNotHideDeletedFiles) {
  for (const std::string& name : names_) std::filesystem::remove(name);
  open();
  EXPECT_FALSE(ledger_->health().is_good());
  ASSERT_TRUE(commit(entry("afterwards")));
  close();
  EXPECT_FALSE(verify().is_intact());
}

// ---- everything at once ----

TEST_F(Tampering, AttackRollBackEverythingIsFoundWithAKeptCheckpoint) {
  const TemporaryDirectory backup;
  std::filesystem::copy(directory_.path(), backup.path() + "/old", std::filesystem::copy_options::recursive);
  open();
  ASSERT_TRUE(commit(entry("the deed")));
  std::optional<Checkpoint> after;
  ASSERT_TRUE(commit([&](Transaction& transaction) -> Status {
    TRY(after, transaction.checkpoint());
    return ok();
  }));
  close();
  EXPECT_TRUE(verify(after).is_intact());
  std::filesystem::remove_all(directory_.path());
  std::filesystem::copy(backup.path() + "/old", directory_.path(), std::filesystem::copy_options::recursive);
  EXPECT_TRUE(verify().is_intact());  // inside, nothing is left to tell
  EXPECT_TRUE(mentions(verify(after), "kept checkpoint", "rolled back"));
}

TEST_F(Tampering, AttackReplaceEverythingIsFoundWithAKeptCheckpoint) {
  std::filesystem::remove_all(directory_.path());
  open();
  for (int i = 0; i < 40; ++i) ASSERT_TRUE(commit(entry("innocent")));
  close();
  EXPECT_TRUE(verify().is_intact());
  const Report report = verify(kept_);
  EXPECT_TRUE(mentions(report, "kept checkpoint", "another key")) << describe(report);
  EXPECT_TRUE(mentions(report, "kept checkpoint", "history was rewritten")) << describe(report);
}

TEST_F(Tampering, AttackEditTheKeptCheckpoint) {
  std::string json = to_json(kept_);
  ASSERT_TRUE(parse_checkpoint(json));
  json.replace(json.find("\"seq\":") + 6, 1, "9");
  const auto edited = parse_checkpoint(json);
  ASSERT_FALSE(edited);
  EXPECT_EQ(edited.error().code, Code::invalid_params);
}

TEST_F(Tampering, ADamagedPageIsFoundAndTheRestIsStillChecked) {
  // More than a page of them.
  open();
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(commit(entry("method.more")));
  ledger_.reset();
  const std::string path = database_path(directory_.path());
  const std::string content = read_text(path);
  constexpr std::size_t kPage = 4096;
  constexpr char kLeafOfATable = 0x0d;
  int read_on = 0;
  for (std::size_t at = kPage; at + kPage <= content.size(); at += kPage) {
    const bool has_records = content.substr(at, kPage).find("method.") != std::string::npos;
    if (content[at] != kLeafOfATable || !has_records) continue;
    std::string damaged = content;
    damaged.replace(at, kPage, kPage, '\0');
    write_text(path, damaged);
    const auto report = verify_state(directory_.path(), std::nullopt, std::nullopt);
    // Without the page with the last record it is not known where the ledger ends.
    if (!report) continue;
    EXPECT_FALSE(report->is_intact());
    EXPECT_TRUE(mentions(*report, "ledger", "cannot be read")) << describe(*report);
    read_on += report->records > 0 ? 1 : 0;
  }
  write_text(path, content);
  EXPECT_GT(read_on, 0) << "what lies on other pages is checked";
}

TEST_F(Tampering, ALedgerThatEndsBeforeItsFilesStopsTheStart) {
  sql("DELETE FROM audit WHERE seq > 20; DELETE FROM checkpoints WHERE seq > 20");
  const auto opened = Ledger::open(options());
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().code, Code::conflict);
  EXPECT_NE(opened.error().message.find("ends at record 20"), std::string::npos) << opened.error().message;
}

TEST_F(Tampering, AnEmptiedLedgerStopsTheStart) {
  for (const char* suffix : {"", "-wal", "-shm"}) std::filesystem::remove(database_path(directory_.path()) + suffix);
  const auto opened = Ledger::open(options());
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().code, Code::conflict);
}

TEST_F(Tampering, AChangedEndStopsTheStart) {
  sql("UPDATE audit SET method = 'x' WHERE seq = (SELECT max(seq) FROM audit)");
  const auto reopened = Ledger::open(options());
  ASSERT_FALSE(reopened);
  EXPECT_EQ(reopened.error().code, Code::conflict);
}

TEST_F(Tampering, GarbageInPlaceOfTheDatabaseStopsTheStart) {
  write_text(database_path(directory_.path()), std::string(8192, 'x'));
  EXPECT_FALSE(Ledger::open(options()));
}

}  // namespace
}  // namespace sallyport::ledger
