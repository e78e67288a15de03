// A state directory of its own for each test, and a ledger whose completions are run by the test.
#pragma once

#include <gtest/gtest.h>

#include <condition_variable>
#include <cstdlib>
#include <deque>
#include <filesystem>
#include <fstream>
#include <functional>
#include <mutex>
#include <string>

#include "ledger/layout.h"
#include "ledger/ledger.h"
#include "ledger/verification.h"
#include "support/clock.h"

namespace sallyport::ledger {

using sallyport::testing::FakeClock;

class Inbox {
 public:
  Ledger::Post post() {
    return [this](std::function<void()> work) {
      const std::lock_guard lock(mutex_);
      works_.push_back(std::move(work));
      wake_.notify_one();
    };
  }
  void run_one() {
    std::unique_lock lock(mutex_);
    wake_.wait(lock, [this] { return !works_.empty(); });
    const auto work = std::move(works_.front());
    works_.pop_front();
    lock.unlock();
    work();
  }
  template <typename Condition>
  void run_until(Condition&& is_done) {
    while (!is_done()) run_one();
  }

 private:
  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::function<void()>> works_;
};

inline Entry entry(std::string method, Stage stage = Stage::decision) {
  Entry made;
  made.stage = stage;
  made.principal = "container/one";
  made.peer_pid = 42;
  made.session = "control/0";
  made.request_id = "7";
  made.method = std::move(method);
  return made;
}

class TemporaryDirectory {
 public:
  explicit TemporaryDirectory(const std::string& parent = ::testing::TempDir()) {
    path_ = parent + "/sallyport-ledger-XXXXXX";
    if (::mkdtemp(path_.data()) == nullptr) std::abort();
  }
  ~TemporaryDirectory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

class LedgerTest : public ::testing::Test {
 protected:
  Ledger::Options options() { return {.state_dir = directory_.path(), .clock = clock_}; }

  void open() { open(options()); }
  void open(const Ledger::Options& with) {
    auto opened = Ledger::open(with);
    ASSERT_TRUE(opened) << opened.error().describe();
    ledger_ = std::move(*opened);
    ledger_->start(inbox_.post());
  }
  void close() {
    const Status closed = ledger_->close();
    EXPECT_TRUE(closed) << closed.error().describe();
    ledger_.reset();
  }

  Status commit(Submission submission) {
    std::optional<Status> result;
    submission.done = [&](Status status) { result = std::move(status); };
    ledger_->submit(std::move(submission));
    inbox_.run_until([&] { return result.has_value(); });
    return *result;
  }
  Status commit(Entry durable) {
    Submission submission;
    submission.entries.push_back(std::move(durable));
    return commit(std::move(submission));
  }
  Status commit(Work work) {
    Submission submission;
    submission.work = std::move(work);
    return commit(std::move(submission));
  }
  template <typename Look>
  void look(Look&& look_at) {
    bool is_done = false;
    ledger_->read({.work = std::forward<Look>(look_at), .done = [&](const Status&) { is_done = true; }});
    inbox_.run_until([&] { return is_done; });
  }

  Report verify(const std::optional<Checkpoint>& against = {}, std::optional<std::uint64_t> exported = {}) {
    auto report = verify_state(directory_.path(), against, exported);
    EXPECT_TRUE(report) << report.error().describe();
    return report ? *report : Report();
  }

  TemporaryDirectory directory_;
  FakeClock clock_;
  Inbox inbox_;
  std::unique_ptr<Ledger> ledger_;
};

inline std::string read_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

inline void write_text(const std::string& path, const std::string& text) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << text;
}

// What was found, as text for a failing test.
inline std::string describe(const Report& report) { return to_json(report); }

inline bool mentions(const Report& report, std::string_view where, std::string_view what) {
  for (const Finding& finding : report.findings) {
    if (finding.where.find(where) != std::string::npos && finding.what.find(what) != std::string::npos) return true;
  }
  return false;
}

}  // namespace sallyport::ledger
