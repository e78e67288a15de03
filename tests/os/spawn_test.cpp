#include "os/spawn.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>

namespace sallyport::os {
namespace {

Child sleeping() {
  const pid_t pid = ::fork();
  if (pid == 0) {
    for (;;) ::pause();
  }
  return Child(pid);
}

bool is_there(pid_t pid) { return ::kill(pid, 0) == 0; }

TEST(Child, IsKilledAndWaitedForAtTheEnd) {
  pid_t pid = -1;
  {
    const Child child = sleeping();
    pid = child.pid();
    ASSERT_TRUE(is_there(pid));
  }
  EXPECT_FALSE(is_there(pid));
  EXPECT_EQ(::waitpid(pid, nullptr, WNOHANG), -1);
  EXPECT_EQ(errno, ECHILD);
}

TEST(Child, ThatEndsByItselfIsNotKilled) {
  const pid_t pid = ::fork();
  if (pid == 0) ::_exit(0);
  Child child(pid);
  child.end(Millis(60'000));
  EXPECT_EQ(child.pid(), -1);
}

TEST(Child, AnotherOneTakesItsPlaceAfterItsEnd) {
  Child child = sleeping();
  const pid_t first = child.pid();
  child = sleeping();
  EXPECT_FALSE(is_there(first));
  EXPECT_TRUE(is_there(child.pid()));
}

// In a pid namespace of its own: the number of nobody means everybody to kill(2).
TEST(Child, ThatIsOverOrNeverWasIsNotSignalled) {
  const pid_t maker = ::fork();
  if (maker == 0) {
    if (::unshare(CLONE_NEWPID) != 0) ::_exit(2);
    const pid_t init = ::fork();
    if (init == 0) {
      const Child neighbour = sleeping();
      Child over = sleeping(), moved = std::move(over);
      moved.end();
      for (const Child* each : {&over, &moved}) each->kill();
      const Child never;
      never.kill();
      int status = 0;
      const bool lives = ::waitpid(neighbour.pid(), &status, WNOHANG) == 0;
      ::_exit(lives ? 0 : 1);
    }
    int status = 0;
    ::waitpid(init, &status, 0);
    ::_exit(WIFEXITED(status) ? WEXITSTATUS(status) : 3);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(maker, &status, 0), maker);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
}

}  // namespace
}  // namespace sallyport::os
