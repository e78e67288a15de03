// What comes again, in great numbers, or under a clock that jumps.
#include <fcntl.h>
#include <sched.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "mailbox/desk.h"
#include "mailbox/limits.h"
#include "mailbox/mail.h"
#include "mailbox/office.h"
#include "support/attacker.h"

namespace sallyport::testing {
namespace {

using std::chrono::hours;

// ---- the same request again ----

TEST_F(Mail, ARequestThatComesAgainIsNotCountedAgain) {
  container_ = create("calm", "calm");
  for (int i = 0; i < 5; ++i) {
    drop(request("test_once", id_of(1)));
    EXPECT_TRUE(is_emptied());
    EXPECT_EQ(outcome(id_of(1)), "OK") << i;
  }
  drop(request("test_once", id_of(2)));
  EXPECT_EQ(outcome(id_of(2)), "OK") << "the rate allows two, and this is the second";
  drop(request("test_once", id_of(3)));
  EXPECT_EQ(outcome(id_of(3)), "RATE_LIMITED");
  // A rate that is used up does not stand before an answer that is there, through whichever door.
  drop(request("test_once", id_of(1)), "again");
  EXPECT_TRUE(is_emptied());
  EXPECT_EQ(outcome(id_of(1)), "OK");
  Client client = connect();
  ASSERT_EQ(client.outcome("session.narrow", R"({"container":")" + container_ + "\"}"), "OK");
  EXPECT_EQ(client.outcome("signal.raise",
                           R"({"signal":"test_once","request_id":")" + id_of(2) + R"(","payload":{"text":"hello"}})"),
            "OK");
  // One that was refused for its rate is not known: asking again does not get around it.
  drop(request("test_once", id_of(3)), "third");
  EXPECT_TRUE(is_emptied());
  EXPECT_EQ(outcome(id_of(3)), "RATE_LIMITED");
  EXPECT_EQ(acted(id_of(1)) + acted(id_of(2)) + acted(id_of(3)), 2);
}

TEST_F(Mail, ARequestThatComesAgainWhileTooManyWaitKeepsWaiting) {
  for (std::size_t i = 0; i < mailbox::kMaxWaiting; ++i) {
    drop(request("test_human", id_of(static_cast<int>(i)), R"({"text":"x","hold":true})"));
  }
  EXPECT_TRUE(is_emptied());
  drop(request("test_human", id_of(1000), R"({"text":"x","hold":true})"));
  EXPECT_EQ(outcome(id_of(1000)), "RATE_LIMITED");
  drop(request("test_human", id_of(0), R"({"text":"x","hold":true})"));
  EXPECT_TRUE(is_emptied());
  EXPECT_EQ(state_of(id_of(0)), "human_wait");
  ASSERT_TRUE(reply(id_of(0)));
  EXPECT_NE(reply(id_of(0))->find("awaiting_human"), std::string::npos) << *reply(id_of(0));
}

TEST_F(Mail, AttackReplayAfterItsAnswerWasCollected) {
  drop(request("test_once", id_of(0)));
  EXPECT_EQ(outcome(id_of(0)), "OK");
  for (int i = 1; reply(id_of(0)) && i < 2000; ++i) {
    drop(request("test_once", id_of(i)));
    if (i % 200 == 0) {
      EXPECT_TRUE(is_emptied());
    }
  }
  EXPECT_TRUE(eventually([&] { return !reply(id_of(0)); }));
  for (int round = 0; round < 2; ++round) {
    drop(request("test_once", id_of(0)), "again");
    EXPECT_EQ(outcome(id_of(0)), "CONFLICT");
    EXPECT_EQ(acted(id_of(0)), 1);
    if (round == 0) {
      EXPECT_EQ(daemon().stop(), 0);
      restart();
    }
  }
}

// One mailbox, without a daemon.
class MailDesk : public ::testing::Test {
 protected:
  void SetUp() override {
    for (const char* below : {"/in/tmp", "/in/new", "/out"}) std::filesystem::create_directories(path() + below);
    auto box = mailbox::Box::open("c", path());
    ASSERT_TRUE(box) << box.error().describe();
    box_ = std::move(*box);
  }
  std::string path() const { return directory_.path(); }

  const TemporaryDirectory directory_;
  std::unique_ptr<mailbox::Box> box_;
};

TEST_F(MailDesk, AReplyLivesADayFromWhenItsRequestWasTakenIn) {
  mailbox::Desk desk(std::move(box_));
  const SteadyTime start{hours(100)};
  desk.reply("refused", "{}", start, true, false);
  desk.reply("taken", "{}", start, true, true);
  EXPECT_FALSE(desk.has_answered("refused")) << "a refusal leaves nothing in the journal";
  EXPECT_TRUE(desk.has_answered("taken"));
  // The refused one is taken in ten hours later: from then on it counts, and its row expires with it.
  desk.reply("refused", "{}", start + hours(10), true, true);
  EXPECT_TRUE(desk.has_answered("refused"));
  EXPECT_TRUE(desk.take_expired(start + mailbox::kReplyLife - Millis(1)).files.empty());
  EXPECT_EQ(desk.take_expired(start + mailbox::kReplyLife).rows, std::vector<std::string>{"taken"});
  EXPECT_TRUE(desk.take_expired(start + hours(33)).files.empty());
  EXPECT_EQ(desk.take_expired(start + hours(34)).rows, std::vector<std::string>{"refused"});
  EXPECT_EQ(desk.replies(), 0U);
}

TEST_F(MailDesk, NoReplyIsWrittenIntoAMailboxThatGoes) {
  EXPECT_TRUE(box_->write_reply("before", "{}"));
  box_->close_replies();
  EXPECT_TRUE(box_->write_reply("after", "{}"));
  EXPECT_TRUE(std::filesystem::exists(path() + "/out/before.json"));
  EXPECT_FALSE(std::filesystem::exists(path() + "/out/after.json"));
}

TEST_F(MailDesk, AnInterimReplyThatFoundNoRoomIsNotWrittenOverTheFinalOne) {
  mailbox::Desk desk(std::move(box_));
  desk.replied("id", "interim", SteadyTime{}, false, true, Error::make(Code::unavailable, "no room"));
  EXPECT_EQ(desk.unwritten_replies(), 1U);
  desk.forget_unwritten("id");
  desk.retry_replies();
  EXPECT_FALSE(std::filesystem::exists(path() + "/out/id.json"));
}

// ---- a clock that jumps ----

TEST_F(Mail, AttackAClockThatJumpsADay) {
  container_ = create("calm", "calm");
  drop(request("test_once", id_of(1)));
  EXPECT_EQ(outcome(id_of(1)), "OK");
  drop(request("test_once", id_of(2)));
  EXPECT_EQ(outcome(id_of(2)), "OK");
  int number = 10;
  for (const hours ahead : {hours(25), hours(-25), hours(24 * 365)}) {
    set_clock(ahead);
    // Replies are looked through with each answer that is journalled, and what the ledger does about one comes before
    // what it does about the next.
    for (int i = 0; i < 2; ++i) {
      drop(request("test_again", id_of(++number)));
      EXPECT_EQ(outcome(id_of(number)), "POLICY_DENIED");
    }
    drop(request("test_once", id_of(3)), "limited");
    EXPECT_EQ(outcome(id_of(3)), "RATE_LIMITED") << "two an hour, whatever the clock says";
    EXPECT_TRUE(is_emptied());
    for (int i = 1; i <= 2; ++i) {
      EXPECT_EQ(outcome_now(id_of(i)), "OK") << "the reply is there after " << ahead.count() << " hours";
      drop(request("test_once", id_of(i)));
      EXPECT_TRUE(is_emptied());
      EXPECT_EQ(outcome_now(id_of(i)), "OK");
      EXPECT_EQ(acted(id_of(i)), 1);
    }
  }
  set_clock(hours(0));
}

TEST_F(Mail, AttackAClockThatWasSetBackWhileTheWardenWasDown) {
  drop(request("test_once", id_of(1)));
  EXPECT_EQ(outcome(id_of(1)), "OK");
  EXPECT_EQ(daemon().stop(), 0);
  set_clock(hours(-48));
  restart();
  drop(request("test_once", id_of(1)), "again");
  EXPECT_TRUE(is_emptied());
  EXPECT_EQ(outcome(id_of(1)), "OK");
  EXPECT_EQ(acted(id_of(1)), 1);
  // Set ahead, the answer is too old to be kept; its id is still used.
  EXPECT_EQ(daemon().stop(), 0);
  set_clock(hours(48));
  restart();
  EXPECT_TRUE(eventually([&] { return !reply(id_of(1)); }));
  drop(request("test_once", id_of(1)), "again");
  EXPECT_EQ(outcome(id_of(1)), "CONFLICT");
  EXPECT_EQ(acted(id_of(1)), 1);
}

// ---- great numbers ----

// $SALLYPORT_TEST_FILES says how many.
int number_of_files() {
  const char* wanted = std::getenv("SALLYPORT_TEST_FILES");
  return wanted != nullptr ? std::atoi(wanted) : static_cast<int>(scaled(1'000'000));
}

TEST_F(Mail, AttackAMillionFiles) {
  constexpr int kEvery = 100;  // one in so many is a message
  start_on_tmpfs("size=75%,nr_inodes=0");
  const std::string other = create("quiet");
  const std::string in = mailbox(container()) + "/in";
  const int count = number_of_files();
  const std::int64_t before = peak_kib(daemon().pid());
  // All of them lie there before it looks.
  daemon().signal(SIGSTOP);
  const UniqueFd directory{::open((in + "/new").c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
  ASSERT_TRUE(directory);
  for (int i = 0; i < count; ++i) {
    const UniqueFd file{::openat(directory.get(), std::to_string(i).c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600)};
    ASSERT_TRUE(file) << i << ": " << errno_name(errno);
    constexpr std::string_view kMessage = R"({"signal":"test_note"})";
    if (i % kEvery == 0) {
      ASSERT_EQ(::write(file.get(), kMessage.data(), kMessage.size()), ssize_t{kMessage.size()});
    }
  }
  daemon().signal(SIGCONT);
  // Others are served meanwhile.
  drop_in(other, request("test_once", id_of(7)));
  const std::string answer = mailbox(other) + "/out/" + id_of(7) + ".json";
  EXPECT_TRUE(eventually([&] { return std::filesystem::exists(answer); }));
  EXPECT_TRUE(connect().pings());
  EXPECT_FALSE(std::filesystem::is_empty(in + "/new")) << "long before the flood is over";
  // Nothing is lost.
  EXPECT_TRUE(is_emptied(8 * kPatience));
  const auto messages = static_cast<std::size_t>((count + kEvery - 1) / kEvery);
  EXPECT_TRUE(eventually([&] { return actions().size() == messages + 1; }));
  EXPECT_NE(status(container()).find("\"refused\":" + std::to_string(count - static_cast<int>(messages))),
            std::string::npos)
      << status(container());
  // And memory does not grow with their number: a hundred bytes for each would be as much.
  if (!kIsSanitized) {
    EXPECT_LT(peak_kib(daemon().pid()) - before, 96 << 10);
  }
}

TEST(MailboxLedger, SignalsOfTier1AreNoneOfTheRequestsThatAContainerMayEverRaise) {
  Office office;
  mailbox::Signal note;
  note.name = "note";
  note.action = [](const Permit&, const mailbox::Raised&) {
    return Task<Result<std::string>>::ready(std::string("{}"));
  };
  mailbox::Signal request = note;
  request.name = "request";
  request.tier = 2;
  mailbox::Quarantine quarantine(office.box() + "/quarantine");
  mailbox::Flow flow(office.parts(), {note, request}, quarantine);
  auto box = mailbox::Box::open("box", office.box());
  ASSERT_TRUE(box);
  const auto desk = std::make_shared<mailbox::Desk>(std::move(*box));
  desk->requests = mailbox::kMaxRequests - 1;
  std::optional<Status> taken;
  const std::function<void()> nothing;
  const auto take = [&](std::unique_ptr<mailbox::Flow::Arrival> arrival) -> Fire {
    taken = co_await flow.take_in(desk, std::move(arrival), std::nullopt, nothing);
  };
  for (int i = 0; i < 3; ++i) {
    auto arrival = flow.examine(*desk, "note", "", {}, "signal-" + std::to_string(i), {});
    ASSERT_TRUE(arrival) << arrival.error().message;
    taken.reset();
    take(std::move(*arrival));
    ASSERT_TRUE(office.until([&] { return taken && flow.pending().empty(); }));
  }
  EXPECT_EQ(desk->requests, mailbox::kMaxRequests - 1);
  desk->requests = mailbox::kMaxRequests;
  EXPECT_TRUE(flow.examine(*desk, "note", "", {}, "signal-3", {}));
  wire::Decoder decoder;
  const auto payload = decoder.parse("{}");
  const auto refused = flow.examine(*desk, "request", id_of(1), payload->root(), "", {});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::quota_exceeded);
}

TEST_F(Mail, ManyMailboxesShareWhatIsUnderWay) {
  // Each has less than one mailbox may have under way, all of them have more than there may be.
  constexpr int kBoxes = 4, kEach = 250;
  static_assert(kEach < mailbox::kMaxAccepting && kBoxes * kEach > mailbox::kMaxAcceptingInAll);
  std::vector<std::string> boxes;
  for (int i = 0; i < kBoxes; ++i) boxes.push_back(create("box" + std::to_string(i)));
  daemon().signal(SIGSTOP);
  for (int i = 0; i < kBoxes * kEach; ++i) {
    const std::string& box = boxes[static_cast<std::size_t>(i % kBoxes)];
    drop_in(box, request("test_once", id_of(i)));
  }
  daemon().signal(SIGCONT);
  EXPECT_TRUE(eventually([&] { return actions().size() == std::size_t{kBoxes * kEach}; }, 4 * kPatience));
  for (const std::string& box : boxes) {
    EXPECT_TRUE(eventually([&] { return std::filesystem::is_empty(mailbox(box) + "/in/new"); }));
  }
  container_ = boxes[0];
}

// ---- no room for a watch ----

TEST(MailboxLedger, AttackWatchLimitsExhausted) {
  const uid_t uid = ::geteuid();
  // A user namespace has limits of its own: the machine's stay as they are.
  const int status = in_namespaces(CLONE_NEWUSER, [uid] {
    std::ofstream("/proc/self/setgroups") << "deny";
    std::ofstream("/proc/self/uid_map") << uid << ' ' << uid << " 1";
    std::ofstream("/proc/sys/user/max_inotify_watches") << 0;
    Office office;
    office.mailbox().start();
    office.drop(id_of(1));
    if (!office.until([&] { return office.has_replied(id_of(1)); })) return 2;
    office.drop(id_of(2));
    if (!office.until([&] { return office.has_replied(id_of(2)); })) return 3;
    return office.mailbox().status("box").find("\"watched\":false") != std::string::npos ? 0 : 1;
  });
  EXPECT_EQ(status, 0) << "1: it was watched, 2 and 3: no reply, " << kOther << ": no user namespace";
}

}  // namespace
}  // namespace sallyport::testing
