// Containers of the real daemon: made, used, attacked from inside and lost.
#include <gtest/gtest.h>
#include <linux/capability.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <csignal>

#include <filesystem>
#include <fstream>
#include <thread>

#include "e2e/containers.h"
#include "os/process.h"

namespace sallyport::testing {
namespace {

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
  // Not in what is the host's own: that takes longer than a busy machine has.
  const std::string find = "find / '(' -path /usr -o -path /proc ')' -prune -o -name door.sock -print 2>/dev/null";
  EXPECT_EQ(exec(client, one, find).out, "/run/sallyport/door.sock\n");
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

// Nobody grants credit for what it says any more: it ends all the same, and is recorded.
TEST_F(Containers, ACancelledCommandWhoseOutputNobodyReadsLeavesNoRequestBehind) {
  Client client = connect(), other = connect();
  const std::string id = create(client, "");
  const auto in_flight = [&] { return other.call("warden.status")->result.get("in_flight").as_int(); };
  const auto before = in_flight();
  ASSERT_TRUE(before);
  ASSERT_TRUE(client.send_request("x", "container.exec", R"({"container":")" + id + R"(","command":["yes"]})"));
  for (std::size_t came = 0; came < wire::kInitialCredit;) {
    const auto body = client.next_body();
    ASSERT_TRUE(body);
    if (body->front() != '{') came += body->size() - wire::kChunkHeaderBytes;
  }
  ASSERT_TRUE(client.send(frame_of(R"({"id":"x","type":"event","method":"cancel"})")));
  EXPECT_TRUE(eventually([&] { return in_flight() == before; }));
  EXPECT_TRUE(eventually([&] {
    const auto records = other.call("audit.query", R"({"method":"container.exec"})");
    return records && records->result.to_json().find("outcome") != std::string::npos;
  }));
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

// Whoever waits for one is told, and `container ls` is true, however long it takes until another launcher serves.
TEST_F(Containers, AreLostAtOnceWhereNoOtherLauncherCanBeStarted) {
  const TemporaryDirectory bin;
  const std::string programs = std::filesystem::path(SALLYPORT_CLI).parent_path();
  const std::string& own = bin.path();
  std::filesystem::copy_file(programs + "/sallyportd", own + "/sallyportd");
  std::filesystem::create_symlink(programs + "/sallyport-launcher", own + "/sallyport-launcher");
  start({.program = own + "/sallyportd"});
  Client client = connect(), waiting = connect();
  const std::string id = create(client, "");
  ASSERT_TRUE(waiting.send_request("1", "container.wait", named(id)));
  std::filesystem::rename(own + "/sallyport-launcher", own + "/away");
  ASSERT_EQ(::kill(launcher(), SIGKILL), 0);
  EXPECT_EQ(code_of(waiting.next_message()), "OK");
  EXPECT_EQ(state_of(client, id), "lost");
  std::filesystem::rename(own + "/away", own + "/sallyport-launcher");
  EXPECT_TRUE(eventually([&] { return exec(client, create(client, ""), "echo served").out == "served\n"; }));
}

TEST_F(Containers, ThatAreStoppedWhileTheLauncherTakesNoOrdersEndWhenItDoes) {
  Client client = connect(), crowd = connect();
  const std::string id = create(client, "");
  ASSERT_EQ(::kill(launcher(), SIGSTOP), 0);
  const std::string large = R"({"config":{"env":{"A":")" + std::string(90'000, 'a') + "\"}}}";
  int count = 0;
  while (count < 400 && !crowd.has_data(std::chrono::milliseconds(0))) {
    ASSERT_TRUE(crowd.send_request(std::to_string(++count), "container.create", large));
    ASSERT_TRUE(client.pings());
  }
  EXPECT_EQ(code_of(crowd.next_message()), "UNAVAILABLE");
  crowd.close();
  Client stopper = connect();
  ASSERT_TRUE(stopper.send_request("1", "container.stop", named(id)));
  // Its decision is on the disk and it has been done; only its end is not there.
  ASSERT_FALSE(stopper.has_data(std::chrono::milliseconds(500)));
  stopper.close();
  ASSERT_EQ(::kill(launcher(), SIGCONT), 0);
  EXPECT_TRUE(eventually([&] { return state_of(client, id) == "exited"; }));
}

TEST_F(Containers, DoNotKeepTheWardenFromEndingWhenTheLauncherHangs) {
  Client client = connect();
  create(client, "");
  ASSERT_GT(launcher(), 0);
  ASSERT_EQ(::kill(launcher(), SIGSTOP), 0);
  daemon().signal(SIGTERM);
  EXPECT_EQ(daemon().wait(), 0);
}

// Acknowledged, it would be unknown to the next warden: not listed, not started again, its mailbox left for ever.
TEST_F(Containers, OfWhichNoRecordCanBeWrittenAreRefusedAndLeaveNothing) {
  Client client = connect();
  const std::string state = daemon().root() + "/state";
  std::filesystem::rename(state + "/containers", state + "/away");
  EXPECT_EQ(create(client, "").rfind("IO_ERROR", 0), 0U);
  std::filesystem::rename(state + "/away", state + "/containers");
  EXPECT_EQ(states_of("", client), Names{});
  for (const auto& entry : std::filesystem::directory_iterator(state + "/mailbox")) {
    EXPECT_EQ(entry.path().filename().string()[0], '.') << "a mailbox of nobody: " << entry.path();
  }
  EXPECT_EQ(exec(client, create(client, ""), "echo served").out, "served\n");
}

// Those that have ended keep some too: nobody could come in any more to remove them, or to stop the warden.
TEST_F(Containers, LeaveTheHostDescriptorsToComeIn) {
  start({.before_exec = [] {
    const rlimit few{.rlim_cur = 128, .rlim_max = 128};
    ::setrlimit(RLIMIT_NOFILE, &few);
    ::prctl(PR_CAPBSET_DROP, CAP_SYS_RESOURCE, 0, 0, 0);  // or root would raise it again
  }});
  Client client = connect();
  std::string last;
  for (int i = 0; i < 50 && last.find(": ") == std::string::npos; ++i) last = create(client, "");
  EXPECT_EQ(last.rfind("UNAVAILABLE: ", 0), 0U) << last;
  EXPECT_TRUE(connect().pings());
}

// Directories that were made ahead.
std::size_t spares(const std::string& parent) {
  std::size_t count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(parent)) {
    count += entry.path().filename().string().starts_with(".spare-") ? 1 : 0;
  }
  return count;
}

TEST_F(Containers, GetDirectoriesThatWereMadeAheadAndNothingOfThoseStays) {
  const std::string doors = daemon().runtime_dir() + "/containers", mailboxes = daemon().root() + "/state/mailbox";
  ASSERT_TRUE(eventually([&] { return spares(doors) == 4 && spares(mailboxes) == 4; }));
  {
    Client client = connect();
    // More in a row than there are spares, and all are whole.
    for (int i = 0; i < 6; ++i) {
      const std::string id = create(client, "");
      EXPECT_EQ(exec(client, id,
                     "cd /run/sallyport && touch mailbox/in/tmp/a session/b && mv mailbox/in/tmp/a mailbox/in/new/a && "
                     "ls -d mailbox/out bin")
                    .out,
                "bin\nmailbox/out\n");
    }
    EXPECT_TRUE(eventually([&] { return spares(doors) == 4 && spares(mailboxes) == 4; }));
  }
  daemon().kill_now();
  ASSERT_TRUE(daemon().start());
  EXPECT_TRUE(eventually([&] { return spares(doors) == 4 && spares(mailboxes) == 4; }))
      << "not those of the dead one too";
  EXPECT_EQ(daemon().stop(), 0);
  EXPECT_EQ(spares(doors) + spares(mailboxes), 0U);
}

TEST_F(Containers, LeaveNoDirectoryBehindWhenTheyCannotBeMade) {
  namespace fs = std::filesystem;
  const std::string doors = daemon().runtime_dir() + "/containers", mailboxes = daemon().root() + "/state/mailbox";
  Client client = connect();
  ASSERT_TRUE(eventually([&] { return spares(mailboxes) == 4; })) << "nobody makes more of them meanwhile";
  fs::rename(mailboxes, mailboxes + ".away");
  std::ofstream(mailboxes) << "in the way";
  EXPECT_NE(create(client, R"(,"name":"unmade")").find(": "), std::string::npos);
  fs::remove(mailboxes);
  fs::rename(mailboxes + ".away", mailboxes);
  for (const std::string& parent : {doors, mailboxes}) {
    for (const auto& entry : fs::directory_iterator(parent)) {
      EXPECT_EQ(entry.path().filename().string().rfind("unmade", 0), std::string::npos) << entry.path();
    }
  }
}

TEST_F(Containers, AttackOurOwnDirectoriesAreNoWorkspace) {
  Client client = connect();
  const auto create_in = [&](const std::string& directory) {
    return client.outcome("container.create", R"({"config":{"workspace":")" + directory + R"("}})");
  };
  const std::string state = daemon().root() + "/state";
  EXPECT_EQ(create_in(state), "INVALID_PARAMS");
  EXPECT_EQ(create_in(state + "/audit"), "INVALID_PARAMS");
  EXPECT_EQ(create_in(daemon().runtime_dir()), "INVALID_PARAMS");
  EXPECT_EQ(client.outcome("fs.list", R"({"workspace":")" + state + R"("})"), "INVALID_PARAMS");
  // Where they lie inside of a workspace they are hidden.
  const auto made = client.call("container.create", R"({"config":{"workspace":")" + daemon().root() + R"("}})");
  ASSERT_EQ(code_of(made), "OK");
  const std::string id(made->result.get("container").as_string().value_or(""));
  const Ran ran = exec(client, id, "ls " + state + " " + daemon().runtime_dir() + "; echo x > " + state + "/ledger.db");
  EXPECT_EQ(ran.out.find("ledger.db"), std::string::npos) << ran.out;
  EXPECT_EQ(ran.out.find("warden.sock"), std::string::npos) << ran.out;
  EXPECT_NE(ran.exit_code, 0);
}

TEST_F(Containers, AreListedInPagesThatFitAFrame) {
  Client client = connect();
  const std::string label(100'000, 'x');
  std::vector<std::string> made;
  for (int i = 0; i < 12; ++i) {
    made.push_back(
        create(client, R"(,"labels":{"text":")" + label + R"("},"name":"n)" + std::to_string(10 + i) + "\""));
  }
  std::vector<std::string> listed;
  int pages = 0;
  for (bool has_more = true; has_more; ++pages) {
    const std::string after = listed.empty() ? "" : listed.back();
    const auto page = client.call("container.list", R"({"after":")" + after + "\"}");
    ASSERT_EQ(code_of(page), "OK");
    for (const wire::Value each : page->result.get("containers").items()) {
      listed.emplace_back(each.get("container").as_string().value_or(""));
    }
    has_more = page->result.get("has_more").as_bool().value();
  }
  EXPECT_GT(pages, 1);
  EXPECT_EQ(listed, made);
}

TEST_F(Containers, OfWhichMoreIsAskedThanARecordHoldsAreRefusedAndLeaveNothing) {
  Client client = connect();
  // The smaller of them would still fit into a packet, but not with all the rest.
  for (const std::size_t size : {200'000UL, 131'000UL}) {
    const std::string much(size, 'x');
    for (const std::string& config : {R"(,"labels":{"a":")" + much + "\"}", R"(,"env":{"A":")" + much + "\"}",
                                      R"(,"profile":{"deny":["/)" + much + "\"]}"}) {
      EXPECT_EQ(create(client, config).substr(0, 17), "PAYLOAD_TOO_LARGE");
    }
  }
  EXPECT_EQ(create(client, R"(,"command":["sh\u0000x"])").substr(0, 14), "INVALID_PARAMS");
  EXPECT_EQ(client.call("container.list")->result.get("containers").size(), 0U);
}

TEST_F(Containers, AttackOutputThatIsNoTextDoesNotHideTheLog) {
  Client client = connect();
  const std::string id = create(
      client,
      R"json(,"command":["python3","-c","import os, time\nfor fd in (1, 2): os.write(fd, b'\\x01' * 400000 + b'the end')\ntime.sleep(600)"])json");
  EXPECT_TRUE(eventually([&] {
    const auto shown = client.call("container.inspect", R"({"log":true,"container":")" + id + "\"}");
    if (code_of(shown) != "OK") return false;
    const wire::Value log = shown->result.get("log");
    return log.get("stdout").as_string().value_or("").ends_with("the end") &&
           log.get("stderr").as_string().value_or("").ends_with("the end") &&
           log.get("stdout_bytes").as_int() == 400'007;
  }));
}

TEST_F(Containers, OfAGroupThatTheHostWroteAreMadeAfterAReload) {
  Client client = connect();
  const std::string file = daemon().root() + "/state/groups/family.toml";
  const auto make = [&] { return client.outcome("container.create", R"({"config":{"group":"family"}})"); };
  EXPECT_EQ(make(), "NOT_FOUND");
  std::ofstream(file) << "name = \"family\"\nprofile = \"default\"\nfolder = \"family\"\n";
  std::filesystem::permissions(file, std::filesystem::perms(0600));
  EXPECT_EQ(client.outcome("warden.reload"), "OK");
  EXPECT_EQ(make(), "OK");
}

TEST_F(Containers, AttackOneThatMayCallEverythingIsNotAnotherAndAdoptsNoProcess) {
  std::filesystem::create_directories(daemon().root() + "/profiles");
  std::ofstream(daemon().root() + "/profiles/all.toml") << "[profile.all]\nfs.read = [\"/usr\"]\nmethods = [\"*\"]\n";
  Client client = connect();
  ASSERT_EQ(client.outcome("warden.reload"), "OK");
  const auto made = client.call("container.create", R"({"template":"all"})");
  ASSERT_EQ(code_of(made), "OK");
  const std::string id(made->result.get("container").as_string().value_or(""));
  Client inside = connect();
  ASSERT_EQ(inside.outcome("session.narrow", named(id)), "OK");
  EXPECT_EQ(inside.outcome("container.list"), "OK");
  EXPECT_EQ(inside.outcome("container.adopt", "{}"), "POLICY_DENIED");
  EXPECT_EQ(inside.outcome("session.narrow", named(create(client, ""))), "POLICY_DENIED");
}

}  // namespace
}  // namespace sallyport::testing
