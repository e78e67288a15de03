// What the connections of one principal take together.
#include "ipc/account.h"

#include <thread>

#include "ipc/streams.h"
#include "served.h"

namespace sallyport::ipc {
namespace {

using sallyport::testing::Client;
using sallyport::testing::request_frame;

class Accounts : public Served {
 protected:
  Client open_on(Account& account, Answer answer) { return open(std::move(answer), &account); }
  // Answers after having kept the loop busy for longer than a turn may last.
  Answer notes(std::string& order, char mark, Millis busy) {
    return [&order, mark, busy](std::shared_ptr<Session> session, wire::Message message) -> Fire {
      Call call(session, std::move(message));
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
      Call call(session, std::move(message));
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
  EXPECT_TRUE(run_until([&] { return served == 1; }));
  run_for_a_while();
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
    Call call(session, std::move(message));
    const bool has_room = co_await call.await_room();
    if (!has_room) {
      ++given_up;
      co_return;
    }
    const std::string method(call.message().method);
    most = std::max(most, ++at_once);
    most_own[method] = std::max(most_own[method], ++own[method]);
    co_await loop_.sleep(Millis(200));
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

TEST_F(Accounts, AnAnswerToComeIsNotOvertakenBySmallerOnes) {
  Account account{.most_unsent = 4U << 20};
  std::string order;
  const auto later = [&](std::shared_ptr<Session> session, wire::Message message) -> Fire {
    Call call(session, std::move(message));
    const bool is_large = call.message().method == "large";
    const bool has_room = co_await call.await_room(is_large ? 1U << 20 : 500U << 10);
    if (!has_room) co_return;
    co_await loop_.sleep(Millis(10));
    order += is_large ? 'L' : 's';
    call.answer(call.result([](wire::JsonWriter& json) { json.raw("{}"); }));
  };
  std::vector<Client> clients;
  for (int i = 0; i < 12; ++i) {
    clients.push_back(open_on(account, std::ref(later)));
    ASSERT_TRUE(clients.back().send_request("1", i == 7 ? "large" : "small"));
  }
  for (Client& client : clients) client.half_close();
  run_until_all_is_done();
  EXPECT_EQ(order, "sssssssLssss");
}

TEST_F(Accounts, WhoeverGivesUpWaitingForRoomLeavesTheLine) {
  Account account{.most_unsent = 2U << 20};
  account.unsent = 2U << 20;  // of others
  int given_up = 0;
  const auto wait = [&](std::shared_ptr<Session> session, wire::Message message) -> Fire {
    Call call(session, std::move(message));
    const bool has_room = co_await call.await_room(wire::kMaxFrameBytes / 4);
    if (!has_room) ++given_up;
  };
  account.most_unsent = account.unsent + 1;  // is read, and has no room
  Client waits = open_on(account, wait), asks = open_on(account, wait);
  ASSERT_TRUE(waits.send_request("1", "patient"));
  for (int i = 0; i < 100; ++i) {
    ASSERT_TRUE(asks.send_request(std::to_string(i), "hasty"));
    ASSERT_TRUE(
        asks.send(testing::frame_of(R"({"type":"event","method":"cancel","id":")" + std::to_string(i) + "\"}")));
  }
  EXPECT_TRUE(run_until([&] { return given_up == 100; })) << given_up;
  EXPECT_EQ(account.asking.size(), 1U);
  waits.close();
  asks.close();
  run_until_all_is_done();
  EXPECT_TRUE(account.asking.empty());
}

TEST_F(Accounts, RequestsThatAreNeverCompletedHoldABoundedPartOfTheirMemory) {
  Account account{.most_unread = 4U << 20};
  int served = 0;
  const auto count = [&](std::shared_ptr<Session> session, wire::Message message) -> Fire {
    Call call(session, std::move(message));
    ++served;
    call.answer(call.result([](wire::JsonWriter& json) { json.raw("{}"); }));
    co_return;
  };
  const std::string request = request_frame("1", "large", R"({"text":")" + std::string(1'000'000, 'x') + "\"}");
  std::vector<Client> clients;
  std::vector<std::size_t> sent;
  for (int i = 0; i < 40; ++i) {
    clients.push_back(open_on(account, count));
    sent.push_back(0);
  }
  const auto send_all_but = [&](std::size_t rest) {
    for (std::size_t i = 0; i < clients.size(); ++i) {
      sent[i] += clients[i].send_some(std::string_view(request).substr(sent[i], request.size() - rest - sent[i]));
    }
  };
  std::size_t most = 0;
  const auto is_nearly_full = [&] {
    send_all_but(1);
    most = std::max(most, account.unread);
    return most >= 3U << 20;
  };
  EXPECT_TRUE(run_until(is_nearly_full)) << most;
  for (int round = 0; round < 2; ++round) {
    run_for_a_while();
    is_nearly_full();
  }
  EXPECT_EQ(served, 0);
  EXPECT_LE(most, account.most_unread);
  EXPECT_FALSE(account.waiting.empty());
  // Small ones of others are served meanwhile.
  Client other = open_on(account, count);
  ASSERT_TRUE(other.send_request("1", "small"));
  EXPECT_TRUE(run_until([&] { return served == 1; }));
  // Once those that are held are completed, the others have their turn.
  for (int round = 0; round < 1000 && served < 41; ++round) {
    send_all_but(0);
    loop_.after(Millis(20), [this] { loop_.stop(); });
    loop_.run();
  }
  EXPECT_EQ(served, 41);
  EXPECT_EQ(account.unread, 0U);
  clients.clear();
  other.close();
  run_until_all_is_done();
}

// A number that is refused together with too many others may be that of a stream in use.
TEST_F(Accounts, ARequestWithTooManyStreamsEndsNoStreamOfAnother) {
  Account account{.most_streams = 2};
  std::string taken;
  bool has_ended = false;
  const auto read = [&](std::shared_ptr<Session> session, wire::Message message) -> Fire {
    Call call(session, std::move(message));
    const auto in = call.take_stream(call.params().get("data"), "data");
    for (;;) {
      const auto piece = co_await (*in)->read();
      if (!piece || piece->empty()) break;
      taken += as_text(piece->view());
    }
    has_ended = true;
    call.answer(call.result([](wire::JsonWriter& json) { json.raw("{}"); }));
  };
  Client client = open_on(account, read);
  const auto named = [](std::string_view a, std::string_view b) {
    return R"({"data":{"$stream":)" + std::string(a) + R"(},"more":{"$stream":)" + std::string(b) + "}}";
  };
  ASSERT_TRUE(client.send_request("1", "read", R"({"data":{"$stream":1}})"));
  ASSERT_TRUE(client.send_request("2", "read", R"({"data":{"$stream":3}})"));
  ASSERT_TRUE(client.send_request("3", "read", R"({"data":{"$stream":1}})"));
  ASSERT_TRUE(client.send_request("4", "read", named("5", "1")));
  ASSERT_TRUE(client.send(testing::chunk_frame(1, "still there")));
  ASSERT_TRUE(client.send(testing::chunk_frame(1, "")));
  EXPECT_TRUE(run_until([&] { return has_ended; }));
  EXPECT_EQ(taken, "still there");
  client.close();
  run_until_all_is_done();
}

// Who does not answer in time, or is cancelled, must not go on holding what came.
TEST_F(Accounts, AStreamThatACallReadsIsOverWhenTheCallIsGivenUp) {
  Account account;
  std::optional<Error> ended;
  const auto read = [&](std::shared_ptr<Session> session, wire::Message message) -> Fire {
    Call call(session, std::move(message));
    const auto in = call.take_stream(call.params().get("data"), "data");
    for (;;) {
      const auto piece = co_await (*in)->read();
      if (!piece) ended = piece.error();
      if (!piece || piece->empty()) break;
    }
  };
  Client client = open_on(account, read);
  ASSERT_TRUE(client.send_request("1", "read", R"({"data":{"$stream":1}})"));
  ASSERT_TRUE(client.send(testing::chunk_frame(1, "a first part")));
  ASSERT_TRUE(client.send(testing::frame_of(R"({"type":"event","method":"cancel","id":"1"})")));
  ASSERT_TRUE(run_until([&] { return ended.has_value(); }));
  EXPECT_EQ(ended->code, Code::cancelled);
  EXPECT_EQ(account.streams, 0U);
  EXPECT_EQ(sessions_.in_flight(), 0U);
  client.close();
  run_until_all_is_done();
}

TEST_F(Accounts, AWriteThatWaitsForCreditLearnsThatItsStreamWasReset) {
  Account account;
  std::optional<Status> written;
  const auto write = [&](std::shared_ptr<Session> session, wire::Message message) -> Fire {
    Call call(session, std::move(message));
    const auto out = call.open_stream();
    const std::string much(3U << 20, 'x');
    call.on_cancel([stream = *out] { stream->reset(Error::make(Code::cancelled, "enough")); });
    written.emplace(co_await (*out)->write(as_bytes(much)));
  };
  Client client = open_on(account, write);
  ASSERT_TRUE(client.send_request("1", "write"));
  ASSERT_TRUE(client.send(testing::frame_of(R"({"type":"event","method":"cancel","id":"1"})")));
  ASSERT_TRUE(run_until([&] { return written.has_value(); }));
  ASSERT_FALSE(*written);
  EXPECT_EQ(written->error().message, "enough");
  EXPECT_EQ(sessions_.in_flight(), 0U);
  client.close();
  run_until_all_is_done();
  EXPECT_EQ(account.streams, 0U);
}

}  // namespace
}  // namespace sallyport::ipc
