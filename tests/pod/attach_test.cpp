// What a client shows of a pod, with a pod of the test's own at the other end.
#include "pod/attach.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <termios.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstring>
#include <future>
#include <thread>

#include "pod/limits.h"

namespace sallyport::pod {
namespace {

struct Pipe {
  Pipe() {
    std::array<int, 2> ends{};
    EXPECT_EQ(::pipe2(ends.data(), O_CLOEXEC), 0);
    out = UniqueFd(ends[0]);
    in = UniqueFd(ends[1]);
  }
  UniqueFd out, in;
};

// A pod as its clients see it: it serves one attach, and then does what the test wants.
class FakePod {
 public:
  explicit FakePod(UniqueFd connection)
      : peer_(std::move(*Client::adopt(std::move(connection), UniqueFd(), wire::Side::accepting))) {
    peer_->set_window(wire::kPodWindow);
    peer_->serve("pod.attach", [this](const wire::Message&) -> Result<std::string> {
      TRY(stream_, peer_->open_stream());
      return wire::to_json([&](wire::JsonWriter& json) {
        json.begin_object().key("output").begin_object().member("$stream", stream_).end_object();
        json.member("offset", 0).member("repaint", 0).end_object();
      });
    });
    peer_->serve("pod.log", [this](const wire::Message&) -> Result<std::string> {
      TRY(stream_, peer_->open_stream());
      return wire::to_json([&](wire::JsonWriter& json) {
        json.begin_object().key("output").begin_object().member("$stream", stream_).end_object();
        json.member("offset", 0).member("bytes", 10).end_object();
      });
    });
    while (stream_ == 0 && peer_->dispatch(Millis(10'000))) {
    }
  }
  void say(std::string_view text) { EXPECT_TRUE(peer_->write_stream(stream_, as_bytes(text))); }
  // Told of after that long: nobody sends both in one piece for certain.
  void gap(int offset = 1, Millis later = Millis(0)) {
    EXPECT_TRUE(peer_->finish_stream(stream_));
    std::this_thread::sleep_for(later);
    stream_ = *peer_->open_stream();
    EXPECT_TRUE(peer_->notify("pod.gap", R"({"offset":)" + std::to_string(offset) +
                                             R"(,"skipped":2,"repaint":0,"output":{"$stream":)" +
                                             std::to_string(stream_) + "}}"));
  }
  void finish() { EXPECT_TRUE(peer_->finish_stream(stream_)); }
  void exit(int code) {
    EXPECT_TRUE(peer_->finish_stream(stream_));
    EXPECT_TRUE(peer_->notify("pod.exit", R"({"exit_code":)" + std::to_string(code) + "}"));
  }
  // Grants nothing for what is typed, as if the agent did not read.
  void listen_for(Millis time) {
    const auto until = std::chrono::steady_clock::now() + time;
    while (std::chrono::steady_clock::now() < until && peer_->dispatch(Millis(10))) {
    }
  }

 private:
  std::unique_ptr<Client> peer_;
  std::uint32_t stream_ = 0;
};

class PodAttach : public ::testing::Test {
 protected:
  void SetUp() override {
    std::array<int, 2> ends{};
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()), 0);
    far_ = UniqueFd(ends[0]);
    client_ = std::move(*Client::adopt(UniqueFd(ends[1]), UniqueFd(), wire::Side::connecting));
    client_->set_window(wire::kPodWindow);
  }
  std::future<Result<AttachEnd>> attach(int in, int out) {
    return std::async(std::launch::async, [this, in, out] {
      AttachOptions options;
      options.in = in;
      options.out = out;
      return attach_terminal(*client_, options);
    });
  }
  // Until nobody can write to it.
  static void fill(int terminal) {
    const UniqueFd own{
        ::open(("/proc/self/fd/" + std::to_string(terminal)).c_str(), O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC)};
    ASSERT_TRUE(own);
    const std::string text(4096, 'y');
    for (int refused = 0; refused < 10;) {
      refused = ::write(own.get(), text.data(), text.size()) > 0 ? 0 : refused + 1;
      std::this_thread::sleep_for(Millis(10));
    }
  }
  static void read_some_of(int fd) {
    std::array<char, 65536> block{};
    EXPECT_GT(::read(fd, block.data(), block.size()), 0);
  }
  static std::string read_to_the_end(int fd) {
    std::string all;
    std::array<char, 4096> block{};
    for (ssize_t count = 0; (count = ::read(fd, block.data(), block.size())) > 0;) {
      all.append(block.data(), static_cast<std::size_t>(count));
    }
    return all;
  }

  // How many of its questions reach the terminal.
  static std::size_t ask_without_end(FakePod& pod, std::future<Result<AttachEnd>>& end, int terminal,
                                     const std::string& question = "\x1b[6n") {
    std::string flood;
    for (int i = 0; i < 2'000; ++i) flood += question;
    pod.say(flood);
    pod.say("asked");
    pod.exit(0);
    ::fcntl(terminal, F_SETFL, O_NONBLOCK);
    std::string shown;
    while (end.wait_for(Millis(1)) != std::future_status::ready) shown += read_to_the_end(terminal);
    EXPECT_TRUE(end.get());
    shown += read_to_the_end(terminal);
    EXPECT_NE(shown.find("asked"), std::string::npos);
    std::size_t passed = 0;
    for (std::size_t at = shown.find(question); at != std::string::npos; at = shown.find(question, at + 1)) ++passed;
    return passed;
  }
  // What an agent leaves to whatever reads the terminal after it, which is some way off: it takes what it shows in
  // small pieces, and each answer comes a while after its question.
  std::string left_by(std::string_view said) {
    auto terminal = open_terminal({24, 80});
    EXPECT_TRUE(terminal);
    const int slave = terminal->slave.get(), master = terminal->master.get();
    auto end = attach(slave, slave);
    FakePod pod(std::move(far_));
    std::atomic<bool> is_over = false;
    std::thread far_terminal([&] {
      ::fcntl(master, F_SETFL, O_NONBLOCK);
      const std::array<std::pair<std::string_view, std::string_view>, 3> kAnswers = {
          {{"\x1b[6n", "\x1b[12;34R"}, {"\x1b[5n", "\x1b[0n"}, {"\x1b[?1004h", "\x1b[I"}}};
      for (std::string shown; !is_over;) {
        std::array<char, 2048> block{};
        const ssize_t count = ::read(master, block.data(), block.size());
        if (count > 0) shown.append(block.data(), static_cast<std::size_t>(count));
        std::this_thread::sleep_for(Millis(10));
        for (;;) {
          std::size_t first = std::string::npos, which = 0;
          for (std::size_t i = 0; i < kAnswers.size(); ++i) {
            const std::size_t at = shown.find(kAnswers.at(i).first);
            if (at < first) first = at, which = i;
          }
          if (first == std::string::npos) break;
          const auto [question, answer] = kAnswers.at(which);
          shown.erase(0, first + question.size());
          std::this_thread::sleep_for(Millis(50));
          EXPECT_EQ(::write(master, answer.data(), answer.size()), static_cast<ssize_t>(answer.size()));
        }
      }
    });
    pod.say(said);
    pod.exit(0);
    EXPECT_TRUE(end.get());
    std::this_thread::sleep_for(Millis(300));
    is_over = true;
    far_terminal.join();
    termios raw{};
    EXPECT_EQ(::tcgetattr(slave, &raw), 0);
    ::cfmakeraw(&raw);
    EXPECT_EQ(::tcsetattr(slave, TCSANOW, &raw), 0);
    ::fcntl(slave, F_SETFL, O_NONBLOCK);
    return read_to_the_end(slave);
  }

  UniqueFd far_;
  std::unique_ptr<Client> client_;
};

TEST_F(PodAttach, CutsOffASequenceWhereAnotherStreamGoesOn) {
  auto terminal = open_terminal({24, 80});
  ASSERT_TRUE(terminal);
  Pipe keys;
  auto end = attach(keys.out.get(), terminal->slave.get());
  FakePod pod(std::move(far_));
  pod.say("\x1b]0;title");
  pod.gap();
  pod.say("plain");
  pod.exit(3);
  const auto ended = end.get();
  ASSERT_TRUE(ended) << ended.error().describe();
  EXPECT_EQ(ended->exit_code, 3);
  EXPECT_EQ(ended->role, Role::control);
  ::fcntl(terminal->master.get(), F_SETFL, O_NONBLOCK);
  const std::string shown = read_to_the_end(terminal->master.get());
  EXPECT_NE(shown.find("title\x18\x1b\\plain"), std::string::npos) << escape_for_display(shown);
}

TEST_F(PodAttach, ShowsWhatCameTogetherWithTheAnswer) {
  Pipe keys, shown;
  auto end = attach(keys.out.get(), shown.in.get());
  std::array<char, 4096> request{};
  ASSERT_GT(::recv(far_.get(), request.data(), request.size(), 0), 0);
  const std::uint32_t stream = *wire::Streams(wire::Side::accepting).open();
  Bytes all;
  ASSERT_TRUE(
      wire::append_result(all, "1", R"({"offset":0,"repaint":4,"output":{"$stream":)" + std::to_string(stream) + "}}"));
  ASSERT_TRUE(wire::append_chunk(all, stream, as_bytes("said")));
  ASSERT_TRUE(wire::append_chunk(all, stream, {}));
  ASSERT_TRUE(wire::append_event(all, {}, "pod.exit", R"({"exit_code":3})"));
  ASSERT_EQ(::send(far_.get(), all.data(), all.size(), 0), static_cast<ssize_t>(all.size()));
  EXPECT_EQ(end.wait_for(Millis(10'000)), std::future_status::ready);
  far_.reset();
  const auto ended = end.get();
  ASSERT_TRUE(ended) << ended.error().describe();
  EXPECT_EQ(ended->exit_code, 3);
}

TEST_F(PodAttach, ShowsAllThatCameBeforeThePodWent) {
  Pipe keys, shown;
  auto end = attach(keys.out.get(), shown.in.get());
  {
    FakePod pod(std::move(far_));
    pod.say(std::string(200'000, 'x') + "the-end");
    pod.exit(3);
  }
  // Nobody reads for a while, and the pod is gone meanwhile.
  std::this_thread::sleep_for(Millis(200));
  auto output = std::async(std::launch::async, [&] { return read_to_the_end(shown.out.get()); });
  const auto ended = end.get();
  shown.in.reset();
  const std::string all = output.get();
  EXPECT_EQ(all.size(), 200'007U);
  EXPECT_TRUE(all.ends_with("the-end"));
  ASSERT_TRUE(ended) << ended.error().describe();
  EXPECT_EQ(ended->why, AttachEnd::Why::exited);
  EXPECT_EQ(ended->exit_code, 3);
}

TEST_F(PodAttach, ShowsWhatIsSaidThoughNobodyReadsWhatIsTyped) {
  Pipe keys, shown;
  auto end = attach(keys.out.get(), shown.in.get());
  FakePod pod(std::move(far_));
  // More than the pod takes, and less than the client keeps beside it.
  std::thread typing([&] {
    const std::string text(wire::kPodWindow.credit + (8U << 10), 'k');
    EXPECT_EQ(::write(keys.in.get(), text.data(), text.size()), static_cast<ssize_t>(text.size()));
  });
  pod.listen_for(Millis(500));
  typing.join();
  pod.say("tick");
  std::array<char, 4> said{};
  EXPECT_EQ(::read(shown.out.get(), said.data(), said.size()), 4);
  pod.exit(0);
  const auto ended = end.get();
  ASSERT_TRUE(ended) << ended.error().describe();
  EXPECT_EQ(ended->why, AttachEnd::Why::exited);
}

// A terminal answers each by typing: without a limit nobody's keys are found among the answers, or read at all.
TEST_F(PodAttach, LetsAnAgentAskOnlySoOften) {
  auto terminal = open_terminal({24, 80});
  ASSERT_TRUE(terminal);
  auto end = attach(terminal->slave.get(), terminal->slave.get());
  FakePod pod(std::move(far_));
  const std::size_t passed = ask_without_end(pod, end, terminal->master.get());
  EXPECT_GE(passed, kMaxQueries);
  EXPECT_LE(passed, 2 * kMaxQueries) << "a second may begin in between";
}

TEST_F(PodAttach, LetsAnAgentAskNothingWhereNobodyReadsTheAnswers) {
  auto terminal = open_terminal({24, 80});
  ASSERT_TRUE(terminal);
  Pipe keys;
  auto end = attach(keys.out.get(), terminal->slave.get());
  FakePod pod(std::move(far_));
  EXPECT_EQ(ask_without_end(pod, end, terminal->master.get()), 0U);
}

// Some terminals tell of it at once, each time.
TEST_F(PodAttach, AttackAnAgentAsksOfTheFocusWithoutEnd) {
  auto terminal = open_terminal({24, 80});
  ASSERT_TRUE(terminal);
  auto end = attach(terminal->slave.get(), terminal->slave.get());
  FakePod pod(std::move(far_));
  EXPECT_LE(ask_without_end(pod, end, terminal->master.get(), "\x1b[?1004h"), 2 * kMaxQueries);
}

TEST_F(PodAttach, TakesTheAnswersThatAreStillOnTheirWay) { EXPECT_EQ(left_by("\x1b[6n"), ""); }

TEST_F(PodAttach, AttackAnAgentAsksAsWeDoAtTheEnd) { EXPECT_EQ(left_by("\x1b[5n\x1b[6n\x1b[6n\x1b[6n"), ""); }

TEST_F(PodAttach, AttackAnAgentAsksOfTheFocusLast) { EXPECT_EQ(left_by("\x1b[?1004h\x1b[?1004h"), ""); }

TEST_F(PodAttach, AttackAnAgentAsksBehindMuchThatIsShownSlowly) {
  EXPECT_EQ(left_by(std::string(50'000, 'x') + "\x1b[6n"), "");
}

TEST_F(PodAttach, AttackAnAgentThatReadsNothingCanBeLeft) {
  auto terminal = open_terminal({24, 80});
  ASSERT_TRUE(terminal);
  const int master = terminal->master.get();
  auto end = attach(terminal->slave.get(), terminal->slave.get());
  FakePod pod(std::move(far_));
  // More than the pod takes and the client keeps: as a mouse may write that tells all of its movements.
  std::thread typing([&] {
    const std::string text = std::string(wire::kPodWindow.credit + 2 * kMaxTyped, 'k') + "\r~.";
    for (std::size_t at = 0; at < text.size();) {
      const ssize_t count = ::write(master, text.data() + at, text.size() - at);
      ASSERT_TRUE(count > 0 || errno == EAGAIN);
      at += static_cast<std::size_t>(std::max<ssize_t>(count, 0));
      std::this_thread::sleep_for(Millis(1));
    }
  });
  while (end.wait_for(Millis(10)) != std::future_status::ready) pod.listen_for(Millis(10));
  typing.join();
  const auto ended = end.get();
  ASSERT_TRUE(ended) << ended.error().describe();
  EXPECT_EQ(ended->why, AttachEnd::Why::detached);
  ::fcntl(master, F_SETFL, O_NONBLOCK);
  EXPECT_NE(read_to_the_end(master).find("what is typed now is thrown away"), std::string::npos);
}

TEST_F(PodAttach, ATerminalThatTakesNothingCanBeLeft) {
  auto terminal = open_terminal({24, 80});
  ASSERT_TRUE(terminal);
  auto end = attach(terminal->slave.get(), terminal->slave.get());
  FakePod pod(std::move(far_));
  pod.say(std::string(200'000, 'x'));
  fill(terminal->slave.get());
  EXPECT_EQ(::write(terminal->master.get(), "\r~.", 3), 3);
  const bool has_ended = end.wait_for(Millis(20'000)) == std::future_status::ready;
  EXPECT_TRUE(has_ended);
  if (!has_ended) read_some_of(terminal->master.get());
  const auto ended = end.get();
  ASSERT_TRUE(ended) << ended.error().describe();
  EXPECT_EQ(ended->why, AttachEnd::Why::detached);
}

TEST_F(PodAttach, ALogGoesOnBehindAGapThatIsToldOfLate) {
  Pipe shown;
  auto copied = std::async(std::launch::async, [&] { return copy_log(*client_, false, shown.in.get()); });
  FakePod pod(std::move(far_));
  pod.say("abc");
  pod.gap(5, Millis(100));
  pod.say("fghij");
  pod.finish();
  const auto skipped = copied.get();
  ASSERT_TRUE(skipped) << skipped.error().describe();
  EXPECT_EQ(*skipped, 2U);
  shown.in.reset();
  EXPECT_EQ(read_to_the_end(shown.out.get()), "abc\nfghij");
}

}  // namespace
}  // namespace sallyport::pod
