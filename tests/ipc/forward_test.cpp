// Calls passed on to another process: what becomes of their events.
#include "ipc/forward.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <atomic>
#include <thread>

#include "support/client.h"

namespace sallyport::ipc {
namespace {

using sallyport::testing::Client;
using sallyport::testing::eventually;
using sallyport::testing::text_of;

class Forwarding : public ::testing::Test {
 protected:
  void SetUp() override {
    front_ = open(wire::Side::accepting, caller_);
    back_ = open(wire::Side::connecting, source_);
    back_->on_event([this](const wire::Message&) { is_all_read_ = true; });
  }
  std::shared_ptr<Session> open(wire::Side side, std::optional<Client>& peer) {
    int ends[2];
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    ::fcntl(ends[0], F_SETFL, O_NONBLOCK);
    auto session = Session::open(sessions_, UniqueFd(ends[0]), UniqueFd(), side, "test");
    EXPECT_TRUE(session);
    peer.emplace(UniqueFd(ends[1]));
    return *session;
  }
  // Passes on what `caller_` asks until it is gone; meanwhile both peers do this.
  void serve(const std::function<void()>& peers) {
    read(front_);
    read(back_);
    sessions_.when_empty([this] { loop_.stop(); });
    std::thread other([&] {
      peers();
      source_->close();
      caller_->close();
    });
    loop_.run();
    other.join();
    loop_.settle();
  }
  Fire read(std::shared_ptr<Session> session) {
    while (co_await session->receive()) {
      while (auto request = session->next_request()) answer(session, std::move(*request));
      session->end_turn();
    }
    session->close();
  }
  Fire answer(std::shared_ptr<Session> session, wire::Message message) {
    Call call(std::move(session), std::move(message));
    if (call.message().method == "done") {
      call.answer(call.result([](wire::JsonWriter& json) { json.raw("{}"); }));
      co_return;
    }
    Asking asking(call, back_, call.message().method, "{}", Events::relayed);
    const auto answer = co_await asking;
    if (answer) call.answer(forward_result(call, *back_, *answer));
  }
  void say(std::string_view id, std::string_view method, std::string_view params = {}) {
    Bytes frame;
    ASSERT_TRUE(wire::append_event(frame, id, method, params));
    ASSERT_TRUE(source_->send(text_of(frame)));
  }

  SystemClock clock_;
  Log log_{-1, LogFormat::text, LogLevel::error, clock_};
  Loop loop_{Spinner::Mode::never};
  Sessions sessions_{loop_, log_, SessionLimits()};
  std::shared_ptr<Session> front_, back_;
  std::optional<Client> caller_, source_;  // at the other ends
  std::atomic<bool> is_all_read_ = false;
};

TEST_F(Forwarding, WhatWasLostBeforeCountsWithWhatIsLostHere) {
  serve([&] {
    ASSERT_TRUE(caller_->send_request("s", "events.subscribe"));
    const auto asked = source_->next_message();
    ASSERT_TRUE(asked);
    const std::string id(asked->id), large = R"({"text":")" + std::string(900'000, 'x') + "\"}";
    constexpr std::uint64_t kSaid = 20, kLostBefore = 7;
    for (std::uint64_t i = 0; i < kSaid; ++i) say(id, "events.message", large);
    say(id, "events.lost", R"({"count":7})");
    say({}, "all.said");
    ASSERT_TRUE(eventually([this] { return is_all_read_.load(); }));
    std::uint64_t heard = 0;
    ASSERT_TRUE(caller_->send_request("d", "done"));
    for (auto message = caller_->next_message(); message && message->id != "d"; message = caller_->next_message()) {
      ++heard;
    }
    say(id, "events.message", "{}");
    const auto told = caller_->next_message();
    ASSERT_TRUE(told);
    EXPECT_EQ(told->method, "events.lost");
    EXPECT_EQ(told->params.get("count").as_uint(), kSaid - heard + kLostBefore);
    EXPECT_LT(heard, kSaid) << "else nothing was lost";
    EXPECT_EQ(caller_->next_message()->method, "events.message");
  });
}

}  // namespace
}  // namespace sallyport::ipc
