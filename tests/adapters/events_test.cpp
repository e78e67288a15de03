// Who listens to what, on a connection to the warden, without a backend.
#include "adapters/events.h"

#include "ipc/served.h"

namespace sallyport::adapters {
namespace {

using sallyport::testing::Client;

class SubscriptionsOfOneWarden : public ipc::Served {
 protected:
  SubscriptionsOfOneWarden() {
    auto [session, warden] = connect();
    session->set_capacity({.unsent_bytes = SIZE_MAX});
    serve(std::move(session), [this](std::shared_ptr<ipc::Session> asked, wire::Message message) {
      return answer(std::move(asked), std::move(message));
    });
    warden_ = std::move(warden);
  }
  Fire answer(std::shared_ptr<ipc::Session> session, wire::Message message) {
    ipc::Call call(session, std::move(message));
    if (call.message().method == "done") {
      call.answer(call.result([](wire::JsonWriter& json) { json.raw("{}"); }));
      co_return;
    }
    ipc::Reply reply = co_await subscriptions_.subscribe(call, "tenant");
    call.answer(std::move(reply));
  }

  Client warden_{UniqueFd()};
  Subscriptions subscriptions_;
};

// The first of them finds out that nobody is there any more, and ends the subscriptions of all.
TEST_F(SubscriptionsOfOneWarden, MayEndWhileTheyAreToldWhatTheyMissed) {
  run_beside([&] {
    constexpr int kSubscriptions = 8;
    for (int i = 0; i < kSubscriptions; ++i) {
      ASSERT_TRUE(warden_.send_request(std::to_string(i), "subscribe", R"({"topics":["*"]})"));
    }
    for (int i = 0; i < kSubscriptions; ++i) EXPECT_EQ(warden_.next_message()->method, "events.subscribed");
    const std::string large = "\"" + std::string(1'000'000, 'x') + "\"";
    std::int64_t last = -1;
    on_loop([&] {
      for (int i = 0; i < 30; ++i) last = subscriptions_.publish("tenant", "topic", large);
    });
    EXPECT_EQ(last, 0) << "nobody has missed anything";
    ASSERT_TRUE(warden_.send_request("done", "done"));
    for (auto message = warden_.next_message(); message && message->id != "done"; message = warden_.next_message()) {
    }
    on_loop([&] {
      warden_.close();
      subscriptions_.publish("tenant", "topic", "1");
      EXPECT_FALSE(subscriptions_.are_any());
    });
  });
}

}  // namespace
}  // namespace sallyport::adapters
