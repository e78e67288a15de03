// Calls and the loop, without a warden around them.
#include "ipc/call.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <thread>

#include "support/client.h"

namespace sallyport::ipc {
namespace {

using sallyport::testing::Client;
using sallyport::testing::code_of;
using sallyport::testing::request_frame;

// Resumes when the call is answered by somebody else.
struct Cancelled {
  Call& call;
  bool await_ready() const { return false; }
  void await_suspend(std::coroutine_handle<> waiter) {
    call.on_cancel([waiter] { waiter.resume(); });
  }
  void await_resume() const {}
};

class Calls : public ::testing::Test {
 protected:
  using Answer = std::function<Fire(std::shared_ptr<Session>, wire::Message)>;

  // One session whose requests go to `answer`, served until its client has ended.
  Client open(Answer answer) {
    int ends[2];
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    ::fcntl(ends[0], F_SETFL, O_NONBLOCK);
    auto session = Session::open(sessions_, UniqueFd(ends[0]), UniqueFd(), wire::Side::accepting, "test");
    EXPECT_TRUE(session);
    serve(*session, std::move(answer));
    return Client(UniqueFd(ends[1]));
  }
  void run_until_all_is_done() {
    sessions_.when_empty([this] { loop_.stop(); });
    loop_.run();
  }
  static Fire serve(std::shared_ptr<Session> session, Answer answer) {
    while (co_await session->receive()) {
      while (auto request = session->next_request()) answer(session, std::move(*request));
      session->end_turn();
    }
    session->finish();
  }

  SystemClock clock_;
  Log log_{-1, LogFormat::text, LogLevel::error, clock_};
  Loop loop_{Spinner::Mode::never};
  Sessions sessions_{loop_, log_, SessionLimits()};
};

TEST_F(Calls, AMethodsOwnTimeoutEndsACallThatNamesNoDeadline) {
  Client client = open([](std::shared_ptr<Session> session, wire::Message message) -> Fire {
    Call call(std::move(session), std::move(message));
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
    Call call(std::move(session), std::move(message));
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
    Call call(std::move(session), std::move(message));
    co_return;
  });
  ASSERT_TRUE(client.send_request("1", "lost"));
  client.half_close();
  run_until_all_is_done();
  EXPECT_EQ(code_of(client.next_message()), "INTERNAL_ERROR");
}

TEST_F(Calls, OnlyTheFirstAnswerIsSent) {
  Client client = open([](std::shared_ptr<Session> session, wire::Message message) -> Fire {
    Call call(std::move(session), std::move(message));
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
    Call call(std::move(session), std::move(message));
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

class Accounts : public Calls {
 protected:
  Client open_on(Account& account, Answer answer) {
    int ends[2];
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    ::fcntl(ends[0], F_SETFL, O_NONBLOCK);
    auto session = Session::open(sessions_, UniqueFd(ends[0]), UniqueFd(), wire::Side::accepting, "test/1");
    EXPECT_TRUE(session);
    (*session)->charge_to(account);
    serve(*session, std::move(answer));
    return Client(UniqueFd(ends[1]));
  }
  // Answers after having kept the loop busy for longer than a turn may last.
  Answer notes(std::string& order, char mark, Millis busy) {
    return [&order, mark, busy](std::shared_ptr<Session> session, wire::Message message) -> Fire {
      Call call(std::move(session), std::move(message));
      const auto until = std::chrono::steady_clock::now() + busy;
      while (std::chrono::steady_clock::now() < until) {
      }
      order += mark;
      call.answer(call.result([](wire::JsonWriter& json) { json.raw("{}"); }));
      co_return;
    };
  }
};

TEST_F(Accounts, ManyBusyConnectionsOfOneDoNotKeepAnotherWaiting) {
  Account many, one;
  std::string order;
  std::vector<Client> storm;
  for (int i = 0; i < 30; ++i) {
    storm.push_back(open_on(many, notes(order, 'm', kMaxTurnTime + Millis(1))));
    for (const char* id : {"1", "2", "3"}) ASSERT_TRUE(storm.back().send_request(id, "busy"));
    storm.back().half_close();
  }
  Client quiet = open_on(one, notes(order, 'q', Millis(0)));
  ASSERT_TRUE(quiet.send_request("1", "quick"));
  quiet.half_close();
  run_until_all_is_done();
  EXPECT_EQ(order.size(), 91U) << "everybody is served in the end";
  // All of one small read are handled together; then it is the other's turn.
  EXPECT_LE(order.find('q'), 6U) << order;
}

TEST_F(Accounts, NoneOfTheConnectionsOfOneIsLeftBehind) {
  Account account;
  std::string order;
  std::vector<Client> all;
  for (int i = 0; i < 5; ++i) {
    all.push_back(open_on(account, notes(order, static_cast<char>('a' + i), kMaxTurnTime + Millis(1))));
    // Large, so that each is a turn of its own.
    const std::string params = R"({"text":")" + std::string(20'000, 'x') + "\"}";
    for (const char* id : {"1", "2", "3", "4"}) ASSERT_TRUE(all.back().send_request(id, "busy", params));
    all.back().half_close();
  }
  run_until_all_is_done();
  ASSERT_EQ(order.size(), 20U);
  for (char each = 'a'; each <= 'e'; ++each) {
    // Whoever was first may be first again before it is known that others wait.
    EXPECT_LT(order.find(each), 7U) << "everybody's first comes before anybody's third: " << order;
  }
}

TEST_F(Accounts, AnswersThatNobodyReadsStopAllConnectionsOfOneAndNoOther) {
  Account hog{.most_unsent = 1U << 20}, other{.most_unsent = 1U << 20};
  int hogged = 0, served = 0;
  const auto large = [](int& count) {
    return [&count](std::shared_ptr<Session> session, wire::Message message) -> Fire {
      Call call(std::move(session), std::move(message));
      ++count;
      call.answer(call.result([](wire::JsonWriter& json) { json.value(std::string(900'000, 'y')); }));
      co_return;
    };
  };
  std::vector<Client> hogs;
  for (int i = 0; i < 200; ++i) {
    hogs.push_back(open_on(hog, large(hogged)));
    for (int each = 0; each < 20; ++each) ASSERT_TRUE(hogs.back().send_request(std::to_string(each), "large"));
  }
  Client reader = open_on(other, large(served));
  ASSERT_TRUE(reader.send_request("1", "large"));
  // Long enough that everything that will be read was.
  loop_.after(Millis(500), [this] { loop_.stop(); });
  loop_.run();
  EXPECT_EQ(served, 1);
  EXPECT_LT(hog.unsent, std::size_t{3U << 20});
  EXPECT_LT(hogged, 2000) << "of 4,000; some of each the kernel holds";
  // Once they are read, the others are read on.
  hogs.erase(hogs.begin(), hogs.begin() + 199);
  const int before = hogged;
  std::thread reads([&] {
    for (int each = 0; each < 20 && hogs[0].next_body(); ++each) {
    }
    hogs.clear();
    reader.close();
  });
  run_until_all_is_done();
  reads.join();
  EXPECT_GE(hogged, before);
  EXPECT_EQ(hog.unsent, 0U);
  EXPECT_TRUE(hog.waiting.empty());
}

TEST_F(Accounts, AnswersToComeWaitForRoomAndGiveItBack) {
  // For eight, and two of each connection.
  Account account{.most_unsent = 8U << 20};
  int at_once = 0, most = 0, given_up = 0;
  std::map<std::string, int> own, most_own;
  std::string order;
  const auto later = [&](std::shared_ptr<Session> session, wire::Message message) -> Fire {
    Call call(std::move(session), std::move(message));
    const bool has_room = co_await call.await_room();
    if (!has_room) {
      ++given_up;
      co_return;
    }
    const std::string method(call.message().method);
    most = std::max(most, ++at_once);
    most_own[method] = std::max(most_own[method], ++own[method]);
    co_await loop_.sleep(Millis(20));
    --at_once;
    --own[method];
    if (method == "first") order += call.message().id;
    call.answer(call.result([](wire::JsonWriter& json) { json.raw("{}"); }));
  };
  std::vector<Client> clients;
  for (const char* name : {"first", "b", "c", "d", "last"}) {
    clients.push_back(open_on(account, std::ref(later)));
    for (const char* id : {"1", "2", "3", "4", "5", "6"}) ASSERT_TRUE(clients.back().send_request(id, name));
  }
  loop_.after(Millis(5), [&] { clients.back().close(); });
  for (Client& client : clients) client.half_close();
  run_until_all_is_done();
  EXPECT_EQ(most, 8);
  EXPECT_EQ(most_own["first"], 2);
  EXPECT_EQ(given_up, 6) << "of a connection that ended before there was room";
  EXPECT_EQ(order, "123456");
  EXPECT_EQ(account.promised, 0U);
  EXPECT_TRUE(account.asking.empty());
}

}  // namespace
}  // namespace sallyport::ipc
