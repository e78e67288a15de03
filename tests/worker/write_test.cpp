#include "worker/write.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <sys/xattr.h>

#include <sched.h>
#include <cerrno>
#include <csignal>
#include <thread>
#include <vector>

#include "worker/sandbox_dir.h"
#include "worker/sha256.h"
#include "worker/writing.h"

namespace sallyport::worker {
namespace {

TEST(Write, CreatesAndReplacesAndSaysTheHash) {
  SandboxDir box;
  const Roots roots = box.open();
  const auto first = write_file(roots, write_request("f", "one"));
  ASSERT_TRUE(first) << first.error().describe();
  EXPECT_EQ(first->sha256, sha256_hex("one"));
  EXPECT_EQ(write_file(roots, write_request("f", "second"))->bytes_written, 6U);
  EXPECT_EQ(box.read("f"), "second");
  EXPECT_EQ(names_in(box.root()), 1U);
}

TEST(Write, KeepsModeOwnerAndAttributes) {
  SandboxDir box;
  box.write("f", "old");
  ASSERT_EQ(::chmod(box.path("f").c_str(), 0751), 0);
  const bool is_root = ::geteuid() == 0;
  const uid_t uid = is_root ? 1234 : ::geteuid();
  const gid_t gid = is_root ? 4321 : ::getegid();
  ASSERT_EQ(::chown(box.path("f").c_str(), uid, gid), 0);
  const bool has_attributes = ::setxattr(box.path("f").c_str(), "user.note", "kept", 4, 0) == 0;
  ASSERT_TRUE(write_file(box.open(), write_request("f", "new")));
  struct stat status{};
  ASSERT_EQ(::stat(box.path("f").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 07777, 0751U);
  EXPECT_EQ(status.st_uid, uid);
  EXPECT_EQ(status.st_gid, gid);
  char value[8] = {};
  EXPECT_EQ(::getxattr(box.path("f").c_str(), "user.note", value, sizeof value), has_attributes ? 4 : -1);
}

TEST(Write, GrantsNobodyMoreThanTheOldFileDid) {
  SandboxDir box;
  box.write("f", "old");
  ASSERT_EQ(::chmod(box.path("f").c_str(), 0640), 0);
  // All for user 12345, in each file that is made here: version 2; tag, rights and id of each entry.
  struct Entry {
    std::uint16_t tag, rights;
    std::uint32_t id;
  };
  struct {
    std::uint32_t version = 2;
    Entry entries[5] = {{1, 7, ~0U}, {2, 7, 12345}, {4, 5, ~0U}, {16, 7, ~0U}, {32, 0, ~0U}};
  } list;
  if (::setxattr(box.root().c_str(), "system.posix_acl_default", &list, sizeof list, 0) != 0)
    GTEST_SKIP() << "no access lists on this file system";
  ASSERT_TRUE(write_file(box.open(), write_request("f", "new")));
  EXPECT_EQ(::getxattr(box.path("f").c_str(), "system.posix_acl_access", nullptr, 0), -1);
  struct stat status{};
  ASSERT_EQ(::stat(box.path("f").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 07777, 0640U);
}

TEST(Write, GoesThroughALinkThatStaysInsideAndNotThroughOneThatLeaves) {
  SandboxDir box;
  box.write("d/real", "old");
  box.link("link", "d/real");
  box.link("out", box.outside() + "/secret");
  box.link("dangling", "d/new");
  const Roots roots = box.open();
  ASSERT_TRUE(write_file(roots, write_request("link", "new")));
  EXPECT_TRUE(std::filesystem::is_symlink(box.path("link")));
  EXPECT_EQ(box.read("d/real"), "new");
  ASSERT_TRUE(write_file(roots, write_request("dangling", "made")));
  EXPECT_EQ(box.read("d/new"), "made");
  EXPECT_EQ(write_file(roots, write_request("out", "x")).error().code, Code::policy_denied);
  EXPECT_EQ(box.read_outside("secret"), "SECRET\n");
}

TEST(Write, IfMatchRefusesAStaleVersionAndSaysWhichOneIsThere) {
  SandboxDir box;
  box.write("f", "theirs");
  WriteRequest write = write_request("f", "mine");
  write.if_match = sha256_hex("old");
  const auto answer = write_file(box.open(), write);
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().code, Code::conflict);
  EXPECT_NE(answer.error().details_json.find(sha256_hex("theirs")), std::string::npos);
  write.if_match = sha256_hex("theirs");
  EXPECT_TRUE(write_file(box.open(), write));
  write.if_match = std::string(kAbsent);
  EXPECT_EQ(write_file(box.open(), write).error().code, Code::conflict);
  write.path = "new";
  EXPECT_TRUE(write_file(box.open(), write));
  write.if_match = "nonsense";
  EXPECT_EQ(write_file(box.open(), write).error().code, Code::invalid_params);
}

TEST(Write, MakesParentsOnlyWhereAsked) {
  SandboxDir box;
  WriteRequest write = write_request("a/b/c", "x");
  const Error missing = write_file(box.open(), write).error();
  EXPECT_EQ(missing.details_json, R"({"errno":"ENOENT","reason":"no_parent"})");
  EXPECT_NE(missing.message.find("set create_dirs"), std::string::npos);
  write.create_dirs = true;
  EXPECT_TRUE(write_file(box.open(), write));
  EXPECT_EQ(box.read("a/b/c"), "x");
}

TEST(Write, RefusesDirectoriesFifosAndHardLinks) {
  SandboxDir box;
  box.mkdir("d");
  ASSERT_EQ(::mkfifo(box.path("fifo").c_str(), 0600), 0);
  std::filesystem::create_hard_link(box.outside() + "/secret", box.path("hard"));
  const Roots roots = box.open({.refuse_hard_links = true});
  for (const char* path : {"d", "d/", ".", "fifo", "hard"})
    EXPECT_FALSE(write_file(roots, write_request(path, "x"))) << path;
  EXPECT_EQ(box.read_outside("secret"), "SECRET\n");
}

TEST(Write, AHardLinkOutsideKeepsItsContentBecauseTheNameIsReplaced) {
  SandboxDir box;
  std::filesystem::create_hard_link(box.outside() + "/secret", box.path("hard"));
  ASSERT_TRUE(write_file(box.open(), write_request("hard", "x")));
  EXPECT_EQ(box.read_outside("secret"), "SECRET\n");
}

TEST(Write, AReadOnlyFileStaysForOrdinaryUsers) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root to become another user";
  SandboxDir box;
  box.write("f", "old");
  ::chmod(box.path("f").c_str(), 0444);
  ::chmod(std::filesystem::path(box.root()).parent_path().c_str(), 0755);
  ::chown(box.root().c_str(), 4242, 4242);
  ::chown(box.path("f").c_str(), 4242, 4242);
  const pid_t child = ::fork();
  if (child == 0) {
    if (::setgid(4242) != 0 || ::setuid(4242) != 0) ::_exit(9);
    const auto answer = write_file(box.open(), write_request("f", "new"));
    ::_exit(!answer && answer.error().details_json == R"({"errno":"EACCES"})" ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(box.read("f"), "old");
}

TEST(EditFile, AnswersDiffHashAndCount) {
  SandboxDir box;
  box.write("f.txt", "one\r\ntwo\r\n");
  EditRequest edit;
  edit.path = "f.txt";
  edit.edits = {{"two", "2", false}};
  edit.if_match = sha256_hex("one\r\ntwo\r\n");
  const auto answer = edit_file(box.open(), edit);
  ASSERT_TRUE(answer) << answer.error().describe();
  EXPECT_EQ(box.read("f.txt"), "one\r\n2\r\n");
  EXPECT_EQ(answer->sha256, sha256_hex("one\r\n2\r\n"));
  EXPECT_EQ(answer->diff, "--- a/f.txt\n+++ b/f.txt\n@@ -1,2 +1,2 @@\n one\r\n-two\r\n+2\r\n");
}

TEST(EditFile, AFailedEditLeavesTheFileUntouched) {
  SandboxDir box;
  box.write("f", "a");
  struct stat before{};
  ::stat(box.path("f").c_str(), &before);
  EditRequest edit;
  edit.path = "f";
  edit.edits = {{"a", "b", false}, {"zzz", "c", false}};
  EXPECT_FALSE(edit_file(box.open(), edit));
  struct stat after{};
  ::stat(box.path("f").c_str(), &after);
  EXPECT_EQ(before.st_ino, after.st_ino);
  EXPECT_EQ(box.read("f"), "a");
}

// ---- Faults ----

ssize_t fail_write(int, const void*, std::size_t) {
  errno = EIO;
  return -1;
}
ssize_t short_write(int fd, const void* from, std::size_t count) {
  return ::write(fd, from, std::min<std::size_t>(count, 3));
}
int fail_sync(int) {
  errno = EIO;
  return -1;
}
int fail_rename(int, const char*, int, const char*) {
  errno = EIO;
  return -1;
}

TEST(WriteFault, EioAtAnyCallLeavesTheOldFileAndNoOther) {
  SandboxDir box;
  box.write("f", "old");
  for (const FileCalls& calls : {FileCalls{fail_write, ::fsync, ::renameat}, FileCalls{::write, fail_sync, ::renameat},
                                 FileCalls{::write, ::fsync, fail_rename}}) {
    WriteRequest write = write_request("f", "new");
    write.options = {.durable = true, .calls = &calls};
    const auto answer = write_file(box.open(), write);
    ASSERT_FALSE(answer);
    EXPECT_EQ(answer.error().details_json, R"({"errno":"EIO"})");
    EXPECT_EQ(box.read("f"), "old");
    EXPECT_EQ(names_in(box.root()), 1U);
  }
}

// Which directories are made durable, by their names.
std::vector<std::string>& synced() {
  static std::vector<std::string> names;
  return names;
}
int note_sync(int fd) {
  const std::string self = "/proc/self/fd/" + std::to_string(fd);
  if (std::filesystem::is_directory(self)) synced().push_back(std::filesystem::read_symlink(self).filename());
  return ::fsync(fd);
}

TEST(WriteFault, DirectoriesMadeForADurableWriteAreDurableToo) {
  SandboxDir box;
  box.mkdir("kept");
  const FileCalls calls{::write, note_sync, ::renameat};
  WriteRequest write = write_request("kept/a/b/c", "new");
  write.create_dirs = true;
  write.options = {.durable = true, .calls = &calls};
  synced().clear();
  ASSERT_TRUE(write_file(box.open(), write));
  EXPECT_EQ(synced(), (std::vector<std::string>{"b", "a", "kept"}));
}

TEST(WriteFault, WhatOnlyAPowerCutCouldUndoIsSaidToBeThere) {
  SandboxDir box;
  box.write("f", "old");
  static int calls_made = 0;
  calls_made = 0;
  const FileCalls calls{::write, [](int fd) { return ++calls_made == 1 ? ::fsync(fd) : fail_sync(fd); }, ::renameat};
  WriteRequest write = write_request("f", "new");
  write.options = {.durable = true, .calls = &calls};
  const auto answer = write_file(box.open(), write);
  ASSERT_FALSE(answer);
  EXPECT_NE(answer.error().message.find("the new content is there"), std::string::npos);
  EXPECT_EQ(box.read("f"), "new");
}

TEST(WriteFault, ShortWritesAreContinued) {
  SandboxDir box;
  const FileCalls calls{short_write, ::fsync, ::renameat};
  WriteRequest write = write_request("f", "a longer text");
  write.options.calls = &calls;
  ASSERT_TRUE(write_file(box.open(), write));
  EXPECT_EQ(box.read("f"), "a longer text");
}

ssize_t swapping_write(int fd, const void* from, std::size_t count);
const SandboxDir* g_swapped = nullptr;
ssize_t swapping_write(int fd, const void* from, std::size_t count) {
  g_swapped->write("f", "someone else");
  return ::write(fd, from, count);
}

TEST(WriteFault, AChangeBetweenReadAndReplaceIsAConflict) {
  SandboxDir box;
  box.write("f", "old");
  g_swapped = &box;
  const FileCalls calls{swapping_write, ::fsync, ::renameat};
  EditRequest edit;
  edit.path = "f";
  edit.edits = {{"old", "new", false}};
  edit.options.calls = &calls;
  EXPECT_EQ(edit_file(box.open(), edit).error().code, Code::conflict);
  EXPECT_EQ(box.read("f"), "someone else");
}

TEST(Write, WhatWasStoppedHasChangedNothing) {
  SandboxDir box;
  box.write("f", "old");
  EditRequest edit;
  edit.path = "f";
  edit.edits = {{"old", "new", false}};
  const Stop late(std::chrono::steady_clock::now());
  EXPECT_EQ(edit_file(box.open(), edit, late).error().code, Code::timeout);
  EXPECT_EQ(write_file(box.open(), write_request("f", "new"), late).error().code, Code::timeout);
  EXPECT_EQ(write_file(box.open(), write_request("g", "new"), late).error().code, Code::timeout);
  // Cancelled while it is being written: the last look is taken before the change.
  Stop stop;
  bool is_written = false;
  stop.on_poll([&] {
    if (is_written) stop.cancel();
  });
  WriteRequest write = write_request("f", "");
  write.fill = [&](int) {
    is_written = true;
    return ok();
  };
  EXPECT_EQ(write_file(box.open(), write, stop).error().code, Code::cancelled);
  EXPECT_EQ(box.read("f"), "old");
  EXPECT_EQ(names_in(box.root()), 1U);
}

TEST(Write, AStaleVersionMakesNoDirectories) {
  SandboxDir box;
  WriteRequest write = write_request("a/b/f", "new");
  write.create_dirs = true;
  write.if_match = std::string(64, '0');
  EXPECT_EQ(write_file(box.open(), write).error().code, Code::conflict);
  EXPECT_FALSE(box.exists("a"));
  write.if_match = std::string(kAbsent);
  EXPECT_TRUE(write_file(box.open(), write));
}

TEST(Edit, ASlashBehindAFilesNameIsRefused) {
  SandboxDir box;
  box.write("f", "old");
  EditRequest edit;
  edit.path = "f/";
  edit.edits = {{"old", "new", false}};
  EXPECT_EQ(edit_file(box.open(), edit).error().details_json, R"({"errno":"ENOTDIR"})");
  EXPECT_EQ(box.read("f"), "old");
}

TEST(WriteFault, DirectoriesMadeForAWriteThatFailedAreGoneAgain) {
  SandboxDir box;
  box.mkdir("kept");
  const FileCalls calls{fail_write, ::fsync, ::renameat};
  for (const char* path : {"deep/a/b/c", "kept/a/./b//c", "kept/c"}) {
    WriteRequest write = write_request(path, "new");
    write.create_dirs = true;
    write.options.calls = &calls;
    EXPECT_TRUE(write_file(box.open(), write).error().message.ends_with("nothing was changed")) << path;
  }
  EXPECT_EQ(names_in(box.root()), 1U);
  EXPECT_EQ(names_in(box.path("kept")), 0U);
}

// A file system of 256 KiB in a mount namespace of the child's own.
TEST(WriteFault, AFullDiskLeavesTheOldFileAndSaysSo) {
  SandboxDir box;
  box.mkdir("small");
  const pid_t child = ::fork();
  if (child == 0) {
    if (::unshare(::geteuid() == 0 ? CLONE_NEWNS : CLONE_NEWUSER | CLONE_NEWNS) != 0) ::_exit(77);
    if (::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) ::_exit(77);
    if (::mount("tmpfs", box.path("small").c_str(), "tmpfs", 0, "size=256k") != 0) ::_exit(77);
    const Roots roots = box.open();
    if (!write_file(roots, write_request("small/f", std::string(100 << 10, 'a')))) ::_exit(2);
    for (int i = 0; i < 3; ++i) {
      const auto answer = write_file(roots, write_request("small/f", std::string(300 << 10, 'b')));
      if (answer || answer.error().details_json != R"({"errno":"ENOSPC"})") ::_exit(3);
      if (!answer.error().message.ends_with("nothing was changed")) ::_exit(7);
    }
    if (box.read("small/f") != std::string(100 << 10, 'a')) ::_exit(4);
    if (names_in(box.path("small")) != 1) ::_exit(5);
    ::_exit(write_file(roots, write_request("small/f", std::string(120 << 10, 'c'))) ? 0 : 6);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  if (WEXITSTATUS(status) == 77) GTEST_SKIP() << "no mount namespace here";
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST(WriteFault, KilledDuringAStreamedWriteNothingIsLeftBeside) {
  SandboxDir box;
  box.write("f", "old");
  const pid_t child = ::fork();
  if (child == 0) {
    WriteRequest write = write_request("f", "");
    write.fill = [](int draft) -> Status {
      if (::write(draft, "half", 4) != 4) ::_exit(1);
      ::raise(SIGKILL);
      return ok();
    };
    (void)write_file(box.open(), write);
    ::_exit(2);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(box.read("f"), "old");
  EXPECT_EQ(names_in(box.root()), 1U);
}

TEST(WriteFault, KilledDuringAWriteTheFileIsOldOrNew) {
  SandboxDir box;
  const std::string a(300 << 10, 'a');
  const std::string b(300 << 10, 'b');
  box.write("f", a);
  for (int i = 0; i < 60; ++i) {
    const pid_t child = ::fork();
    if (child == 0) {
      const Roots roots = box.open();
      for (int round = 0;; ++round) {
        if (!write_file(roots, write_request("f", round % 2 == 0 ? b : a))) ::_exit(1);
      }
    }
    std::this_thread::sleep_for(std::chrono::microseconds(200 + i * 53));
    ::kill(child, SIGKILL);
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status));
    const std::string now = box.read("f");
    ASSERT_TRUE(now == a || now == b) << now.size();
  }
}

}  // namespace
}  // namespace sallyport::worker
