// How a session ends: what is still sent and read, and what is not.
#include <atomic>

#include "ipc/streams.h"
#include "served.h"

namespace sallyport::ipc {
namespace {

using sallyport::testing::chunk_frame;
using sallyport::testing::Client;
using sallyport::testing::code_of;
using sallyport::testing::frame_of;

class Endings : public Served {
 protected:
  // Serves until the session has ended; meanwhile the client does this.
  void serve_while(const std::function<void()>& client) {
    serve(session_, [this](std::shared_ptr<Session> session, wire::Message message) {
      return answer(std::move(session), std::move(message));
    });
    run_beside(client);
  }
  // Answers with a stream of `bytes_`, a moment later, with one that stays open, or with what came on the stream that
  // the request names.
  Fire answer(std::shared_ptr<Session> session, wire::Message message) {
    Call call(session, std::move(message));
    if (call.params().get("data")) {
      has_begun_ = true;
      const auto in = call.take_stream(call.params().get("data"), "data");
      std::size_t count = 0;
      for (;;) {
        const auto piece = co_await (*in)->read();
        if (!piece || piece->empty()) break;
        count += piece->size();
      }
      call.answer(call.result([&](wire::JsonWriter& json) { json.value(count); }));
      co_return;
    }
    const auto out = call.open_stream();
    const bool is_endless = call.message().method == "endless";
    (*out)->set_endless(is_endless);
    call.after_reply([this, is_endless, out = *out] {
      if (is_endless) endless_ = out;
      if (!is_endless) send(out);
    });
    call.answer(call.result([&](wire::JsonWriter& json) { json.value((*out)->number()); }));
  }
  Fire send(std::shared_ptr<OutStream> out) {
    co_await loop_.sleep(Millis(30));
    const std::string bytes(bytes_, 'b');
    const Status sent = co_await out->write(as_bytes(bytes));
    if (sent) out->finish();
  }
  void drain() {
    on_loop([this] { session_->drain(); });
  }
  void drain_once_a_request_is_in_flight() {
    ASSERT_TRUE(sallyport::testing::eventually([this] { return has_begun_.load(); }));
    drain();
  }
  // What comes on streams until their end or that of the connection; grants as much again if it shall.
  std::size_t read_stream(bool grants, bool& has_ended) {
    std::size_t count = 0;
    has_ended = false;
    while (const auto body = client_.next_body()) {
      if (wire::frame_kind(as_bytes(*body)) != wire::FrameKind::chunk) continue;
      const auto chunk = wire::parse_chunk(as_bytes(*body));
      count += chunk->data.size();
      has_ended = chunk->data.empty();
      if (has_ended) break;
      if (grants) {
        client_.send(frame_of(R"({"type":"event","method":"stream.credit","params":{"stream":2,"bytes":)" +
                              std::to_string(chunk->data.size()) + "}}"));
      }
    }
    return count;
  }

  std::pair<std::shared_ptr<Session>, Client> ends_ = connect();
  std::shared_ptr<Session>& session_ = ends_.first;
  Client& client_ = ends_.second;
  std::shared_ptr<OutStream> endless_;
  std::size_t bytes_ = 100'000;
  std::atomic<bool> has_begun_ = false;
};

TEST_F(Endings, APeerThatHasSaidItsLastIsStillSentItsStreams) {
  serve_while([&] {
    client_.send_request("1", "stream");
    client_.half_close();
    EXPECT_EQ(code_of(client_.next_message()), "OK");
    bool has_ended = false;
    EXPECT_EQ(read_stream(false, has_ended), bytes_);
    EXPECT_TRUE(has_ended);
    EXPECT_EQ(client_.next_body(), std::nullopt);
  });
}

TEST_F(Endings, APeerThatCanGrantNoMoreGetsAsMuchAsItGranted) {
  bytes_ = 3U << 20;
  serve_while([&] {
    client_.send_request("1", "stream");
    client_.half_close();
    EXPECT_EQ(code_of(client_.next_message()), "OK");
    bool has_ended = false;
    EXPECT_EQ(read_stream(false, has_ended), wire::kInitialCredit);
    EXPECT_FALSE(has_ended);
  });
}

TEST_F(Endings, AShutdownSendsWhatIsLeftOfStreamsAndTakesTheCreditForIt) {
  bytes_ = 3U << 20;
  serve_while([&] {
    client_.send_request("1", "stream");
    EXPECT_EQ(code_of(client_.next_message()), "OK");
    drain();
    bool has_ended = false;
    EXPECT_EQ(read_stream(true, has_ended), bytes_);
    EXPECT_TRUE(has_ended);
    EXPECT_EQ(client_.next_body(), std::nullopt);
  });
}

TEST_F(Endings, AShutdownReadsWhatARequestInFlightIsSent) {
  serve_while([&] {
    client_.send_request("1", "count", R"({"data":{"$stream":1}})");
    client_.send(chunk_frame(1, "some"));
    drain_once_a_request_is_in_flight();
    client_.send(chunk_frame(1, "more") + chunk_frame(1, ""));
    const auto answer = client_.next_message();
    ASSERT_EQ(code_of(answer), "OK");
    EXPECT_EQ(answer->result.as_int(), 8);
  });
}

TEST_F(Endings, AShutdownRefusesWhatComesLaterAndResetsItsStreams) {
  serve_while([&] {
    client_.send_request("1", "count", R"({"data":{"$stream":1}})");
    drain_once_a_request_is_in_flight();
    client_.send_request("2", "count", R"({"data":{"$stream":3}})");
    const auto refused = client_.next_message();
    EXPECT_EQ(code_of(refused), "UNAVAILABLE");
    EXPECT_EQ(refused->id, "2");
    const auto reset = client_.next_message();
    ASSERT_TRUE(reset);
    EXPECT_EQ(reset->method, "stream.reset");
    client_.send(chunk_frame(1, ""));
    EXPECT_EQ(code_of(client_.next_message()), "OK");
  });
}

TEST_F(Endings, NobodyWaitsForAStreamWithoutAnEnd) {
  serve_while([&] {
    client_.send_request("1", "endless");
    EXPECT_EQ(code_of(client_.next_message()), "OK");
    drain();
    bool has_ended = false;
    read_stream(true, has_ended);
    EXPECT_FALSE(has_ended);
  });
}

TEST_F(Endings, OfEventsThatNobodyReadsTheLatestOfEachKindIsSent) {
  std::promise<void> is_sent;
  loop_.post([&] {
    // More than the socket takes.
    const std::string large(32U << 20, 'x');
    for (std::size_t at = 0; at < large.size(); at += 1U << 19) {
      session_->send_chunk(2, as_bytes(std::string_view(large).substr(at, 1U << 19)));
    }
    const std::size_t before = session_->unsent_bytes();
    EXPECT_GT(before, 0U);
    for (int i = 1; i <= 1000; ++i) {
      session_->send_latest("7", "size", "{\"n\":" + std::to_string(i) + "}");
      session_->send_latest("7", "role", "{\"n\":" + std::to_string(-i) + "}");
    }
    EXPECT_EQ(session_->unsent_bytes(), before);
    is_sent.set_value();
  });
  serve_while([&] {
    is_sent.get_future().wait();
    std::map<std::string, std::int64_t> told;
    while (told.size() < 2) {
      const auto body = client_.next_body();
      ASSERT_TRUE(body);
      if (wire::frame_kind(as_bytes(*body)) == wire::FrameKind::chunk) continue;
      auto event = sallyport::testing::decode(*body);
      ASSERT_TRUE(event) << *body;
      EXPECT_EQ(event->id, "7");
      EXPECT_TRUE(told.emplace(event->method, event->params.get("n").as_int().value_or(0)).second) << *body;
    }
    EXPECT_EQ(told["size"], 1000);
    EXPECT_EQ(told["role"], -1000);
    client_.close();
  });
}

}  // namespace
}  // namespace sallyport::ipc
