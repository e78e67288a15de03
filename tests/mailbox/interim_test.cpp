// An interim reply, "awaiting_human", beside the final one: whichever comes when, the final one stays.
#include <gtest/gtest.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "mailbox/office.h"

namespace sallyport::testing {
namespace {

using approval::Verdict;

class MailInterim : public ::testing::Test {
 protected:
  void SetUp() override { office_.mailbox().start(); }

  // A request that a human was asked about.
  std::string ask() {
    std::string id = "00000000-0000-4000-8000-" + std::to_string(100'000'000'000 + ++number_);
    office_.drop(id, "ask");
    EXPECT_TRUE(office_.until([&] { return office_.reply(id).find("awaiting_human") != std::string::npos; }));
    return id;
  }
  // The same request again, over the door: whoever asks takes an interim answer too.
  Fire ask_again(std::string id) {
    wire::Decoder decoder;
    const auto payload = decoder.parse(std::string_view("{}"));
    answer_.reset();
    Task<Result<std::string>> raised =
        office_.mailbox().raise("box", "ask", std::move(id), payload->root(), true, mailbox::Origin());
    Result<std::string> answer = co_await std::move(raised);
    answer_ = answer ? *answer : answer.error().describe();
  }
  // Does all of it in one turn of the loop, and waits until both are answered.
  void race(const std::string& id, std::vector<std::function<void()>> steps, const std::string& outcome) {
    office_.loop().post([steps = std::move(steps)] {
      for (const auto& step : steps) step();
    });
    ASSERT_TRUE(office_.until([&] {
      return answer_.has_value() && office_.mailbox().status("box").find(R"("pending":[])") != std::string::npos;
    })) << office_.mailbox().status("box");
    EXPECT_NE(office_.reply(id).find(outcome), std::string::npos) << office_.reply(id);
  }
  std::function<void()> says(Verdict::Kind kind) {
    return [this, kind] { office_.say({.kind = kind, .payload = {}, .why = "not today", .by = "test"}); };
  }
  std::function<void()> asks_again(const std::string& id) {
    return [this, id] { ask_again(id); };
  }

  Office office_;
  std::optional<std::string> answer_;
  int number_ = 0;
  static constexpr int kRounds = 25;
};

TEST_F(MailInterim, ComesAgainRightBeforeAHumanRefusesIt) {
  // The journal still says that it waits when the request is found there again; by the time that this is known its
  // refusal is on its way, and may be written by another thread at that very moment.
  for (int i = 0; i < kRounds; ++i) {
    const std::string id = ask();
    race(id, {asks_again(id), says(Verdict::Kind::rejected)}, "APPROVAL_DENIED");
    EXPECT_NE(answer_.value_or("").find("APPROVAL_DENIED"), std::string::npos) << "the one who asked is told the end";
  }
  EXPECT_EQ(office_.actions(), 0);
}

TEST_F(MailInterim, ComesAgainRightAfterAHumanRefusedIt) {
  for (int i = 0; i < kRounds; ++i) {
    const std::string id = ask();
    race(id, {says(Verdict::Kind::rejected), asks_again(id)}, "APPROVAL_DENIED");
  }
  EXPECT_EQ(office_.actions(), 0);
}

TEST_F(MailInterim, ComesAgainAsAFileWhileAHumanApprovesIt) {
  for (int i = 0; i < kRounds; ++i) {
    const std::string id = ask();
    const auto drops = [this, id] { office_.drop(id, "ask"); };
    if (i % 2 == 0) {
      race(id, {drops, asks_again(id), says(Verdict::Kind::approved)}, "\"result\":{}");
    } else {
      race(id, {says(Verdict::Kind::approved), asks_again(id), drops}, "\"result\":{}");
    }
    EXPECT_TRUE(office_.until([&] { return !office_.waits(id); }));
    EXPECT_NE(office_.reply(id).find("\"result\":{}"), std::string::npos) << office_.reply(id);
  }
  EXPECT_EQ(office_.actions(), kRounds) << "each of them once";
}

}  // namespace
}  // namespace sallyport::testing
