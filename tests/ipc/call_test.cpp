// Calls and the loop, without a warden around them.
#include "ipc/call.h"

#include <thread>

#include "served.h"

namespace sallyport::ipc {
namespace {

using sallyport::testing::Client;
using sallyport::testing::code_of;

// Resumes when the call is answered by somebody else.
struct Cancelled {
  Call& call;
  bool await_ready() const { return false; }
  void await_suspend(std::coroutine_handle<> waiter) {
    call.on_cancel([waiter] { waiter.resume(); });
  }
  void await_resume() const {}
};

using Calls = Served;

TEST_F(Calls, AMethodsOwnTimeoutEndsACallThatNamesNoDeadline) {
  Client client = open([](std::shared_ptr<Session> session, wire::Message message) -> Fire {
    Call call(session, std::move(message));
    call.set_timeout(Millis(20));
    co_await Cancelled{call};
  });
  ASSERT_TRUE(client.send_request("1", "slow"));
  client.half_close();
  run_until_all_is_done();
  EXPECT_EQ(code_of(client.next_message()), "TIMEOUT");
  EXPECT_EQ(sessions_.counters().timeouts, 1U);
}

TEST_F(Calls, TheShorterOfTimeoutAndDeadlineCounts) {
  Client client = open([](std::shared_ptr<Session> session, wire::Message message) -> Fire {
    Call call(session, std::move(message));
    call.set_timeout(Millis(60'000));
    co_await Cancelled{call};
  });
  Bytes out;
  ASSERT_TRUE(wire::append_request(out, {.id = "1", .method = "slow", .deadline_ms = 20, .token = {}}, {}));
  ASSERT_TRUE(client.send(as_text(out.view())));
  client.half_close();
  run_until_all_is_done();
  EXPECT_EQ(code_of(client.next_message()), "TIMEOUT");
}

TEST_F(Calls, ACallThatItsHandlerDropsIsAnsweredAllTheSame) {
  Client client = open([](std::shared_ptr<Session> session, wire::Message message) -> Fire {
    Call call(session, std::move(message));
    co_return;
  });
  ASSERT_TRUE(client.send_request("1", "lost"));
  client.half_close();
  run_until_all_is_done();
  EXPECT_EQ(code_of(client.next_message()), "INTERNAL_ERROR");
}

TEST_F(Calls, OnlyTheFirstAnswerIsSent) {
  Client client = open([](std::shared_ptr<Session> session, wire::Message message) -> Fire {
    Call call(session, std::move(message));
    call.answer(call.result([](wire::JsonWriter& json) { json.value(1); }));
    call.answer(Error::make(Code::conflict, "too late"));
    co_return;
  });
  ASSERT_TRUE(client.send_request("1", "twice"));
  client.half_close();
  run_until_all_is_done();
  EXPECT_EQ(code_of(client.next_message()), "OK");
  EXPECT_EQ(client.next_body(), std::nullopt);
}

TEST_F(Calls, AResultTooLargeForAFrameBecomesAnError) {
  Client client = open([](std::shared_ptr<Session> session, wire::Message message) -> Fire {
    Call call(session, std::move(message));
    call.answer(call.result([](wire::JsonWriter& json) { json.value(std::string(2 << 20, 'x')); }));
    co_return;
  });
  ASSERT_TRUE(client.send_request("1", "large"));
  client.half_close();
  run_until_all_is_done();
  EXPECT_EQ(code_of(client.next_message()), "PAYLOAD_TOO_LARGE");
}

TEST(Loop, TimersFireInOrderAndACancelledOneNever) {
  Loop loop(Spinner::Mode::never);
  std::string order;
  loop.after(Millis(30), [&] { order += 'c'; });
  loop.after(Millis(10), [&] { order += 'a'; });
  const auto cancelled = loop.after(Millis(15), [&] { order += 'x'; });
  loop.after(Millis(20), [&] { order += 'b'; });
  loop.after(Millis(40), [&] { loop.stop(); });
  loop.cancel(cancelled);
  loop.cancel(cancelled);
  loop.run();
  EXPECT_EQ(order, "abc");
}

TEST(Loop, ATimerMayCancelAnotherThatIsDueAtTheSameMoment) {
  Loop loop(Spinner::Mode::never);
  int fired = 0;
  Loop::TimerId second = 0;
  loop.after(Millis(0), [&] {
    ++fired;
    loop.cancel(second);
  });
  second = loop.after(Millis(0), [&] { ++fired; });
  loop.after(Millis(20), [&] { loop.stop(); });
  loop.run();
  EXPECT_EQ(fired, 1);
}

TEST(Loop, ATimerIsInTimeWhateverTheKernelWasSetToBefore) {
  Loop loop(Spinner::Mode::never);
  std::string order;
  // The kernel's timer stays set for one that is cancelled, and must be set anew for an earlier one.
  loop.cancel(loop.after(Millis(5), [&] { order += 'x'; }));
  loop.after(Millis(3'600'000), [&] { order += 'y'; });
  loop.after(Millis(20), [&] {
    order += 'a';
    loop.after(Millis(20), [&] {
      order += 'b';
      loop.stop();
    });
  });
  loop.run();
  EXPECT_EQ(order, "ab");
}

TEST(Loop, WorkPostedFromItsOwnThreadRunsBeforeItSleeps) {
  Loop loop(Spinner::Mode::never);
  std::string order;
  loop.post([&] {
    order += 'a';
    loop.post([&] {
      order += 'c';
      loop.post([&] { loop.stop(); });
    });
    order += 'b';
  });
  loop.run();
  EXPECT_EQ(order, "abc");
}

TEST(Loop, SleepingForNoTimeIsOthersTurn) {
  Loop loop(Spinner::Mode::never);
  std::string order;
  const auto work = [&]() -> Fire {
    for (int i = 0; i < 3; ++i) {
      order += 'w';
      co_await loop.sleep(Millis(0));
    }
    loop.stop();
  };
  loop.post([&] {
    work();
    loop.post([&] { order += 'o'; });
  });
  loop.run();
  EXPECT_EQ(order, "wwow");
}

TEST(Watch, RefusesWhatCannotBeWaitedOn) {
  Loop loop(Spinner::Mode::never);
  EXPECT_FALSE(Watch::open(loop, UniqueFd(::open("/dev/null", O_RDWR | O_CLOEXEC))));
  EXPECT_FALSE(Watch::open(loop, UniqueFd(::open("/proc/self/stat", O_RDONLY | O_CLOEXEC))));
  EXPECT_FALSE(Watch::open(loop, UniqueFd(::open("/tmp", O_RDONLY | O_DIRECTORY | O_CLOEXEC))));
  EXPECT_FALSE(Watch::open(loop, UniqueFd()));
}

// ---- what the connections of one principal take together ----

}  // namespace
}  // namespace sallyport::ipc
