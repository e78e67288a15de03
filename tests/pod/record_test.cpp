#include "pod/record.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <thread>

#include "os/files.h"
#include "os/process.h"
#include "pod/limits.h"
#include "support/daemon.h"

namespace sallyport::pod {
namespace {

class PodRecord : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(os::open_private_directory(place_.path()));
    record_.name = "one";
    record_.address = place_.socket_path();
    record_.binding = {record_.address, *os::boot_id(), static_cast<std::uint64_t>(::getpid()),
                       *os::process_start_time(::getpid())};
    record_.token.fill(9);
    record_.command = {"bash", "-c", "echo \"quoted\""};
  }
  void hold_lock() {
    auto lock = place_.lock();
    ASSERT_TRUE(lock);
    lock_ = std::move(*lock);
  }

  testing::TemporaryDirectory root_;
  Place place_{root_.path(), "one"};
  Record record_;
  UniqueFd lock_;
};

TEST_F(PodRecord, ComesBackAsItWasWritten) {
  record_.wait_status = 256;
  record_.exited_unix_ms = 12;
  ASSERT_TRUE(place_.write(record_));
  const auto back = place_.read();
  ASSERT_TRUE(back) << back.error().describe();
  EXPECT_EQ(back->command, record_.command);
  EXPECT_EQ(back->token, record_.token);
  EXPECT_EQ(back->wait_status, 256);
  struct stat info{};
  ASSERT_EQ(::stat(place_.record_path().c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777, 0600U);
}

TEST_F(PodRecord, RefusesALinkInItsPlace) {
  ASSERT_TRUE(place_.write(record_));
  const std::string elsewhere = root_.path() + "/elsewhere";
  std::filesystem::rename(place_.record_path(), elsewhere);
  std::filesystem::create_symlink(elsewhere, place_.record_path());
  const auto read = place_.read();
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().code, Code::conflict);
  EXPECT_FALSE(find(place_));
}

TEST_F(PodRecord, RefusesAModeThatOthersCanRead) {
  ASSERT_TRUE(place_.write(record_));
  ASSERT_EQ(::chmod(place_.record_path().c_str(), 0640), 0);
  EXPECT_FALSE(place_.read());
}

TEST_F(PodRecord, RefusesAnotherOwner) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give a file away";
  ASSERT_TRUE(place_.write(record_));
  ASSERT_EQ(::chown(place_.record_path().c_str(), 12345, 12345), 0);
  EXPECT_FALSE(place_.read());
}

TEST_F(PodRecord, RefusesOneThatSpeaksOfAnotherPod) {
  record_.name = "two";
  ASSERT_TRUE(place_.write(record_));
  EXPECT_FALSE(place_.read());
}

TEST_F(PodRecord, RefusesAnotherProtocolVersionAndBrokenTokens) {
  const std::string good = to_json(record_);
  EXPECT_TRUE(parse_record(good));
  for (const auto& [from, to] : std::vector<std::pair<std::string, std::string>>{{"\"protocol\":1", "\"protocol\":0"},
                                                                                 {"\"protocol\":1", "\"protocol\":2"},
                                                                                 {"0909", "09"},
                                                                                 {"\"token\":\"", "\"token\":\"zz"}}) {
    std::string bad = good;
    bad.replace(bad.find(from), from.size(), to);
    EXPECT_FALSE(parse_record(bad)) << bad;
  }
  EXPECT_FALSE(parse_record("{}"));
  EXPECT_FALSE(parse_record(""));
}

TEST_F(PodRecord, LivesOnlyWithAHeldLockAndItsVeryProcess) {
  EXPECT_EQ(look(place_).life, Life::lost) << "a directory alone";
  ASSERT_TRUE(place_.write(record_));
  EXPECT_EQ(look(place_).life, Life::lost) << "nobody holds the lock";
  hold_lock();
  EXPECT_EQ(look(place_).life, Life::running);
  ++record_.binding.start_time;
  ASSERT_TRUE(place_.write(record_));
  EXPECT_EQ(look(place_).life, Life::lost) << "the pid was recycled";
  --record_.binding.start_time;
  record_.binding.boot_id = "another";
  ASSERT_TRUE(place_.write(record_));
  EXPECT_EQ(look(place_).life, Life::lost) << "another boot";
}

TEST_F(PodRecord, TakesAZombieForDead) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(0);
  siginfo_t info{};
  ASSERT_EQ(::waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOWAIT), 0);
  record_.binding.pid = static_cast<std::uint64_t>(child);
  record_.binding.start_time = *os::process_start_time(child);
  ASSERT_TRUE(place_.write(record_));
  hold_lock();
  EXPECT_EQ(look(place_).life, Life::lost);
  ::waitpid(child, nullptr, 0);
}

TEST_F(PodRecord, HasTheStatusOfOneThatEndsWhileItIsLookedAt) {
  for (int round = 0; round < 300; ++round) {
    record_.wait_status.reset();
    ASSERT_TRUE(place_.write(record_));
    hold_lock();
    Record ended = record_;
    ended.wait_status = 256;
    std::thread ending([&] {
      EXPECT_TRUE(place_.write(ended));
      lock_.reset();
    });
    Life life = Life::running;
    while (life != Life::collectable && life != Life::lost) life = look(place_).life;
    ending.join();
    ASSERT_EQ(life, Life::collectable) << "round " << round;
  }
}

TEST_F(PodRecord, CannotLoseALivingPodsLock) {
  ASSERT_TRUE(place_.write(record_));
  hold_lock();
  for (const auto& entry : std::filesystem::directory_iterator(place_.path())) {
    if (entry.path() == place_.record_path()) continue;
    std::filesystem::remove(entry);
    EXPECT_EQ(look(place_).life, Life::running) << entry;
  }
  EXPECT_EQ(look(place_).life, Life::running);
}

// In a child, whose process it then is that looks; the parent is the pod.
template <typename Look>
void in_a_child(Look look_there) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(look_there() ? 0 : 1);
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST_F(PodRecord, LivesOnAReadOnlyDisk) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can mount";
  ASSERT_TRUE(place_.write(record_));
  hold_lock();
  in_a_child([&] {
    const char* root = root_.path().c_str();
    if (::unshare(CLONE_NEWNS) != 0 || ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) return false;
    if (::mount(root, root, nullptr, MS_BIND, nullptr) != 0) return false;
    if (::mount(nullptr, root, nullptr, MS_REMOUNT | MS_BIND | MS_RDONLY, nullptr) != 0) return false;
    return look(place_).life == Life::running;
  });
}

TEST_F(PodRecord, IsNotCalledLostByWhoeverCannotLook) {
  ASSERT_TRUE(place_.write(record_));
  hold_lock();
  in_a_child([&] {
    bool was_unknown = false;
    for (int most = 30; most >= 0; --most) {
      const rlimit few{static_cast<rlim_t>(most), 30};
      if (::setrlimit(RLIMIT_NOFILE, &few) != 0) return false;
      const Sighting seen = look(place_);
      if (seen.life == Life::unknown) was_unknown = true;
      if (seen.life != Life::unknown && seen.life != Life::running) return false;
      if (seen.life == Life::unknown && (reach(place_) || seen.problem.empty())) return false;
    }
    return was_unknown;
  });
}

TEST_F(PodRecord, FailsAtOnceWithTheLastWordsOfADeadDaemon) {
  std::ofstream(place_.log_path()) << "first\nout of luck\n";
  const auto found = find(place_);
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().code, Code::unavailable);
  EXPECT_NE(found.error().message.find("out of luck"), std::string::npos);
}

TEST_F(PodRecord, CleansUpTheDeadAndNeverTheLiving) {
  const Place dead(root_.path(), "dead"), ended(root_.path(), "ended");
  for (const Place* place : {&dead, &ended}) ASSERT_TRUE(os::open_private_directory(place->path()));
  Record left = record_;
  left.name = "ended";
  left.address = ended.socket_path();
  left.wait_status = 0;
  left.exited_unix_ms = 1'000'000'000;
  ASSERT_TRUE(ended.write(left));
  ASSERT_TRUE(place_.write(record_));
  hold_lock();
  clean_up(root_.path(), left.exited_unix_ms + 1);
  EXPECT_FALSE(dead.exists());
  EXPECT_TRUE(ended.exists()) << "its status was not collected and has not expired";
  EXPECT_TRUE(place_.exists());
  clean_up(root_.path(), left.exited_unix_ms + kKeepExited.count() + 1);
  EXPECT_FALSE(ended.exists());
  EXPECT_TRUE(place_.exists());
}

TEST_F(PodRecord, IsKeptOfALostPodForAsLongAsAStatusIs) {
  ASSERT_TRUE(place_.write(record_));
  constexpr std::int64_t kNoticed = 1'000'000'000;
  clean_up(root_.path(), kNoticed);
  clean_up(root_.path(), kNoticed + kKeepExited.count());
  EXPECT_EQ(look(place_).life, Life::lost);
  EXPECT_EQ(look(place_).record->command, record_.command);
  clean_up(root_.path(), kNoticed + kKeepExited.count() + 1);
  EXPECT_FALSE(place_.exists());
}

TEST_F(PodRecord, IsTamperedWithOnlyWhileItsDaemonLives) {
  ASSERT_TRUE(place_.write(record_));
  ASSERT_EQ(::chmod(place_.record_path().c_str(), 0640), 0);
  EXPECT_EQ(look(place_).life, Life::lost);
  EXPECT_FALSE(look(place_).problem.empty());
  clean_up(root_.path(), 1);
  EXPECT_TRUE(place_.exists()) << "nobody knows when";
  hold_lock();
  EXPECT_EQ(look(place_).life, Life::tampered);
  EXPECT_NE(look(place_).problem.find("remove " + place_.record_path()), std::string::npos);
  const auto found = find(place_);
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().code, Code::conflict);
}

TEST(PodName, IsNeverAPath) {
  for (const char* name : {"a", "agent-1", "x_y", "0"}) EXPECT_TRUE(check_name(name)) << name;
  for (const char* name : {"", ".", "..", "a/b", "/a", "-a", "A", "a b", "a\nb", "\xc3\xbc"})
    EXPECT_FALSE(check_name(name)) << name;
  EXPECT_FALSE(check_name(std::string(49, 'a')));
}

}  // namespace
}  // namespace sallyport::pod
