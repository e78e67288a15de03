// Files that stay where they are and get new bytes.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>

#include "worker/namespaces.h"
#include "worker/sandbox_dir.h"
#include "worker/tree.h"
#include "worker/writing.h"

namespace sallyport::worker {
namespace {

TEST(InPlace, AMountPointIsWrittenEditedAndCopiedTo) {
  SandboxDir box;
  box.write("f", "a longer old text");
  box.write_outside("target", "old");
  const int status = in_namespace(Users::as_they_are, [&]() -> int {
    if (!mount_at(box.outside() + "/target", box.path("f"))) return kNoNamespace;
    const Roots roots = box.open();
    CHECK_OR_EXIT(write_file(roots, write_request("f", "one and two")));
    CHECK_OR_EXIT(box.read("f") == "one and two");
    EditRequest edit;
    edit.path = "f";
    edit.edits = {{"one and ", "", false}};
    CHECK_OR_EXIT(edit_file(roots, edit));
    CHECK_OR_EXIT(box.read("f") == "two");
    WriteRequest stale = write_request("f", "x");
    stale.if_match = std::string(64, '0');
    CHECK_OR_EXIT(write_file(roots, stale).error().code == Code::conflict);
    box.write("g", "three");
    CHECK_OR_EXIT(copy_path(roots, {"g", "f", true, false, false}, Stop()));
    CHECK_OR_EXIT(box.read("f") == "three" && names_in(box.root()) == 2);
    return 0;
  });
  if (status == kNoNamespace) GTEST_SKIP() << "no mount namespace here";
  EXPECT_EQ(status, 0);
  EXPECT_EQ(box.read_outside("target"), "three");
  EXPECT_EQ(box.read("f"), "a longer old text");
}

TEST(InPlace, AMountPointInADirectoryThatCannotBeWrittenIsWritten) {
  SandboxDir box;
  box.mkdir("shut");
  box.write_outside("target", "old");
  const int status = in_namespace(Users::as_they_are, [&]() -> int {
    if (!mount_tmpfs(box.path("shut"))) return kNoNamespace;
    box.write("shut/f", "");
    CHECK_OR_EXIT(mount_at(box.outside() + "/target", box.path("shut/f")) && make_read_only(box.path("shut")));
    const Roots roots = *Roots::open({box.root(), "/tmp"});
    CHECK_OR_EXIT(write_file(roots, write_request("shut/f", "new")));
    CHECK_OR_EXIT(box.read("shut/f") == "new");
    // What is read-only itself stays.
    CHECK_OR_EXIT(make_read_only(box.path("shut/f")));
    CHECK_OR_EXIT(write_file(roots, write_request("shut/f", "newer")).error().code == Code::policy_denied);
    return 0;
  });
  if (status == kNoNamespace) GTEST_SKIP() << "no mount namespace here";
  EXPECT_EQ(status, 0);
  EXPECT_EQ(box.read_outside("target"), "new");
}

ssize_t fail_second_write(int fd, const void* from, std::size_t count) {
  static int calls = 0;
  if (++calls % 2 == 1) return ::write(fd, from, count);  // the draft's
  errno = EIO;
  return -1;
}

TEST(InPlace, AFullDiskIsKnownBeforeAByteChangesAndAFaultLaterIsSaid) {
  SandboxDir box;
  box.mkdir("small");
  box.write("f", "");
  const int status = in_namespace(Users::as_they_are, [&]() -> int {
    if (!mount_tmpfs(box.path("small"), "size=256k")) return kNoNamespace;
    box.write("small/target", "old");
    CHECK_OR_EXIT(mount_at(box.path("small/target"), box.path("f")));
    const Roots roots = box.open();
    const auto full = write_file(roots, write_request("f", std::string(300 << 10, 'b')));
    CHECK_OR_EXIT(!full && full.error().message.ends_with("nothing was changed"));
    CHECK_OR_EXIT(box.read("f") == "old");
    const FileCalls calls{fail_second_write, ::fsync, ::renameat};
    WriteRequest write = write_request("f", "new");
    write.options.calls = &calls;
    const auto broken = write_file(roots, write);
    CHECK_OR_EXIT(!broken && broken.error().message.ends_with("may hold a part of the new content"));
    return 0;
  });
  if (status == kNoNamespace) GTEST_SKIP() << "no mount namespace here";
  EXPECT_EQ(status, 0);
}

TEST(InPlace, AGroupThatHasNoNumberHereIsKept) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root to give files away";
  SandboxDir box;
  box.write("f", "old");
  box.write("hard", "old");
  std::filesystem::create_hard_link(box.path("hard"), box.path("other"));
  ASSERT_EQ(::chown(box.path("f").c_str(), 0, 4321), 0);
  ASSERT_EQ(::chown(box.path("hard").c_str(), 0, 4321), 0);
  const int status = in_namespace(Users::only_root, [&]() -> int {
    const Roots roots = box.open();
    CHECK_OR_EXIT(write_file(roots, write_request("f", "new")));
    const auto refused = write_file(roots, write_request("hard", "new"));
    CHECK_OR_EXIT(!refused && refused.error().details_json == R"({"errno":"EPERM","reason":"owner"})");
    return 0;
  });
  if (status == kNoNamespace) GTEST_SKIP() << "no user namespace here";
  EXPECT_EQ(status, 0);
  EXPECT_EQ(box.read("f"), "new");
  EXPECT_EQ(box.read("other"), "old");
  struct stat now{};
  ASSERT_EQ(::stat(box.path("f").c_str(), &now), 0);
  EXPECT_EQ(now.st_gid, 4321U);
  EXPECT_EQ(names_in(box.root()), 3U);
}

}  // namespace
}  // namespace sallyport::worker
