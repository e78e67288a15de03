// The human gate over a real ledger and a real loop.
#pragma once

#include <gtest/gtest.h>
#include <sqlite3.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>

#include "approval/gate.h"
#include "ledger/faulty_vfs.h"
#include "ledger/layout.h"
#include "ledger/query.h"
#include "ledger/verification.h"

namespace sallyport::approval {

// Read by the ledger's thread too.
class TestClock final : public Clock {
 public:
  SteadyTime steady() const override { return std::chrono::steady_clock::now(); }
  std::int64_t unix_millis() const override { return wall; }
  std::atomic<std::int64_t> wall{1'700'000'000'000};
};

inline constexpr Millis kHour{3'600'000};

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

}  // namespace sallyport::approval
