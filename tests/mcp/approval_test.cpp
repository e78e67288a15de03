// A call that waits for a human, against a warden that the test plays.
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <thread>

#include "mcp/bridge.h"

namespace sallyport::mcp {
namespace {

struct Pair {
  UniqueFd ours, theirs;
};

Pair make_pair() {
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0) std::abort();
  return {UniqueFd(ends[0]), UniqueFd(ends[1])};
}

// Makes a container and narrows; whatever else is asked waits for a byte on `verdict`: y or n.
void play_warden(const UniqueFd socket, const UniqueFd verdict) {
  wire::FrameReader reader;
  wire::Decoder decoder;
  const auto say = [&](const Bytes& out) { ::send(socket.get(), out.data(), out.size(), MSG_NOSIGNAL); };
  for (;;) {
    auto frame = reader.next();
    if (!frame) return;
    if (!*frame) {
      const auto room = reader.writable();
      const ssize_t count = ::recv(socket.get(), room.data(), room.size(), 0);
      if (count <= 0) return;
      reader.commit(static_cast<std::size_t>(count));
      continue;
    }
    auto message = wire::decode_message(decoder, **frame);
    if (!message || message->type != wire::MessageType::request) continue;
    Bytes out;
    if (message->method == "container.create") {
      ASSERT_TRUE(wire::append_result(out, message->id, R"({"container":"c1"})"));
    } else if (message->method == "session.narrow") {
      ASSERT_TRUE(wire::append_result(out, message->id, R"({"principal":"container/c1"})"));
    } else {
      ASSERT_TRUE(wire::append_event(out, message->id, "approval.asked", R"({"id":"ap-7"})"));
      say(out);
      out.clear();
      char answer = 'n';
      if (::read(verdict.get(), &answer, 1) != 1) return;
      if (answer == 'y') {
        ASSERT_TRUE(wire::append_result(out, message->id, R"({"removed":1})"));
      } else {
        wire::append_error(out, message->id, Error::make(Code::approval_denied, "refused by a human"));
      }
    }
    say(out);
  }
}

class WaitingCall : public ::testing::Test {
 protected:
  void SetUp() override {
    Pair warden = make_pair();
    warden_ = std::thread(play_warden, std::move(warden.theirs), std::move(verdict_.theirs));
    bridge_ = std::thread([this, socket = std::make_shared<UniqueFd>(std::move(warden.ours))] {
      BridgeOptions options;
      options.place.workspace = "/w";
      options.in = options.out = client_.theirs.get();
      const auto connect = [&](Place::Warden) -> Result<std::unique_ptr<Client>> {
        if (!*socket) return Error::make(Code::unavailable, "this warden takes one connection");
        return Client::adopt(std::move(*socket), UniqueFd(), wire::Side::connecting);
      };
      Bridge bridge(connect, options);
      EXPECT_TRUE(bridge.run());
    });
    say(R"({"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25"}})");
    hear();
    say(R"({"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"remove","arguments":{"path":"x"},)"
        R"("_meta":{"progressToken":"t"}}})");
  }
  void TearDown() override {
    client_.ours.reset();
    bridge_.join();
    warden_.join();
  }
  void say(std::string line) {
    line += '\n';
    ASSERT_EQ(::write(client_.ours.get(), line.data(), line.size()), static_cast<ssize_t>(line.size()));
  }
  // The next line that says something: that a call goes on is said now and then.
  std::string hear() {
    std::string line;
    do {
      line.clear();
      for (char c = 0; ::read(client_.ours.get(), &c, 1) == 1 && c != '\n';) line += c;
    } while (line.find("progressToken") != std::string::npos && line.find("message") == std::string::npos);
    return line;
  }
  void decide(char verdict) { ASSERT_EQ(::write(verdict_.ours.get(), &verdict, 1), 1); }

  Pair client_ = make_pair(), verdict_ = make_pair();
  std::thread warden_, bridge_;
};

TEST_F(WaitingCall, SaysWhatAHumanWouldRunAndGoesOnWhenTheyDid) {
  const std::string progress = hear();
  EXPECT_NE(progress.find("notifications/progress"), std::string::npos) << progress;
  EXPECT_NE(progress.find("sallyport approvals approve ap-7"), std::string::npos) << progress;
  decide('y');
  const std::string answer = hear();
  EXPECT_NE(answer.find(R"("structuredContent":{"removed":1})"), std::string::npos) << answer;
}

TEST_F(WaitingCall, TellsTheModelNotToInsistWhenTheyRefused) {
  hear();
  decide('n');
  const std::string answer = hear();
  EXPECT_NE(answer.find("Do not try again"), std::string::npos) << answer;
  EXPECT_NE(answer.find("ap-7"), std::string::npos) << answer;
  EXPECT_NE(answer.find(R"("isError":true)"), std::string::npos) << answer;
}

}  // namespace
}  // namespace sallyport::mcp
