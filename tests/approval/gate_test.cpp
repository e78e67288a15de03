// The human gate over a real ledger and a real loop.
#include "approval/gate.h"

#include <gtest/gtest.h>
#include <sqlite3.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>

#include "ledger/faulty_vfs.h"
#include "ledger/layout.h"
#include "ledger/query.h"
#include "ledger/verification.h"

namespace sallyport::approval {
namespace {

// Read by the ledger's thread too.
class TestClock final : public Clock {
 public:
  SteadyTime steady() const override { return std::chrono::steady_clock::now(); }
  std::int64_t unix_millis() const override { return wall; }
  std::atomic<std::int64_t> wall{1'700'000'000'000};
};

constexpr Millis kHour{3'600'000};

class HumanGate : public ::testing::Test {
 protected:
  HumanGate() {
    path_ = ::testing::TempDir() + "/sallyport-gate-XXXXXX";
    if (::mkdtemp(path_.data()) == nullptr) std::abort();
    open();
  }
  ~HumanGate() override {
    close();
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }

  // As a warden does it.
  void open() {
    auto opened = ledger::Ledger::open({.state_dir = path_, .clock = clock_, .vfs = ledger::kFaultyVfs});
    ASSERT_TRUE(opened) << opened.error().describe();
    ledger_ = std::move(*opened);
    loop_ = std::make_unique<ipc::Loop>(Spinner::Mode::never);
    ledger_->start([this](std::function<void()> work) { loop_->post(std::move(work)); });
    open_gate();
  }
  void open_gate() {
    gate_ = std::make_unique<Gate>(
        *ledger_, *loop_, log_,
        Gate::Hooks{.policy_hash = [this] { return policy_; },
                    .publish = [this](std::string_view event, const std::string&) { events_.emplace_back(event); }});
    gate_->set_expiry(kHour);
    gate_->open();
  }
  void close() {
    if (!ledger_) return;
    EXPECT_TRUE(ledger_->close());
    gate_->close();
    gate_.reset();
    ledger_.reset();
    loop_.reset();
  }
  void restart() {
    close();
    verdicts_.clear();
    open();
  }

  static Matter matter(const std::string& request = "req-1", const std::string& payload = R"({"prompt":"x"})") {
    return {.container = "c1",
            .request_id = request,
            .subject = "schedule_task",
            .payload = payload,
            .rule = "rule.x",
            .policy_hash = "policy-1",
            .original = std::nullopt};
  }
  Fire ask(Matter about) {
    const std::string key = about.request_id;
    Verdict verdict = co_await gate_->review(std::move(about));
    verdicts_[key] = std::move(verdict);
  }
  // Runs the loop until the task has its value.
  template <typename T>
  Fire drive(Task<T> task, std::optional<T>& into) {
    into.emplace(co_await task);
    loop_->stop();
  }
  template <typename T>
  T wait_for(Task<T> task) {
    std::optional<T> result;
    drive(std::move(task), result);
    if (!result) loop_->run();
    return std::move(*result);
  }
  std::vector<Question> open_list() {
    auto listed = wait_for(gate_->list());
    EXPECT_TRUE(listed) << listed.error().describe();
    return listed ? listed->questions : std::vector<Question>();
  }
  std::string only_open() {
    const auto listed = open_list();
    EXPECT_EQ(listed.size(), 1U);
    return listed.empty() ? "" : listed[0].id;
  }
  std::string answer(const std::string& id, bool is_approved, const std::string& sha256 = {}) {
    const auto answered = wait_for(gate_->answer(id, is_approved, "host/uid 1", "because", sha256));
    return answered ? std::string(to_string(answered->state)) : std::string(to_string(answered.error().code));
  }
  std::string verdict(const std::string& request = "req-1") {
    const auto found = verdicts_.find(request);
    if (found == verdicts_.end()) return "waiting";
    constexpr const char* kNames[] = {"approved", "rejected", "modified", "expired"};
    return kNames[static_cast<int>(found->second.kind)];
  }
  // Runs the loop until the claim holds.
  bool until(const std::function<bool()>& claim) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    std::function<void()> look = [&] {
      if (claim() || std::chrono::steady_clock::now() > end) return loop_->stop();
      loop_->after(Millis(2), look);
    };
    loop_->post(look);
    loop_->run();
    return claim();
  }
  // Every other submission that was made before is done after this.
  void settle() { open_list(); }

  ledger::Faults& faults_ = ledger::faulty_vfs();
  std::string path_;
  TestClock clock_;
  Log log_{2, LogFormat::text, LogLevel::error, clock_};
  std::unique_ptr<ledger::Ledger> ledger_;
  std::unique_ptr<ipc::Loop> loop_;
  std::unique_ptr<Gate> gate_;
  std::string policy_ = "policy-1";
  std::vector<std::string> events_;
  std::map<std::string, Verdict> verdicts_;
};

TEST_F(HumanGate, AsksAndIsAnswered) {
  ask(matter());
  const auto open = open_list();
  ASSERT_EQ(open.size(), 1U);
  EXPECT_EQ(open[0].matter.payload, R"({"prompt":"x"})");
  EXPECT_EQ(open[0].expires_ms - open[0].asked_ms, kHour.count());
  EXPECT_EQ(answer(open[0].id, true), "approved");
  EXPECT_EQ(verdict(), "approved");
  EXPECT_EQ(verdicts_["req-1"].by, "host/uid 1");
  EXPECT_EQ(events_, (std::vector<std::string>{"approval.asked", "approval.answered"}));
}

TEST_F(HumanGate, AFullDiskDelaysAQuestionAndRefusesNothing) {
  settle();
  faults_.on_write = SQLITE_FULL;
  ask(matter());
  EXPECT_TRUE(until([&] { return ledger_->health().failures >= 1; }));
  EXPECT_EQ(verdict(), "waiting");
  faults_.on_write = 0;
  EXPECT_TRUE(until([&] { return !events_.empty(); }));
  EXPECT_EQ(answer(only_open(), true), "approved");
  EXPECT_EQ(verdict(), "approved");
}

TEST_F(HumanGate, AQuestionThatExpiresOnAFullDiskIsOverOnceThereIsRoom) {
  gate_->set_expiry(Millis(2000));  // longer than it takes to be asked
  ask(matter());
  settle();
  const std::uint64_t before = ledger_->health().failures;
  faults_.on_write = SQLITE_FULL;
  EXPECT_TRUE(until([&] { return ledger_->health().failures > before; }));
  EXPECT_EQ(verdict(), "waiting");
  faults_.on_write = 0;
  EXPECT_TRUE(until([&] { return verdict() == "expired"; }));
  EXPECT_TRUE(open_list().empty());
}

TEST_F(HumanGate, QuestionsOfAnotherPolicyAreVoidAfterARestart) {
  ask(matter());
  settle();
  policy_ = "policy-2";
  restart();
  EXPECT_TRUE(until([&] { return !events_.empty() && events_.back() == "approval.answered"; }));
  EXPECT_TRUE(open_list().empty());
}

TEST_F(HumanGate, AQuestionThatNobodyComesBackToExpiresAllTheSame) {
  gate_->set_expiry(Millis(200));
  ask(matter());
  settle();
  restart();
  EXPECT_TRUE(until([&] { return !events_.empty() && events_.back() == "approval.expired"; }));
  EXPECT_TRUE(open_list().empty());
}

TEST_F(HumanGate, AClockSetBackBeforeARestartGainsNothing) {
  gate_->set_expiry(Millis(200));
  ask(matter());
  settle();
  clock_.wall -= 86'400'000;
  restart();
  EXPECT_TRUE(until([&] { return !events_.empty() && events_.back() == "approval.expired"; }));
  EXPECT_TRUE(open_list().empty());
}

TEST_F(HumanGate, AStartThatWaitsForTheLedgerWithdrawsNoCallOfItsOwn) {
  ask(matter(gate_->make_call_id()));
  settle();
  gate_->close();
  const std::uint64_t before = ledger_->health().failures;
  faults_.on_write = SQLITE_FULL;
  open_gate();
  EXPECT_TRUE(until([&] { return ledger_->health().failures > before; }));
  faults_.on_write = 0;
  const std::string live = gate_->make_call_id();
  ask(matter(live));
  EXPECT_TRUE(until([&] { return !events_.empty() && events_.back() == "approval.answered"; }))
      << "that of the warden before";
  const auto left = open_list();
  ASSERT_EQ(left.size(), 1U);
  EXPECT_EQ(left[0].matter.request_id, live);
  EXPECT_EQ(verdict(live), "waiting");
}

TEST_F(HumanGate, AReloadThatWaitsForTheLedgerVoidsNothingOfTheNextOne) {
  ask(matter("old"));
  settle();
  const std::uint64_t before = ledger_->health().failures;
  faults_.on_write = SQLITE_FULL;
  policy_ = "policy-2";
  gate_->policy_changed();
  EXPECT_TRUE(until([&] { return ledger_->health().failures > before; }));
  faults_.on_write = 0;
  policy_ = "policy-3";
  Matter next = matter("new");
  next.policy_hash = "policy-3";
  ask(next);
  EXPECT_TRUE(until([&] { return verdict("old") == "rejected"; }));
  EXPECT_EQ(verdict("new"), "waiting");
  EXPECT_EQ(answer(only_open(), true), "approved");
}

TEST_F(HumanGate, AQuestionThatWaitedForTheLedgerThroughAReloadIsVoid) {
  settle();
  const std::uint64_t before = ledger_->health().failures;
  faults_.on_write = SQLITE_FULL;
  ask(matter());
  EXPECT_TRUE(until([&] { return ledger_->health().failures > before; }));
  faults_.on_write = 0;
  policy_ = "policy-2";
  gate_->policy_changed();
  EXPECT_TRUE(until([&] { return verdict() != "waiting"; }));
  EXPECT_EQ(verdict(), "rejected");
  EXPECT_TRUE(open_list().empty());
}

TEST_F(HumanGate, WhatARemovedContainerAskedIsWithdrawn) {
  ask(matter());
  settle();
  gate_->withdraw_all("c2");
  EXPECT_EQ(open_list().size(), 1U);
  gate_->withdraw_all("c1");
  EXPECT_TRUE(until([&] { return verdict() != "waiting"; }));
  EXPECT_EQ(verdict(), "rejected");
}

TEST_F(HumanGate, WhatARemovedContainerWasAboutToAskIsNotAsked) {
  settle();
  faults_.on_write = SQLITE_FULL;
  ask(matter("of the container"));
  Matter call = matter("of a call");
  call.container = "c2";
  ask(call);
  EXPECT_TRUE(until([&] { return ledger_->health().failures >= 2; }));
  gate_->withdraw_all("c1");
  gate_->withdraw("c2", "of a call");
  faults_.on_write = 0;
  EXPECT_TRUE(until([&] { return verdict("of the container") != "waiting" && verdict("of a call") != "waiting"; }));
  EXPECT_EQ(verdict("of the container"), "rejected");
  EXPECT_TRUE(events_.empty()) << events_.front();
  EXPECT_TRUE(open_list().empty());
}

TEST_F(HumanGate, ADenialCarriesItsReason) {
  ask(matter());
  EXPECT_EQ(answer(only_open(), false), "denied");
  EXPECT_EQ(verdict(), "rejected");
  EXPECT_EQ(verdicts_["req-1"].why, "because");
}

TEST_F(HumanGate, AttackTwoApproversAtOnceTheFirstWinsAndTheSecondIsTold) {
  ask(matter());
  const std::string id = only_open();
  std::optional<Result<Question>> first, second;
  drive(gate_->answer(id, true, "one", "", ""), first);
  drive(gate_->answer(id, true, "two", "", ""), second);
  while (!first || !second) loop_->run();
  ASSERT_TRUE(*first);
  ASSERT_FALSE(*second);
  EXPECT_EQ(second->error().code, Code::conflict);
  EXPECT_EQ(second->error().message, "the question is over: approved by one");
  EXPECT_EQ(verdicts_["req-1"].by, "one");
}

TEST_F(HumanGate, AttackApproveAgainstDenyTheFirstWins) {
  for (const bool approve_first : {true, false}) {
    const std::string request = approve_first ? "a" : "b";
    ask(matter(request));
    const std::string id = only_open();
    std::optional<Result<Question>> first, second;
    drive(gate_->answer(id, approve_first, "one", "", ""), first);
    drive(gate_->answer(id, !approve_first, "two", "", ""), second);
    while (!first || !second) loop_->run();
    EXPECT_TRUE(*first);
    EXPECT_FALSE(*second);
    EXPECT_EQ(verdict(request), approve_first ? "approved" : "rejected");
  }
}

TEST_F(HumanGate, AttackAnAnswerAfterExpiryIsANo) {
  ask(matter());
  const std::string id = only_open();
  clock_.wall += kHour.count();
  EXPECT_EQ(answer(id, true), "expired");
  EXPECT_EQ(verdict(), "expired");
  EXPECT_EQ(answer(id, true), "CONFLICT");
}

TEST_F(HumanGate, ExpiresByItselfThoughTheClockWasSetBackADay) {
  gate_->set_expiry(Millis(50));
  ask(matter());
  clock_.wall -= 86'400'000;
  while (verdict() == "waiting") settle();
  EXPECT_EQ(verdict(), "expired");
  EXPECT_TRUE(open_list().empty());
  EXPECT_EQ(events_.back(), "approval.expired");
}

TEST_F(HumanGate, AClockSetAheadADayExpiresIt) {
  ask(matter());
  const std::string id = only_open();
  clock_.wall += 86'400'000;
  EXPECT_EQ(answer(id, true), "expired");
}

TEST_F(HumanGate, AttackAnAnswerAfterThePolicyChangedIsVoid) {
  ask(matter());
  const std::string id = only_open();
  policy_ = "policy-2";
  EXPECT_EQ(answer(id, true), "voided");
  EXPECT_EQ(verdict(), "rejected");
  EXPECT_EQ(verdicts_["req-1"].why, "the policy changed before it was answered");
}

TEST_F(HumanGate, AReloadEndsWhatWasAskedUnderAnotherPolicyAndOnlyThat) {
  ask(matter("old"));
  settle();
  policy_ = "policy-2";
  Matter other = matter("new");
  other.policy_hash = "policy-2";
  ask(other);
  gate_->policy_changed();
  settle();
  EXPECT_EQ(verdict("old"), "rejected");
  EXPECT_EQ(verdict("new"), "waiting");
  // Asked again under the new policy it is a new question.
  Matter again = matter("old");
  again.policy_hash = "policy-2";
  verdicts_.clear();
  ask(again);
  EXPECT_EQ(open_list().size(), 2U);
}

TEST_F(HumanGate, TheSameMatterIsOneQuestion) {
  ask(matter());
  ask(matter());
  const std::string id = only_open();
  EXPECT_EQ(answer(id, true), "approved");
  EXPECT_EQ(verdict(), "approved");
  EXPECT_EQ(std::count(events_.begin(), events_.end(), "approval.asked"), 1);
  // Other bytes are another one.
  ask(matter("req-1", R"({"prompt":"y"})"));
  EXPECT_NE(only_open(), id);
}

TEST_F(HumanGate, AfterARestartTheQuestionIsFoundAgain) {
  ask(matter());
  const std::string id = only_open();
  restart();
  EXPECT_EQ(only_open(), id);
  ask(matter());
  EXPECT_EQ(only_open(), id);
  EXPECT_EQ(answer(id, true), "approved");
  EXPECT_EQ(verdict(), "approved");
}

TEST_F(HumanGate, AnAnswerGivenBeforeARestartCountsAfterIt) {
  ask(matter());
  EXPECT_EQ(answer(only_open(), true), "approved");
  restart();
  ask(matter());
  settle();
  EXPECT_EQ(verdict(), "approved");
  restart();
  // But an approval is worth nothing beyond its time.
  clock_.wall += kHour.count();
  ask(matter());
  settle();
  EXPECT_EQ(verdict(), "expired");
}

TEST_F(HumanGate, WhatExpiredWhileNobodyRanIsExpired) {
  ask(matter());
  settle();
  close();
  verdicts_.clear();
  clock_.wall += 2 * kHour.count();
  open();
  ask(matter());
  settle();
  EXPECT_EQ(verdict(), "expired");
}

TEST_F(HumanGate, CallsDoNotOutliveTheirWarden) {
  ask(matter(gate_->make_call_id()));
  ask(matter("mail"));
  EXPECT_EQ(open_list().size(), 2U);
  restart();
  const auto left = open_list();
  ASSERT_EQ(left.size(), 1U);
  EXPECT_EQ(left[0].matter.request_id, "mail");
}

TEST_F(HumanGate, AWithdrawnQuestionCannotBeApproved) {
  ask(matter());
  const std::string id = only_open();
  gate_->withdraw("c1", "req-1");
  settle();
  EXPECT_EQ(verdict(), "rejected");
  EXPECT_EQ(answer(id, true), "CONFLICT");
}

TEST_F(HumanGate, TheAnswerMayNameTheBytesThatWereSeen) {
  ask(matter());
  const std::string id = only_open();
  EXPECT_EQ(answer(id, true, std::string(64, '0')), "CONFLICT");
  EXPECT_EQ(verdict(), "waiting");
  EXPECT_EQ(answer(id, true, to_hex(wire::sha256(as_bytes(R"({"prompt":"x"})")))), "approved");
}

TEST_F(HumanGate, AttackAPayloadChangedInTheDatabaseIsNotApproved) {
  ask(matter());
  const std::string id = only_open();
  ledger_->submit({.work =
                       [](ledger::Transaction& transaction) {
                         return transaction.database().execute("UPDATE approvals SET payload = x'7b7d'");
                       },
                   .entries = {},
                   .done = {}});
  EXPECT_EQ(answer(id, true), "voided");
  EXPECT_EQ(verdict(), "rejected");
}

TEST_F(HumanGate, OneContainerCannotAskWithoutEnd) {
  for (int i = 0; i <= kMaxOpenPerContainer; ++i) ask(matter("r" + std::to_string(i)));
  EXPECT_EQ(open_list().size(), static_cast<std::size_t>(kMaxOpenPerContainer));
  EXPECT_EQ(verdict("r" + std::to_string(kMaxOpenPerContainer)), "rejected");
  Matter other = matter("x");
  other.container = "c2";
  ask(other);
  EXPECT_EQ(open_list().size(), static_cast<std::size_t>(kMaxOpenPerContainer) + 1);
}

TEST_F(HumanGate, TheListComesInPagesThatFitAFrame) {
  const std::string large = R"({"prompt":")" + std::string(100'000, 'x') + "\"}";
  for (int i = 0; i < 9; ++i) ask(matter("r" + std::to_string(i), large));
  std::vector<std::string> seen;
  std::string after;
  for (bool has_more = true; has_more;) {
    const auto page = wait_for(gate_->list(after));
    ASSERT_TRUE(page) << page.error().describe();
    ASSERT_FALSE(page->questions.empty());
    EXPECT_LE(page->questions.size(), 4U) << "no more is read than is shown";
    for (const Question& question : page->questions) seen.push_back(question.matter.request_id);
    after = page->questions.back().id;
    has_more = page->has_more;
  }
  std::sort(seen.begin(), seen.end());
  EXPECT_EQ(seen, (std::vector<std::string>{"r0", "r1", "r2", "r3", "r4", "r5", "r6", "r7", "r8"}));
  const auto unknown = wait_for(gate_->list("a-0000"));
  ASSERT_FALSE(unknown) << "a list that goes on after nothing is not empty";
  EXPECT_EQ(unknown.error().code, Code::not_found);
}

TEST_F(HumanGate, EveryChangeIsInTheAuditChain) {
  ask(matter("a"));
  EXPECT_EQ(answer(only_open(), true), "approved");
  ask(matter("b"));
  EXPECT_EQ(answer(only_open(), false), "denied");
  ask(matter("c"));
  const std::string late = only_open();
  clock_.wall += kHour.count();
  EXPECT_EQ(answer(late, true), "expired");
  EXPECT_EQ(answer("no such", true), "NOT_FOUND");
  std::string recorded;
  std::optional<Result<ledger::Page>> page;
  ledger_->read({.work =
                     [&](ledger::Database& database) {
                       page = ledger::run_query(database, {.principal = "", .method = "approval.*", .decision = ""});
                     },
                 .done = [this](const Status&) { loop_->stop(); }});
  loop_->run();
  ASSERT_TRUE(page && *page);
  for (const ledger::Record& record : (*page)->records)
    recorded += record.entry.method + " " + record.entry.code + "\n";
  EXPECT_EQ(recorded,
            "approval.asked OK\napproval.approved OK\napproval.asked OK\napproval.denied APPROVAL_DENIED\n"
            "approval.asked OK\napproval.expired APPROVAL_EXPIRED\n");
  close();
  const auto report = ledger::verify_state(path_, {}, {});
  ASSERT_TRUE(report);
  EXPECT_TRUE(report->is_intact());
}

TEST_F(HumanGate, AnEndThatComesWhileSomebodyWaitsDecidesNothing) {
  ask(matter());
  const std::string id = only_open();
  close();
  EXPECT_EQ(verdict(), "rejected") << "whoever waited is let go";
  verdicts_.clear();
  open();
  EXPECT_EQ(only_open(), id) << "but the question is still open";
}

}  // namespace
}  // namespace sallyport::approval
