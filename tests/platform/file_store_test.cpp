// Objects as files, as the host keeps them and a worker may.
#include "platform/file_store.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "platform/limits.h"
#include "support/daemon.h"

namespace sallyport::platform {
namespace {

using testing::TemporaryDirectory;

const Scope kScope{"profile.plugin", "history"};

std::size_t files_in(const std::string& path) {
  std::size_t count = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(path))
    count += entry.is_regular_file() ? 1 : 0;
  return count;
}

Result<std::int64_t> put(FileStore& store, const std::string& key, std::string_view bytes) {
  TRY(FileStore::Upload upload, store.begin(kScope, key));
  TRY(FileStore::write(upload, bytes));
  return FileStore::commit(upload);
}

TEST(FileNames, AreOneNameEachAndComeBack) {
  for (const std::string key : {"a", "../../etc/passwd", "..", ".", ".hidden", "a/b", "a%2Fb", "\x01\x02", "ünï"}) {
    const auto name = encode_name(key);
    ASSERT_TRUE(name) << key;
    EXPECT_EQ(name->find('/'), std::string::npos);
    EXPECT_NE((*name)[0], '.');
    EXPECT_EQ(decode_name(*name), key);
  }
  EXPECT_NE(encode_name("a/b"), encode_name("a%2Fb"));
  EXPECT_FALSE(encode_name(std::string(200, '/')));
  EXPECT_FALSE(decode_name("%41")) << "not how we would have written it";
}

TEST(FileStore, KeepsFindsListsAndForgets) {
  const TemporaryDirectory directory;
  FileStore store(directory.path() + "/store");
  EXPECT_FALSE(*store.find(kScope, "a"));
  EXPECT_EQ(*put(store, "a", "12345"), 5 + 1 + kObjectCost);
  EXPECT_EQ(*put(store, "a", "123"), -2) << "a replaced object counts once";
  EXPECT_EQ(*put(store, "b", ""), 1 + kObjectCost) << "an empty one is there too";
  EXPECT_EQ(*store.stored_bytes(kScope.tenant), 3 + 2 * (1 + kObjectCost));
  const auto found = store.find(kScope, "a");
  ASSERT_TRUE(found && *found);
  EXPECT_EQ((*found)->object.size, 3);
  EXPECT_EQ(*FileStore::read((*found)->file.get(), 100), "123");
  const auto listing = store.list(kScope, "", "", 1);
  ASSERT_EQ(listing->objects.size(), 1U);
  EXPECT_EQ(listing->objects[0].key, "a");
  EXPECT_TRUE(listing->has_more);
  EXPECT_EQ(store.list(kScope, "", "a", 10)->objects.at(0).key, "b");
  EXPECT_FALSE(*store.find({"profile.other", "history"}, "a"));
  EXPECT_EQ(*store.remove(kScope, "a"), -3 - 1 - kObjectCost);
  EXPECT_FALSE(*store.remove(kScope, "a"));
}

TEST(FileStore, AttackBucketsThatHoldNothingDoNotStay) {
  const TemporaryDirectory directory;
  const std::string path = directory.path() + "/store";
  FileStore store(path);
  ASSERT_TRUE(put(store, "a", "x"));
  ASSERT_TRUE(put(store, "b", "x"));
  ASSERT_TRUE(*store.remove(kScope, "a"));
  EXPECT_TRUE(std::filesystem::exists(path + "/profile.plugin/history"));
  ASSERT_TRUE(*store.remove(kScope, "b"));
  EXPECT_FALSE(std::filesystem::exists(path + "/profile.plugin/history"));
  const auto upload = store.begin(kScope, "c");
  ASSERT_TRUE(upload);
  EXPECT_TRUE(std::filesystem::exists(path + "/profile.plugin/history"));
  FileStore::abandon(*upload);
  EXPECT_FALSE(std::filesystem::exists(path + "/profile.plugin/history"));
}

TEST(FileStore, ForgetsATenantAndNobodyElse) {
  const TemporaryDirectory directory;
  FileStore store(directory.path() + "/store");
  ASSERT_TRUE(put(store, "a", "x"));
  auto other = store.begin({"profile.other", "history"}, "a");
  ASSERT_TRUE(other && FileStore::commit(*other));
  ASSERT_TRUE(store.forget(kScope.tenant));
  EXPECT_FALSE(*store.find(kScope, "a"));
  EXPECT_TRUE(*store.find({"profile.other", "history"}, "a"));
  EXPECT_TRUE(store.forget(kScope.tenant)) << "nothing is left of it";
}

TEST(FileStore, TwoProcessesOnOneDirectoryDoNotTakeEachOthersWritesForLeftovers) {
  const TemporaryDirectory directory;
  const std::string path = directory.path() + "/store";
  FileStore first(path);
  auto upload = first.begin(kScope, "a");
  ASSERT_TRUE(upload);
  ASSERT_TRUE(FileStore::write(*upload, "whole"));
  // Opening is when leftovers are removed.
  FileStore second(path);
  ASSERT_TRUE(second.open());
  EXPECT_TRUE(put(second, "a", "other"));
  ASSERT_TRUE(FileStore::commit(*upload));
  EXPECT_EQ(*FileStore::read((*second.find(kScope, "a"))->file.get(), 100), "whole");
}

TEST(FileStore, WhatACrashInterruptedIsRemoved) {
  const TemporaryDirectory directory;
  const std::string path = directory.path() + "/store";
  {
    FileStore store(path);
    auto upload = store.begin(kScope, "a");
    ASSERT_TRUE(upload);
    ASSERT_TRUE(FileStore::write(*upload, "half"));
  }
  EXPECT_EQ(files_in(path), 1U);
  FileStore store(path);
  ASSERT_TRUE(store.open());
  EXPECT_EQ(files_in(path), 0U);
}

TEST(FileStore, AttackLinksInTheStoreAreNotFollowed) {
  const TemporaryDirectory directory;
  const std::string path = directory.path() + "/store";
  std::ofstream(directory.path() + "/secret") << "secret";
  FileStore store(path);
  ASSERT_TRUE(put(store, "a", "x"));
  std::filesystem::create_symlink(directory.path() + "/secret", path + "/profile.plugin/history/link");
  std::filesystem::create_directory_symlink(directory.path(), path + "/profile.plugin/elsewhere");
  EXPECT_FALSE(store.find(kScope, "link"));
  EXPECT_FALSE(store.find({"profile.plugin", "elsewhere"}, "secret"));
  EXPECT_FALSE(store.begin({"profile.plugin", "elsewhere"}, "new"));
  // Writing over a link replaces the link.
  ASSERT_TRUE(put(store, "link", "mine"));
  std::ifstream secret(directory.path() + "/secret");
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(secret), {}), "secret");
}

}  // namespace
}  // namespace sallyport::platform
