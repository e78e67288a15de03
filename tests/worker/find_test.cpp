#include "worker/find.h"

#include <gtest/gtest.h>

#include "worker/sandbox_dir.h"

namespace sallyport::worker {
namespace {

std::vector<std::string> found(const SandboxDir& box, std::string pattern, std::string root = ".") {
  GlobRequest glob;
  glob.pattern = std::move(pattern);
  glob.root = std::move(root);
  const auto answer = find_paths(box.open(), glob, Stop());
  return answer ? answer->paths : std::vector<std::string>{"error: " + answer.error().describe()};
}

using Paths = std::vector<std::string>;

TEST(GlobPaths, AreSortedAndRelativeToTheRootAsWritten) {
  SandboxDir box;
  for (const char* name : {"b.h", "a/c.h", "a/d.c", "a/e/f.h", "a.h"}) box.write(name, "");
  EXPECT_EQ(found(box, "**/*.h"), (Paths{"a.h", "a/c.h", "a/e/f.h", "b.h"}));
  EXPECT_EQ(found(box, "*.h"), (Paths{"a.h", "b.h"}));
  EXPECT_EQ(found(box, "*.h", "a"), (Paths{"a/c.h"}));
  EXPECT_EQ(found(box, "**/*.h", box.path("a")), (Paths{box.path("a/c.h"), box.path("a/e/f.h")}));
  EXPECT_EQ(found(box, "a/**/*.{c,h}"), (Paths{"a/c.h", "a/d.c", "a/e/f.h"}));
  EXPECT_EQ(found(box, box.path("a/*.c")), (Paths{"a/d.c"}));
}

TEST(GlobPaths, RespectIgnoreRulesAndCanListDirectories) {
  SandboxDir box;
  box.write(".gitignore", "build/\n");
  box.write("build/x.h", "");
  box.write("src/x.h", "");
  EXPECT_EQ(found(box, "**/x.h"), (Paths{"src/x.h"}));
  GlobRequest glob;
  glob.pattern = "*";
  glob.kind = GlobRequest::Kind::directory;
  EXPECT_EQ(find_paths(box.open(), glob, Stop())->paths, (Paths{"src"}));
}

TEST(GlobPaths, AnIgnoreFileThatIsTooLongIsCutAtALineAndCounted) {
  SandboxDir box;
  std::string rules = "first\n";
  while (rules.size() < kMaxIgnoreFileBytes - 3) rules += "#\n";
  box.write(".gitignore", rules + "kept-x\nlast\n");
  for (const char* name : {"first", "kept", "kept-", "kept-x", "last"}) box.write(name, "");
  GlobRequest glob;
  glob.pattern = "**";
  auto answer = find_paths(box.open(), glob, Stop());
  EXPECT_EQ(answer->paths, (Paths{"kept", "kept-", "kept-x", "last"}));
  EXPECT_EQ(answer->skipped.ignore_files_cut, 1U);
  box.write("sub/.gitignore", rules + "kept-x\nlast\n");
  EXPECT_EQ(find_paths(box.open(), glob, Stop())->skipped.ignore_files_cut, 2U);
  box.write(".gitignore", "last\n");
  answer = find_paths(box.open(), glob, Stop());
  EXPECT_EQ(answer->paths, (Paths{"first", "kept", "kept-", "kept-x"}));
  EXPECT_EQ(answer->skipped.ignore_files_cut, 1U);
}

// A linked work tree and a submodule: .git is a file that says where the repository is.
TEST(GlobPaths, TheRepositorysExcludesCountWhereGitIsAFile) {
  SandboxDir box;
  box.write("main/.git/info/exclude", "private\n");
  box.write("main/.git/worktrees/w/commondir", "../..\n");
  box.write("main/.git/modules/sub/info/exclude", "hers\n");
  box.write("tree/.git", "gitdir: " + box.path("main/.git/worktrees/w") + "\n");
  box.write("main/sub/.git", "gitdir: ../.git/modules/sub\n");
  box.write("odd/.git", "gitdir: ../../outside/repository\n");
  box.write_outside("repository/info/exclude", "private\n");
  for (const char* name : {"tree/private", "tree/a", "tree/deep/private", "main/private", "main/sub/hers",
                           "main/sub/private", "odd/private", "odd/hers"})
    box.write(name, "");
  GlobRequest glob;
  glob.pattern = "**";
  EXPECT_EQ(find_paths(box.open(), glob, Stop())->paths,
            (Paths{"main/sub/private", "odd/hers", "odd/private", "tree/a"}));
  glob.root = "tree/deep";
  EXPECT_EQ(find_paths(box.open(), glob, Stop())->paths, Paths());
}

TEST(GlobPaths, PagesJoinToTheWhole) {
  SandboxDir box;
  for (int i = 0; i < 500; ++i) box.write("d" + std::to_string(i % 13) + "/" + std::to_string(i), "");
  GlobRequest glob;
  glob.pattern = "**";
  const Paths whole = find_paths(box.open(), glob, Stop())->paths;
  ASSERT_EQ(whole.size(), 500U);
  glob.limit = 33;
  Paths joined;
  while (true) {
    const auto answer = find_paths(box.open(), glob, Stop());
    joined.insert(joined.end(), answer->paths.begin(), answer->paths.end());
    EXPECT_EQ(answer->total, 500U) << "the same on every page";
    if (answer->cursor.empty()) break;
    glob.cursor = answer->cursor;
  }
  EXPECT_EQ(joined, whole);
}

TEST(GlobPaths, CountTheLinksThatWereNotFollowed) {
  SandboxDir box;
  box.write("real/a.c", "");
  box.link("linked", "real");
  box.link("b.c", "real/a.c");
  const auto skipped = [&](std::string pattern, GlobRequest::Kind kind = GlobRequest::Kind::file) {
    GlobRequest glob;
    glob.pattern = std::move(pattern);
    glob.kind = kind;
    return find_paths(box.open(), glob, Stop())->skipped.symlinks;
  };
  EXPECT_EQ(found(box, "linked/*.c"), Paths{});
  EXPECT_EQ(skipped("linked/*.c"), 1U);
  EXPECT_EQ(found(box, "**/*.c"), (Paths{"b.c", "real/a.c"}));
  EXPECT_EQ(skipped("**/*.c"), 1U) << "b.c is in the answer";
  EXPECT_EQ(skipped("real/*.c"), 0U) << "no link can lead there";
  EXPECT_EQ(skipped("l*", GlobRequest::Kind::directory), 1U);
}

TEST(GlobPaths, RefuseAPatternThatLeadsElsewhere) {
  SandboxDir box;
  box.write("src/x.c", "");
  for (const char* pattern : {"[", "../*", "/etc/host*", "/src/*.c"})
    EXPECT_NE(found(box, pattern)[0].find("INVALID_PARAMS"), std::string::npos) << pattern;
  EXPECT_EQ(found(box, box.path("src/*.c")), (Paths{"src/x.c"}));
  EXPECT_NE(found(box, box.path("src/*.c"), "other")[0].find("set root"), std::string::npos);
}

TEST(GlobPaths, DoNotLeaveTheRootThroughALink) {
  SandboxDir box;
  box.link("out", box.outside());
  EXPECT_EQ(found(box, "**/secret"), Paths{});
  EXPECT_NE(found(box, "*", "out")[0].find("POLICY_DENIED"), std::string::npos);
}

}  // namespace
}  // namespace sallyport::worker
