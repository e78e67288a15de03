// File workers of the real daemon: that end, are stopped, or have more to do than one can at once.
#include <gtest/gtest.h>

#include <fstream>
#include <thread>

#include "e2e/containers.h"

namespace sallyport::testing {
namespace {

class FileWorkers : public Containers {};

TEST_F(FileWorkers, AWorkerThatWasKilledIsReplaced) {
  Client client = connect();
  const std::string id = create(client, "");
  EXPECT_EQ(client.outcome("worker.ping", named(id)), "OK");
  exec(client, id, "kill -9 -1");  // everything in the container but its pid 1 and the shell
  EXPECT_TRUE(eventually([&] { return connect().outcome("worker.ping", named(id)) == "OK"; }));
}

TEST_F(FileWorkers, WhoAsksRightAfterAShutdownGetsTheNewWorker) {
  Client client = connect();
  const std::string ask = named(create(client, ""));
  for (int i = 0; i < 20; ++i) {
    ASSERT_TRUE(client.send_request("away", "worker.shutdown", ask));
    ASSERT_TRUE(client.send_request("next", "worker.ping", ask));
    // Two workers: their answers may come in any order.
    for (int answers = 0; answers < 2; ++answers) ASSERT_EQ(code_of(client.next_message()), "OK") << "round " << i;
  }
}

TEST_F(FileWorkers, AProfileThatAReloadHasChangedGetsANewWorkerForAWorkspace) {
  const std::string file = daemon().root() + "/profiles/p.toml";
  const std::string text = "[profile.p]\nfs.read = [\"/usr\"]\nfs.write = [\"${workspace}\"]\n";
  std::filesystem::create_directories(daemon().root() + "/profiles");
  std::ofstream(file) << text;
  std::ofstream(workspace() + "/secret") << "x";
  Client client = connect();
  ASSERT_EQ(client.outcome("warden.reload"), "OK");
  const std::string ask = R"({"workspace":")" + workspace() + R"(","profile":"p","path":"secret"})";
  EXPECT_EQ(client.outcome("fs.read", ask), "OK");
  ASSERT_EQ(client.outcome("warden.reload"), "OK");
  EXPECT_EQ(client.outcome("fs.read", ask), "OK");
  EXPECT_EQ(client.call("container.list")->result.get("containers").size(), 1) << "what did not change is kept";
  std::ofstream(file) << text << "fs.deny = [\"${workspace}/secret\"]\n";
  ASSERT_EQ(client.outcome("warden.reload"), "OK");
  EXPECT_EQ(client.outcome("fs.read", ask), "POLICY_DENIED");
}

TEST_F(FileWorkers, AContainerIsNotIdleWhileSomebodyStillWritesAFile) {
  Client client = connect();
  const std::string id = create(client, R"(,"profile":{"limits":{"idle":"1s"}})");
  ASSERT_TRUE(
      client.send_request("1", "fs.write", R"({"container":")" + id + R"(","path":"slow","content":{"$stream":1}})"));
  for (int i = 0; i < 25; ++i) {
    ASSERT_TRUE(client.send(chunk_frame(1, "x")));
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  ASSERT_TRUE(client.send(chunk_frame(1, "")));
  EXPECT_EQ(code_of(client.next_message()), "OK");
  EXPECT_TRUE(eventually([&] { return state_of(client, id) == "exited"; }));
}

class BusyWorker : public FileWorkers {
 protected:
  // The container's worker is busy with a search that takes long, until end_stall().
  void stall(const std::string& id) {
    const std::string text = std::string(20'000, 'a') + "\n";
    for (int i = 0; i < 4000; ++i) std::ofstream(workspace() + "/" + std::to_string(i)) << text;
    ASSERT_TRUE(staller_.send_request("stall", "fs.grep", R"({"container":")" + id + R"(","pattern":"a.{200}Z"})"));
    ASSERT_TRUE(are_in_flight(2));  // with the one that asks
  }
  void end_stall() {
    ASSERT_TRUE(staller_.send(frame_of(R"({"id":"stall","type":"event","method":"cancel"})")));
    ASSERT_EQ(code_of(staller_.next_message()), "CANCELLED");
  }
  bool are_in_flight(std::int64_t count) {
    return eventually([&] { return status_number(daemon().socket_path(), {"in_flight"}) >= count; });
  }

  Client staller_ = connect();
};

TEST_F(BusyWorker, MoreRequestsThanAWorkerTakesWaitForTheirTurn) {
  constexpr int kEach = 200;
  Client first = connect(), second = connect(), third = connect();
  const std::string id = create(first, "");
  stall(id);
  for (Client* client : {&first, &second, &third}) {
    for (int i = 0; i < kEach; ++i) {
      ASSERT_TRUE(client->send_request("p" + std::to_string(i), "worker.ping", named(id)));
    }
  }
  ASSERT_TRUE(are_in_flight(3 * kEach + 1));
  end_stall();
  for (int i = 0; i < kEach; ++i) ASSERT_EQ(code_of(first.next_message()), "OK") << i;
  for (int i = 0; i < kEach; ++i) ASSERT_EQ(code_of(second.next_message()), "OK") << i;
  for (int i = 0; i < kEach; ++i) ASSERT_EQ(code_of(third.next_message()), "OK") << i;
}

TEST_F(BusyWorker, ACallerWithOneRequestDoesNotWaitForAllOfAnothersMany) {
  constexpr int kMany = 200;
  Client greedy = connect(), modest = connect();
  const std::string id = create(greedy, "");
  const std::string where = R"({"container":")" + id + R"(",)";
  ASSERT_EQ(greedy.outcome("fs.mkdir", where + R"("path":"d"})"), "OK");
  stall(id);
  for (int i = 0; i < kMany; ++i) {
    const std::string name = std::to_string(i);
    ASSERT_TRUE(greedy.send_request("m" + name, "fs.mkdir", where + R"("path":"d/)" + name + "\"}"));
  }
  ASSERT_TRUE(are_in_flight(kMany + 1));
  ASSERT_TRUE(modest.send_request("l", "fs.list", where + R"("path":"d"})"));
  ASSERT_TRUE(are_in_flight(kMany + 2));
  end_stall();
  const auto listed = modest.next_message();
  ASSERT_EQ(code_of(listed), "OK");
  EXPECT_LT(listed->result.get("total").as_int().value_or(kMany), kMany / 2);
  for (int i = 0; i < kMany; ++i) ASSERT_EQ(code_of(greedy.next_message()), "OK") << i;
}

TEST_F(BusyWorker, ARequestThatIsGivenUpBeforeItsTurnIsAnsweredAtOnceAndNeverDone) {
  Client client = connect();
  const std::string id = create(client, "");
  stall(id);
  // Beyond what the worker is given at once.
  for (int i = 0; i < 40; ++i) ASSERT_TRUE(client.send_request("p" + std::to_string(i), "worker.ping", named(id)));
  ASSERT_TRUE(client.send_request("m", "fs.mkdir", R"({"container":")" + id + R"(","path":"never"})"));
  ASSERT_TRUE(client.send(frame_of(R"({"id":"m","type":"event","method":"cancel"})")));
  const auto answer = client.next_message();
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->id, "m");
  EXPECT_EQ(code_of(answer), "CANCELLED");
  end_stall();
  for (int i = 0; i < 40; ++i) ASSERT_EQ(code_of(client.next_message()), "OK") << i;
  EXPECT_FALSE(std::filesystem::exists(workspace() + "/never"));
}

TEST_F(BusyWorker, ThoseWhoWaitWhenTheContainerEndsAreTold) {
  Client client = connect(), other = connect();
  const std::string id = create(client, "");
  stall(id);
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(client.send_request("p" + std::to_string(i), "worker.ping", named(id)));
  ASSERT_TRUE(are_in_flight(101));
  ASSERT_EQ(other.outcome("container.stop", R"({"container":")" + id + R"(","grace_ms":0})"), "OK");
  for (int i = 0; i < 100; ++i) ASSERT_EQ(code_of(client.next_message()), "UNAVAILABLE") << i;
}

TEST_F(BusyWorker, AttackAWorkerStoppedFromInsideIsReplacedAndWhatItHadIsAnswered) {
  Client client = connect(), other = connect();
  const std::string id = create(client, "");
  ASSERT_EQ(client.outcome("worker.ping", named(id)), "OK");
  stall(id);
  exec(other, id, "kill -STOP -1");  // everything in the container but its pid 1 and the shell
  EXPECT_EQ(code_of(staller_.next_message()), "UNAVAILABLE");
  EXPECT_EQ(other.outcome("worker.ping", named(id)), "OK");
}

// ---- searches that are streamed ----

class StreamedSearch : public FileWorkers {
 protected:
  // Many hits: about 20 MB of them.
  void fill(int files) {
    for (int i = 0; i < files; ++i) {
      const std::string directory = workspace() + "/d" + std::to_string(i % 10);
      std::filesystem::create_directories(directory);
      std::ofstream file(directory + "/" + std::to_string(i));
      for (int line = 0; line < kLines; ++line) file << std::string(400, 'x') << "\n";
    }
  }
  std::string where() { return R"("workspace":")" + workspace() + "\""; }

  static constexpr int kFiles = 200, kLines = 250;
};

TEST_F(StreamedSearch, SendsItsHitsAsProgressAndTheSumsInItsAnswer) {
  fill(3);
  Client client = connect();
  ASSERT_TRUE(
      client.send_request("g", "fs.grep", "{" + where() + R"(,"pattern":"x","stream":true,"max_bytes":50000})"));
  std::int64_t hits = 0, pages = 0;
  for (;;) {
    const auto message = client.next_message();
    ASSERT_TRUE(message);
    ASSERT_EQ(message->id, "g");
    if (message->type == wire::MessageType::response) {
      ASSERT_EQ(code_of(message), "OK");
      EXPECT_EQ(message->result.get("total").as_int(), hits);
      EXPECT_EQ(message->result.get("pages").as_int(), pages);
      EXPECT_EQ(message->result.get("searched").as_int(), 3);
      EXPECT_TRUE(message->result.get("skipped").is_object());
      break;
    }
    EXPECT_EQ(message->method, "progress");
    hits += static_cast<std::int64_t>(message->params.get("matches").size());
    ++pages;
  }
  EXPECT_EQ(hits, 3 * kLines);
  EXPECT_GT(pages, 3);
}

TEST_F(StreamedSearch, WaitsForAReaderThatPausesAndLosesNothing) {
  fill(kFiles);
  Client client = connect(), other = connect();
  ASSERT_EQ(other.outcome("fs.stat", "{" + where() + R"(,"path":"."})"), "OK");
  const std::int64_t before = own_kib(daemon().pid());
  ASSERT_TRUE(client.send_request("g", "fs.grep", "{" + where() + R"(,"pattern":"x","stream":true,"limit":100000})"));
  ASSERT_TRUE(client.has_data(kPatience));
  // The warden serves others meanwhile and holds little of what is not read.
  for (int i = 0; i < 300; ++i) {
    ASSERT_TRUE(other.pings());
    if (kIsSanitized || i % 20 != 0) continue;
    EXPECT_LT(own_kib(daemon().pid()), before + 12 * 1024);
  }
  std::int64_t hits = 0;
  for (;;) {
    const auto message = client.next_message();
    ASSERT_TRUE(message);
    if (message->type == wire::MessageType::response) {
      ASSERT_EQ(code_of(message), "OK");
      EXPECT_EQ(message->result.get("total").as_int(), hits);
      break;
    }
    ASSERT_EQ(message->method, "progress");
    hits += static_cast<std::int64_t>(message->params.get("matches").size());
  }
  EXPECT_EQ(hits, kFiles * kLines);
}

TEST_F(StreamedSearch, ThatNobodyReadsCanBeCancelledAndItsWorkerServesOn) {
  fill(kFiles);
  Client client = connect(), other = connect();
  ASSERT_TRUE(client.send_request("g", "fs.grep", "{" + where() + R"(,"pattern":"x","stream":true,"limit":100000})"));
  ASSERT_TRUE(client.has_data(kPatience));
  ASSERT_TRUE(client.send(frame_of(R"({"id":"g","type":"event","method":"cancel"})")));
  EXPECT_EQ(other.outcome("fs.stat", "{" + where() + R"(,"path":"d0"})"), "OK");
  for (;;) {
    const auto message = client.next_message();
    ASSERT_TRUE(message);
    if (message->type != wire::MessageType::response) continue;
    EXPECT_EQ(code_of(message), "CANCELLED");
    break;
  }
}

}  // namespace
}  // namespace sallyport::testing
