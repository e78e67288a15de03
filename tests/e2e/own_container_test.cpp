// A session that made a container and narrowed itself to it, as the MCP bridge does.
#include "e2e/door.h"

namespace sallyport::testing {
namespace {

class OwnContainer : public Door {
 protected:
  std::string create(Client& client, const std::string& more = "") {
    const auto answer = client.call(
        "container.create", R"({"template":"mcp","config":{"workspace":")" + workspace_.path() + "\"" + more + "}}");
    return answer && !answer->error ? std::string(answer->result.get("container").as_string().value_or("")) : "none";
  }
  static std::string named(const std::string& id) { return R"({"container":")" + id + R"("})"; }
  // Sends it and returns the exit code, or the error's code.
  static std::string exec(Client& client, const std::string& params) {
    if (!client.send_request("e", "container.exec", params)) return "CLOSED";
    for (;;) {
      const auto body = client.next_body();
      if (!body) return "CLOSED";
      if (body->front() != '{') continue;
      auto message = decode(*body);
      if (!message || message->type != wire::MessageType::response) continue;
      if (message->error) return std::string(to_string(message->error->code));
      return message->result.get("exit_code").to_json();
    }
  }
  bool is_known(const std::string& id) {
    Client client = connect();
    return client.outcome("container.inspect", named(id)) == "OK";
  }

  TemporaryDirectory workspace_;
};

TEST_F(OwnContainer, RunsCommandsThereAndNowhereElse) {
  Client client = connect();
  const std::string own = create(client), other = create(client);
  ASSERT_EQ(client.outcome("session.narrow", named(own)), "OK");
  EXPECT_EQ(exec(client, R"({"command":["sh","-c","exit 7"]})"), "7");
  EXPECT_EQ(exec(client, R"({"command":["true"],"container":")" + other + "\"}"), "INVALID_PARAMS");
  EXPECT_EQ(exec(client, R"({"command":["true"],"container":")" + own + "\"}"), "INVALID_PARAMS");
  for (const char* method : {"container.list", "container.stop", "container.create", "warden.shutdown"}) {
    EXPECT_EQ(client.outcome(method, named(other)), "POLICY_DENIED") << method;
  }
}

TEST_F(OwnContainer, TheHostStillNamesOne) {
  Client client = connect();
  EXPECT_EQ(exec(client, R"({"command":["true"]})"), "INVALID_PARAMS");
  EXPECT_EQ(exec(client, R"({"command":["true"],"container":")" + create(client) + "\"}"), "0");
}

TEST_F(OwnContainer, OfAProfileWithoutExecRunsNothing) {
  Client client = connect();
  const auto made = client.call("container.create", R"({"template":"default"})");
  ASSERT_TRUE(made && !made->error);
  ASSERT_EQ(client.outcome("session.narrow", named(std::string(*made->result.get("container").as_string()))), "OK");
  EXPECT_EQ(exec(client, R"({"command":["true"]})"), "POLICY_DENIED");
}

TEST_F(OwnContainer, EndsWithTheSessionThatMadeIt) {
  std::string id, kept;
  {
    Client client = connect();
    id = create(client, R"(,"ends_with_session":true)");
    kept = create(client);
    ASSERT_EQ(client.outcome("session.narrow", named(id)), "OK");
    EXPECT_TRUE(is_known(id));
  }
  EXPECT_TRUE(eventually([&] { return !is_known(id); }));
  EXPECT_TRUE(is_known(kept));
}

TEST_F(OwnContainer, TakesItsNarrowedSessionAlong) {
  Client client = connect(), host = connect();
  const std::string id = create(client);
  ASSERT_EQ(client.outcome("session.narrow", named(id)), "OK");
  ASSERT_EQ(host.outcome("container.stop", R"({"container":")" + id + R"(","grace_ms":0})"), "OK");
  EXPECT_TRUE(client.is_closed_by_peer());
}

}  // namespace
}  // namespace sallyport::testing
