// A disk that is full, out of inodes or failing: nothing is executed, nothing that was acknowledged is lost.
#include <fcntl.h>
#include <sqlite3.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "ledger/faulty_vfs.h"
#include "mailbox/mail.h"
#include "mailbox/office.h"

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

TEST(MailboxLedger, AnErrorOnFsyncExecutesNothingAndLosesNothing) {
  ledger::Faults& faults = ledger::faulty_vfs();
  Office office(ledger::kFaultyVfs);
  office.drop(id_of(1));
  faults.on_sync = SQLITE_IOERR_FSYNC;
  office.mailbox().start();
  EXPECT_TRUE(office.until([&] { return office.ledger().health().failures >= 2; }));
  EXPECT_EQ(office.actions(), 0);
  EXPECT_TRUE(office.waits(id_of(1)));
  EXPECT_FALSE(office.has_replied(id_of(1)));
  faults.on_sync = 0;
  EXPECT_TRUE(office.until([&] { return office.has_replied(id_of(1)); }));
  EXPECT_EQ(office.actions(), 1);
  EXPECT_FALSE(office.waits(id_of(1)));
}

}  // namespace
}  // namespace sallyport::testing
