// A mailbox in this process, with a real ledger on a directory of its own. Of its signal "count" the actions are
// counted; about "ask" a human is asked, who says what the test says, and about "both" a deputy before, who agrees.
#pragma once

#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <string>

#include "mailbox/mailbox.h"
#include "support/daemon.h"
#include "warden/signals.h"

namespace sallyport::testing {

class Office {
 public:
  explicit Office(const std::string& vfs = {}) {
    for (const char* below : {"/in/tmp", "/in/new", "/out"}) std::filesystem::create_directories(box() + below);
    auto opened = ledger::Ledger::open({.state_dir = directory_.path() + "/state", .clock = clock_, .vfs = vfs});
    if (!opened) std::abort();
    ledger_ = std::move(*opened);
    ledger_->start([this](std::function<void()> work) { loop_.post(std::move(work)); });
    policy::ContainerPolicy policy;
    policy.signals = {"*"};
    policy::Rule& review = policy.rules.emplace_back();
    review.name = "review";
    review.match = {"ask"};
    review.needs_human = true;
    policy::Rule& both = policy.rules.emplace_back();
    both.name = "both";
    both.match = {"both"};
    both.needs_deputy = both.needs_human = true;
    engine_.set_container("box", policy);
    mailbox::Signal signal;
    signal.name = "count";
    signal.tier = 2;
    signal.action = [this](const Permit&, const mailbox::Raised&) {
      ++actions_;
      return Task<Result<std::string>>::ready(std::string("{}"));
    };
    mailbox::Signal ask = signal;
    ask.name = "ask";
    mailbox_ = std::make_unique<mailbox::Mailbox>(parts(), std::vector<mailbox::Signal>{signal, ask},
                                                  directory_.path() + "/state/quarantine");
    if (!mailbox_->add("box", box())) std::abort();
  }
  ~Office() {
    mailbox_->close();
    loop_.settle();
    [[maybe_unused]] const Status closed = ledger_->close();
    loop_.settle();
  }
  Office(const Office&) = delete;
  Office& operator=(const Office&) = delete;

  // Renames a request into in/new.
  void drop(const std::string& id, const std::string& signal = "count") const {
    std::ofstream(box() + "/in/tmp/" + id)
        << R"({"signal":")" << signal << R"(","request_id":")" << id << R"(","payload":{}})";
    std::filesystem::rename(box() + "/in/tmp/" + id, box() + "/in/new/" + id);
  }
  bool waits(const std::string& id) const { return std::filesystem::exists(box() + "/in/new/" + id); }
  bool has_replied(const std::string& id) const { return std::filesystem::exists(box() + "/out/" + id + ".json"); }
  std::string reply(const std::string& id) const {
    std::ifstream file(box() + "/out/" + id + ".json");
    return {std::istreambuf_iterator<char>(file), {}};
  }
  int actions() const { return actions_; }

  // Runs the loop until the claim holds; false if it never does.
  bool until(const std::function<bool()>& claim) {
    const auto end = std::chrono::steady_clock::now() + kPatience;
    std::function<void()> look = [&] {
      if (claim() || std::chrono::steady_clock::now() > end) return loop_.stop();
      loop_.after(Millis(10), look);
    };
    loop_.post(look);
    loop_.run();
    return claim();
  }

  // What the human who was asked last says.
  void say(approval::Verdict verdict) { human_.asked->resolve(std::move(verdict)); }
  bool was_asked() const { return human_.asked != nullptr; }
  int questions() const { return human_.questions; }
  int reviews() const { return deputy_.reviews; }  // of the deputy
  // What the deputy makes of a payload; the same: it agrees.
  void set_deputy(std::function<std::string(const std::string&)> change) { deputy_.change = std::move(change); }
  // The policy is another one, and allows the same.
  void reload(std::string_view commands) { engine_.replace({}, {}, {}, commands); }
  // Looks into the ledger, behind everything that was submitted before.
  void look(const std::function<void(ledger::Database&)>& work) {
    ledger_->read({.work = work, .done = [this](const Status&) { loop_.stop(); }});
    loop_.run();
  }
  mailbox::Parts parts() {
    return {.loop = loop_,
            .ledger = *ledger_,
            .clock = clock_,
            .log = log_,
            .judge = judge_,
            .deputy = deputy_,
            .human = human_,
            .on_event = [](std::string_view, const std::string&) {}};
  }
  std::string box() const { return directory_.path() + "/box"; }
  ipc::Loop& loop() { return loop_; }
  ledger::Ledger& ledger() { return *ledger_; }
  mailbox::Mailbox& mailbox() { return *mailbox_; }

 private:
  class Deputy final : public approval::Reviewer {
   public:
    Task<approval::Verdict> review(approval::Matter matter) override {
      ++reviews;
      approval::Verdict verdict{.kind = approval::Verdict::Kind::approved, .payload = {}, .why = {}, .by = "deputy"};
      if (change) verdict.payload = change(matter.payload);
      if (change && verdict.payload != matter.payload) verdict.kind = approval::Verdict::Kind::modified;
      return Task<approval::Verdict>::ready(std::move(verdict));
    }
    std::function<std::string(const std::string&)> change;
    int reviews = 0;
  };
  class Human final : public approval::Reviewer {
   public:
    Task<approval::Verdict> review(approval::Matter) override {
      ++questions;
      const auto question = asked = std::make_shared<ipc::OneShot<approval::Verdict>>();
      approval::Verdict verdict = co_await *question;
      co_return verdict;
    }
    std::shared_ptr<ipc::OneShot<approval::Verdict>> asked;
    int questions = 0;
  };

  TemporaryDirectory directory_;
  SystemClock clock_;
  Log log_{STDERR_FILENO, LogFormat::text, LogLevel::error, clock_};
  ipc::Loop loop_;
  std::unique_ptr<ledger::Ledger> ledger_;
  policy::Tokens tokens_{clock_};
  policy::Engine engine_{{}, tokens_};
  warden::EngineJudge judge_{engine_};
  Deputy deputy_;
  Human human_;
  int actions_ = 0;
  std::unique_ptr<mailbox::Mailbox> mailbox_;
};

}  // namespace sallyport::testing
