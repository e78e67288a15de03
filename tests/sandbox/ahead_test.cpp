// What is made before there is a plan: used, not used, not wanted.
#include <sched.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>

#include "base/sanitized.h"
#include "fixture.h"
#include "sandbox/ahead.h"

namespace sallyport::sandbox {
namespace {

class MadeAhead : public AttackTest {
 protected:
  // In a process of its own, as the user of this test, with a sandbox to follow.
  void in_a_process(const std::function<bool()>& check) {
    Spec nothing = spec();
    nothing.command = {"true"};
    const Outcome outcome = run(nothing, [&] {
      if (!check()) ::_exit(1);
    });
    EXPECT_EQ(outcome.code, 0) << outcome.error;
  }
};
SALLYPORT_BOTH_WAYS(MadeAhead);

std::size_t open_descriptors() {
  std::size_t count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) ++count;
  return count;
}

bool has_no_child() { return ::waitpid(-1, nullptr, WNOHANG | __WALL) == -1 && errno == ECHILD; }

TEST_P(MadeAhead, LeavesNothingWhenNobodyUsesIt) {
  in_a_process([] {
    const std::size_t before = open_descriptors();
    {
      Ahead ahead;
      ahead.begin(true);
      if (ahead.has_begun() == kIsSanitized) return false;
    }
    return open_descriptors() == before && has_no_child();
  });
}

TEST_P(MadeAhead, LeavesNothingWhenThePlanFails) {
  in_a_process([&] {
    const std::size_t before = open_descriptors();
    Spec wrong = spec();
    wrong.workspace += "/nowhere";
    const auto failed = launch(wrong);
    return !failed && open_descriptors() == before && has_no_child();
  });
}

cpu_set_t cores() {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  ::sched_getaffinity(0, sizeof(cores), &cores);
  return cores;
}

// The walls are made on some of them only.
TEST_P(MadeAhead, GivesEveryCoreBack) {
  cpu_set_t before = cores();
  in_a_process([&] {
    for (const bool works : {true, false}) {
      LaunchOptions options;
      if (!works) options.faults = {Step::bind, EIO};
      if (launch(spec(), options).has_value() != works) return false;
      cpu_set_t after = cores();
      if (!CPU_EQUAL(&before, &after)) return false;
    }
    return true;
  });
  const Outcome inside = shell("nproc");
  EXPECT_EQ(inside.output, std::to_string(CPU_COUNT(&before)) + "\n");
}

TEST_P(MadeAhead, KeepsToTheCoresThatItsUserChose) {
  Spec asking = spec();
  asking.command = {"nproc"};
  const Outcome inside = run(asking, [] {
    cpu_set_t chosen;
    CPU_ZERO(&chosen);
    CPU_SET(0, &chosen);
    ::sched_setaffinity(0, sizeof(chosen), &chosen);
  });
  EXPECT_EQ(inside.output, "1\n");
}

// What it holds must not be seen by the user's other processes, not even while something is launched.
TEST_P(MadeAhead, LeavesAProcessThatIsNotDumpableAsItIs) {
  in_a_process([&] {
    ::prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
    Ahead ahead;
    ahead.begin(true);
    if (ahead.has_begun()) return false;
    auto running = launch(spec());
    const bool is_hidden = ::prctl(PR_GET_DUMPABLE, 0, 0, 0, 0) == 0;
    return running && is_hidden;
  });
}

// There all of it is made in its turn, by processes that have a copy of what their maker holds.
TEST_P(MadeAhead, LeavesNothingOfAProcessThatIsNotDumpableWhenAStepFails) {
  host("git init -q .");
  in_a_process([&] {
    ::prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
    const std::size_t before = open_descriptors();
    for (int step = static_cast<int>(Step::plan); step < static_cast<int>(Step::directory); ++step) {
      LaunchOptions options;
      options.faults = {static_cast<Step>(step), EIO};
      const bool is_launched = launch(spec(), options).has_value();
      const bool is_passed = options.faults.fail_at == Step::cgroup || options.faults.fail_at == Step::join_cgroup ||
                             options.faults.fail_at == Step::pin;
      if (is_launched && !is_passed) return false;
      if (exists(workspace_ + "/.git/commondir") || !has_no_child()) return false;
    }
    return open_descriptors() == before;
  });
}

TEST_P(MadeAhead, EndsWithItsMaker) {
  int alive[2];
  ASSERT_EQ(::pipe(alive), 0);
  const pid_t maker = ::fork();
  if (maker == 0) {
    ::close(alive[0]);
    Ahead ahead;
    ahead.begin(true);
    (void)!::write(alive[1], "x", 1);
    ::pause();
  }
  ::close(alive[1]);
  char byte = 0;
  ASSERT_EQ(::read(alive[0], &byte, 1), 1);
  ASSERT_EQ(::kill(maker, SIGKILL), 0);
  ASSERT_EQ(::waitpid(maker, nullptr, 0), maker);
  EXPECT_EQ(::read(alive[0], &byte, 1), 0);  // waits: the helper has this end too
  ::close(alive[0]);
}

}  // namespace
}  // namespace sallyport::sandbox
