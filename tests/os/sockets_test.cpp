#include "os/sockets.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "os/files.h"
#include "support/attacker.h"
#include "support/daemon.h"

namespace sallyport::os {
namespace {

namespace testing = sallyport::testing;
using sallyport::testing::TemporaryDirectory;

class Sockets : public ::testing::Test {
 protected:
  int directory() {
    if (!fd_) fd_ = std::move(*open_private_directory(path()));
    return fd_.get();
  }
  std::string path() const { return base_.path() + "/d"; }

  TemporaryDirectory base_;
  UniqueFd fd_;
};

TEST_F(Sockets, ASocketIsPrivateFromTheMomentItExists) {
  const mode_t before = ::umask(0);
  const auto listening = listen_unix(directory(), "s");
  EXPECT_EQ(::umask(before), 0U) << "the umask is put back";
  ASSERT_TRUE(listening);
  struct stat info{};
  ASSERT_EQ(::stat((path() + "/s").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777, 0600U);
  EXPECT_NE(::fcntl(listening->get(), F_GETFD) & FD_CLOEXEC, 0);
}

TEST_F(Sockets, AStaleSocketIsReplacedAndAnythingElseIsNot) {
  {
    ASSERT_TRUE(listen_unix(directory(), "s"));
  }
  EXPECT_EQ(connect_unix(path() + "/s").error().code, Code::unavailable);
  const auto again = listen_unix(directory(), "s");
  ASSERT_TRUE(again);
  EXPECT_TRUE(connect_unix(path() + "/s"));
  ::close(::open((path() + "/file").c_str(), O_CREAT | O_WRONLY, 0600));
  EXPECT_EQ(listen_unix(directory(), "file").error().code, Code::conflict);
  ASSERT_EQ(::symlink("s", (path() + "/link").c_str()), 0);
  EXPECT_EQ(listen_unix(directory(), "link").error().code, Code::conflict);
  EXPECT_TRUE(connect_unix(path() + "/s")) << "what the link points to was left alone";
}

TEST_F(Sockets, PathsOfAnyLengthWork) {
  for (const std::size_t length : {90U, 107U, 108U, 109U, 300U, 2000U}) {
    std::string deep = base_.path();
    while (deep.size() + 2 < length) {
      deep += "/" + std::string(std::min<std::size_t>(200, length - deep.size() - 1), 'd');
    }
    const auto opened = open_private_directory(deep);
    ASSERT_TRUE(opened) << deep.size();
    const auto listening = listen_unix(opened->get(), "s");
    ASSERT_TRUE(listening) << deep.size();
    EXPECT_TRUE(connect_unix(deep + "/s")) << deep.size();
  }
}

TEST_F(Sockets, ASocketNameThatCannotFitIsAnError) {
  EXPECT_EQ(listen_unix(directory(), std::string(120, 'n')).error().code, Code::invalid_params);
}

TEST_F(Sockets, NoSocketAndNobodyListeningAreToldApart) {
  EXPECT_EQ(connect_unix(path() + "/none").error().code, Code::not_found);
  EXPECT_EQ(connect_unix("/no/such/directory/s").error().code, Code::not_found);
  {
    ASSERT_TRUE(listen_unix(directory(), "dead"));
  }
  EXPECT_EQ(connect_unix(path() + "/dead").error().code, Code::unavailable);
}

TEST_F(Sockets, OneWhoTakesNoConnectionsIsNotWaitedForForEver) {
  const auto listening = listen_unix(directory(), "s");
  ASSERT_TRUE(listening);
  ASSERT_EQ(::listen(listening->get(), 0), 0);
  const auto first = connect_unix(path() + "/s");
  ASSERT_TRUE(first);
  const auto second = connect_unix(path() + "/s");
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, Code::timeout);
}

TEST_F(Sockets, AServerOfOurOwnIsTrusted) {
  const auto listening = listen_unix(directory(), "s");
  ASSERT_TRUE(listening);
  EXPECT_TRUE(connect_own_unix(path() + "/s"));
  EXPECT_EQ(connect_own_unix(path() + "/none").error().code, Code::not_found);
  EXPECT_EQ(connect_own_unix("/no/such/directory/s").error().code, Code::not_found);
}

TEST_F(Sockets, NobodyIsTrustedWhereOthersMayPutASocket) {
  const auto listening = listen_unix(directory(), "s");
  ASSERT_TRUE(listening);
  for (const mode_t mode : {0720U, 0702U, 0777U, 01777U}) {
    ASSERT_EQ(::chmod(path().c_str(), mode), 0);
    EXPECT_EQ(connect_own_unix(path() + "/s").error().code, Code::conflict) << std::oct << mode;
  }
  ASSERT_EQ(::chmod(path().c_str(), 0755), 0);
  EXPECT_TRUE(connect_own_unix(path() + "/s")) << "reading is not putting";
  ASSERT_EQ(::symlink(path().c_str(), (base_.path() + "/link").c_str()), 0);
  EXPECT_EQ(connect_own_unix(base_.path() + "/link/s").error().code, Code::conflict);
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give a directory away";
  ASSERT_EQ(::chown(path().c_str(), testing::kOrdinaryUid, testing::kOrdinaryUid), 0);
  EXPECT_EQ(connect_own_unix(path() + "/s").error().code, Code::conflict);
}

// The kernel remembers who called listen().
TEST_F(Sockets, AServerOfAnotherUserIsNotTrustedEvenInADirectoryOfOurs) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can become somebody else";
  const auto listening = listen_unix(directory(), "s");
  ASSERT_TRUE(listening);
  ASSERT_EQ(testing::in_child([&] {
              testing::become_ordinary();
              return ::listen(listening->get(), 8);
            }),
            0);
  EXPECT_EQ(connect_own_unix(path() + "/s").error().code, Code::unauthenticated);
}

TEST_F(Sockets, LoopbackListensOnLoopbackOnly) {
  const auto listener = listen_loopback();
  ASSERT_TRUE(listener);
  EXPECT_TRUE(listener->address.starts_with("127.0.0.1:")) << listener->address;
  EXPECT_TRUE(connect_loopback(listener->address));
}

TEST_F(Sockets, OnlyLoopbackAddressesAreDialled) {
  for (const char* address : {"8.8.8.8:53", "0.0.0.0:80", "localhost:80", "127.0.0.1", "127.0.0.1:", "127.0.0.1:0",
                              "127.0.0.1:65536", "127.0.0.1:80x", "127.0.0.1:-1", "[::1]:80", "", ":80", "127.1:80"}) {
    const auto connected = connect_loopback(address);
    ASSERT_FALSE(connected) << address;
    EXPECT_EQ(connected.error().code, Code::invalid_params) << address;
  }
}

}  // namespace
}  // namespace sallyport::os
