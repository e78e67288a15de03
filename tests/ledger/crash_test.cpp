// A real process, killed with SIGKILL in the middle of its work.
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>

#include "fixture.h"

extern char** environ;

namespace sallyport::ledger {
namespace {

class Crash : public LedgerTest {
 protected:
  // Lets the victim acknowledge `count` more durable records, then kills it. Returns the number of the
  // last one that it acknowledged.
  long run_and_kill(long count) {
    std::array<int, 2> ends{};
    EXPECT_EQ(::pipe2(ends.data(), O_CLOEXEC), 0);
    const UniqueFd read_end{ends[0]};
    UniqueFd write_end{ends[1]};
    posix_spawn_file_actions_t actions;
    ::posix_spawn_file_actions_init(&actions);
    ::posix_spawn_file_actions_adddup2(&actions, write_end.get(), STDOUT_FILENO);
    std::array<const char*, 3> argv = {LEDGER_VICTIM, directory_.path().c_str(), nullptr};
    pid_t victim = -1;
    EXPECT_EQ(::posix_spawn(&victim, LEDGER_VICTIM, &actions, nullptr, const_cast<char**>(argv.data()), environ), 0);
    ::posix_spawn_file_actions_destroy(&actions);
    write_end.reset();
    FILE* lines = ::fdopen(::dup(read_end.get()), "r");
    char kind = 0;
    long number = -1, last = -1;
    while (last < count && std::fscanf(lines, "%c %ld\n", &kind, &number) == 2) {
      EXPECT_EQ(kind, 'd');
      last = number;
    }
    ::kill(victim, SIGKILL);
    // What it still got out before it died counts too.
    while (std::fscanf(lines, "%c %ld\n", &kind, &number) == 2) last = number;
    std::fclose(lines);
    int status = 0;
    ::waitpid(victim, &status, 0);
    EXPECT_TRUE(WIFSIGNALED(status));
    return last;
  }
};

TEST_F(Crash, AfterKillNineTheChainVerifiesAndNothingAcknowledgedIsLost) {
  std::uint64_t opened = 0;
  for (int round = 0; round < 8; ++round) {
    const long last = run_and_kill(round * 37);
    ASSERT_GE(last, 0);
    ++opened;
    // As the crash left it, before anybody mends anything.
    const Report report = verify();
    EXPECT_TRUE(report.is_intact()) << describe(report);
    const auto database = Database::open(database_path(directory_.path()), Database::Access::read);
    ASSERT_TRUE(database);
    auto count = (*database)->prepare(
        "SELECT count(*) FROM audit WHERE method = 'victim.durable' AND request = ? AND seq > "
        "(SELECT max(seq) FROM audit WHERE method = 'ledger.open')");
    ASSERT_TRUE(count);
    const std::string number = std::to_string(last);
    count->bind(number);
    ASSERT_TRUE(*count->step());
    EXPECT_EQ(count->integer(0), 1) << "acknowledged record " << last << " is not there exactly once";
  }
  // A new start finds its place in chain and files.
  open();
  EXPECT_TRUE(ledger_->health().is_good()) << ledger_->health().error;
  ASSERT_TRUE(commit(entry("after")));
  close();
  const Report report = verify();
  EXPECT_TRUE(report.is_intact()) << describe(report);
  EXPECT_EQ(report.file_records, report.records);
  EXPECT_TRUE(report.note.empty()) << report.note;
}

TEST_F(Crash, ALineTornByTheCrashIsWrittenAgain) {
  run_and_kill(50);
  std::vector<std::string> names;
  for (const auto& file : std::filesystem::directory_iterator(audit_directory(directory_.path()))) {
    names.push_back(file.path());
  }
  std::sort(names.begin(), names.end());
  const std::string text = read_text(names.back());
  write_text(names.back(), text.substr(0, text.size() - 5));
  open();
  ASSERT_TRUE(commit(entry("after")));
  close();
  const Report report = verify();
  EXPECT_TRUE(report.is_intact()) << describe(report);
  EXPECT_EQ(report.file_records, report.records);
}

}  // namespace
}  // namespace sallyport::ledger
