// Commands in containers of the real daemon: their variables, their input, their signals, and what is known afterwards.
#include <gtest/gtest.h>

#include <csignal>

#include "e2e/containers.h"

namespace sallyport::testing {
namespace {

class ContainerCommands : public Containers {
 protected:
  // Runs it to its end; what it wrote, and the code of the answer.
  std::pair<std::string, std::string> run(Client& client, const std::string& id, const std::string& rest) {
    EXPECT_TRUE(client.send_request("run", "container.exec", R"({"container":")" + id + "\"," + rest + "}"));
    std::string out;
    while (const auto body = client.next_body()) {
      if (const auto chunk = wire::parse_chunk(as_bytes(*body)); chunk) {
        out += as_text(chunk->data);
      } else if (auto message = decode(*body); message && message->type == wire::MessageType::response) {
        return {out, message->error ? std::string(to_string(message->error->code)) : "OK"};
      }
    }
    return {out, "CLOSED"};
  }
};

// A program that reads its environment itself may take the first of two, or the last.
TEST_F(ContainerCommands, HaveEachVariableOnce) {
  Client client = connect();
  const std::string id = create(client, R"(,"env":{"LANG":"from-create","A":"1"})");
  const auto [out, code] = run(client, id, R"("command":["/usr/bin/env"],"env":{"HOME":"/there","A":"2"})");
  EXPECT_EQ(code, "OK");
  for (const char* line : {"LANG=from-create\n", "HOME=/there\n", "A=2\n"}) {
    EXPECT_NE(("\n" + out).find(std::string("\n") + line), std::string::npos) << line << out;
  }
  for (const char* name : {"LANG=", "HOME=", "A="}) {
    const std::string whole = "\n" + out, head = std::string("\n") + name;
    EXPECT_EQ(whole.find(head), whole.rfind(head)) << name << out;
  }
}

TEST_F(ContainerCommands, ThatHaveEndedTakeNoMoreInputAndHoldNoStream) {
  Client client = connect();
  const std::string id = create(client, "");
  for (int i = 0; i < 20; ++i) {
    const std::string input = R"("stdin":{"$stream":)" + std::to_string(2 * i + 1) + "}";
    ASSERT_EQ(run(client, id, R"("command":["true"],)" + input).second, "OK") << i;
  }
}

TEST_F(ContainerCommands, AreNotSignalledWhereThereIsNone) {
  Client client = connect();
  const std::string id = create(client, R"(,"command":["sleep","1000"])");
  EXPECT_EQ(client.outcome("container.signal", R"({"container":")" + id + R"(","signal":15,"job":99})"), "NOT_FOUND");
  EXPECT_EQ(client.outcome("container.signal", R"({"container":")" + id + R"(","signal":15})"), "OK");
  EXPECT_TRUE(eventually([&] { return state_of(client, id) == "exited"; }));
}

TEST_F(ContainerCommands, NoContainerIsLeftWhoseMakerDidNotWaitForIt) {
  Client client = connect();
  ASSERT_EQ(::kill(launcher(), SIGSTOP), 0);
  ASSERT_TRUE(client.send(
      frame_of(R"({"id":"1","type":"request","method":"container.create","params":{},"deadline_ms":300})")));
  EXPECT_EQ(code_of(client.next_message()), "TIMEOUT");
  const auto count = [&] { return client.call("container.list")->result.get("containers").size(); };
  EXPECT_EQ(count(), 1);
  ASSERT_EQ(::kill(launcher(), SIGCONT), 0);
  EXPECT_TRUE(eventually([&] { return count() == 0; }));
}

TEST_F(ContainerCommands, ThatAskAtTheirDoorAreNotIdle) {
  std::ofstream(workspace() + "/ask.py") << R"(
import json, os, socket, struct, time
s = socket.socket(socket.AF_UNIX); s.connect(os.environ["SALLYPORT_DOOR"])
for i in range(40):
  b = json.dumps({"id": str(i), "type": "request", "method": "test.ping"}).encode()
  s.sendall(struct.pack(">I", len(b)) + b)
  s.recv(struct.unpack(">I", s.recv(4, socket.MSG_WAITALL))[0], socket.MSG_WAITALL)
  time.sleep(0.1)
)";
  Client client = connect();
  const std::string id = create(client, R"(,"command":["python3","ask.py"],"profile":{"limits":{"idle":"1s"}})");
  const auto ended = client.call("container.wait", named(id));
  ASSERT_EQ(code_of(ended), "OK");
  EXPECT_EQ(ended->result.get("exit_code").as_int(), 0);
  EXPECT_FALSE(ended->result.get("was_idle"));
}

TEST_F(ContainerCommands, WhyTheirContainerEndedIsKnownToTheNextWarden) {
  std::string id;
  {
    Client client = connect();
    id = create(client, R"(,"profile":{"limits":{"idle":"1s"}})");
    EXPECT_TRUE(eventually([&] { return state_of(client, id) == "exited"; }));
  }
  daemon().kill_now();
  ASSERT_TRUE(daemon().start());
  const auto known = connect().call("container.inspect", named(id));
  ASSERT_EQ(code_of(known), "OK");
  EXPECT_EQ(known->result.get("was_idle").as_bool(), true);
}

}  // namespace
}  // namespace sallyport::testing
