// A container's door, and processes that are not of that container.
#include <sched.h>
#include <sys/stat.h>

#include "door.h"
#include "support/attacker.h"

namespace sallyport::testing {
namespace {

class ContainerDoor : public Door {
 protected:
  // The path of a running container's door; empty where none can be made.
  std::string make_door() {
    const std::string workspace = daemon().root() + "/workspace";
    ::mkdir(workspace.c_str(), 0700);
    Client host = connect();
    const auto answer = host.call("container.create", R"({"template":"default","config":{"workspace":")" + workspace +
                                                          R"(","command":["sleep","600"]}})");
    if (code_of(answer) != "OK") return "";
    return std::string(answer->result.get("door").as_string().value_or(""));
  }
};

TEST_F(ContainerDoor, AProcessOfTheHostIsRefused) {
  const std::string door = make_door();
  if (door.empty()) GTEST_SKIP() << "no container can be made here";
  EXPECT_EQ(try_ping(door), kRefused);
  EXPECT_EQ(counter("refused"), 1);
}

TEST_F(ContainerDoor, AProcessOfAnotherSandboxIsRefused) {
  const std::string door = make_door();
  if (door.empty()) GTEST_SKIP() << "no container can be made here";
  constexpr int kFlags = CLONE_NEWUSER | CLONE_NEWPID;
  ASSERT_TRUE(can_unshare(kFlags));
  EXPECT_EQ(in_namespaces(kFlags, [&] { return try_ping(door); }), kRefused);
  EXPECT_EQ(counter("refused"), 1);
}

}  // namespace
}  // namespace sallyport::testing
