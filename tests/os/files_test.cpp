#include "os/files.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "support/attacker.h"
#include "support/daemon.h"

namespace sallyport::os {
namespace {

using sallyport::testing::in_child;
using sallyport::testing::TemporaryDirectory;

class Files : public ::testing::Test {
 protected:
  std::string at(const std::string& name) const { return directory_.path() + "/" + name; }
  static mode_t mode_of(const std::string& path) {
    struct stat info{};
    EXPECT_EQ(::lstat(path.c_str(), &info), 0) << path;
    return info.st_mode & 07777;
  }
  std::size_t entries() const {
    const auto all = std::filesystem::directory_iterator(directory_.path());
    return static_cast<std::size_t>(std::distance(begin(all), end(all)));
  }

  TemporaryDirectory directory_;
};

TEST_F(Files, APrivateDirectoryIsMadeWithItsParents) {
  ASSERT_TRUE(open_private_directory(at("a/b/c")));
  EXPECT_EQ(mode_of(at("a/b/c")), 0700U);
  EXPECT_TRUE(open_private_directory(at("a/b/c"))) << "and opened the next time";
}

TEST_F(Files, APrivateDirectoryIsPrivateWhateverTheUmask) {
  const mode_t before = ::umask(0);
  const auto opened = open_private_directory(at("open"));
  ::umask(before);
  ASSERT_TRUE(opened);
  EXPECT_EQ(mode_of(at("open")), 0700U);
}

TEST_F(Files, ASymlinkIsNoPrivateDirectory) {
  ASSERT_TRUE(open_private_directory(at("real")));
  ASSERT_EQ(::symlink("real", at("link").c_str()), 0);
  const auto opened = open_private_directory(at("link"));
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().code, Code::conflict);
}

TEST_F(Files, AFileIsNoPrivateDirectory) {
  std::ofstream(at("file")) << "x";
  EXPECT_FALSE(open_private_directory(at("file")));
}

TEST_F(Files, ADirectoryOfSomebodyElseIsRefused) {
  if (!sallyport::testing::is_root()) GTEST_SKIP() << "only root can give a directory away";
  ASSERT_EQ(::mkdir(at("theirs").c_str(), 0700), 0);
  ASSERT_EQ(::chown(at("theirs").c_str(), sallyport::testing::kOrdinaryUid, 0), 0);
  const auto opened = open_private_directory(at("theirs"));
  ASSERT_FALSE(opened);
  EXPECT_NE(opened.error().message.find("belongs to another user"), std::string::npos) << opened.error().message;
}

TEST_F(Files, ADirectoryThatOthersMayUseIsRefusedWithTheRemedy) {
  for (const mode_t mode : {mode_t{0710}, mode_t{0705}, mode_t{0777}}) {
    const std::string path = at("mode" + std::to_string(mode));
    ASSERT_EQ(::mkdir(path.c_str(), 0700), 0);
    ASSERT_EQ(::chmod(path.c_str(), mode), 0);
    const auto opened = open_private_directory(path);
    ASSERT_FALSE(opened);
    EXPECT_NE(opened.error().message.find("chmod 700"), std::string::npos);
  }
}

TEST_F(Files, APrivateFileIsReplacedAsAWholeAndLeavesNoTemporary) {
  ASSERT_TRUE(write_private_file(at("f"), "one"));
  ASSERT_TRUE(write_private_file(at("f"), "two and more"));
  EXPECT_EQ(*read_private_file(at("f"), 100), "two and more");
  EXPECT_EQ(mode_of(at("f")), 0600U);
  EXPECT_EQ(entries(), 1U);
}

TEST_F(Files, AReaderNeverSeesAPartOfAPrivateFile) {
  const std::string path = at("f"), first(100'000, 'a'), second(100'000, 'b');
  ASSERT_TRUE(write_private_file(path, first, Durability::unsynced));
  EXPECT_EQ(in_child([&] {
              for (int i = 0; i < 100; ++i) {
                if (!write_private_file(path, i % 2 == 0 ? second : first, Durability::unsynced)) return 1;
                const auto seen = read_private_file(path, 200'000);
                if (!seen || (*seen != first && *seen != second)) return 2;
              }
              return 0;
            }),
            0);
}

TEST_F(Files, WritingOverASymlinkReplacesTheLinkNotItsTarget) {
  std::ofstream(at("target")) << "precious";
  ASSERT_EQ(::symlink("target", at("link").c_str()), 0);
  ASSERT_TRUE(write_private_file(at("link"), "new"));
  EXPECT_EQ(*read_small_file(at("target"), 100), "precious");
  EXPECT_EQ(*read_private_file(at("link"), 100), "new");
}

TEST_F(Files, APrivateFileThatCannotBeWrittenLeavesTheOldOne) {
  ASSERT_EQ(::mkdir(at("taken").c_str(), 0700), 0);
  EXPECT_FALSE(write_private_file(at("taken"), "x")) << "a directory is in its place";
  EXPECT_EQ(entries(), 1U) << "the temporary file is gone";
  EXPECT_FALSE(write_private_file(at("no/such/place"), "x"));
}

TEST_F(Files, APrivateFileMustBeOursAlone) {
  ASSERT_TRUE(write_private_file(at("f"), "secret"));
  ASSERT_EQ(::chmod(at("f").c_str(), 0640), 0);
  EXPECT_EQ(read_private_file(at("f"), 100).error().code, Code::unauthenticated);
  ASSERT_EQ(::chmod(at("f").c_str(), 0600), 0);
  ASSERT_EQ(::symlink("f", at("link").c_str()), 0);
  EXPECT_FALSE(read_private_file(at("link"), 100));
  ASSERT_EQ(::mkfifo(at("fifo").c_str(), 0600), 0);
  EXPECT_FALSE(read_private_file(at("fifo"), 100)) << "and does not wait for a writer";
}

TEST_F(Files, AFileLargerThanAllowedIsRefused) {
  std::ofstream(at("f")) << std::string(5000, 'x');
  EXPECT_EQ(read_small_file(at("f"), 4999).error().code, Code::payload_too_large);
  EXPECT_EQ(read_small_file(at("f"), 5000)->size(), 5000U);
  EXPECT_EQ(read_small_file("/dev/zero", 1000).error().code, Code::payload_too_large);
}

TEST_F(Files, ALockLastsAsLongAsItsDescriptor) {
  const auto directory = open_private_directory(at("d"));
  ASSERT_TRUE(directory);
  auto lock = lock_file(directory->get(), "lock");
  ASSERT_TRUE(lock);
  const auto try_lock = [&] {
    return in_child([&] {
      const auto second = lock_file(directory->get(), "lock");
      return second ? 0 : second.error().code == Code::conflict ? 1 : 2;
    });
  };
  EXPECT_EQ(try_lock(), 1);
  lock = UniqueFd();
  EXPECT_EQ(try_lock(), 0);
}

}  // namespace
}  // namespace sallyport::os
