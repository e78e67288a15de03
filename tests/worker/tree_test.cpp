#include "worker/tree.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "worker/inspect.h"
#include "worker/sandbox_dir.h"

namespace sallyport::worker {
namespace {

TransferRequest transfer(std::string from, std::string to) {
  return {std::move(from), std::move(to), false, false, false};
}

TEST(Stat, TellsALinkFromWhatItLeadsTo) {
  SandboxDir box;
  box.write("f", "12345");
  box.mkdir("d");
  box.link("in", "f");
  box.link("out", box.outside() + "/secret");
  const Roots roots = box.open();
  EXPECT_EQ(stat_path(roots, "f")->size, 5U);
  EXPECT_TRUE(stat_path(roots, "d")->is_directory());
  EXPECT_EQ(stat_path(roots, "d")->size, 0U);
  const auto inside = stat_path(roots, "in");
  EXPECT_TRUE(inside->is_symlink);
  EXPECT_EQ(inside->size, 5U);
  EXPECT_EQ(inside->target, "f");
  const auto outside = stat_path(roots, "out");
  EXPECT_TRUE(outside->is_symlink);
  EXPECT_EQ(outside->kind, "symlink");
  EXPECT_NE(outside->size, 7U) << "the size of the file outside must not be told";
  EXPECT_EQ(stat_path(roots, "nothing").error().details_json, R"({"errno":"ENOENT"})");
  EXPECT_TRUE(stat_path(roots, ".")->is_directory());
}

TEST(List, IsSortedPagedAndDoesNotFollow) {
  SandboxDir box;
  for (const char* name : {"c", "a", ".h", "b"}) box.write(name, "");
  box.link("out", box.outside());
  ListRequest list;
  list.limit = 2;
  auto answer = list_directory(box.open(), list);
  ASSERT_EQ(answer->entries.size(), 2U);
  EXPECT_EQ(answer->entries[0].name, ".h");
  EXPECT_EQ(answer->total, 5U);
  ASSERT_FALSE(answer->cursor.empty());
  list.cursor = answer->cursor;
  list.limit = 10;
  answer = list_directory(box.open(), list);
  EXPECT_EQ(answer->cursor, "");
  EXPECT_EQ(answer->entries.back().name, "out");
  EXPECT_EQ(answer->entries.back().status.kind, "symlink");
  list.path = "out";
  EXPECT_EQ(list_directory(box.open(), list).error().code, Code::policy_denied);
}

// Each target is shown as 24,000 characters.
TEST(List, TheTargetsOfLinksCountAsTheyAreShown) {
  SandboxDir box;
  const std::string target(4000, '\x01');
  for (int i = 0; i < 100; ++i) box.link("l" + std::to_string(i), target);
  ListRequest list;
  std::size_t seen = 0;
  do {
    const auto answer = list_directory(box.open(), list);
    ASSERT_TRUE(answer) << answer.error().describe();
    ASSERT_LE(answer->entries.size() * 6 * target.size(), list.max_bytes);
    ASSERT_FALSE(answer->entries.empty());
    seen += answer->entries.size();
    list.cursor = answer->cursor;
  } while (!list.cursor.empty());
  EXPECT_EQ(seen, 100U);
}

TEST(Copy, CopiesAFileWithItsModeAndDoesNotOverwriteUnasked) {
  SandboxDir box;
  box.write("f", "content");
  ::chmod(box.path("f").c_str(), 0750);
  ASSERT_TRUE(copy_path(box.open(), transfer("f", "g"), Stop()));
  EXPECT_EQ(box.read("g"), "content");
  struct stat status{};
  ::stat(box.path("g").c_str(), &status);
  EXPECT_EQ(status.st_mode & 0777, 0750U);
  box.write("f", "newer");
  EXPECT_EQ(copy_path(box.open(), transfer("f", "g"), Stop()).error().code, Code::conflict);
  TransferRequest over = transfer("f", "g");
  over.overwrite = true;
  EXPECT_TRUE(copy_path(box.open(), over, Stop()));
  EXPECT_EQ(box.read("g"), "newer");
}

TEST(Copy, CopiesATreeWithLinksAsLinks) {
  SandboxDir box;
  box.write("d/a", "1");
  box.write("d/e/b", "2");
  box.link("d/l", box.outside());
  ASSERT_EQ(::mkfifo(box.path("d/fifo").c_str(), 0600), 0);
  EXPECT_FALSE(copy_path(box.open(), transfer("d", "x"), Stop()));
  TransferRequest all = transfer("d", "x");
  all.recursive = true;
  const auto answer = copy_path(box.open(), all, Stop());
  ASSERT_TRUE(answer) << answer.error().describe();
  EXPECT_EQ(answer->files, 2U);
  EXPECT_EQ(answer->links, 1U);
  EXPECT_EQ(answer->skipped_special, 1U);
  EXPECT_EQ(box.read("x/e/b"), "2");
  EXPECT_TRUE(std::filesystem::is_symlink(box.path("x/l")));
}

TEST(Copy, ATreeCopiedIntoItselfEnds) {
  SandboxDir box;
  box.write("d/a", "1");
  TransferRequest all = transfer("d", "d/copy");
  all.recursive = true;
  ASSERT_TRUE(copy_path(box.open(), all, Stop()));
  EXPECT_EQ(box.read("d/copy/a"), "1");
  EXPECT_FALSE(box.exists("d/copy/copy"));
}

TEST(Copy, NeitherReadsNorWritesOutside) {
  SandboxDir box;
  box.link("in", box.outside());
  box.write("f", "x");
  EXPECT_EQ(copy_path(box.open(), transfer("in/secret", "s"), Stop()).error().code, Code::policy_denied);
  EXPECT_EQ(copy_path(box.open(), transfer("f", "in/x"), Stop()).error().code, Code::policy_denied);
  EXPECT_EQ(copy_path(box.open(), transfer("f", "../outside/x"), Stop()).error().code, Code::policy_denied);
}

TEST(Move, RenamesAndRefusesToReplaceUnasked) {
  SandboxDir box;
  box.write("a", "1");
  box.write("b", "2");
  EXPECT_EQ(move_path(box.open(), transfer("a", "b"), Stop()).error().code, Code::conflict);
  TransferRequest over = transfer("a", "b");
  over.overwrite = true;
  EXPECT_TRUE(move_path(box.open(), over, Stop()));
  EXPECT_EQ(box.read("b"), "1");
  EXPECT_FALSE(box.exists("a"));
  TransferRequest deep = transfer("b", "x/y/z");
  EXPECT_FALSE(move_path(box.open(), deep, Stop()));
  deep.create_dirs = true;
  EXPECT_TRUE(move_path(box.open(), deep, Stop()));
  EXPECT_EQ(box.read("x/y/z"), "1");
}

TEST(Move, ALinkMovesAsALink) {
  SandboxDir box;
  box.link("l", box.outside() + "/secret");
  ASSERT_TRUE(move_path(box.open(), transfer("l", "m"), Stop()));
  EXPECT_TRUE(std::filesystem::is_symlink(box.path("m")));
  EXPECT_EQ(box.read_outside("secret"), "SECRET\n");
}

TEST(Move, BetweenFileSystemsCopiesAndRemoves) {
  SandboxDir box;
  struct stat here{};
  struct stat there{};
  ::stat(box.root().c_str(), &here);
  std::string other = "/dev/shm";
  if (::stat(other.c_str(), &there) != 0 || here.st_dev == there.st_dev) other = "/var/tmp";
  if (::stat(other.c_str(), &there) != 0 || here.st_dev == there.st_dev) GTEST_SKIP() << "only one file system at hand";
  other += "/sallyport-move-XXXXXX";
  ASSERT_NE(::mkdtemp(other.data()), nullptr);
  box.write("d/e/f", "moved");
  box.link("d/l", "e");
  const Roots roots = *Roots::open({box.root(), other});
  const auto moved = move_path(roots, transfer("d", other + "/d"), Stop());
  EXPECT_TRUE(moved);
  EXPECT_FALSE(box.exists("d"));
  EXPECT_TRUE(std::filesystem::exists(other + "/d/l/f"));
  std::filesystem::remove_all(other);
}

TEST(Remove, TakesATreeOnlyWhereAskedAndNeverFollowsLinks) {
  SandboxDir box;
  box.write("d/e/f", "");
  box.link("d/out", box.outside());
  EXPECT_EQ(remove_path(box.open(), "d", false, Stop()).error().details_json, R"({"errno":"ENOTEMPTY"})");
  const auto answer = remove_path(box.open(), "d", true, Stop());
  ASSERT_TRUE(answer) << answer.error().describe();
  EXPECT_EQ(answer->removed, 4U);
  EXPECT_FALSE(box.exists("d"));
  EXPECT_EQ(box.read_outside("secret"), "SECRET\n");
}

TEST(Remove, RefusesTheRootItselfAndWhatIsOutside) {
  SandboxDir box;
  for (const char* path : {".", "./", "..", "../outside", "../outside/secret"}) {
    EXPECT_EQ(remove_path(box.open(), path, true, Stop()).error().code, Code::policy_denied) << path;
  }
  EXPECT_EQ(remove_path(box.open(), box.root(), true, Stop()).error().code, Code::policy_denied);
  EXPECT_EQ(box.read_outside("secret"), "SECRET\n");
}

TEST(Remove, RefusesWhatLiesAboveAnotherRootAndRemovesNothing) {
  SandboxDir box;
  box.write("above/ws/kept", "kept");
  box.write("above/beside", "kept");
  const Roots roots = *Roots::open({box.path("above/ws"), box.root()});
  for (const std::string& path : {std::string(".."), box.path("above"), box.path("above/ws/../../above")}) {
    EXPECT_EQ(remove_path(roots, path, true, Stop()).error().details_json, R"({"reason":"root"})") << path;
  }
  EXPECT_EQ(move_path(roots, transfer(box.path("above"), box.path("elsewhere")), Stop()).error().code,
            Code::policy_denied);
  EXPECT_EQ(box.read("above/ws/kept") + box.read("above/beside"), "keptkept");
}

TEST(Mkdir, MakesOneOrAllOfThePath) {
  SandboxDir box;
  EXPECT_EQ(make_directory(box.open(), "a", false)->created, 1);
  EXPECT_EQ(make_directory(box.open(), "a", false).error().code, Code::conflict);
  const Error missing = make_directory(box.open(), "b/c", false).error();
  EXPECT_NE(missing.message.find("set parents"), std::string::npos) << missing.message;
  EXPECT_EQ(make_directory(box.open(), "b/c/d", true)->created, 3);
  EXPECT_EQ(make_directory(box.open(), "b/c/d", true)->created, 0);
}

TEST(Move, OntoAnotherNameOfTheSameFileTheFirstNameGoes) {
  SandboxDir box;
  box.write("a", "x");
  std::filesystem::create_hard_link(box.path("a"), box.path("b"));
  TransferRequest request = transfer("a", "b");
  request.overwrite = true;
  ASSERT_TRUE(move_path(box.open(), request, Stop()));
  EXPECT_FALSE(box.exists("a"));
  EXPECT_EQ(box.read("b"), "x");
  request = transfer("b", "./b");
  request.overwrite = true;
  ASSERT_TRUE(move_path(box.open(), request, Stop()));
  EXPECT_EQ(box.read("b"), "x");
}

TEST(Transfer, SaysOfTheNewNameWhatStandsInItsWay) {
  SandboxDir box;
  box.write("f", "x");
  box.mkdir("d");
  box.link("l", "f");
  for (const char* to : {"d", "l"}) {
    TransferRequest request = transfer("f", to);
    request.overwrite = true;
    const auto copied = copy_path(box.open(), request, Stop());
    ASSERT_FALSE(copied);
    EXPECT_TRUE(copied.error().message.starts_with("'" + std::string(to) + "': ")) << copied.error().message;
    EXPECT_EQ(copied.error().details_json, R"({"reason":"exists","replaceable":false,"copied":0})");
  }
  TransferRequest onto = transfer("d", "f");
  onto.overwrite = true;
  EXPECT_EQ(move_path(box.open(), onto, Stop()).error().details_json, R"({"reason":"exists","replaceable":false})");
  const Error missing = move_path(box.open(), transfer("f", "new/g"), Stop()).error();
  EXPECT_EQ(missing.details_json, R"({"errno":"ENOENT","reason":"no_parent"})");
  EXPECT_TRUE(missing.message.starts_with("'new/g': ")) << missing.message;
}

TEST(Move, OfADirectoryIntoItselfSaysSo) {
  SandboxDir box;
  box.mkdir("d");
  const Error error = move_path(box.open(), transfer("d", "d/e"), Stop()).error();
  EXPECT_NE(error.message.find("into itself"), std::string::npos) << error.message;
}

TEST(Stat, ATimeThatSixtyFourBitsDoNotHoldIsNotBeforeAnother) {
  struct stat status{};
  status.st_mtim = {1LL << 62, 5};
  EXPECT_GT(mtime_ns(status), INT64_MAX - 2'000'000'000);
  status.st_mtim = {-(1LL << 62), 5};
  EXPECT_LT(mtime_ns(status), INT64_MIN + 3'000'000'000);
  status.st_mtim = {7, 5};
  EXPECT_EQ(mtime_ns(status), 7'000'000'005);
}

TEST(Transfer, ASlashBehindTheNewNameIsForDirectories) {
  SandboxDir box;
  box.write("f", "x");
  box.mkdir("d");
  for (const bool create_dirs : {false, true}) {
    TransferRequest request = transfer("f", "new/");
    request.create_dirs = create_dirs;
    EXPECT_EQ(copy_path(box.open(), request, Stop()).error().details_json, R"({"errno":"ENOTDIR"})");
    EXPECT_EQ(move_path(box.open(), request, Stop()).error().details_json, R"({"errno":"ENOTDIR"})");
  }
  EXPECT_FALSE(box.exists("new"));
  EXPECT_TRUE(move_path(box.open(), transfer("d", "new/"), Stop()));
  EXPECT_TRUE(box.exists("new"));
}

TEST(Transfer, OfAFailureLeavesNoDirectoriesThatWereMadeForIt) {
  SandboxDir box;
  box.mkdir("d");
  TransferRequest request = transfer("d", "a/b/c");  // without recursive
  request.create_dirs = true;
  EXPECT_FALSE(copy_path(box.open(), request, Stop()));
  request.from = "d/../d/nothing";
  EXPECT_FALSE(move_path(box.open(), request, Stop()));
  EXPECT_FALSE(box.exists("a"));
}

// More levels than a process may hold descriptors, or a path components.
void make_deep(const SandboxDir& box, int levels) {
  UniqueFd here(::open(box.root().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  for (int i = 0; i < levels; ++i) {
    ASSERT_EQ(::mkdirat(here.get(), "d", 0700), 0);
    here = UniqueFd(::openat(here.get(), "d", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  }
}

TEST(Remove, TakesATreeOfAnyDepth) {
  SandboxDir box;
  make_deep(box, 5000);
  const auto answer = remove_path(box.open(), "d", true, Stop());
  ASSERT_TRUE(answer) << answer.error().describe();
  EXPECT_EQ(answer->removed, 5000U);
  EXPECT_FALSE(box.exists("d"));
}

TEST(Copy, OfATreeThatIsTooDeepSaysSo) {
  SandboxDir box;
  make_deep(box, 300);
  TransferRequest all = transfer("d", "x");
  all.recursive = true;
  const auto answer = copy_path(box.open(), all, Stop());
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().details_json, R"({"reason":"too_deep","copied":0})");
  EXPECT_NE(answer.error().message.find("256"), std::string::npos);
}

TEST(Copy, AttackWhatTheKernelShowsOfThisProcessIsNeitherCopiedNorMoved) {
  SandboxDir box;
  const Roots roots = *Roots::open({box.root(), "/"});
  const std::string own = "/proc/" + std::to_string(::getpid());
  const std::string parents = "/proc/" + std::to_string(::getppid());
  for (const std::string& path : {std::string("/proc/self/maps"), own + "/task/" + own.substr(6) + "/maps", own,
                                  own + "/task", std::string("/proc/self/net"), parents + "/mem"}) {
    TransferRequest all = transfer(path, "x");
    all.recursive = true;
    const auto copied = copy_path(roots, all, Stop());
    ASSERT_FALSE(copied) << path;
    EXPECT_NE(copied.error().details_json.find(R"("reason":"process")"), std::string::npos)
        << path << ": " << copied.error().describe();
    EXPECT_FALSE(move_path(roots, all, Stop())) << path;
    EXPECT_FALSE(box.exists("x")) << path;
  }
  for (const char* link : {"/proc/self/exe", "/proc/self/maps", "/proc/self/fd"}) {
    const auto moved = move_path(roots, transfer(link, "x"), Stop());
    ASSERT_FALSE(moved) << link;
    EXPECT_NE(moved.error().details_json.find(R"("reason":"process")"), std::string::npos) << link;
  }
  EXPECT_TRUE(copy_path(roots, transfer(parents + "/status", "x"), Stop()));
}

TEST(Remove, ASlashBehindAFilesNameIsRefused) {
  SandboxDir box;
  box.write("f", "x");
  box.mkdir("d");
  box.link("l", "d");
  EXPECT_FALSE(remove_path(box.open(), "f/", false, Stop()));
  EXPECT_FALSE(remove_path(box.open(), "l/", false, Stop()));
  EXPECT_TRUE(remove_path(box.open(), "d/", false, Stop()));
  EXPECT_TRUE(box.exists("f"));
}

}  // namespace
}  // namespace sallyport::worker
