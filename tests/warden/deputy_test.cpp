// The built-in deputy's look at a repository, in a real cell.
#include "approval/deputy.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "containers/cells.h"
#include "support/attacker.h"
#include "support/daemon.h"
#include "support/shell.h"

namespace sallyport::approval {
namespace {

class Repository : public ::testing::Test {
 protected:
  Repository() { git("init -q -b main ."); }

  std::string git(const std::string& arguments) const {
    const std::string command = "cd '" + directory_.path() +
                                "' && git -c user.name=t -c user.email=t@t -c commit.gpgsign=false " + arguments +
                                " 2>/dev/null";
    std::string out = testing::run_shell(command).output;
    while (!out.empty() && out.back() == '\n') out.pop_back();
    return out;
  }
  std::string commit(const std::string& path) const {
    const std::filesystem::path file = directory_.path() + "/" + path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file, std::ios::app) << "changed\n";
    git("add -A && git -c user.name=t -c user.email=t@t commit -q -m x");
    return git("rev-parse HEAD");
  }

  static Fire drive(Task<Verdict> task, std::optional<Verdict>& into, ipc::Loop& loop) {
    into.emplace(co_await task);
    loop.stop();
  }
  // "approved" or the reason.
  std::string review(const std::string& sha) {
    ipc::Loop loop(Spinner::Mode::never);
    ipc::Sessions sessions(loop, log_, {});
    containers::Cells cells(loop, log_);
    Deputy deputy(
        sessions, clock_,
        [this](const std::string&) {
          Sender sender;
          sender.profile.name = "p";
          sender.workspace = named_;
          return std::optional<Sender>(sender);
        },
        [&](const CellCommand& command) {
          return cells.start({command.argv, command.readable, command.fds, command.lifetime});
        });
    std::optional<Verdict> verdict;
    drive(deputy.review({.container = "c",
                         .request_id = "r",
                         .subject = "deploy",
                         .payload = R"({"commit":")" + sha + R"(","resume_prompt":"go on"})",
                         .rule = "",
                         .policy_hash = "",
                         .original = std::nullopt}),
          verdict, loop);
    if (!verdict) loop.run();
    cells.close();
    loop.settle();
    return verdict->kind == Verdict::Kind::approved ? "approved" : verdict->why;
  }

  sallyport::testing::TemporaryDirectory directory_, elsewhere_;
  std::string named_ = directory_.path();
  SystemClock clock_;
  Log log_{2, LogFormat::text, LogLevel::error, clock_};
};

TEST_F(Repository, ACommitThatExistsAndTouchesNothingProtectedPasses) {
  commit("src/main.c");
  EXPECT_EQ(review(commit("src/other.c")), "approved");
}

// Whatever the host's configuration names is meant, also where the host itself could have been led astray.
TEST_F(Repository, ItMayLieBehindALink) {
  named_ = elsewhere_.path() + "/link";
  std::filesystem::create_directory_symlink(directory_.path(), named_);
  EXPECT_EQ(review(commit("src/main.c")), "approved");
}

TEST_F(Repository, AttackACommitThatDoesNotExistIsRefused) {
  commit("a");
  EXPECT_EQ(review(std::string(40, 'a')), "the commit does not exist in the repository");
}

TEST_F(Repository, AttackACommitThatTouchesAProtectedPathIsRefused) {
  commit("a");
  const std::string refused = "the commit touches the protected path '.github/workflows/ci.yml'";
  const std::string bad = commit(".github/workflows/ci.yml");
  EXPECT_EQ(review(bad), refused);
  // Also when it lies between what is checked out and the commit that is named.
  const std::string later = commit("harmless");
  git("checkout -q " + bad + "~1");
  EXPECT_EQ(review(later), refused);
}

TEST_F(Repository, AttackACommitIsNotTakenForAnother) {
  const std::string first = commit("a");
  const std::string bad = commit(".github/workflows/ci.yml");
  git("checkout -q " + first);
  const std::string harmless = commit("b");
  git("checkout -q " + bad);
  const std::string refused = "the commit touches the protected path '.github/workflows/ci.yml'";
  git("replace " + bad + " " + harmless);
  EXPECT_EQ(review(bad), refused);
  git("replace -d " + bad);
  std::ofstream(directory_.path() + "/.git/info/grafts") << bad << " " << bad << "\n";
  EXPECT_EQ(review(bad), refused);
}

TEST_F(Repository, AttackATreeIsNoCommit) {
  commit("a");
  EXPECT_EQ(review(git("rev-parse HEAD^{tree}")), "the commit does not exist in the repository");
}

TEST_F(Repository, AttackARepositorysOwnConfigurationRunsNothingOnTheHost) {
  const std::string sha = commit("a.txt");
  const std::string marker = directory_.path() + "/ran";
  std::ofstream(directory_.path() + "/.gitattributes") << "* diff=evil\n";
  git("config core.fsmonitor 'touch " + marker + "'");
  git("config diff.external 'touch " + marker + "'");
  git("config diff.evil.textconv 'touch " + marker + "'");
  EXPECT_EQ(review(sha), "approved");
  EXPECT_FALSE(std::filesystem::exists(marker));
}

TEST_F(Repository, AnOrdinaryUsersDeputyLooksFromACellToo) {
  const std::string sha = commit("src/main.c");
  if (sallyport::testing::is_root()) {
    for (const auto& entry : std::filesystem::recursive_directory_iterator(directory_.path())) {
      ASSERT_EQ(::chown(entry.path().c_str(), sallyport::testing::kOrdinaryUid, sallyport::testing::kOrdinaryUid), 0);
    }
    ASSERT_EQ(::chown(directory_.path().c_str(), sallyport::testing::kOrdinaryUid, sallyport::testing::kOrdinaryUid),
              0);
  }
  EXPECT_EQ(sallyport::testing::in_child([&] {
              if (sallyport::testing::is_root()) sallyport::testing::become_ordinary();
              const std::string said = review(sha);
              if (said != "approved") std::fprintf(stderr, "%s\n", said.c_str());
              return said == "approved" ? 0 : 1;
            }),
            0);
}

TEST_F(Repository, ADirectoryWithoutARepositoryIsRefused) {
  std::filesystem::remove_all(directory_.path() + "/.git");
  EXPECT_EQ(review(std::string(40, 'a')), "the commit does not exist in the repository");
}

}  // namespace
}  // namespace sallyport::approval
