// Every attack through the mailbox that we know of, from inside a real container or from beside it.
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/un.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "mailbox/mail.h"

namespace sallyport::testing {
namespace {

class MailAttack : public Mail {
 protected:
  // After the attack the mailbox serves as before.
  void expect_alive() {
    drop(request("test_once", id_of(999'999)), "still-alive");
    EXPECT_EQ(outcome(id_of(999'999)), "OK");
  }
  void expect_refused(const std::string& script, const std::string& reason) {
    run("cd $SALLYPORT_MAILBOX/in; " + script);
    EXPECT_TRUE(refuses(reason)) << status(container());
    EXPECT_TRUE(is_emptied());
    EXPECT_TRUE(actions().empty());
    expect_alive();
  }
  std::string good() const { return request("test_once", id_of(1)); }
};

TEST_F(MailAttack, ASymlinkInPlaceOfAMessage) {
  expect_refused("echo '" + good() + "' > tmp/x; ln -s ../tmp/x new/link", "not a file but a symbolic link");
}
TEST_F(MailAttack, ADanglingSymlink) { expect_refused("ln -s /nowhere new/link", "not a file but a symbolic link"); }
TEST_F(MailAttack, AHardLink) {
  run("cd $SALLYPORT_MAILBOX/in; echo '" + good() + "' > tmp/x; ln tmp/x new/x");
  EXPECT_TRUE(refuses("more than one name"));
  EXPECT_TRUE(actions().empty());
  expect_alive();
}
TEST_F(MailAttack, AFifo) { expect_refused("mkfifo new/fifo", "not a file but a FIFO"); }
TEST_F(MailAttack, ASocket) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const int directory = ::open((mailbox(container()) + "/in/new").c_str(), O_PATH | O_CLOEXEC);
  std::snprintf(address.sun_path, sizeof address.sun_path, "/proc/self/fd/%d/s", directory);
  const int socket = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  ASSERT_EQ(::bind(socket, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  EXPECT_TRUE(refuses("not a file but a socket"));
  EXPECT_TRUE(is_emptied());
  ::close(socket);
  ::close(directory);
  expect_alive();
}
TEST_F(MailAttack, ADevice) {
  ASSERT_EQ(::mknod((mailbox(container()) + "/in/new/zero").c_str(), S_IFCHR | 0600, makedev(1, 5)), 0);
  EXPECT_TRUE(refuses("not a file but a device"));
  EXPECT_TRUE(is_emptied());
  expect_alive();
}
TEST_F(MailAttack, ADirectoryInPlaceOfAMessage) { expect_refused("mkdir new/d", "not a file but a directory"); }
TEST_F(MailAttack, ADirectoryThatIsNotEmpty) {
  expect_refused(
      "mkdir -p tmp/d/e/f; chmod 500 tmp/d; mv tmp/d new/d 2>/dev/null || { chmod 700 tmp/d; mv tmp/d new/d; "
      "chmod 000 new/d; }",
      "not a file but a directory");
}
TEST_F(MailAttack, AGibibyte) { expect_refused("truncate -s 1G tmp/x && mv tmp/x new/x", "larger than 64 KiB"); }
TEST_F(MailAttack, ASparseTebibyte) {
  ASSERT_EQ(
      ::truncate((std::ofstream(mailbox(container()) + "/in/tmp/x") << 'x', mailbox(container()) + "/in/tmp/x").c_str(),
                 1LL << 40),
      0);
  ASSERT_EQ(::rename((mailbox(container_) + "/in/tmp/x").c_str(), (mailbox(container_) + "/in/new/x").c_str()), 0);
  EXPECT_TRUE(refuses("larger than 64 KiB"));
  EXPECT_TRUE(is_emptied());
  expect_alive();
}
TEST_F(MailAttack, AnEmptyFile) { expect_refused(": > tmp/x; mv tmp/x new/x", "the file is empty"); }
TEST_F(MailAttack, APartialWriteWithoutRename) {
  // Found by the sweep, as far as it was written: it is no message, and what is written later goes nowhere.
  run("cd $SALLYPORT_MAILBOX/in; (printf '{\"signal\":\"test_'; while [ -e new/x ]; do sleep 0.05; done; printf "
      "'note\"}') > "
      "new/x");
  EXPECT_TRUE(refuses("not strict JSON"));
  EXPECT_TRUE(is_emptied());
  EXPECT_TRUE(actions().empty());
  expect_alive();
}
TEST_F(MailAttack, ARenameOverAMessage) {
  run("cd $SALLYPORT_MAILBOX/in; for i in 1 2 3 4 5 6 7 8 9; do echo '" + request("test_once", id_of(1)) +
      "' > tmp/x; mv tmp/x new/x; echo '" + request("test_once", id_of(2)) + "' > tmp/x; mv tmp/x new/x; done");
  EXPECT_EQ(outcome(id_of(2)), "OK");
  EXPECT_TRUE(is_emptied());
  EXPECT_LE(acted(id_of(1)), 1);
  EXPECT_EQ(acted(id_of(2)), 1);
}
TEST_F(MailAttack, TruncationAndGrowthWhileItIsRead) {
  // Whatever is read is one whole message or none; nothing is acted on twice.
  run("cd $SALLYPORT_MAILBOX/in; for i in $(seq 200); do echo '" + request("test_once", id_of(1)) +
      "' > tmp/x; mv tmp/x new/x; : > new/x; printf 'xx' >> new/x; done");
  expect_alive();
  EXPECT_TRUE(is_emptied());
  EXPECT_LE(acted(id_of(1)), 1);
}
TEST_F(MailAttack, TheDirectoryItselfReplaced) {
  run("cd $SALLYPORT_MAILBOX/in; mv new old; mkdir new");
  EXPECT_TRUE(eventually([&] { return status(container()).find("\"faulted\"") != std::string::npos; }));
  // Only this mailbox: another container's works.
  const std::string other = create("other");
  drop_in(other, request("test_once", id_of(5)));
  EXPECT_TRUE(eventually([&] { return std::filesystem::exists(mailbox(other) + "/out/" + id_of(5) + ".json"); }));
  // Put back, it works again.
  run("cd $SALLYPORT_MAILBOX/in; rmdir new; mv old new");
  EXPECT_TRUE(eventually([&] { return status(container()).find("\"faulted\"") == std::string::npos; }));
  expect_alive();
}
TEST_F(MailAttack, TheDirectoryReplacedByALinkOut) {
  run("cd $SALLYPORT_MAILBOX/in; mv new old; ln -s /etc new");
  EXPECT_TRUE(eventually([&] { return status(container()).find("\"faulted\"") != std::string::npos; }));
  EXPECT_TRUE(actions().empty());
}
TEST_F(MailAttack, Mode000) {
  expect_refused("echo '" + good() + "' > tmp/x; chmod 000 tmp/x; mv tmp/x new/x", "its mode forbids it");
}
TEST_F(MailAttack, AForeignUid) {
  const std::string path = mailbox(container()) + "/in/tmp/x";
  std::ofstream(path) << good();
  ASSERT_EQ(::chown(path.c_str(), 12345, 12345), 0);
  ASSERT_EQ(::rename(path.c_str(), (mailbox(container_) + "/in/new/x").c_str()), 0);
  EXPECT_TRUE(refuses("belongs to another user"));
  EXPECT_TRUE(is_emptied());
  EXPECT_TRUE(actions().empty());
  expect_alive();
}
TEST_F(MailAttack, StrangeNames) {
  int number = 10;
  for (const std::string& name : {std::string(255, 'n'), std::string("a\nb\x1b[2J"), std::string("\xff\xfe"),
                                  std::string(".hidden"), std::string("-rf"), std::string("a b;$(x)")}) {
    drop(request("test_once", id_of(++number)), name);
    EXPECT_EQ(outcome(id_of(number)), "OK") << number;
  }
  drop("{", "bad\x1b]0;title\x07\n{\"forged\":1}");
  EXPECT_TRUE(refuses("not strict JSON"));
  EXPECT_EQ(status(container()).find('\x1b'), std::string::npos);
  EXPECT_TRUE(is_emptied());
}
TEST_F(MailAttack, RequestIdsThatArePaths) {
  for (const char* id :
       {"../../../../etc/x", "/etc/passwd", "..", "a\\u0000b", "6BA7B810-9DAD-41D1-80B4-00C04FD430C8"}) {
    drop(request("test_once", id));
  }
  EXPECT_TRUE(is_emptied());
  EXPECT_TRUE(refuses("UUID in lower case"));
  EXPECT_TRUE(actions().empty());
  EXPECT_TRUE(std::filesystem::is_empty(mailbox(container()) + "/out"));
  expect_alive();
}
TEST_F(MailAttack, ASignalWithAnExtraKey) {
  drop(R"({"signal":"test_note","group":"admin"})");
  drop(R"({"signal":"test_note","payload":{}})");
  EXPECT_TRUE(refuses("unknown key"));
  EXPECT_TRUE(refuses("nothing else"));
  EXPECT_TRUE(actions().empty());
}
TEST_F(MailAttack, ASignalAsArrayNullOrInOtherCase) {
  for (const char* text : {R"(["test_note"])", "null", R"({"signal":["test_note"]})", R"({"signal":null})",
                           R"({"SIGNAL":"test_note"})", R"({"signal":"TEST_NOTE"})"}) {
    drop(text);
  }
  EXPECT_TRUE(is_emptied());
  EXPECT_TRUE(actions().empty());
  expect_alive();
}
TEST_F(MailAttack, ContentThatClaimsAnotherGroupOrAnEarlierApproval) {
  int number = 0;
  for (const char* extra : {R"("container":"other-00000000")", R"("admin":true)", R"("approved":true)",
                            R"("state":"approved")", R"("human":"host/uid 0")"}) {
    drop(R"({"signal":"test_human","request_id":")" + id_of(++number) + R"(","payload":{"text":"x","hold":true},)" +
         extra + "}");
    EXPECT_EQ(outcome(id_of(number)), "INVALID_REQUEST");
    drop(request("test_human", id_of(++number), std::string(R"({"text":"x","hold":true,)") + extra + "}"));
    EXPECT_EQ(outcome(id_of(number)), "INVALID_PARAMS");
  }
  EXPECT_TRUE(actions().empty());
}
TEST_F(MailAttack, AForgedReplyIsImpossible) {
  int code = 0;
  run("echo x > $SALLYPORT_MAILBOX/out/x || ln -s /etc $SALLYPORT_MAILBOX/out/y || rm -rf $SALLYPORT_MAILBOX/out",
      &code);
  EXPECT_NE(code, 0);
}
TEST_F(MailAttack, ReplayOfTheSameBytes) {
  for (int i = 0; i < 5; ++i) {
    drop(request("test_once", id_of(1)), "replay");
    EXPECT_EQ(outcome(id_of(1)), "OK");
    EXPECT_TRUE(is_emptied());
  }
  EXPECT_EQ(acted(id_of(1)), 1);
}
TEST_F(MailAttack, ReplayOfOtherBytes) {
  drop(request("test_once", id_of(1)));
  EXPECT_EQ(outcome(id_of(1)), "OK");
  drop(request("test_once", id_of(1), R"({"text":"other"})"));
  EXPECT_TRUE(refuses("CONFLICT"));
  EXPECT_EQ(outcome(id_of(1)), "CONFLICT");
  // The first is still what it was.
  drop(request("test_once", id_of(1)));
  EXPECT_TRUE(eventually([&] { return reply(id_of(1))->find("\"did\"") != std::string::npos; }));
  EXPECT_EQ(acted(id_of(1)), 1);
}
TEST_F(MailAttack, ReplayAfterARestart) {
  drop(request("test_once", id_of(1)));
  EXPECT_EQ(outcome(id_of(1)), "OK");
  daemon().kill_now();
  drop_in(container_, request("test_once", id_of(1)));
  restart();
  EXPECT_TRUE(is_emptied());
  EXPECT_EQ(outcome(id_of(1)), "OK");
  EXPECT_EQ(acted(id_of(1)), 1);
}
TEST_F(MailAttack, FilesDroppedDuringTheSweepAndAQueueThatOverflows) {
  // More than the kernel's queue of notices holds, while the daemon is busy with the first of them.
  const int count = static_cast<int>(scaled(20'000));
  const std::string in = mailbox(container()) + "/in";
  for (int i = 0; i < count; ++i) {
    const std::string name = "/" + std::to_string(i);
    std::ofstream(in + "/tmp" + name) << R"({"signal":"test_note"})";
    ASSERT_EQ(::rename((in + "/tmp" + name).c_str(), (in + "/new" + name).c_str()), 0);
  }
  EXPECT_TRUE(eventually([&] { return actions().size() == static_cast<std::size_t>(count); }, 4 * kPatience));
  EXPECT_TRUE(is_emptied());
}
TEST_F(MailAttack, ANoisyContainerDoesNotStarveOthers) {
  const std::string other = create("quiet");
  const int count = static_cast<int>(scaled(20'000));
  const std::string in = mailbox(container()) + "/in";
  daemon().signal(SIGSTOP);
  for (int i = 0; i < count; ++i) {
    const std::string name = "/n" + std::to_string(i);
    std::ofstream(in + "/tmp" + name) << R"({"signal":"test_note"})";
    ASSERT_EQ(::rename((in + "/tmp" + name).c_str(), (in + "/new" + name).c_str()), 0);
  }
  drop_in(other, request("test_once", id_of(7)));
  daemon().signal(SIGCONT);
  EXPECT_TRUE(eventually([&] { return actions().size() == static_cast<std::size_t>(count) + 1; }, 4 * kPatience));
  // The last that came, and long before the noise was over.
  EXPECT_LT(actions_before(other + "/" + id_of(7)), count / 2);
}
TEST_F(MailAttack, ManyRefusalsAreCountedAndNotAllKept) {
  for (int i = 0; i < 2000; ++i) drop("{", "bad" + std::to_string(i));
  EXPECT_TRUE(is_emptied());
  std::size_t kept = 0;
  for ([[maybe_unused]] const auto& entry :
       std::filesystem::directory_iterator(state_dir() + "/quarantine/" + container())) {
    ++kept;
  }
  EXPECT_GT(kept, 0U);
  EXPECT_LE(kept, 64U);
  EXPECT_TRUE(eventually([&] { return status(container()).find("\"refused\":2000") != std::string::npos; }));
  expect_alive();
}
TEST_F(MailAttack, MoreRequestsForAHumanThanAHumanCanRead) {
  for (int i = 0; i < 100; ++i) drop(request("test_human", id_of(i), R"({"text":"x","hold":true})"));
  EXPECT_TRUE(is_emptied());
  EXPECT_TRUE(refuses("RATE_LIMITED"));
  drop(R"({"signal":"test_note"})");
  EXPECT_TRUE(eventually([&] { return actions().size() == 1; }));
}
TEST_F(MailAttack, OutOfDescriptors) {
  container();
  rlimit before{};
  ASSERT_EQ(::prlimit(daemon().pid(), RLIMIT_NOFILE, nullptr, &before), 0);
  const rlimit none{0, before.rlim_max};
  ASSERT_EQ(::prlimit(daemon().pid(), RLIMIT_NOFILE, &none, nullptr), 0);
  drop(request("test_once", id_of(1)));
  EXPECT_FALSE(is_emptied(std::chrono::milliseconds(1500)));
  EXPECT_EQ(acted(id_of(1)), 0);
  ASSERT_EQ(::prlimit(daemon().pid(), RLIMIT_NOFILE, &before, nullptr), 0);
  EXPECT_EQ(outcome(id_of(1)), "OK");
  EXPECT_EQ(acted(id_of(1)), 1);
}
TEST_F(MailAttack, TwoWardensAtOnce) {
  container();
  Daemon second({.program = SALLYPORT_FAULTS_DAEMON, .arguments = {}, .before_exec = [this] {
                   ::setenv("SALLYPORT_STATE_DIR", state_dir().c_str(), 1);
                 }});
  EXPECT_FALSE(second.start());
  drop(request("test_once", id_of(1)));
  EXPECT_EQ(outcome(id_of(1)), "OK");
  EXPECT_EQ(acted(id_of(1)), 1);
}

}  // namespace
}  // namespace sallyport::testing
