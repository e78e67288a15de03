#include "ledger/journal.h"

#include "fixture.h"

namespace sallyport::ledger {
namespace {

class JournalTest : public LedgerTest {
 protected:
  void SetUp() override { open(); }

  static JournalRow fresh(const JournalKey& key, const std::string& payload) {
    JournalRow row;
    row.key = key;
    row.subject = "schedule_task";
    row.state = "accepted";
    row.sha256 = wire::sha256(as_bytes(payload));
    row.payload = payload;
    return row;
  }
  Result<Accepted> accept_one(const JournalKey& key, const std::string& payload) {
    Result<Accepted> result = Error::make(Code::internal_error, "never ran");
    const Status status = commit([&](Transaction& transaction) -> Status {
      TRY(Accepted accepted, accept(transaction, fresh(key, payload), entry("signal.accept", Stage::event)));
      result = std::move(accepted);
      return ok();
    });
    if (!status) return status.error();
    return result;
  }
  Status advance_one(const std::string& from, const std::string& to, std::optional<std::string_view> answer = {}) {
    return commit([&](Transaction& transaction) {
      return advance(transaction, key_, {.from = from, .to = to, .is_open = !answer, .answer = answer},
                     entry("signal." + to, Stage::event));
    });
  }
  JournalRow row() {
    JournalRow found;
    look([&](Database& database) { found = **find_row(database, key_); });
    return found;
  }
  std::uint64_t records() { return ledger_->health().last_seq; }

  const JournalKey key_{.container = "one", .request_id = "6ba7b810"};
};

TEST_F(JournalTest, ARequestIsAcceptedExactlyOnce) {
  const auto first = accept_one(key_, "payload");
  ASSERT_TRUE(first) << first.error().describe();
  EXPECT_TRUE(first->is_new);
  const std::uint64_t before = records();
  const auto again = accept_one(key_, "payload");
  ASSERT_TRUE(again);
  EXPECT_FALSE(again->is_new);
  EXPECT_EQ(again->row.payload, "payload");
  EXPECT_EQ(records(), before);
}

TEST_F(JournalTest, TheSameIdWithOtherBytesIsAConflict) {
  ASSERT_TRUE(accept_one(key_, "payload"));
  const auto other = accept_one(key_, "Payload");
  ASSERT_FALSE(other);
  EXPECT_EQ(other.error().code, Code::conflict);
  EXPECT_EQ(row().payload, "payload");
}

TEST_F(JournalTest, TheSameIdOfAnotherContainerIsAnotherRequest) {
  ASSERT_TRUE(accept_one(key_, "payload"));
  const auto other = accept_one({.container = "two", .request_id = key_.request_id}, "other");
  ASSERT_TRUE(other);
  EXPECT_TRUE(other->is_new);
}

TEST_F(JournalTest, TwoSubmissionsInOneCommitAcceptOnce) {
  int accepted_new = 0, done = 0;
  for (int i = 0; i < 10; ++i) {
    Submission submission;
    submission.work = [&](Transaction& transaction) -> Status {
      TRY(const Accepted accepted, accept(transaction, fresh(key_, "payload"), entry("signal.accept")));
      accepted_new += accepted.is_new ? 1 : 0;
      return ok();
    };
    submission.done = [&](const Status&) { ++done; };
    ledger_->submit(std::move(submission));
  }
  inbox_.run_until([&] { return done == 10; });
  EXPECT_EQ(accepted_new, 1);
}

TEST_F(JournalTest, AnEdgeIsTakenOnceAndRecordedWithIt) {
  ASSERT_TRUE(accept_one(key_, "payload"));
  const std::uint64_t before = records();
  ASSERT_TRUE(advance_one("accepted", "decided"));
  EXPECT_EQ(records(), before + 1);
  const Status again = advance_one("accepted", "decided");
  ASSERT_FALSE(again);
  EXPECT_EQ(again.error().code, Code::conflict);
  EXPECT_EQ(records(), before + 1);
  EXPECT_EQ(row().state, "decided");
}

TEST_F(JournalTest, TheStoredAnswerSurvivesLaterEdgesAndRestarts) {
  ASSERT_TRUE(accept_one(key_, "payload"));
  ASSERT_TRUE(advance_one("accepted", "done", R"({"ok":true})"));
  ASSERT_TRUE(advance_one("done", "answered"));
  close();
  open();
  EXPECT_EQ(row().answer, R"({"ok":true})");
  EXPECT_EQ(row().state, "answered");
}

TEST_F(JournalTest, AnUnknownRequestCannotAdvance) {
  const Status status = advance_one("accepted", "decided");
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, Code::not_found);
}

TEST_F(JournalTest, ARowIsForgottenOnlyFromTheStateExpected) {
  ASSERT_TRUE(accept_one(key_, "payload"));
  const auto forget_from = [&](const char* state) {
    return commit([&, state](Transaction& transaction) { return forget(transaction, key_, state, entry("expire")); });
  };
  EXPECT_FALSE(forget_from("answered"));
  EXPECT_TRUE(forget_from("accepted"));
  look([&](Database& database) { EXPECT_FALSE(find_row(database, key_)->has_value()); });
}

TEST_F(JournalTest, OpenRowsAreFoundInTheOrderOfAcceptance) {
  for (int i = 0; i < 5; ++i) {
    ASSERT_TRUE(accept_one({.container = "one", .request_id = std::to_string(i)}, "payload"));
  }
  ASSERT_TRUE(accept_one(key_, "payload"));
  ASSERT_TRUE(advance_one("accepted", "answered", "{}"));
  std::vector<JournalRow> first, rest, answered;
  look([&](Database& database) {
    first = *open_rows(database, 0, 3);
    rest = *open_rows(database, first.back().number, 100);
    answered = *answered_rows(database, 0, 100);
  });
  ASSERT_EQ(first.size(), 3U);
  EXPECT_EQ(first[0].key.request_id, "0");
  EXPECT_EQ(first[0].payload, "payload");
  EXPECT_EQ(rest.size(), 2U);
  ASSERT_EQ(answered.size(), 1U);
  EXPECT_EQ(answered[0].key.request_id, key_.request_id);
}

TEST_F(JournalTest, ATombstoneKeepsItsIdAndNothingElse) {
  ASSERT_TRUE(accept_one(key_, "payload"));
  ASSERT_TRUE(advance_one("accepted", "answered", "{}"));
  ASSERT_TRUE(commit([&](Transaction& transaction) { return entomb(transaction, key_, "expired"); }));
  EXPECT_EQ(row().state, "expired");
  EXPECT_EQ(row().payload, "");
  EXPECT_EQ(row().answer, std::nullopt);
  const auto again = accept_one(key_, "payload");
  ASSERT_TRUE(again);
  EXPECT_FALSE(again->is_new);
}

TEST_F(JournalTest, BinaryAndEmptyPayloadsAreKeptAsTheyAre) {
  const std::string binary("\0\xff\n", 3);
  ASSERT_TRUE(accept_one(key_, binary));
  EXPECT_EQ(row().payload, binary);
  ASSERT_TRUE(accept_one({.container = "one", .request_id = "empty"}, ""));
}

}  // namespace
}  // namespace sallyport::ledger
