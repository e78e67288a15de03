// The connection to Redis, against peers that a test writes by hand.
#include "adapters/redis.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <future>
#include <thread>

#include "support/daemon.h"

namespace sallyport::adapters {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// Takes connections, one at a time, and does with each whatever a test likes; it closes when that returns.
class FakeRedis {
 public:
  using Serve = std::function<void(int connection)>;
  FakeRedis(const std::string& path, Serve serve) : listening_(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, path.c_str(), path.size());
    if (::bind(listening_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
        ::listen(listening_.get(), 8) != 0) {
      std::abort();
    }
    thread_ = std::thread([this, serve = std::move(serve)] { run(serve); });
  }
  ~FakeRedis() {
    ::shutdown(listening_.get(), SHUT_RDWR);
    thread_.join();
  }
  FakeRedis(const FakeRedis&) = delete;
  FakeRedis& operator=(const FakeRedis&) = delete;

  // So many bytes, or as many as come before the end.
  static std::size_t take(int connection, std::size_t most) {
    std::string block(64U << 10, '\0');
    std::size_t taken = 0;
    while (taken < most) {
      const ssize_t count = ::recv(connection, block.data(), std::min(block.size(), most - taken), 0);
      if (count <= 0) break;
      taken += static_cast<std::size_t>(count);
    }
    return taken;
  }
  static bool say(int connection, std::string_view text) {
    while (!text.empty()) {
      const ssize_t count = ::send(connection, text.data(), text.size(), MSG_NOSIGNAL);
      if (count <= 0) return false;
      text.remove_prefix(static_cast<std::size_t>(count));
    }
    return true;
  }

 private:
  void run(const Serve& serve) {
    for (;;) {
      const UniqueFd connection{::accept4(listening_.get(), nullptr, nullptr, SOCK_CLOEXEC)};
      if (!connection) return;
      serve(connection.get());
    }
  }

  UniqueFd listening_;
  std::thread thread_;
};

class RedisConnection : public ::testing::Test {
 protected:
  // Of what a peer does, until the test is over.
  void serve(FakeRedis::Serve serve) {
    peer_ = std::make_unique<FakeRedis>(directory_.path() + "/redis.sock", std::move(serve));
    config_.options["redis"].url = "unix://" + directory_.path() + "/redis.sock";
    redis_ = std::make_shared<Redis>(config_, machinery_);
    thread_ = std::thread([this] { loop_.run(); });
  }
  void stop() {
    if (!thread_.joinable()) return;
    loop_.post([this] { loop_.stop(); });
    thread_.join();
    loop_.settle();
    redis_.reset();
    peer_.reset();
  }
  void TearDown() override { stop(); }

  using Answer = Result<RedisReply>;
  template <typename... Word>
  std::future<Answer> ask(Word... word) {
    std::vector<std::string> words;
    (words.emplace_back(std::move(word)), ...);
    const auto promise = std::make_shared<std::promise<Answer>>();
    const auto shared = std::make_shared<std::vector<std::string>>(std::move(words));
    loop_.post([this, shared, promise] { run(std::move(*shared), promise); });
    return promise->get_future();
  }
  Fire run(std::vector<std::string> words, std::shared_ptr<std::promise<Answer>> promise) {
    Answer answer = co_await redis_->command(std::move(words));
    promise->set_value(std::move(answer));
  }
  static std::string code_of(std::future<Answer>& answer) {
    if (answer.wait_for(seconds(30)) != std::future_status::ready) return "NOTHING";
    const Answer got = answer.get();
    return got ? "OK" : std::string(to_string(got.error().code));
  }

  const sallyport::testing::TemporaryDirectory directory_;
  SystemClock clock_;
  Log log_{-1, LogFormat::text, LogLevel::error, clock_};
  ipc::Loop loop_{Spinner::Mode::never};
  ipc::Sessions sessions_{loop_, log_, ipc::SessionLimits()};
  Machinery machinery_{sessions_, log_, clock_};
  platform::Config config_;
  std::unique_ptr<FakeRedis> peer_;
  std::shared_ptr<Redis> redis_;
  std::thread thread_;
};

constexpr std::size_t kMiB = 1U << 20;

TEST_F(RedisConnection, IsNotGivenUpWhileALargeValueStillMoves) {
  serve([](int connection) {
    for (int i = 0; i < 7; ++i) {
      FakeRedis::take(connection, kMiB);
      std::this_thread::sleep_for(milliseconds(900));
    }
    // The rest of it, and what is behind it, which has waited for longer than one that moves nothing may.
    FakeRedis::take(connection, 8 * kMiB);
    FakeRedis::say(connection, "+OK\r\n+PONG\r\n");
    FakeRedis::take(connection, 1);
  });
  auto large = ask("SET", "k", std::string(8 * kMiB, 'x')), other = ask("PING", std::string(7 * kMiB, 'y'));
  EXPECT_EQ(code_of(large), "OK");
  EXPECT_EQ(code_of(other), "OK");
}

TEST_F(RedisConnection, IsGivenUpIfNothingComesHoweverMuchIsSent) {
  serve([](int connection) { FakeRedis::take(connection, SIZE_MAX); });
  std::vector<std::future<Answer>> asked;
  asked.push_back(ask("PING"));
  // Whoever was put off by each of them would never be given up.
  while (asked[0].wait_for(milliseconds(250)) == std::future_status::timeout) asked.push_back(ask("PING"));
  EXPECT_EQ(code_of(asked[0]), "UNAVAILABLE");
}

TEST_F(RedisConnection, AttackValuesThatAreNotTakenWaitOnlyUpToALimit) {
  std::promise<void> over;
  serve([is_over = over.get_future().share()](int) { is_over.wait(); });
  std::vector<std::future<Answer>> waiting;
  for (int i = 0; i < 4; ++i) waiting.push_back(ask("SET", "k", std::string(16 * kMiB, 'x')));
  auto refused = ask("SET", "k", std::string(16 * kMiB, 'x'));
  ASSERT_EQ(refused.wait_for(seconds(30)), std::future_status::ready);
  const Answer answer = refused.get();
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().code, Code::rate_limited) << "it waits with the others";
  EXPECT_TRUE(answer.error().retryable);
  auto small = ask("PING");
  EXPECT_EQ(small.wait_for(milliseconds(100)), std::future_status::timeout) << "there is room for it";
  over.set_value();
  for (auto& each : waiting) EXPECT_EQ(code_of(each), "UNAVAILABLE") << "it closed";
}

// Each connection is answered with the next of them.
const std::vector<std::string> kEndless = {"$8000000000\r\n",
                                           "*4\r\n$8\r\npmessage\r\n$1\r\n*\r\n$1\r\nx\r\n$8000000000\r\n", "+"};

TEST_F(RedisConnection, AttackAnAnswerWithoutEndIsNotKept) {
  std::size_t next = 0;
  std::vector<std::size_t> said;
  serve([&](int connection) {
    FakeRedis::take(connection, 1);
    const std::string block(kMiB, 'x');
    std::size_t count = 0;
    bool is_heard = FakeRedis::say(connection, kEndless.at(next++));
    while (count < 256 * kMiB && is_heard) {
      is_heard = FakeRedis::say(connection, block);
      count += block.size();
    }
    FakeRedis::take(connection, SIZE_MAX);
    said.push_back(count);
  });
  for (const std::string& head : kEndless) {
    auto answer = ask("GET", "k");
    EXPECT_EQ(code_of(answer), "UNAVAILABLE") << head;
  }
  stop();
  ASSERT_EQ(said.size(), kEndless.size());
  for (const std::size_t count : said) EXPECT_LT(count, 80 * kMiB);
}

TEST_F(RedisConnection, AttackAnArrayThatSaysItIsHugeIsRefusedBeforeThereIsRoomForIt) {
  const std::vector<std::string> arrays = {"*100000000\r\n", "*3\r\n*60000\r\n*60000\r\n", "*2\r\n*0\r\n*65535\r\n"};
  std::size_t next = 0;
  serve([&](int connection) {
    FakeRedis::take(connection, 1);
    // It may connect once more before the end.
    if (next < arrays.size()) FakeRedis::say(connection, arrays[next++]);
    FakeRedis::take(connection, SIZE_MAX);
  });
  for (const std::string& said : arrays) {
    auto answer = ask("GET", "k");
    EXPECT_EQ(answer.wait_for(seconds(3)), std::future_status::ready) << said;
    EXPECT_EQ(code_of(answer), "UNAVAILABLE") << said;
  }
  stop();
}

TEST_F(RedisConnection, AnswersUpToTheLimitArriveWhole) {
  const std::string value(64 * kMiB, 'v');
  serve([&](int connection) {
    FakeRedis::take(connection, 1);
    FakeRedis::say(connection, "$" + std::to_string(value.size()) + "\r\n" + value + "\r\n");
    FakeRedis::take(connection, SIZE_MAX);
  });
  auto answer = ask("GET", "k");
  ASSERT_EQ(answer.wait_for(seconds(30)), std::future_status::ready);
  const Answer got = answer.get();
  ASSERT_TRUE(got);
  EXPECT_TRUE(got->text == value);
}

}  // namespace
}  // namespace sallyport::adapters
