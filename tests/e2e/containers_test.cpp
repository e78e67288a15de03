// Containers of the real daemon: made, used, attacked from inside and lost.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "e2e/door.h"
#include "os/process.h"

namespace sallyport::testing {
namespace {

class Containers : public Door {
 protected:
  std::string workspace() {
    const std::string path = daemon().root() + "/workspace";
    std::filesystem::create_directories(path);
    return path;
  }

  // The daemon's only child.
  pid_t launcher() {
    const std::string pid = std::to_string(daemon().pid());
    std::ifstream children("/proc/" + pid + "/task/" + pid + "/children");
    pid_t child = 0;
    return children >> child ? child : 0;
  }

  // The id, or the error's code.
  std::string create(Client& client, const std::string& config) {
    const auto answer =
        client.call("container.create", R"({"config":{"workspace":")" + workspace() + "\"" + config + "}}");
    if (!answer) return "CLOSED";
    if (answer->error) return std::string(to_string(answer->error->code)) + ": " + answer->error->message;
    return std::string(answer->result.get("container").as_string().value_or(""));
  }

  struct Ran {
    std::string out, err;
    std::int64_t exit_code = -1;
    std::string error;
  };
  // Runs a shell command to its end, collecting what its streams bring.
  Ran exec(Client& client, const std::string& id, const std::string& script) {
    Ran ran;
    const std::string params = wire::to_json([&](wire::JsonWriter& json) {
      json.begin_object().member("container", id).key("command").begin_array();
      json.value("sh").value("-c").value(script).end_array().end_object();
    });
    EXPECT_TRUE(client.send_request("exec", "container.exec", params));
    std::int64_t out = 0;
    while (const auto body = client.next_body()) {
      if (const auto chunk = wire::parse_chunk(as_bytes(*body)); chunk) {
        (chunk->stream == out ? ran.out : ran.err) += as_text(chunk->data);
        continue;
      }
      auto message = decode(*body);
      if (!message) break;
      if (message->type == wire::MessageType::event) {
        out = message->params.get("stdout").get("$stream").as_int().value_or(0);
        continue;
      }
      if (message->error) ran.error = to_string(message->error->code);
      ran.exit_code = message->result.get("exit_code").as_int().value_or(-1);
      break;
    }
    return ran;
  }

  std::string state_of(Client& client, const std::string& id) {
    const auto answer = client.call("container.inspect", R"({"container":")" + id + "\"}");
    if (!answer || answer->error) return "unknown";
    return std::string(answer->result.get("state").as_string().value_or(""));
  }

  static std::string named(const std::string& id) { return R"({"container":")" + id + "\"}"; }
};

TEST_F(Containers, RunACommandAndTellItsExitAndOutput) {
  Client client = connect();
  const std::string id = create(client, R"(,"name":"demo")");
  const Ran ran = exec(client, id, "echo out; echo err >&2; exit 7");
  EXPECT_EQ(ran.out, "out\n");
  EXPECT_EQ(ran.err, "err\n");
  EXPECT_EQ(ran.exit_code, 7);
}

TEST_F(Containers, SayWhichProtectionsAreInForce) {
  Client client = connect();
  const auto answer = client.call("container.create", "{}");
  ASSERT_EQ(code_of(answer), "OK");
  EXPECT_EQ(answer->result.get("protections").get("namespaces").as_bool(), true);
  EXPECT_EQ(answer->result.get("protections").get("seccomp").as_bool(), true);
}

TEST_F(Containers, CannotSeeTheHostsHomeProcessesOrSockets) {
  Client client = connect();
  const std::string id = create(client, "");
  EXPECT_EQ(exec(client, id, "ls -A ~ | wc -l").out, "0\n");
  EXPECT_EQ(exec(client, id, "test -e " + daemon().socket_path() + " && echo seen").out, "");
  EXPECT_EQ(exec(client, id, "kill -0 " + std::to_string(daemon().pid()) + " 2>/dev/null && echo reached").out, "");
  EXPECT_EQ(exec(client, id, "echo x > /etc/x").exit_code, 2);
  EXPECT_EQ(exec(client, id, "echo kept > file && cat file").out, "kept\n");
}

// Asks through the container's own door, from inside, with nothing but a shell and python.
constexpr const char* kAskInside = R"(python3 -c '
import json, os, socket, struct, sys
s = socket.socket(socket.AF_UNIX); s.connect(os.environ["SALLYPORT_DOOR"])
for method in sys.argv[1:]:
  b = json.dumps({"id": "1", "type": "request", "method": method}).encode()
  s.sendall(struct.pack(">I", len(b)) + b)
  n = struct.unpack(">I", s.recv(4, socket.MSG_WAITALL))[0]
  m = json.loads(s.recv(n, socket.MSG_WAITALL))
  print(m["error"]["code"] if "error" in m else m["result"].get("principal", "OK"))
' )";

TEST_F(Containers, AreKnownByTheirDoorAndMayOnlyCallWhatTheirProfileNames) {
  Client client = connect();
  const std::string id = create(client, "");
  const Ran ran = exec(client, id, std::string(kAskInside) + "warden.hello test.ping warden.shutdown container.list");
  EXPECT_EQ(ran.out, "container/" + id + "\nOK\nPOLICY_DENIED\nPOLICY_DENIED\n") << ran.err;
}

TEST_F(Containers, AttackAProcessOutsideThatFindsTheDoorIsRefused) {
  Client client = connect();
  const auto answer = client.call("container.create", "{}");
  ASSERT_EQ(code_of(answer), "OK");
  Client stranger = Client::unix_socket(std::string(answer->result.get("door").as_string().value_or("")));
  EXPECT_EQ(stranger.outcome("test.ping"), "UNAUTHENTICATED");
}

TEST_F(Containers, AttackOneContainerCannotReachAnothersDoor) {
  Client client = connect();
  const std::string one = create(client, R"(,"name":"one")"), two = create(client, R"(,"name":"two")");
  EXPECT_EQ(exec(client, one, "ls " + daemon().runtime_dir() + "/containers/" + two + " 2>/dev/null").out, "");
  EXPECT_EQ(exec(client, one, "find / -name door.sock 2>/dev/null").out, "/run/sallyport/door.sock\n");
}

TEST_F(Containers, ACommandsOutputIsWholeThoughItsReaderPausesBehindItsEnd) {
  Client client = connect();
  const std::string id = create(client, "");
  ASSERT_TRUE(client.send_request("exec", "container.exec",
                                  R"({"container":")" + id + R"(","command":["head","-c","1148576","/dev/zero"]})"));
  std::size_t came = 0;
  bool has_paused = false;
  while (const auto body = client.next_body()) {
    if (const auto chunk = wire::parse_chunk(as_bytes(*body))) {
      came += chunk->data.size();
      if (came < wire::kInitialCredit || std::exchange(has_paused, true)) continue;
      // Longer than the grace that a command's pipes get.
      std::this_thread::sleep_for(std::chrono::milliseconds(600));
      Bytes credit;
      ASSERT_TRUE(wire::append_event(credit, {}, "stream.credit",
                                     R"({"stream":)" + std::to_string(chunk->stream) + R"(,"bytes":1048576})"));
      ASSERT_TRUE(client.send(as_text(credit.view())));
      continue;
    }
    auto message = decode(*body);
    ASSERT_TRUE(message);
    if (message->type == wire::MessageType::response) break;
  }
  EXPECT_EQ(came, 1'148'576U);
}

TEST_F(Containers, StopEndsEverythingInside) {
  Client client = connect();
  const std::string id = create(client, R"(,"command":["sh","-c","setsid sleep 1000 & trap '' TERM; sleep 1000"])");
  ASSERT_EQ(state_of(client, id), "running");
  EXPECT_EQ(client.outcome("container.stop", R"({"container":")" + id + R"(","grace_ms":50})"), "OK");
  EXPECT_EQ(state_of(client, id), "exited");
  EXPECT_EQ(client.outcome("container.remove", named(id)), "OK");
  EXPECT_EQ(state_of(client, id), "unknown");
  EXPECT_FALSE(std::filesystem::exists(daemon().runtime_dir() + "/containers/" + id));
}

TEST_F(Containers, KeepTheEndOfWhatTheirCommandSaid) {
  Client client = connect();
  const std::string id = create(client, R"(,"command":["sh","-c","echo said; exit 3"])");
  ASSERT_TRUE(eventually([&] { return state_of(client, id) == "exited"; }));
  const auto answer = client.call("container.inspect", R"({"container":")" + id + R"(","log":true})");
  EXPECT_EQ(answer->result.get("exit_code").as_int(), 3);
  EXPECT_EQ(answer->result.get("log").get("stdout").as_string(), "said\n");
}

TEST_F(Containers, ACancelledCommandIsKilled) {
  Client client = connect();
  const std::string id = create(client, "");
  ASSERT_TRUE(
      client.send_request("x", "container.exec", R"({"container":")" + id + R"(","command":["sleep","1000"]})"));
  ASSERT_TRUE(client.next_message());  // container.started
  ASSERT_TRUE(client.send(frame_of(R"({"id":"x","type":"event","method":"cancel"})")));
  std::string code;
  while (code.empty()) {
    const auto body = client.next_body();
    ASSERT_TRUE(body);
    if (auto message = decode(*body); body->front() == '{' && message && message->id == "x" && message->error) {
      code = to_string(message->error->code);
    }
  }
  EXPECT_EQ(code, "CANCELLED");
  Client other = connect();
  EXPECT_TRUE(eventually([&] { return exec(other, id, "pgrep -c sleep || true").out == "0\n"; }));
}

TEST_F(Containers, MayOnlyBeNarrowedByTheirMaker) {
  Client client = connect();
  EXPECT_NE(create(client, R"(,"profile":{"limits":{"memory":"64MiB"},"methods":["test.ping"]})").find("default-"),
            std::string::npos);
  EXPECT_EQ(create(client, R"(,"profile":{"limits":{"memory":"64GiB"}})").substr(0, 14), "INVALID_PARAMS");
  EXPECT_EQ(create(client, R"(,"profile":{"methods":["warden.shutdown"]})").substr(0, 14), "INVALID_PARAMS");
}

TEST_F(Containers, AreLostWithTheLauncherAndANewOneServesOn) {
  Client client = connect();
  const std::string id = create(client, "");
  ASSERT_GT(launcher(), 0);
  ASSERT_EQ(::kill(launcher(), SIGKILL), 0);
  EXPECT_TRUE(eventually([&] { return state_of(client, id) == "lost"; }));
  EXPECT_EQ(exec(client, create(client, ""), "echo served").out, "served\n");
}

TEST_F(Containers, DoNotKeepTheWardenFromEndingWhenTheLauncherHangs) {
  Client client = connect();
  create(client, "");
  ASSERT_GT(launcher(), 0);
  ASSERT_EQ(::kill(launcher(), SIGSTOP), 0);
  daemon().signal(SIGTERM);
  EXPECT_EQ(daemon().wait(), 0);
}

TEST_F(Containers, ThatWereRunningWhenTheWardenDiedAreLostAndRestartedWhereAskedFor) {
  std::string plain, kept;
  {
    Client client = connect();
    plain = create(client, R"(,"name":"plain")");
    kept = create(client, R"(,"name":"kept","restart":true,"command":["sleep","1000"])");
  }
  daemon().kill_now();
  ASSERT_TRUE(daemon().start());
  Client client = connect();
  EXPECT_EQ(state_of(client, plain), "lost");
  EXPECT_TRUE(eventually([&] {
    const auto answer = client.call("container.list");
    for (const wire::Value container : answer->result.get("containers").items()) {
      if (container.get("name").as_string() == "kept" && container.get("state").as_string() == "running") return true;
    }
    return false;
  }));
}

// ---- files, through the container's worker ----

class ContainerFiles : public Containers {};

TEST_F(ContainerFiles, AreReadWrittenAndSearchedInsideTheWalls) {
  Client client = connect();
  const std::string where = R"("workspace":")" + workspace() + "\"";
  EXPECT_EQ(client.outcome("fs.write", "{" + where + R"(,"path":"a.txt","content":"one\ntwo\n"})"), "OK");
  const auto read = client.call("fs.read", "{" + where + R"(,"path":"a.txt"})");
  EXPECT_EQ(read->result.get("content").as_string(), "one\ntwo\n");
  EXPECT_EQ(client.outcome("fs.edit", "{" + where + R"(,"path":"a.txt","old_string":"two","new_string":"2"})"), "OK");
  const auto grep = client.call("fs.grep", "{" + where + R"(,"pattern":"^2$","root":"."})");
  EXPECT_EQ(grep->result.get("matches").size(), 1U);
  EXPECT_EQ(client.outcome("fs.read", "{" + where + R"(,"path":"a.txt","no_such":1})"), "INVALID_PARAMS");
}

TEST_F(ContainerFiles, EveryWorkspaceHasAWorkerOfItsOwn) {
  Client client = connect();
  for (const char* name : {"first", "second"}) {
    const std::string directory = daemon().root() + "/" + name;
    std::filesystem::create_directory(directory);
    const std::string where = R"({"workspace":")" + directory + R"(","path":"file")";
    EXPECT_EQ(client.outcome("fs.write", where + R"(,"content":"x"})"), "OK");
    EXPECT_TRUE(std::filesystem::exists(directory + "/file"));
  }
}

TEST_F(ContainerFiles, AttackPathsOutsideTheWallsAreNotThere) {
  Client client = connect();
  const std::string where = R"("workspace":")" + workspace() + "\"";
  for (const std::string& path : {daemon().socket_path(), daemon().config_file(), std::string("/root/.bashrc")}) {
    EXPECT_EQ(client.outcome("fs.read", "{" + where + R"(,"path":")" + path + "\"}"), "IO_ERROR") << path;
  }
  EXPECT_EQ(client.outcome("fs.write", "{" + where + R"(,"path":"/etc/x","content":""})"), "POLICY_DENIED");
}

TEST_F(ContainerFiles, AContainerAsksOnlyForItself) {
  Client client = connect();
  const std::string id = create(client, "");
  ASSERT_EQ(client.outcome("session.narrow", named(id)), "OK");
  EXPECT_EQ(client.outcome("fs.write", R"({"path":"mine","content":"x"})"), "OK");
  EXPECT_EQ(client.outcome("fs.stat", R"({"path":"mine"})"), "OK");
  EXPECT_EQ(client.outcome("fs.stat", R"({"path":"mine","container":")" + id + "\"}"), "INVALID_PARAMS");
  EXPECT_EQ(client.outcome("fs.stat", R"({"path":"mine","workspace":"/tmp"})"), "INVALID_PARAMS");
}

TEST_F(ContainerFiles, AProfileMayRefuseFilesWithMoreThanOneName) {
  std::filesystem::create_directory(daemon().root() + "/profiles");
  std::ofstream(daemon().root() + "/profiles/single.toml")
      << "[profile.single]\nfs.read = [\"/usr\"]\nfs.write = [\"${workspace}\"]\nfs.refuse_hard_links = true\n";
  std::ofstream(workspace() + "/one") << "text";
  std::filesystem::create_hard_link(workspace() + "/one", workspace() + "/two");
  Client client = connect();
  ASSERT_EQ(client.outcome("warden.reload", "{}"), "OK");
  const auto read_in = [&](const std::string& profile) {
    const auto made = client.call(
        "container.create", R"({"template":")" + profile + R"(","config":{"workspace":")" + workspace() + R"("}})");
    const std::string id(made->result.get("container").as_string().value_or(""));
    return client.outcome("fs.read", R"({"path":"two","container":")" + id + "\"}");
  };
  EXPECT_EQ(read_in("default"), "OK");
  EXPECT_EQ(read_in("single"), "POLICY_DENIED");
}

TEST_F(ContainerFiles, AWorkerThatWasKilledOrSentAwayIsReplaced) {
  Client client = connect();
  const std::string id = create(client, "");
  const std::string ask = named(id);
  EXPECT_EQ(client.outcome("worker.ping", ask), "OK");
  EXPECT_EQ(client.outcome("worker.shutdown", ask), "OK");
  EXPECT_TRUE(eventually([&] { return client.outcome("worker.ping", ask) == "OK"; }));
  exec(client, id, "kill -9 -1");  // everything in the container but its pid 1 and the shell
  EXPECT_TRUE(eventually([&] { return connect().outcome("worker.ping", ask) == "OK"; }));
}

TEST_F(ContainerFiles, LargeContentFlowsAsAStream) {
  Client client = connect();
  {
    std::ofstream file(workspace() + "/large");
    for (int i = 0; i < 300'000; ++i) file << "0123456789";
  }
  const std::string params = R"({"workspace":")" + workspace() + R"(","path":"large","stream":true})";
  ASSERT_TRUE(client.send_request("r", "fs.read", params));
  const auto answer = client.next_message();
  ASSERT_EQ(code_of(answer), "OK");
  const auto stream = answer->result.get("content").get("$stream").as_int().value_or(0);
  std::size_t bytes = 0;
  for (;;) {
    const auto body = client.next_body();
    ASSERT_TRUE(body);
    const auto chunk = wire::parse_chunk(as_bytes(*body));
    ASSERT_TRUE(chunk);
    if (chunk->data.empty()) break;
    bytes += chunk->data.size();
    ASSERT_TRUE(
        client.send(frame_of(R"({"type":"event","method":"stream.credit","params":{"stream":)" +
                             std::to_string(stream) + R"(,"bytes":)" + std::to_string(chunk->data.size()) + "}}")));
  }
  EXPECT_EQ(bytes, 3'000'000U);
}

}  // namespace
}  // namespace sallyport::testing
