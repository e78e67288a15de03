// libsallyport against the real daemon, and against peers of the test's own.
#include "client/client.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <thread>

#include "support/client.h"
#include "support/daemon.h"

namespace sallyport {
namespace {

using testing::Daemon;
using testing::kPatience;

struct Pipe {
  UniqueFd read, write;
};
Pipe make_pipe() {
  std::array<int, 2> ends{};
  EXPECT_EQ(::pipe2(ends.data(), O_CLOEXEC), 0);
  return {UniqueFd(ends[0]), UniqueFd(ends[1])};
}
struct Pair {
  UniqueFd a, b;
};
Pair make_pair() {
  std::array<int, 2> ends{};
  EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()), 0);
  return {UniqueFd(ends[0]), UniqueFd(ends[1])};
}

class ClientOfADaemon : public ::testing::Test {
 protected:
  void start(const std::string& config = "[warden]\ndrain_timeout_ms = 500\n") {
    daemon_ = std::make_unique<Daemon>(testing::DaemonOptions{.config = config});
    ASSERT_TRUE(daemon_->start()) << daemon_->log();
  }
  std::unique_ptr<Client> connect() {
    if (!daemon_) start();
    auto client = Client::connect_unix(daemon_->socket_path());
    EXPECT_TRUE(client);
    return client ? std::move(*client) : nullptr;
  }
  void TearDown() override {
    if (daemon_ && daemon_->pid() > 0) {
      EXPECT_EQ(daemon_->stop(), 0);
    }
  }

  std::unique_ptr<Daemon> daemon_;
};

// ---- calls ----

TEST_F(ClientOfADaemon, ACallHasAnAnswerOrAnError) {
  const auto client = connect();
  const auto pong = client->call("test.ping");
  ASSERT_TRUE(pong);
  EXPECT_EQ(pong->json(), R"({"pong":true})");
  EXPECT_EQ(client->call("no.such.method").error().code, Code::method_not_found);
  EXPECT_EQ(client->call("test.sleep", R"({"ms":"long"})").error().code, Code::invalid_params);
  EXPECT_TRUE(client->call("test.ping")) << "an error costs nothing";
}

TEST_F(ClientOfADaemon, CallsThatDoNotWaitAreAnsweredAsTheyFinish) {
  const auto client = connect();
  std::string order;
  const auto note = [&](char mark) {
    return [&order, mark](const Result<Answer>& answer) { order += answer ? mark : '!'; };
  };
  ASSERT_TRUE(client->start("test.sleep", R"({"ms":1000})", note('s')));
  ASSERT_TRUE(client->start("test.ping", {}, note('p')));
  EXPECT_EQ(client->pending(), 2U);
  while (client->pending() != 0) ASSERT_TRUE(client->dispatch(kPatience));
  EXPECT_EQ(order, "ps");
}

TEST_F(ClientOfADaemon, OneThatTakesLongKeepsItsPlaceBeforeManyThatCameLater) {
  const auto client = connect();
  int slow = 0, quick = 0;
  ASSERT_TRUE(client->start("test.sleep", R"({"ms":60000})", [&](const Result<Answer>& answer) { slow += !answer; }));
  for (int i = 1; i <= 500; ++i) {
    ASSERT_TRUE(client->start("test.ping", {}, [&](const Result<Answer>& answer) { quick += answer.has_value(); }));
    while (quick < i) ASSERT_TRUE(client->dispatch(kPatience));
    ASSERT_EQ(client->pending(), 1U);
  }
  client->cancel("1");
  while (slow == 0) ASSERT_TRUE(client->dispatch(kPatience));
  EXPECT_EQ(client->pending(), 0U);
}

TEST_F(ClientOfADaemon, ACancelledCallSaysSo) {
  const auto client = connect();
  std::optional<Code> code;
  const auto id = client->start("test.sleep", R"({"ms":60000})", [&](const Result<Answer>& answer) {
    code = answer ? Code::conflict : answer.error().code;
  });
  ASSERT_TRUE(id);
  client->cancel(*id);
  while (!code) ASSERT_TRUE(client->dispatch(kPatience));
  EXPECT_EQ(*code, Code::cancelled);
}

TEST_F(ClientOfADaemon, ADeadlineIsThePeersAndHasABound) {
  const auto client = connect();
  EXPECT_EQ(client->call("test.sleep", R"({"ms":60000})", {.deadline = Millis(50), .token = {}}).error().code,
            Code::timeout);
  // One that loses its upper bits would be a short one.
  for (const std::int64_t deadline :
       {std::int64_t{0}, std::int64_t{-1}, (std::int64_t{1} << 32) + 50, std::int64_t{wire::kMaxDeadlineMs} + 1}) {
    EXPECT_EQ(client->call("test.ping", {}, {.deadline = Millis(deadline), .token = {}}).error().code,
              Code::invalid_params)
        << deadline;
    EXPECT_EQ(
        client->start("test.ping", {}, [](const auto&) {}, {.deadline = Millis(deadline), .token = {}}).error().code,
        Code::invalid_params)
        << deadline;
  }
  EXPECT_TRUE(client->call("test.ping", {}, {.deadline = Millis(wire::kMaxDeadlineMs), .token = {}}));
}

TEST_F(ClientOfADaemon, ParametersCannotBeAnythingButAnObject) {
  const auto client = connect();
  for (const char* params : {R"({},"token":"x")", R"({}})", "[]", "1", "{", "{\"a\":\"}", "{} {}", "x{}",
                             R"({"a":"\"})", R"({"a":"\\"},"token":"x","b":{"c":"d"})", " "}) {
    EXPECT_EQ(client->call("test.ping", params).error().code, Code::invalid_params) << params;
    EXPECT_EQ(client->start("test.ping", params, [](const auto&) {}).error().code, Code::invalid_params) << params;
    EXPECT_EQ(client->notify("progress", params).error().code, Code::invalid_params) << params;
  }
  for (const char* data : {R"("}")", R"("\"")", R"("\\")", R"([{"a":"]"},{}])", R"("\\\"}")"}) {
    const auto echoed = client->call("test.echo", " {\"data\":" + std::string(data) + "}\n");
    ASSERT_TRUE(echoed) << data;
    EXPECT_EQ(echoed->json(), "{\"data\":" + std::string(data) + "}");
  }
}

TEST_F(ClientOfADaemon, AHandlerMayStartButNotWait) {
  const auto client = connect();
  std::optional<Code> inside;
  bool was_started = false;
  ASSERT_TRUE(client->start("test.ping", {}, [&](const auto&) {
    const auto nested = client->call("test.ping");
    inside = nested ? std::optional<Code>() : nested.error().code;
    was_started = client->start("test.ping", {}, [](const auto&) {}).has_value();
  }));
  ASSERT_TRUE(client->call("test.sleep", R"({"ms":100})"));
  EXPECT_EQ(inside, Code::invalid_request);
  EXPECT_TRUE(was_started);
}

// ---- the end ----

TEST_F(ClientOfADaemon, WhoIsRefusedLearnsWhyEveryTime) {
  start("[warden]\ndrain_timeout_ms = 500\nmax_connections = 1\n");
  const auto only = connect();
  ASSERT_TRUE(only->call("test.ping"));
  for (int i = 0; i < 50; ++i) {
    const auto refused = connect();
    // Whether the refusal comes before or after the request goes out is a matter of luck.
    if (i % 2 == 0) std::this_thread::sleep_for(Millis(2));
    EXPECT_EQ(refused->call("test.ping").error().code, Code::rate_limited) << i;
    EXPECT_EQ(refused->call("test.ping").error().code, Code::rate_limited) << "and so it stays";
  }
}

TEST_F(ClientOfADaemon, WhenTheDaemonIsGoneEveryCallLearnsIt) {
  const auto client = connect();
  int told = 0;
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(client->start("test.sleep", R"({"ms":60000})", [&](const Result<Answer>& answer) {
      told += !answer && answer.error().code == Code::unavailable ? 1 : 0;
    }));
  }
  ASSERT_TRUE(client->call("test.ping"));
  daemon_->kill_now();
  EXPECT_EQ(client->call("test.ping").error().code, Code::unavailable);
  EXPECT_EQ(told, 3);
  EXPECT_FALSE(client->is_open());
}

// ---- streams and events ----

TEST_F(ClientOfADaemon, AStreamComesBackAsItWent) {
  const auto client = connect();
  const auto stream = client->open_stream();
  ASSERT_TRUE(stream);
  const auto answer = client->call("test.echo", "{\"data\":{\"$stream\":" + std::to_string(*stream) + "}}");
  ASSERT_TRUE(answer);
  const auto back = static_cast<std::uint32_t>(answer->value().get("data").get("$stream").as_int().value_or(0));
  std::string sent, came;
  for (int i = 0; i < 40; ++i) {
    const std::string piece(100'000 + static_cast<std::size_t>(i), static_cast<char>('a' + i % 26));
    sent += piece;
    ASSERT_TRUE(client->write_stream(*stream, as_bytes(piece)));
    while (came.size() + 300'000 < sent.size()) {
      const auto bytes = client->read_stream(back);
      ASSERT_TRUE(bytes);
      came += as_text(bytes->view());
    }
  }
  ASSERT_TRUE(client->finish_stream(*stream));
  for (;;) {
    const auto bytes = client->read_stream(back);
    ASSERT_TRUE(bytes);
    if (bytes->empty()) break;
    came += as_text(bytes->view());
  }
  EXPECT_TRUE(came == sent) << came.size();
  EXPECT_TRUE(client->is_as_new()) << "nothing of it is left";
}

TEST_F(ClientOfADaemon, EventsGoToTheirHandler) {
  const auto client = connect();
  std::string events;
  client->on_event([&](const wire::Message& event) { events += std::string(event.method) + " "; });
  ASSERT_TRUE(client->call("warden.subscribe", R"({"events":["warden.*"]})"));
  ASSERT_TRUE(client->call("warden.reload"));
  while (events.empty()) ASSERT_TRUE(client->dispatch(kPatience));
  EXPECT_EQ(events, "warden.reloaded ");
}

// ---- serving ----

class Serving : public ::testing::Test {
 protected:
  // A plugin with two methods on one side, whoever asks on the other. Each side in a thread of its own.
  template <typename Ask>
  Status serve_while(UniqueFd in, UniqueFd out, Ask&& ask) {
    auto plugin = Client::adopt(std::move(in), std::move(out), wire::Side::accepting);
    EXPECT_TRUE(plugin);
    (*plugin)->serve("sum", [](const wire::Message& request) -> Result<std::string> {
      const auto a = request.params.get("a").as_int(), b = request.params.get("b").as_int();
      if (!a || !b) return Error::invalid_param("params", "are two numbers");
      return std::to_string(*a + *b);
    });
    (*plugin)->serve("nonsense", [](const wire::Message&) -> Result<std::string> { return std::string("{\"open\":"); });
    (*plugin)->serve("splice",
                     [](const wire::Message&) -> Result<std::string> { return std::string(R"(1,"error":{})"); });
    std::thread asker(std::forward<Ask>(ask));
    Status ended = (*plugin)->run();
    asker.join();
    return ended;
  }
  static void ask(Client& host) {
    const auto sum = host.call("sum", R"({"a":40,"b":2})");
    ASSERT_TRUE(sum);
    EXPECT_EQ(sum->json(), "42");
    EXPECT_EQ(host.call("sum").error().code, Code::invalid_params);
    EXPECT_EQ(host.call("none").error().code, Code::method_not_found);
    EXPECT_EQ(host.call("nonsense").error().code, Code::internal_error);
    EXPECT_EQ(host.call("splice").error().code, Code::internal_error);
    EXPECT_TRUE(host.call("sum", R"({"a":1,"b":2})")) << "a bad answer costs only itself";
  }
};

TEST_F(Serving, OverASocketUntilThePeerEnds) {
  Pair pair = make_pair();
  const Status ended = serve_while(std::move(pair.a), UniqueFd(), [fd = std::move(pair.b)]() mutable {
    const auto host = Client::adopt(std::move(fd), UniqueFd(), wire::Side::connecting);
    ask(**host);
  });
  EXPECT_TRUE(ended);
}

TEST_F(Serving, OverPipes) {
  Pipe there = make_pipe(), back = make_pipe();
  const Status ended = serve_while(
      std::move(there.read), std::move(back.write),
      [in = std::move(back.read), out = std::move(there.write)]() mutable {
        const auto host = Client::adopt(std::move(in), std::move(out), wire::Side::connecting);
        ask(**host);
        // More than a pipe holds, both ways.
        const std::string large(900'000, 'x');
        EXPECT_EQ((*host)->call("none", "{\"data\":\"" + large + "\"}").error().code, Code::method_not_found);
      });
  EXPECT_TRUE(ended);
}

TEST_F(Serving, OverASocketOneWayAndAPipeTheOther) {
  for (const bool is_socket_in : {true, false}) {
    Pair pair = make_pair();
    Pipe pipe = make_pipe();
    UniqueFd in = is_socket_in ? std::move(pair.a) : std::move(pipe.read);
    UniqueFd out = is_socket_in ? std::move(pipe.write) : std::move(pair.a);
    UniqueFd host_in = is_socket_in ? std::move(pipe.read) : std::move(pair.b);
    UniqueFd host_out = is_socket_in ? std::move(pair.b) : std::move(pipe.write);
    const Status ended = serve_while(
        std::move(in), std::move(out), [host_in = std::move(host_in), host_out = std::move(host_out)]() mutable {
          const auto host = Client::adopt(std::move(host_in), std::move(host_out), wire::Side::connecting);
          ask(**host);
        });
    EXPECT_TRUE(ended) << is_socket_in;
  }
}

TEST(Deadline, BoundsACallThatThePeerDoesNotEvenRead) {
  const std::string large = R"({"data":")" + std::string(900'000, 'x') + "\"}";
  for (const bool is_pipe : {false, true}) {
    Pair pair = make_pair();
    Pipe out = make_pipe();
    auto client = Client::adopt(std::move(pair.a), is_pipe ? std::move(out.write) : UniqueFd(), wire::Side::connecting);
    const auto begin = std::chrono::steady_clock::now();
    const auto late = (*client)->call("test.echo", large, {.deadline = Millis(50), .token = {}});
    ASSERT_FALSE(late);
    EXPECT_EQ(late.error().code, Code::timeout);
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(15));
    EXPECT_FALSE((*client)->is_open()) << "half of a frame is out";
  }
}

TEST(Deadline, IsNotTouchedByWhatThePeerSendsInsteadOfReading) {
  Pair pair = make_pair();
  std::atomic<bool> is_over = false;
  std::thread talks([&, fd = pair.b.get()] {
    Bytes event;
    ASSERT_TRUE(wire::append_event(event, {}, "test.noise", {}));
    while (!is_over && ::send(fd, event.data(), event.size(), MSG_NOSIGNAL) > 0) ::usleep(1'000);
  });
  auto client = Client::adopt(std::move(pair.a), UniqueFd(), wire::Side::connecting);
  const auto late = (*client)->call("test.echo", R"({"data":")" + std::string(900'000, 'x') + "\"}",
                                    {.deadline = Millis(50), .token = {}});
  is_over = true;
  talks.join();
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error().code, Code::timeout);
}

TEST(Streams, AHandlerMayResetTheOneThatIsReadMeanwhile) {
  Pair ends = make_pair();
  auto server = std::move(*Client::adopt(std::move(ends.b), UniqueFd(), wire::Side::accepting));
  auto client = std::move(*Client::adopt(std::move(ends.a), UniqueFd(), wire::Side::connecting));
  server->serve("open", [&](const wire::Message&) -> Result<std::string> {
    return R"({"output":{"$stream":)" + std::to_string(*server->open_stream()) + "}}";
  });
  server->serve("now", [&](const wire::Message&) -> Result<std::string> {
    EXPECT_TRUE(server->notify("end", "{}"));
    return std::string("{}");
  });
  std::thread serving([&] { EXPECT_TRUE(server->run()); });
  const auto opened = client->call("open");
  ASSERT_TRUE(opened);
  const auto stream = static_cast<std::uint32_t>(*opened->value().get("output").get("$stream").as_int());
  client->on_event(
      [&](const wire::Message&) { client->reset_stream(stream, Error::make(Code::cancelled, "not wanted any more")); });
  ASSERT_TRUE(client->start("now", {}, [](const Result<Answer>&) {}));
  const auto read = client->read_stream(stream, kPatience);
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().code, Code::not_found);
  client.reset();
  serving.join();
}

TEST_F(Serving, APeerThatIsGoneIsAnErrorAndNoSignal) {
  EXPECT_EQ(testing::in_child([] {
              ::signal(SIGPIPE, SIG_DFL);
              for (const bool is_pipe_in : {true, false}) {
                Pipe in = make_pipe(), out = make_pipe();
                Pair pair = make_pair();
                out.read.reset();
                auto client = Client::adopt(is_pipe_in ? std::move(in.read) : std::move(pair.a), std::move(out.write),
                                            wire::Side::connecting);
                const auto lost = (*client)->call("test.ping");
                if (lost || lost.error().code != Code::unavailable) return 1;
                sigset_t pending;
                ::sigpending(&pending);
                if (sigismember(&pending, SIGPIPE) != 0) return 2;
              }
              Pipe in = make_pipe();
              Pair pair = make_pair();
              pair.b.reset();
              auto client = Client::adopt(std::move(in.read), std::move(pair.a), wire::Side::connecting);
              return (*client)->call("test.ping") ? 3 : 0;
            }),
            0);
}

}  // namespace
}  // namespace sallyport
