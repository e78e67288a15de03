// A disk that is full, out of inodes or failing: nothing is executed, nothing that was acknowledged is lost.
#include <fcntl.h>
#include <sqlite3.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "ledger/faulty_vfs.h"
#include "mailbox/mail.h"
#include "mailbox/mailbox.h"
#include "warden/signals.h"

namespace sallyport::testing {
namespace {

class MailDisk : public Mail {
 protected:
  // Written while there is room; a rename needs none.
  void prepare_message() {
    const std::string in = mailbox(container()) + "/in/tmp/ready";
    std::ofstream(in) << request("test_once", id_of(1));
  }
  void drop_prepared() {
    const std::string in = mailbox(container()) + "/in";
    ASSERT_EQ(::rename((in + "/tmp/ready").c_str(), (in + "/new/ready").c_str()), 0);
  }
};

TEST_F(MailDisk, AFullDiskExecutesNothingAndLosesNothing) {
  start_on_tmpfs("size=4m");
  prepare_message();
  const std::string filler = state_dir() + "/filler";
  const UniqueFd file{::open(filler.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600)};
  const std::string block(4096, 'x');
  while (::write(file.get(), block.data(), block.size()) > 0) continue;
  ASSERT_EQ(errno, ENOSPC);
  drop_prepared();
  EXPECT_TRUE(daemon().logs("a message waits for the ledger"));
  EXPECT_EQ(acted(id_of(1)), 0);
  EXPECT_FALSE(std::filesystem::is_empty(mailbox(container()) + "/in/new"));
  ASSERT_EQ(::ftruncate(file.get(), 0), 0);
  EXPECT_EQ(outcome(id_of(1)), "OK");
  EXPECT_EQ(acted(id_of(1)), 1);
}

TEST_F(MailDisk, ExhaustedInodesCostTheReplyAndOnlyUntilThereIsOne) {
  start_on_tmpfs("size=16m,nr_inodes=200");
  prepare_message();
  // Held open, so that its own inode does not become the reply's.
  const UniqueFd held{::open((mailbox(container()) + "/in/tmp/ready").c_str(), O_RDONLY | O_CLOEXEC)};
  ASSERT_TRUE(held);
  int count = 0;
  const auto filler = [&](int i) { return state_dir() + "/filler" + std::to_string(i); };
  for (;; ++count) {
    const UniqueFd file{::open(filler(count).c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600)};
    if (!file) break;
  }
  ASSERT_GT(count, 0);
  drop_prepared();
  EXPECT_TRUE(eventually([&] { return status(container()).find("\"unwritten_replies\":1") != std::string::npos; }));
  EXPECT_FALSE(reply(id_of(1)));
  for (int i = 0; i < count; ++i) ::unlink(filler(i).c_str());
  EXPECT_EQ(outcome(id_of(1)), "OK");
  EXPECT_EQ(acted(id_of(1)), 1);
}

class Nobody final : public approval::Reviewer {
 public:
  Task<approval::Verdict> review(approval::Matter) override { return Task<approval::Verdict>::ready({}); }
};

TEST(MailboxLedger, AnErrorOnFsyncExecutesNothingAndLosesNothing) {
  const TemporaryDirectory directory;
  const std::string box = directory.path() + "/box", state = directory.path() + "/state";
  for (const char* below : {"/in/tmp", "/in/new", "/out"}) std::filesystem::create_directories(box + below);
  ledger::Faults& faults = ledger::faulty_vfs();
  const SystemClock clock;
  const Log log(STDERR_FILENO, LogFormat::text, LogLevel::error, clock);
  ipc::Loop loop;
  auto ledger = ledger::Ledger::open({.state_dir = state, .clock = clock, .vfs = ledger::kFaultyVfs});
  ASSERT_TRUE(ledger) << ledger.error().describe();
  (*ledger)->start([&loop](std::function<void()> work) { loop.post(std::move(work)); });
  const policy::Tokens tokens(clock);
  policy::Engine engine({}, tokens);
  policy::ContainerPolicy policy;
  policy.signals = {"*"};
  engine.set_container("box", policy);
  const warden::EngineJudge judge(engine);
  Nobody nobody;
  int actions = 0;
  mailbox::Signal signal;
  signal.name = "count";
  signal.tier = 2;
  signal.action = [&](const Permit&, const mailbox::Raised&) {
    ++actions;
    return Task<Result<std::string>>::ready(std::string("{}"));
  };
  mailbox::Mailbox mailbox({.loop = loop,
                            .ledger = **ledger,
                            .clock = clock,
                            .log = log,
                            .judge = judge,
                            .deputy = nobody,
                            .human = nobody,
                            .on_event = [](std::string_view, const std::string&) {}},
                           {signal}, state + "/quarantine");
  ASSERT_TRUE(mailbox.add("box", box));
  std::ofstream(box + "/in/new/m") << R"({"signal":"count","request_id":")" << id_of(1) << R"(","payload":{}})";
  faults.on_sync = SQLITE_IOERR_FSYNC;
  mailbox.start();
  const std::string reply = box + "/out/" + id_of(1) + ".json";
  std::function<void()> look_for_failure = [&] {
    if ((*ledger)->health().failures < 2) {
      loop.after(Millis(20), look_for_failure);
      return;
    }
    EXPECT_EQ(actions, 0);
    EXPECT_TRUE(std::filesystem::exists(box + "/in/new/m"));
    EXPECT_FALSE(std::filesystem::exists(reply));
    faults.on_sync = 0;
  };
  std::function<void()> look_for_reply = [&] {
    if (std::filesystem::exists(reply)) return loop.stop();
    loop.after(Millis(20), look_for_reply);
  };
  loop.after(Millis(20), look_for_failure);
  loop.after(Millis(20), look_for_reply);
  loop.after(kPatience, [&] {
    ADD_FAILURE() << "no reply";
    loop.stop();
  });
  loop.run();
  mailbox.close();
  loop.settle();
  EXPECT_TRUE((*ledger)->close());
  loop.settle();
  EXPECT_EQ(actions, 1);
  EXPECT_FALSE(std::filesystem::exists(box + "/in/new/m"));
}

}  // namespace
}  // namespace sallyport::testing
