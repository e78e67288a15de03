// Who listens to what, on a connection to the warden, without a backend.
#include "adapters/events.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <future>
#include <thread>

#include "support/client.h"

namespace sallyport::adapters {
namespace {

using sallyport::testing::Client;

class SubscriptionsOfOneWarden : public ::testing::Test {
 protected:
  void SetUp() override {
    int ends[2];
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    ::fcntl(ends[0], F_SETFL, O_NONBLOCK);
    auto session = ipc::Session::open(sessions_, UniqueFd(ends[0]), UniqueFd(), wire::Side::accepting, "test");
    ASSERT_TRUE(session);
    session_ = *session;
    session_->set_capacity({.unsent_bytes = SIZE_MAX});
    warden_.emplace(UniqueFd(ends[1]));
  }
  // Serves until the session has ended; meanwhile the warden does this.
  void serve(const std::function<void()>& warden) {
    read(std::exchange(session_, nullptr));
    sessions_.when_empty([this] { loop_.stop(); });
    std::thread other(warden);
    loop_.run();
    other.join();
    loop_.settle();
  }
  Fire read(std::shared_ptr<ipc::Session> session) {
    while (co_await session->receive()) {
      while (auto request = session->next_request()) answer(session, std::move(*request));
      session->end_turn();
    }
    session->close();
  }
  Fire answer(std::shared_ptr<ipc::Session> session, wire::Message message) {
    ipc::Call call(std::move(session), std::move(message));
    if (call.message().method == "done") {
      call.answer(call.result([](wire::JsonWriter& json) { json.raw("{}"); }));
      co_return;
    }
    ipc::Reply reply = co_await subscriptions_.subscribe(call, "tenant");
    call.answer(std::move(reply));
  }
  // On the loop's thread, as what a backend says.
  void on_loop(const std::function<void()>& work) {
    std::promise<void> done;
    loop_.post([&] {
      work();
      done.set_value();
    });
    done.get_future().wait();
  }

  SystemClock clock_;
  Log log_{-1, LogFormat::text, LogLevel::error, clock_};
  ipc::Loop loop_{Spinner::Mode::never};
  ipc::Sessions sessions_{loop_, log_, ipc::SessionLimits()};
  std::shared_ptr<ipc::Session> session_;
  std::optional<Client> warden_;
  Subscriptions subscriptions_;
};

// The first of them finds out that nobody is there any more, and ends the subscriptions of all.
TEST_F(SubscriptionsOfOneWarden, MayEndWhileTheyAreToldWhatTheyMissed) {
  serve([&] {
    constexpr int kSubscriptions = 8;
    for (int i = 0; i < kSubscriptions; ++i) {
      ASSERT_TRUE(warden_->send_request(std::to_string(i), "subscribe", R"({"topics":["*"]})"));
    }
    for (int i = 0; i < kSubscriptions; ++i) EXPECT_EQ(warden_->next_message()->method, "events.subscribed");
    const std::string large = "\"" + std::string(1'000'000, 'x') + "\"";
    std::int64_t last = -1;
    on_loop([&] {
      for (int i = 0; i < 30; ++i) last = subscriptions_.publish("tenant", "topic", large);
    });
    EXPECT_EQ(last, 0) << "nobody has missed anything";
    ASSERT_TRUE(warden_->send_request("done", "done"));
    for (auto message = warden_->next_message(); message && message->id != "done"; message = warden_->next_message()) {
    }
    on_loop([&] {
      warden_->close();
      subscriptions_.publish("tenant", "topic", "1");
      EXPECT_FALSE(subscriptions_.are_any());
    });
  });
}

}  // namespace
}  // namespace sallyport::adapters
