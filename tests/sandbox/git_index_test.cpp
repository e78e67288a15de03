// git's index and the names of its objects, read without git.
#include "sandbox/git_index.h"

#include "base/bytes.h"
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

TEST(GitIndex, KnowsPathsThatLeaveTheTree) {
  for (const char* path : {"a", "a/b", ".gitignore", "a/.github", "...", "a..b/c", "a/", "-", ".gi/t"}) {
    EXPECT_TRUE(stays_in_tree(path)) << path;
  }
  for (const char* path : {"", "/", "/a", "..", "../a", "a/../b", "a//b", "./a", "a/.", ".git", "a/.git/b", ".GiT/b"}) {
    EXPECT_FALSE(stays_in_tree(path)) << path;
  }
}

// As git hash-object says.
TEST(GitHash, IsTheNameThatGitGives) {
  const auto hex = [](const std::string& bytes) { return to_hex(as_bytes(bytes)); };
  EXPECT_EQ(hex(blob_name("abc", kSha1Bytes)), "f2ba8f84ab5c1bce84a7b441cb1959cfc7093b7f");
  EXPECT_EQ(hex(blob_name("abc", kSha256Bytes)), "c1cf6e465077930e88dc5136641d402f72a229ddd996f627d60e9639eaba35a6");
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

// Git goes by lengths and by offsets that the index itself holds: what we read must be what it reads.
TEST_F(GitIndexFile, IsHarmlessOnlyIfGitReadsTheSameInIt) {
  for (const char* version : {"2", "4"}) {
    host(std::string("rm -rf .git && git init -q . && touch aa ab ac bb && git add . && git -c index.threads=3 ") +
         "update-index --force-write-index --index-version " + version);
    const std::string index = read(workspace_ + "/.git/index");
    ASSERT_TRUE(is_harmless_index(index, kSha1Bytes)) << version;
    const auto changed = [&](std::size_t at, char to) {
      std::string forged = index;
      forged[at] = to;
      return forged;
    };
    const std::size_t first = index.find(std::string("aa\0", 3));
    const std::size_t length = first - (std::string(version) == "4" ? 2 : 1);
    ASSERT_EQ(index[length], 2);
    EXPECT_FALSE(is_harmless_index(changed(length, 1), kSha1Bytes)) << version;
    for (const char* extension : {"IEOT", "EOIE"}) {
      const std::size_t at = index.find(extension);
      ASSERT_NE(at, std::string::npos) << extension;
      const std::size_t offset = at + 8 + (std::string(extension) == "IEOT" ? 4 : 0) + 3;
      EXPECT_FALSE(is_harmless_index(changed(offset, static_cast<char>(index[offset] + 1)), kSha1Bytes)) << extension;
    }
    EXPECT_FALSE(is_harmless_index(index + "x", kSha1Bytes)) << version;
    EXPECT_FALSE(is_harmless_index(index, kSha256Bytes)) << version;
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
