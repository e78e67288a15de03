// Directories that a container shuts to itself, and so to a warden of the same uid.
#include <gtest/gtest.h>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>

#include "mailbox/box.h"
#include "mailbox/limits.h"
#include "support/attacker.h"
#include "support/daemon.h"

namespace sallyport::testing {
namespace {

// A mailbox of an ordinary user: root is never refused. Every scenario says 0 if all is well.
class MailShut : public ::testing::Test {
 protected:
  void SetUp() override {
    for (const char* below : {"/in/tmp/d", "/in/new", "/out"}) std::filesystem::create_directories(path(below));
    if (!is_root()) return;
    for (const char* below : {"", "/in", "/in/tmp", "/in/tmp/d", "/in/new", "/out"}) {
      ASSERT_EQ(::chown(path(below).c_str(), kOrdinaryUid, kOrdinaryUid), 0);
    }
  }
  std::string path(const std::string& below) const { return directory_.path() + below; }
  void shut(const std::string& below, mode_t mode) const { ::chmod(path(below).c_str(), mode); }
  void fill(const std::string& below, std::size_t files) const {
    for (std::size_t i = 0; i < files; ++i) std::ofstream(path(below) + "/" + std::to_string(i));
  }
  void expect(const std::function<int(mailbox::Box&)>& scenario) {
    EXPECT_EQ(in_child([&] {
                if (is_root()) become_ordinary();
                const auto box = mailbox::Box::open("c", directory_.path());
                return box ? scenario(**box) : 90;
              }),
              0);
  }

  const TemporaryDirectory directory_;
};

TEST_F(MailShut, AttackManyFilesBehindAModeThatLetsNobodyLook) {
  for (const char* below : {"/in", "/in/tmp", "/in/new"}) {
    expect([&](mailbox::Box& box) {
      if (!box.overload().empty()) return 1;
      shut(below, 0300);
      return box.overload().empty() ? 2 : 0;
    });
  }
  expect([&](mailbox::Box& box) {
    fill("/in/tmp/d", mailbox::kMaxUnsentFiles);
    shut("/in/tmp/d", 0300);
    return box.overload() == "too many files lie in its mailbox unsent" ? 0 : 3;
  });
}

TEST_F(MailShut, AttackALargeFileBehindAModeThatLetsNobodyAskForItsSize) {
  expect([&](mailbox::Box& box) {
    const UniqueFd file{::open(path("/in/tmp/d/large").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600)};
    if (::posix_fallocate(file.get(), 0, mailbox::kMaxUnsentBytes + 1) != 0) return 1;
    shut("/in/tmp/d", 0400);
    return box.overload() == "too much lies in its mailbox unsent" ? 0 : 2;
  });
}

TEST_F(MailShut, ADirectoryOfMode000IsRefusedAndGoesBack) {
  expect([&](mailbox::Box& box) {
    std::filesystem::rename(path("/in/tmp/d"), path("/in/new/d"));
    const std::ofstream made(path("/in/new/d/file"));
    shut("/in/new/d", 0);
    return box.reject("d") && !std::filesystem::exists(path("/in/new/d")) ? 0 : 1;
  });
}

TEST_F(MailShut, IsOpenedWhateverItsModes) {
  for (const char* below : {"/in/new", "/in/tmp", "/in"}) shut(below, 0);
  expect([&](mailbox::Box& box) { return box.overload().empty() ? 0 : 1; });
}

}  // namespace
}  // namespace sallyport::testing
