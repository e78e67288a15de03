// Programs of signals, while those before them still run.
#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "mailbox/limits.h"
#include "mailbox/office.h"

namespace sallyport::testing {
namespace {

class MailRunning : public ::testing::Test {
 protected:
  void SetUp() override {
    mailbox::Signal signal;
    signal.name = "run";
    signal.tier = 2;
    signal.command = [](const mailbox::Raised&) { return std::vector<std::string>{"/bin/true"}; };
    signal.action = [this](const Permit&, const mailbox::Raised&) { return run(); };
    office_.mailbox().replace_signals({signal});
    office_.mailbox().start();
  }
  // The destructor of the office waits for nobody.
  void TearDown() override { end_all(); }

  Task<Result<std::string>> run() {
    ++begun_;
    const auto end = running_.emplace_back(std::make_shared<ipc::OneShot<bool>>());
    co_await *end;
    co_return std::string("{}");
  }
  void end_all() {
    for (const auto& end : std::exchange(running_, {})) end->resolve(true);
    office_.loop().settle();
  }
  static std::string id(int number) { return "00000000-0000-4000-8000-" + std::to_string(100'000'000'000 + number); }
  std::ptrdiff_t waiting() const {
    return std::distance(std::filesystem::directory_iterator(office_.box() + "/in/new"), {});
  }
  Fire raise(std::string request_id) {
    wire::Decoder decoder;
    const auto payload = decoder.parse(std::string_view("{}"));
    auto raised = co_await office_.mailbox().raise("box", "run", std::move(request_id), payload->root(), false,
                                                   mailbox::Origin());
    answer_ = raised ? *raised : raised.error().describe();
  }

  Office office_;
  std::vector<std::shared_ptr<ipc::OneShot<bool>>> running_;
  std::optional<std::string> answer_;
  int begun_ = 0;
};

TEST_F(MailRunning, AttackACrowdOfProgramsOfOneContainer) {
  constexpr int kMost = mailbox::kMaxRunning, kSent = 5 * kMost;
  for (int i = 0; i < kSent; ++i) office_.drop(id(i), "run");
  ASSERT_TRUE(office_.until([&] { return begun_ >= kMost; }));
  // Reading the mailbox again changes nothing.
  const auto later = std::chrono::steady_clock::now() + 2 * mailbox::kRescanEvery;
  ASSERT_TRUE(office_.until([&] { return std::chrono::steady_clock::now() > later; }));
  EXPECT_EQ(begun_, kMost);
  EXPECT_EQ(waiting(), kSent - kMost);
  office_.loop().post([this] { raise(id(kSent)); });
  ASSERT_TRUE(office_.until([&] { return answer_.has_value(); }));
  EXPECT_NE(answer_->find("RATE_LIMITED"), std::string::npos) << *answer_;
  // Those that wait follow, each once.
  ASSERT_TRUE(office_.until([&] {
    end_all();
    return office_.has_replied(id(kSent - 1)) && waiting() == 0;
  }));
  for (int i = 0; i < kSent; ++i) {
    EXPECT_TRUE(office_.until([&] { return office_.reply(id(i)).find(R"("result":{})") != std::string::npos; })) << i;
  }
  EXPECT_EQ(begun_, kSent);
}

// Nobody says so when what came over the door turns out not to be new.
TEST_F(MailRunning, AMailboxThatWaitedForCallsWhichRanNothingGoesOn) {
  constexpr int kMost = mailbox::kMaxRunning;
  for (int i = 0; i < kMost; ++i) office_.drop(id(i), "run");
  ASSERT_TRUE(office_.until([&] {
    end_all();
    return office_.has_replied(id(kMost - 1)) && waiting() == 0;
  }));
  office_.drop(id(kMost), "run");
  office_.loop().post([this] {
    for (int i = 0; i < kMost; ++i) raise(id(i));
  });
  EXPECT_TRUE(office_.until([&] { return begun_ == kMost + 1; }));
}

}  // namespace
}  // namespace sallyport::testing
