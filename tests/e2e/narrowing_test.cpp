// Sessions that gave up being the host, and processes at doors that are not theirs.
#include <sched.h>
#include <sys/stat.h>

#include "door.h"
#include "support/attacker.h"

namespace sallyport::testing {
namespace {

class Narrowing : public Door {
 protected:
  struct Made {
    std::string id, door;
  };
  // A container that runs until the daemon ends; without rights of its own but what its profile names.
  Made make_container() {
    workspace_ = daemon().root() + "/workspace";
    ::mkdir(workspace_.c_str(), 0700);
    Client host = connect();
    const auto answer = host.call("container.create", R"({"template":"default","config":{"workspace":")" + workspace_ +
                                                          R"(","command":["sleep","600"]}})");
    if (code_of(answer) != "OK") return {};
    return {std::string(answer->result.get("container").as_string().value_or("")),
            std::string(answer->result.get("door").as_string().value_or(""))};
  }
  static std::string narrow_to(const std::string& id) { return R"({"container":")" + id + "\"}"; }

  std::string workspace_;
};

TEST_F(Narrowing, TakesTheHostsRightsFromASessionForGood) {
  const Made container = make_container();
  if (container.id.empty()) GTEST_SKIP() << "no containers can be made here";
  Client client = connect();
  const auto answer = client.call("session.narrow", narrow_to(container.id));
  ASSERT_EQ(code_of(answer), "OK");
  EXPECT_EQ(answer->result.get("principal").as_string(), "container/" + container.id);
  for (const char* method :
       {"warden.status", "warden.shutdown", "warden.reload", "session.narrow", "container.create", "no.such.method"}) {
    EXPECT_EQ(client.outcome(method), "POLICY_DENIED") << method;
  }
  EXPECT_TRUE(connect().pings()) << "other sessions keep their rights";
}

TEST_F(Narrowing, CountsForWhatIsAlreadyInThePipe) {
  const Made container = make_container();
  if (container.id.empty()) GTEST_SKIP() << "no containers can be made here";
  Client client = connect();
  ASSERT_TRUE(client.send(request_frame("1", "session.narrow", narrow_to(container.id)) +
                          request_frame("2", "warden.shutdown")));
  EXPECT_EQ(code_of(client.next_message()), "OK");
  EXPECT_EQ(code_of(client.next_message()), "POLICY_DENIED");
}

TEST_F(Narrowing, ATokenOfTheHostIsWorthNothingInANarrowedSession) {
  const Made container = make_container();
  if (container.id.empty()) GTEST_SKIP() << "no containers can be made here";
  Client client = connect();
  const auto answer = client.call("token.create", R"({"methods":["*"],"ttl_ms":600000})");
  ASSERT_EQ(code_of(answer), "OK");
  const std::string token(answer->result.get("token").as_string().value_or(""));
  ASSERT_EQ(client.outcome("session.narrow", narrow_to(container.id)), "OK");
  EXPECT_EQ(client.outcome("warden.status", "{}", token), "POLICY_DENIED");
}

TEST_F(Narrowing, ToWhatDoesNotRunIsRefusedAndTakesNothingAway) {
  Client client = connect();
  for (const char* id : {"", "../x", "A", "host", "a/b", "a b", "-a", "nobody"}) {
    EXPECT_NE(client.outcome("session.narrow", narrow_to(id)), "OK") << id;
  }
  EXPECT_TRUE(client.pings());
}

TEST_F(Narrowing, AProcessOfTheHostAtAContainersDoorIsRefused) {
  const Made container = make_container();
  if (container.id.empty()) GTEST_SKIP() << "no containers can be made here";
  EXPECT_EQ(try_ping(container.door), kRefused);
  EXPECT_GE(counter("refused"), 1);
}

TEST_F(Narrowing, AProcessOfAnotherNamespaceAtAContainersDoorIsRefused) {
  const Made container = make_container();
  if (container.id.empty()) GTEST_SKIP() << "no containers can be made here";
  constexpr int kFlags = CLONE_NEWUSER | CLONE_NEWPID;
  ASSERT_TRUE(can_unshare(kFlags));
  EXPECT_EQ(in_namespaces(kFlags, [&] { return try_ping(container.door); }), kRefused);
}

}  // namespace
}  // namespace sallyport::testing
