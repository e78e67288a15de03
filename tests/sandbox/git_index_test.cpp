// git's index and the names of its objects, read without git.
#include "sandbox/git_index.h"

#include "fixture.h"
#include "sandbox/git_hash.h"

namespace sallyport::sandbox {
namespace {

TEST(GitIndex, RefusesWhatIsCutOrForeign) {
  EXPECT_FALSE(parse_index("", kSha1Bytes));
  EXPECT_FALSE(parse_index("DIRC", kSha1Bytes));
  EXPECT_FALSE(parse_index(std::string("DIRC\0\0\0\2\0\0\0\5", 12), kSha1Bytes));
  EXPECT_FALSE(parse_index(std::string("DIRC\0\0\0\7\0\0\0\0", 12), kSha1Bytes));
}

TEST(GitHash, IsTheOneOfTheStandards) {
  const auto hex = [](const std::string& bytes) {
    std::string text;
    char digits[3];
    for (const char byte : bytes) {
      std::snprintf(digits, sizeof(digits), "%02x", static_cast<unsigned>(static_cast<unsigned char>(byte)));
      text += digits;
    }
    return text;
  };
  const std::string long_text(1000, 'a');
  EXPECT_EQ(hex(sha1("abc")), "a9993e364706816aba3e25717850c26c9cd0d89d");
  EXPECT_EQ(hex(sha1(long_text)), "291e9a6c66994949b57ba5e650361e98fc36b1ba");
  EXPECT_EQ(hex(sha256("abc")), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(hex(sha256(long_text)), "41edece42d63e8d9bf515a9ba6932e1c20cbc9f5a5d134645adb5db1b9737ea3");
  // Where the padding just fits into the last block, and where it does not.
  EXPECT_EQ(hex(sha1(std::string(55, 'a'))), "c1c8bbdc22796e28c0e15163d20899b65621d65a");
  EXPECT_EQ(hex(sha1(std::string(56, 'a'))), "c2db330f6083854c99d4b5bfb6e8f29f201be699");
  EXPECT_EQ(hex(sha1("")), "da39a3ee5e6b4b0d3255bfef95601890afd80709");
}

class GitIndexFile : public SandboxTest {
 protected:
  void SetUp() override {
    SandboxTest::SetUp();
    start_as(StartedBy::user);
  }
  Tracking of(const std::string& path) { return TrackedFiles(workspace_).look_up(workspace_ + "/" + path); }
};

TEST_F(GitIndexFile, ListsTheTrackedPathsOfEveryVersionAndHash) {
  for (const char* format : {"sha1", "sha256"}) {
    host(std::string("rm -rf .git && git init -q --object-format=") + format +
         " . && mkdir -p a/b && touch a/b/one a/b/two zzz .env && git add a zzz .env");
    for (const char* version : {"2", "3", "4"}) {
      host(std::string("git update-index --index-version ") + version);
      const auto index =
          parse_index(read(workspace_ + "/.git/index"), std::string(format) == "sha1" ? kSha1Bytes : kSha256Bytes);
      ASSERT_TRUE(index) << format << version;
      std::vector<std::string> paths;
      for (const auto& [path, name] : index->names) paths.push_back(path);
      EXPECT_EQ(paths, (std::vector<std::string>{".env", "a/b/one", "a/b/two", "zzz"})) << format << version;
      EXPECT_EQ(of("a/b/two"), Tracking::same) << format << version;
    }
  }
}

TEST_F(GitIndexFile, TellsTheSameContentFromAnother) {
  host("git init -q . && echo one > a && echo two > b && git add a b && echo other > b && echo one > c");
  EXPECT_EQ(of("a"), Tracking::same);
  EXPECT_EQ(of("b"), Tracking::changed);
  EXPECT_EQ(of("c"), Tracking::untracked);
}

TEST_F(GitIndexFile, ReadsASplitIndex) {
  host(
      "git init -q . && echo one > a && echo two > b && git add a b && git update-index --split-index && "
      "echo three > c && git add c && echo other > b && git add b");
  EXPECT_EQ(of("a"), Tracking::same);
  EXPECT_EQ(of("c"), Tracking::same);
  // Replaced in the index that builds on the other: known by no path there, so it counts as changed.
  EXPECT_NE(of("b"), Tracking::untracked);
  host("rm .git/sharedindex.*");
  EXPECT_EQ(of("a"), Tracking::unreadable);
}

TEST_F(GitIndexFile, FindsTheRepositoryOfANestedFile) {
  host(
      "git init -q . && git init -q --separate-git-dir=.store sub && mkdir sub/deep && echo one > sub/deep/a && "
      "git -C sub add deep/a && git init -q linked && mv linked/.git .other && ln -s ../.other linked/.git && "
      "echo two > linked/b && git -C linked add b");
  EXPECT_EQ(of("sub/deep/a"), Tracking::same);
  EXPECT_EQ(of("linked/b"), Tracking::same);
}

TEST_F(GitIndexFile, SaysWhereAnIndexCannotBeRead) {
  host("git init -q . && echo one > a && git add a && echo garbage > .git/index");
  TrackedFiles files(workspace_);
  EXPECT_EQ(files.look_up(workspace_ + "/a"), Tracking::unreadable);
  EXPECT_EQ(files.unreadable(), std::set<std::string>{workspace_ + "/.git"});
}

}  // namespace
}  // namespace sallyport::sandbox
