// From a message to its answer, in the real daemon.
#include <filesystem>
#include <fstream>

#include "mailbox/mail.h"
#include "wire/crypto.h"

namespace sallyport::testing {
namespace {

TEST_F(Mail, ASignalIsActedOnAndItsFileGoes) {
  drop(R"({"signal":"test_note"})");
  EXPECT_TRUE(eventually([&] { return actions().size() == 1; }));
  EXPECT_TRUE(is_emptied());
}

TEST_F(Mail, ARequestIsActedOnOnceAndAnswered) {
  drop(request("test_once", id_of(1)));
  EXPECT_EQ(outcome(id_of(1)), "OK");
  EXPECT_EQ(reply(id_of(1)), R"({"id":")" + id_of(1) + R"(","type":"response","result":{"did":{"text":"hello"}}})");
  EXPECT_EQ(acted(id_of(1)), 1);
  EXPECT_TRUE(is_emptied());
}

TEST_F(Mail, AFailedActionIsAnsweredWithItsError) {
  drop(request("test_once", id_of(1), R"({"text":"x","fail":true})"));
  EXPECT_EQ(outcome(id_of(1)), "IO_ERROR");
}

TEST_F(Mail, AnInvalidPayloadIsAnsweredWithTheField) {
  drop(request("test_once", id_of(1), R"({"text":7})"));
  EXPECT_EQ(outcome(id_of(1)), "INVALID_PARAMS");
  EXPECT_NE(reply(id_of(1))->find("payload.text"), std::string::npos);
  EXPECT_TRUE(refuses("INVALID_PARAMS"));
  EXPECT_EQ(acted(id_of(1)), 0);
}

TEST_F(Mail, PolicyDeniesWhatTheProfileDoesNotName) {
  container_ = create("mute", "mute");
  drop(request("test_once", id_of(1)));
  EXPECT_EQ(outcome(id_of(1)), "POLICY_DENIED");
  drop(R"({"signal":"test_note"})");
  EXPECT_TRUE(refuses("POLICY_DENIED"));
  EXPECT_TRUE(actions().empty());
}

TEST_F(Mail, TheDeputyAndTheHumanAreAskedInTurn) {
  drop(request("test_both", id_of(1), R"({"text":"x","hold":true})"));
  EXPECT_TRUE(eventually([&] { return state_of(id_of(1)) == "human_wait"; }));
  EXPECT_TRUE(eventually([&] { return reply(id_of(1)).has_value(); }));
  EXPECT_EQ(reply(id_of(1)),
            R"({"id":")" + id_of(1) + R"(","type":"response","result":{"state":"awaiting_human","final":false}})");
  EXPECT_EQ(acted(id_of(1)), 0);
  // A restart asks again.
  approve_held();
  EXPECT_EQ(daemon().stop(), 0);
  restart();
  EXPECT_EQ(outcome(id_of(1)), "OK");
  EXPECT_EQ(acted(id_of(1)), 1);
}

TEST_F(Mail, AModifiedPayloadIsWhatIsActedOn) {
  drop(request("test_deputy", id_of(1), R"({"text":"x","modify":true})"));
  EXPECT_EQ(outcome(id_of(1)), "OK");
  EXPECT_NE(reply(id_of(1))->find(R"("did":{"text":"modified"})"), std::string::npos);
}

TEST_F(Mail, ASignalCanBeRaisedOverTheDoor) {
  Client client = connect();
  ASSERT_EQ(client.outcome("session.narrow", R"({"container":")" + container() + "\"}"), "OK");
  EXPECT_EQ(client.outcome("signal.raise", R"({"signal":"test_note"})"), "OK");
  const auto answer = client.call("signal.raise", R"({"signal":"test_once","payload":{"text":"door"}})");
  ASSERT_TRUE(answer && !answer->error);
  EXPECT_EQ(answer->result.get("did").get("text").as_string(), "door");
  EXPECT_EQ(client.outcome("signal.raise", R"({"signal":"test_once","payload":{"no":1}})"), "INVALID_PARAMS");
  EXPECT_EQ(client.outcome("signal.raise", R"({"signal":"context_reset"})"), "POLICY_DENIED");
  EXPECT_EQ(client.outcome("signal.raise", R"({"signal":"test_once","request_id":"../x","payload":{}})"),
            "INVALID_PARAMS");
  EXPECT_EQ(
      client.outcome("mailbox.resolve", R"({"container":")" + container() + R"(","request_id":"x","outcome":"done"})"),
      "POLICY_DENIED");
}

TEST_F(Mail, ARefusedSignalIsRecordedByItsNameWithItsIdAndItsPayload) {
  const std::string wrong = R"({"no":1})";
  Client client = connect(), host = connect();
  ASSERT_EQ(client.outcome("session.narrow", R"({"container":")" + container() + "\"}"), "OK");
  const auto raise = [&](const std::string& signal, int id, const std::string& payload) {
    return client.outcome("signal.raise", R"({"signal":")" + signal + R"(","request_id":")" + id_of(id) +
                                              R"(","payload":)" + payload + "}");
  };
  // "CODE REQUEST BYTES" of each.
  const auto recorded = [&](const std::string& method, const std::string& code) {
    std::string all;
    const auto answer = host.call("audit.query", R"({"method":")" + method + R"(","decision":")" + code + "\"}");
    if (!answer || answer->error) return std::string("no answer");
    for (const wire::Value each : answer->result.get("records").items()) {
      all += std::string(each.get("request").as_string().value_or("")) + " " +
             std::to_string(each.get("payload_bytes").as_int().value_or(-1)) + " " +
             std::string(each.get("payload_sha256").as_string().value_or("")) + "\n";
    }
    return all;
  };
  EXPECT_EQ(raise("test_once", 1, wrong), "INVALID_PARAMS");
  EXPECT_EQ(recorded("test_once", "INVALID_PARAMS"), id_of(1) + " 8 " + to_hex(wire::sha256(as_bytes(wrong))) + "\n");
  EXPECT_FALSE(reply(id_of(1))) << "whoever calls is answered by the call";
  const std::string good = R"({"text":"hello"})", other = R"({"text":"other"})";
  EXPECT_EQ(raise("test_once", 2, good), "OK");
  EXPECT_EQ(raise("test_once", 2, other), "CONFLICT");
  EXPECT_EQ(recorded("test_once", "CONFLICT"), id_of(2) + " 16 " + to_hex(wire::sha256(as_bytes(other))) + "\n");
  EXPECT_EQ(raise("no name!", 3, good), "POLICY_DENIED");
  EXPECT_EQ(recorded("signal.raise", "POLICY_DENIED"), id_of(3) + " 16 " + to_hex(wire::sha256(as_bytes(good))) + "\n");
  const std::string file = request("test_both", id_of(4), wrong);
  drop(file);
  EXPECT_EQ(outcome(id_of(4)), "INVALID_PARAMS");
  EXPECT_EQ(recorded("test_both", "INVALID_PARAMS"),
            id_of(4) + " " + std::to_string(file.size()) + " " + to_hex(wire::sha256(as_bytes(file))) + "\n");
}

TEST_F(Mail, AttackWhoWaitsForAHumanAndGivesUpAgainAndAgainKeepsNothing) {
  const std::string params =
      R"({"signal":"test_human","request_id":")" + id_of(1) + R"(","payload":{"text":"x","hold":true}})";
  for (int i = 0; i < 20; ++i) {
    Client client = connect();
    ASSERT_EQ(client.outcome("session.narrow", R"({"container":")" + container() + "\"}"), "OK");
    ASSERT_TRUE(client.send(frame_of(R"({"id":"w","type":"request","method":"signal.raise","params":)" + params +
                                     R"(,"deadline_ms":20})")));
    EXPECT_EQ(code_of(client.next_message()), "TIMEOUT");
  }
  EXPECT_TRUE(eventually([&] { return status_number(daemon().socket_path(), {"in_flight"}) == 1; }))
      << status_number(daemon().socket_path(), {"in_flight"}) << " with the one that asks";
  EXPECT_EQ(state_of(id_of(1)), "human_wait") << "what was raised stays raised";
}

TEST_F(Mail, TheHostRaisesNoSignals) {
  container();
  Client client = connect();
  EXPECT_EQ(client.outcome("signal.raise", R"({"signal":"test_note"})"), "INVALID_REQUEST");
}

TEST_F(Mail, WithoutWaitingTheDoorSaysThatAHumanIsAsked) {
  Client client = connect();
  ASSERT_EQ(client.outcome("session.narrow", R"({"container":")" + container() + "\"}"), "OK");
  const std::string raised =
      R"({"signal":"test_human","request_id":")" + id_of(1) + R"(","payload":{"text":"x","hold":true},"wait":false})";
  for (int i = 0; i < 2; ++i) {
    const auto answer = client.call("signal.raise", raised);
    ASSERT_TRUE(answer && !answer->error);
    EXPECT_EQ(answer->result.get("state").as_string(), "awaiting_human");
    EXPECT_EQ(answer->result.get("final").as_bool(), false);
  }
}

TEST_F(Mail, FileAndDoorShareOneJournal) {
  drop(request("test_once", id_of(1)));
  EXPECT_EQ(outcome(id_of(1)), "OK");
  Client client = connect();
  ASSERT_EQ(client.outcome("session.narrow", R"({"container":")" + container() + "\"}"), "OK");
  const std::string same = R"({"signal":"test_once","request_id":")" + id_of(1) + R"(","payload":{"text":"hello"}})";
  EXPECT_EQ(client.outcome("signal.raise", same), "OK");
  EXPECT_EQ(acted(id_of(1)), 1);
  const std::string other = R"({"signal":"test_once","request_id":")" + id_of(1) + R"(","payload":{"text":"other"}})";
  EXPECT_EQ(client.outcome("signal.raise", other), "CONFLICT");
  EXPECT_EQ(acted(id_of(1)), 1);
}

TEST_F(Mail, WhatALostContainerDroppedIsStillAnswered) {
  container();
  daemon().kill_now();
  drop_in(container_, request("test_once", id_of(1)));
  drop_in(container_, R"({"signal":"test_note"})");
  restart();
  EXPECT_EQ(outcome(id_of(1)), "OK");
  EXPECT_TRUE(eventually([&] { return actions().size() == 2; }));
}

TEST_F(Mail, RepliesAreRebuiltFromTheJournal) {
  drop(request("test_once", id_of(1)));
  EXPECT_EQ(outcome(id_of(1)), "OK");
  const auto before = reply(id_of(1));
  daemon().kill_now();
  std::filesystem::remove(mailbox(container_) + "/out/" + id_of(1) + ".json");
  restart();
  EXPECT_EQ(outcome(id_of(1)), "OK");
  EXPECT_EQ(reply(id_of(1)), before);
  EXPECT_EQ(acted(id_of(1)), 1);
}

TEST_F(Mail, RepliesBeyondAThousandExpireAndTheirIdsStayUsed) {
  constexpr int kCount = 1300;
  for (int i = 0; i < kCount; ++i) drop(request("test_once", id_of(i)));
  EXPECT_EQ(outcome(id_of(kCount - 1)), "OK");
  EXPECT_TRUE(eventually([&] { return actions().size() == kCount; }));
  EXPECT_TRUE(eventually([&] {
    std::size_t count = 0;
    for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(mailbox(container_) + "/out"))
      ++count;
    return count <= 1128;
  }));
  int expired = 0;
  while (expired < kCount && reply(id_of(expired))) ++expired;
  ASSERT_LT(expired, kCount);
  drop(request("test_once", id_of(expired)), "again");
  EXPECT_EQ(outcome(id_of(expired)), "CONFLICT");
  EXPECT_EQ(acted(id_of(expired)), 1);
}

TEST_F(Mail, ARestartedContainersOldMailboxIsAnsweredBeforeItGoes) {
  Client client = connect();
  const auto answer =
      client.call("container.create", R"({"template":"mailer","config":{"name":"phoenix","restart":true}})");
  ASSERT_TRUE(answer && !answer->error);
  container_ = answer->result.get("container").as_string().value_or("");
  daemon().kill_now();
  drop_in(container_, request("test_once", id_of(1)));
  const std::string old = container_;
  restart();
  EXPECT_TRUE(eventually([&] { return acted(id_of(1)) == 1; }));
  EXPECT_TRUE(eventually([&] { return !std::filesystem::exists(mailbox(old)); }));
  EXPECT_EQ(acted(id_of(1)), 1);
}

TEST_F(Mail, ARestartedContainerCountsToWhatItWasBefore) {
  Client client = connect();
  const auto answer =
      client.call("container.create", R"({"template":"calm","config":{"name":"phoenix","restart":true}})");
  ASSERT_TRUE(answer && !answer->error);
  container_ = answer->result.get("container").as_string().value_or("");
  for (int i = 1; i <= 2; ++i) {
    drop(request("test_once", id_of(i)));
    EXPECT_EQ(outcome(id_of(i)), "OK");
  }
  for (int life = 0; life < 2; ++life) {
    const std::string old = container_;
    daemon().kill_now();
    restart();
    Client again = connect();
    ASSERT_TRUE(eventually([&] {
      const auto all = again.call("container.list");
      if (!all || all->error) return false;
      for (const wire::Value each : all->result.get("containers").items()) {
        if (each.get("state").as_string() == "running") container_ = each.get("container").as_string().value_or("");
      }
      return container_ != old;
    }));
    drop(request("test_once", id_of(10 + life)));
    EXPECT_EQ(outcome(id_of(10 + life)), "RATE_LIMITED") << "two an hour, whatever its id is";
  }
}

TEST_F(Mail, RemovingAContainerEndsItsMailbox) {
  Client client = connect();
  drop(request("test_human", id_of(1), R"({"text":"x","hold":true})"));
  EXPECT_TRUE(eventually([&] { return state_of(id_of(1)) == "human_wait"; }));
  const std::string named = R"({"container":")" + container() + "\"}";
  ASSERT_EQ(client.outcome("container.stop", named), "OK");
  ASSERT_EQ(client.outcome("container.remove", named), "OK");
  EXPECT_EQ(client.outcome("mailbox.status", named), "NOT_FOUND");
  EXPECT_FALSE(std::filesystem::exists(mailbox(container_)));
}

}  // namespace
}  // namespace sallyport::testing
