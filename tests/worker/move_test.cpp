// Moves between file systems: nothing is lost, and what is refused has changed nothing.
#include "worker/move.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>

#include "worker/namespaces.h"
#include "worker/sandbox_dir.h"
#include "worker/tree.h"
#include "worker/writing.h"

namespace sallyport::worker {
namespace {

namespace fs = std::filesystem;

TransferRequest transfer(std::string from, std::string to, bool overwrite = false) {
  return {std::move(from), std::move(to), overwrite, false, false};
}

class MoveBetween : public ::testing::Test {
 protected:
  // With another file system at `other`.
  template <typename Run>
  void run(Run test, Users users = Users::as_they_are) {
    box_.mkdir("other");
    const int status = in_namespace(users, [&]() -> int {
      if (!mount_tmpfs(box_.path("other"))) return kNoNamespace;
      return test();
    });
    if (status == kNoNamespace) GTEST_SKIP() << "no mount namespace here";
    EXPECT_EQ(status, 0);
  }
  SandboxDir box_;
};

TEST_F(MoveBetween, OfWhatCannotBeRemovedLeavesTheTargetAsItWas) {
  run([&] {
    box_.write("other/f", "theirs");
    box_.write("other/d/e", "theirs");
    box_.write("important", "mine");
    CHECK_OR_EXIT(make_read_only(box_.path("other")));
    const Roots roots = box_.open();
    const auto over = move_path(roots, transfer("other/f", "important", true), Stop());
    CHECK_OR_EXIT(!over && over.error().code == Code::policy_denied);
    CHECK_OR_EXIT(box_.read("important") == "mine");
    CHECK_OR_EXIT(!move_path(roots, transfer("other/d", "d"), Stop()));
    CHECK_OR_EXIT(names_in(box_.root()) == 2);
    return 0;
  });
}

TEST_F(MoveBetween, ReplacesAFileWithItsModeAndLeavesNothingBeside) {
  run([&] {
    box_.write("f", "new");
    ::chmod(box_.path("f").c_str(), 0750);
    box_.write("other/g", "old");
    const Roots roots = box_.open();
    CHECK_OR_EXIT(move_path(roots, transfer("f", "other/g"), Stop()).error().code == Code::conflict);
    CHECK_OR_EXIT(move_path(roots, transfer("f", "other/g", true), Stop()));
    CHECK_OR_EXIT(box_.read("other/g") == "new" && !box_.exists("f"));
    CHECK_OR_EXIT(fs::status(box_.path("other/g")).permissions() == fs::perms(0750));
    CHECK_OR_EXIT(names_in(box_.path("other")) == 1 && names_in(box_.root()) == 1);
    box_.write("d/e", "");
    CHECK_OR_EXIT(move_path(roots, transfer("d", "other/g", true), Stop()).error().code == Code::conflict);
    CHECK_OR_EXIT(box_.read("other/g") == "new" && box_.exists("d/e"));
    return 0;
  });
}

TEST_F(MoveBetween, ChangesNoTimeOfFilesAndDirectories) {
  run([&] {
    box_.write("d/f", "content");
    const auto then = fs::file_time_type::clock::now() - std::chrono::hours(1000);
    for (const char* name : {"d/f", "d"}) fs::last_write_time(box_.path(name), then);
    const auto was = fs::last_write_time(box_.path("d"));
    CHECK_OR_EXIT(move_path(box_.open(), transfer("d", "other/d"), Stop()));
    CHECK_OR_EXIT(fs::last_write_time(box_.path("other/d")) == was);
    CHECK_OR_EXIT(fs::last_write_time(box_.path("other/d/f")) == was);
    return 0;
  });
}

// The owner of a sticky directory has no number here: root looks as if it could, and cannot.
TEST_F(MoveBetween, WhoseRemovalFailsAtTheLastMomentIsTakenBack) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root to give files away";
  box_.write("sticky/f", "theirs");
  ASSERT_EQ(::chown(box_.path("sticky/f").c_str(), 4242, 4242), 0);
  ASSERT_EQ(::chown(box_.path("sticky").c_str(), 4242, 4242), 0);
  ASSERT_EQ(::chmod(box_.path("sticky").c_str(), 01777), 0);
  run(
      [&] {
        box_.write("other/important", "mine");
        const Roots roots = box_.open();
        CHECK_OR_EXIT(!move_path(roots, transfer("sticky/f", "other/important", true), Stop()));
        CHECK_OR_EXIT(box_.read("other/important") == "mine");
        CHECK_OR_EXIT(!move_path(roots, transfer("sticky/f", "other/new"), Stop()));
        CHECK_OR_EXIT(names_in(box_.path("other")) == 1);
        return 0;
      },
      Users::only_root);
  EXPECT_EQ(box_.read("sticky/f"), "theirs");
}

TEST_F(MoveBetween, OfATreeWithAClosedDirectoryOrASpecialFileOrAMountCopiesNothing) {
  run([&] {
    const Roots roots = box_.open();
    ::chmod(fs::path(box_.root()).parent_path().c_str(), 0755);
    box_.write("d/e/f", "kept");
    CHECK_OR_EXIT(::mkfifo(box_.path("d/fifo").c_str(), 0600) == 0);
    const auto special = move_path(roots, transfer("d", "other/d"), Stop());
    CHECK_OR_EXIT(!special && special.error().details_json == R"({"reason":"special"})");
    fs::remove(box_.path("d/fifo"));
    CHECK_OR_EXIT(mount_at(box_.outside(), box_.path("d/e")));
    const auto mounted = move_path(roots, transfer("d", "other/d"), Stop());
    CHECK_OR_EXIT(!mounted && mounted.error().details_json == R"({"reason":"protected"})");
    CHECK_OR_EXIT(::umount(box_.path("d/e").c_str()) == 0);
    CHECK_OR_EXIT(names_in(box_.path("other")) == 0);
    if (::getuid() != 0) return 0;
    for (const char* name : {"", "d", "d/e", "d/e/f", "other"}) ::chown(box_.path(name).c_str(), 4242, 4242);
    ::chmod(box_.path("d/e").c_str(), 0555);
    if (::setgid(4242) != 0 || ::setuid(4242) != 0) return kNoNamespace;
    const auto closed = move_path(roots, transfer("d", "other/d"), Stop());
    CHECK_OR_EXIT(!closed && closed.error().details_json == R"({"errno":"EACCES"})");
    CHECK_OR_EXIT(names_in(box_.path("other")) == 0 && box_.read("d/e/f") == "kept");
    return 0;
  });
}

TEST_F(MoveBetween, ThatIsStoppedHasCopiedNothing) {
  run([&] {
    box_.write("d/e/f", std::string(1 << 20, 'x'));
    Stop stop;
    int looks = 0;
    stop.on_poll([&] {
      if (++looks == 2) stop.cancel();  // the last look, when all is copied
    });
    const auto moved = move_path(box_.open(), transfer("d", "other/d"), stop);
    CHECK_OR_EXIT(!moved && moved.error().code == Code::cancelled);
    CHECK_OR_EXIT(names_in(box_.path("other")) == 0 && box_.exists("d/e/f"));
    return 0;
  });
}

TEST_F(MoveBetween, TwoMountsOfOneDirectoryLosesNothing) {
  run([&] {
    box_.write("a/f", "kept");
    box_.write("a/d/g", "kept");
    box_.mkdir("b");
    CHECK_OR_EXIT(mount_at(box_.path("a"), box_.path("b")));
    const Roots roots = box_.open();
    CHECK_OR_EXIT(move_path(roots, transfer("a/f", "b/f", true), Stop()));
    CHECK_OR_EXIT(box_.read("a/f") == "kept");
    CHECK_OR_EXIT(!move_path(roots, transfer("a/d", "b/d/in"), Stop()));
    CHECK_OR_EXIT(box_.read("a/d/g") == "kept" && names_in(box_.path("a/d")) == 1);
    CHECK_OR_EXIT(move_path(roots, transfer("a/d", "b/e"), Stop()));
    CHECK_OR_EXIT(box_.read("a/e/g") == "kept" && !box_.exists("a/d"));
    return 0;
  });
}

}  // namespace
}  // namespace sallyport::worker
