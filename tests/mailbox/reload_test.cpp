// A reload while a request is reviewed: what runs is what is configured now, and a human's word is about that.
#include <gtest/gtest.h>
#include <sqlite3.h>

#include <functional>
#include <string>
#include <vector>

#include "ledger/faulty_vfs.h"
#include "mailbox/office.h"

namespace sallyport::testing {
namespace {

class MailReload : public ::testing::Test {
 protected:
  ~MailReload() override { faults_.on_write = 0; }

  mailbox::Signal signal(const std::string& name = "ask") {
    mailbox::Signal signal;
    signal.name = name;
    signal.tier = 2;
    signal.action = [this](const Permit&, const mailbox::Raised&) {
      ++actions_;
      return Task<Result<std::string>>::ready(std::string("{}"));
    };
    return signal;
  }
  void use(std::vector<mailbox::Signal> signals) { office_.mailbox().replace_signals(std::move(signals)); }
  // A human is asked about a request.
  void ask() {
    office_.mailbox().start();
    office_.drop(kId, "ask");
    ASSERT_TRUE(office_.until([&] { return office_.questions() == 1; }));
  }
  void approve() {
    office_.loop().post(
        [this] { office_.say({.kind = approval::Verdict::Kind::approved, .payload = {}, .why = {}, .by = "test"}); });
  }
  bool replies(const std::string& part) {
    return office_.until([&] { return office_.reply(kId).find(part) != std::string::npos; });
  }
  // The ledger cannot be written until the policy is another one.
  void reload_during_an_outage() {
    const std::uint64_t before = office_.ledger().health().failures;
    ASSERT_TRUE(office_.until([&] { return office_.ledger().health().failures > before; }));
    office_.reload("other commands");
    faults_.on_write = 0;
  }
  void expect_that_a_human_is_asked_again() {
    ASSERT_TRUE(office_.until([&] { return office_.questions() == 2 || office_.actions() + actions_ != 0; }));
    EXPECT_EQ(office_.actions() + actions_, 0);
    approve();
    EXPECT_TRUE(replies(R"("result":{})"));
    EXPECT_EQ(office_.actions() + actions_, 1);
    EXPECT_EQ(office_.questions(), 2);
  }

  static constexpr const char* kId = "00000000-0000-4000-8000-000000000001";
  ledger::Faults& faults_ = ledger::faulty_vfs();
  Office office_{ledger::kFaultyVfs};
  int actions_ = 0;
};

TEST_F(MailReload, WhatRunsAfterAReviewIsWhatIsConfiguredThen) {
  ask();
  use({signal()});
  approve();
  EXPECT_TRUE(replies(R"("result":{})"));
  EXPECT_EQ(office_.actions(), 0);
  EXPECT_EQ(actions_, 1);
}

TEST_F(MailReload, ASignalThatIsConfiguredNoMoreDoesNotRunAfterItsReview) {
  ask();
  use({});
  approve();
  EXPECT_TRUE(replies("METHOD_NOT_FOUND"));
  EXPECT_EQ(office_.actions(), 0);
}

TEST_F(MailReload, APayloadThatTheSignalNoLongerTakesDoesNotRunAfterItsReview) {
  static constexpr wire::Field kFields[] = {{.name = "text", .type = wire::Type::string, .required = true}};
  ask();
  mailbox::Signal other = signal();
  other.payload = kFields;
  use({other});
  approve();
  EXPECT_TRUE(replies("INVALID_PARAMS"));
  EXPECT_EQ(office_.actions() + actions_, 0);
}

TEST_F(MailReload, AttackAnApprovalThatTheLedgerKeptWaitingThroughAReload) {
  ask();
  faults_.on_write = SQLITE_FULL;
  approve();
  reload_during_an_outage();
  expect_that_a_human_is_asked_again();
}

TEST_F(MailReload, AttackAnActionThatTheLedgerKeptWaitingThroughAReload) {
  bool is_armed = false;
  mailbox::Signal asked = signal();
  // The last thing that is looked at before the journal is told that it begins.
  asked.check = [&](const mailbox::Raised&) {
    if (is_armed) faults_.on_write = SQLITE_FULL;
    is_armed = false;
    return ok();
  };
  use({asked});
  ask();
  is_armed = true;
  approve();
  reload_during_an_outage();
  expect_that_a_human_is_asked_again();
}

TEST_F(MailReload, AttackADeputysApprovalThatOutlivesItsPolicy) {
  use({signal("both")});
  office_.mailbox().start();
  office_.drop(kId, "both");
  ASSERT_TRUE(office_.until([&] { return office_.questions() == 1; }));
  EXPECT_EQ(office_.reviews(), 1);
  office_.reload("other commands");
  approve();
  ASSERT_TRUE(office_.until([&] { return office_.questions() == 2 || actions_ != 0; }));
  EXPECT_EQ(office_.reviews(), 2);
  EXPECT_EQ(actions_, 0);
  approve();
  EXPECT_TRUE(replies(R"("result":{})"));
  EXPECT_EQ(actions_, 1);
}

constexpr wire::Field kNumbered[] = {{.name = "n", .type = wire::Type::integer}};

TEST_F(MailReload, WhatADeputyChangedGoesToItOnceMore) {
  mailbox::Signal both = signal("both");
  both.payload = kNumbered;
  use({both});
  office_.set_deputy([](const std::string&) { return R"({"n":7})"; });
  office_.mailbox().start();
  office_.drop(kId, "both");
  ASSERT_TRUE(office_.until([&] { return office_.questions() == 1; }));
  EXPECT_EQ(office_.reviews(), 2);
  approve();
  EXPECT_TRUE(replies(R"("result":{})"));
}

TEST_F(MailReload, AttackEndlessModificationIsRefused) {
  mailbox::Signal both = signal("both");
  both.payload = kNumbered;
  use({both});
  office_.set_deputy([this](const std::string&) { return "{\"n\":" + std::to_string(office_.reviews()) + "}"; });
  office_.mailbox().start();
  office_.drop(kId, "both");
  EXPECT_TRUE(replies("APPROVAL_DENIED"));
  EXPECT_EQ(office_.reviews(), 2);
  EXPECT_EQ(office_.questions(), 0);
}

}  // namespace
}  // namespace sallyport::testing
