// Capability tokens: replayed, stolen, expired, cut, forged.
#include <sys/wait.h>
#include <unistd.h>

#include "door.h"
#include "support/attacker.h"

namespace sallyport::testing {
namespace {

class TokenAttack : public Door {
 protected:
  void SetUp() override {
    start_with("[warden]\ndrain_timeout_ms = 500\n[host]\ntoken_methods = [\"test.echo\", \"warden.reload\"]\n");
  }

  static std::string create(Client& client, const std::string& methods = R"(["test.echo"])", int ttl_ms = 600'000) {
    const auto answer =
        client.call("token.create", "{\"methods\":" + methods + ",\"ttl_ms\":" + std::to_string(ttl_ms) + "}");
    EXPECT_EQ(code_of(answer), "OK");
    return answer ? std::string(answer->result.get("token").as_string().value_or("")) : "";
  }
  static constexpr const char* kEcho = R"({"data":1})";
};

TEST_F(TokenAttack, AMethodThatNeedsATokenIsRefusedWithoutOne) {
  Client client = connect();
  EXPECT_EQ(client.outcome("test.echo", kEcho), "UNAUTHENTICATED");
  EXPECT_EQ(client.outcome("test.echo", kEcho, create(client)), "OK");
  EXPECT_TRUE(client.pings()) << "other methods need none";
}

TEST_F(TokenAttack, ATokenServesEveryConnectionOfItsProcess) {
  Client maker = connect(), user = connect();
  EXPECT_EQ(user.outcome("test.echo", kEcho, create(maker)), "OK");
}

TEST_F(TokenAttack, ReplayedByAnotherProcess) {
  Client client = connect();
  const std::string token = create(client), path = daemon().socket_path();
  EXPECT_EQ(in_child([&] { return try_call(path, "test.echo", kEcho, token); }), kRefused);
  EXPECT_EQ(client.outcome("test.echo", kEcho, token), "OK") << "and still good for its owner";
}

TEST_F(TokenAttack, ReplayedByARecycledPid) {
  const std::string path = daemon().socket_path();
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const pid_t first = ::fork();
  if (first == 0) {
    Client client = Client::unix_socket(path);
    const std::string token = create(client);
    ::_exit(::write(ends[1], token.data(), token.size()) == static_cast<ssize_t>(token.size()) ? 0 : 1);
  }
  ::close(ends[1]);
  std::string token(4096, '\0');
  const ssize_t length = ::read(ends[0], token.data(), token.size());
  ::close(ends[0]);
  ::waitpid(first, nullptr, 0);
  ASSERT_GT(length, 0);
  token.resize(static_cast<std::size_t>(length));
  const pid_t second = fork_with_pid(first);
  if (second == 0) ::_exit(try_call(path, "test.echo", kEcho, token));
  if (second < 0) GTEST_SKIP() << "this kernel or user cannot choose a pid";
  ASSERT_EQ(second, first);
  int status = 0;
  ::waitpid(second, &status, 0);
  EXPECT_EQ(WEXITSTATUS(status), kRefused);
}

TEST_F(TokenAttack, Expired) {
  Client client = connect();
  const std::string token = create(client, R"(["test.echo"])", 1);
  EXPECT_TRUE(eventually([&] { return client.outcome("test.echo", kEcho, token) == "UNAUTHENTICATED"; }));
}

TEST_F(TokenAttack, ForAnotherMethod) {
  Client client = connect();
  EXPECT_EQ(client.outcome("warden.reload", "{}", create(client, R"(["test.*"])")), "UNAUTHENTICATED");
  EXPECT_EQ(client.outcome("test.echo", kEcho, create(client, R"(["test.*"])")), "OK");
}

TEST_F(TokenAttack, TruncatedAtEveryLength) {
  Client client = connect();
  const std::string token = create(client);
  for (std::size_t length = 1; length < token.size(); ++length) {
    ASSERT_EQ(client.outcome("test.echo", kEcho, token.substr(0, length)), "UNAUTHENTICATED") << length;
  }
}

TEST_F(TokenAttack, Empty) {
  Client client = connect();
  ASSERT_TRUE(
      client.send(frame_of(R"({"id":"1","type":"request","method":"test.echo","params":{"data":1},"token":""})")));
  EXPECT_EQ(code_of(client.next_message()), "INVALID_REQUEST");
}

TEST_F(TokenAttack, AlteredAnywhere) {
  Client client = connect();
  const std::string token = create(client);
  for (std::size_t at = 0; at < token.size(); ++at) {
    std::string altered = token;
    altered[at] = altered[at] == 'A' ? 'B' : 'A';
    ASSERT_EQ(client.outcome("test.echo", kEcho, altered), "UNAUTHENTICATED") << at;
  }
}

TEST_F(TokenAttack, WithClaimsOfOnesOwn) {
  Client client = connect();
  const std::string token = create(client);
  const std::string claims = R"({"principal":"host","process":0,"expires":99999999999999,"methods":["*"]})";
  const std::string signature = token.substr(token.find('.'));
  for (const std::string& forged : {to_base64url(as_bytes(claims)) + signature, to_base64url(as_bytes(claims)) + ".",
                                    to_base64url(as_bytes(claims)), signature, std::string("."), std::string("...")}) {
    EXPECT_EQ(client.outcome("test.echo", kEcho, forged), "UNAUTHENTICATED") << forged;
  }
}

TEST_F(TokenAttack, OfAnEarlierLifeOfTheDaemon) {
  std::string token;
  {
    Client client = connect();
    token = create(client);
  }
  ASSERT_EQ(daemon().stop(), 0);
  ASSERT_TRUE(daemon().start());
  Client client = connect();
  EXPECT_EQ(client.outcome("test.echo", kEcho, token), "UNAUTHENTICATED");
}

TEST_F(TokenAttack, InANarrowedSession) {
  Client client = connect();
  const std::string token = create(client, R"(["*"])");
  ASSERT_EQ(client.outcome("session.narrow", R"({"container":")" + powerless_container(client) + "\"}"), "OK");
  EXPECT_EQ(client.outcome("test.echo", kEcho, token), "POLICY_DENIED");
}

TEST_F(TokenAttack, LifetimesAreBounded) {
  Client client = connect();
  EXPECT_EQ(client.outcome("token.create", R"({"methods":["*"],"ttl_ms":0})"), "INVALID_PARAMS");
  EXPECT_EQ(client.outcome("token.create", R"({"methods":["*"],"ttl_ms":3600001})"), "INVALID_PARAMS");
  EXPECT_EQ(client.outcome("token.create", R"({"methods":[],"ttl_ms":1000})"), "INVALID_PARAMS");
}

}  // namespace
}  // namespace sallyport::testing
