// Calls passed on to another process: what becomes of their events.
#include "ipc/forward.h"

#include <atomic>

#include "served.h"

namespace sallyport::ipc {
namespace {

using sallyport::testing::Client;
using sallyport::testing::eventually;
using sallyport::testing::text_of;

class Forwarding : public Served {
 protected:
  void SetUp() override {
    back_->on_event([this](const wire::Message&) { is_all_read_ = true; });
  }
  // Passes on what `caller_` asks until it is gone; meanwhile both peers do this.
  void serve_while(const std::function<void()>& peers) {
    const auto pass_on = [this](std::shared_ptr<Session> session, wire::Message message) {
      return answer(std::move(session), std::move(message));
    };
    serve(front_, pass_on);
    serve(back_, pass_on);
    run_beside([&] {
      peers();
      source_.close();
      caller_.close();
    });
  }
  Fire answer(std::shared_ptr<Session> session, wire::Message message) {
    Call call(session, std::move(message));
    if (call.message().method == "done") {
      call.answer(call.result([](wire::JsonWriter& json) { json.raw("{}"); }));
      co_return;
    }
    Asking asking(call, back_, call.message().method, "{}", Events::relayed);
    const auto& answer = co_await asking;
    if (answer) call.answer(forward_result(call, *back_, *answer));
  }
  void say(std::string_view id, std::string_view method, std::string_view params = {}) {
    Bytes frame;
    ASSERT_TRUE(wire::append_event(frame, id, method, params));
    ASSERT_TRUE(source_.send(text_of(frame)));
  }

  std::pair<std::shared_ptr<Session>, Client> here_ = connect(), there_ = connect(wire::Side::connecting);
  std::shared_ptr<Session>&front_ = here_.first, &back_ = there_.first;
  Client &caller_ = here_.second, &source_ = there_.second;
  std::atomic<bool> is_all_read_ = false;
};

TEST_F(Forwarding, WhatWasLostBeforeCountsWithWhatIsLostHere) {
  serve_while([&] {
    ASSERT_TRUE(caller_.send_request("s", "events.subscribe"));
    const auto asked = source_.next_message();
    ASSERT_TRUE(asked);
    const std::string id(asked->id), large = R"({"text":")" + std::string(900'000, 'x') + "\"}";
    constexpr std::uint64_t kSaid = 20, kLostBefore = 7;
    for (std::uint64_t i = 0; i < kSaid; ++i) say(id, "events.message", large);
    say(id, "events.lost", R"({"count":7})");
    say({}, "all.said");
    ASSERT_TRUE(eventually([this] { return is_all_read_.load(); }));
    std::uint64_t heard = 0;
    ASSERT_TRUE(caller_.send_request("d", "done"));
    for (auto message = caller_.next_message(); message && message->id != "d"; message = caller_.next_message()) {
      ++heard;
    }
    say(id, "events.message", "{}");
    const auto told = caller_.next_message();
    ASSERT_TRUE(told);
    EXPECT_EQ(told->method, "events.lost");
    EXPECT_EQ(told->params.get("count").as_uint(), kSaid - heard + kLostBefore);
    EXPECT_LT(heard, kSaid) << "else nothing was lost";
    EXPECT_EQ(caller_.next_message()->method, "events.message");
  });
}

}  // namespace
}  // namespace sallyport::ipc
