#include "worker/root.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <array>

#include "worker/sandbox_dir.h"

namespace sallyport::worker {
namespace {

std::string content(const Result<UniqueFd>& fd) {
  if (!fd) return "error " + fd.error().describe();
  std::array<char, 256> text{};
  const ssize_t count = ::read(fd->get(), text.data(), text.size());
  return {text.data(), static_cast<std::size_t>(std::max<ssize_t>(count, 0))};
}

std::string read(const Roots& roots, std::string_view path) { return content(roots.open_file(path, O_RDONLY)); }

Code refusal(const Roots& roots, std::string_view path) {
  const auto fd = roots.open_file(path, O_RDONLY);
  EXPECT_FALSE(fd) << path;
  return fd ? Code::internal_error : fd.error().code;
}

TEST(Roots, OpensRelativeAndAbsoluteSpellingsOfOneFile) {
  SandboxDir box;
  box.write("a/b.txt", "hello");
  const Roots roots = box.open();
  EXPECT_EQ(read(roots, "a/b.txt"), "hello");
  EXPECT_EQ(read(roots, "./a//b.txt"), "hello");
  EXPECT_EQ(read(roots, "a/../a/b.txt"), "hello");
  EXPECT_EQ(read(roots, box.path("a/b.txt")), "hello");
  EXPECT_EQ(read(roots, "/tmp/../" + box.path("a/b.txt")), "hello");
}

TEST(Roots, RefusesDotDotAboveTheRoot) {
  SandboxDir box;
  const Roots roots = box.open();
  EXPECT_EQ(refusal(roots, "../outside/secret"), Code::policy_denied);
  EXPECT_EQ(refusal(roots, box.path("../outside/secret")), Code::policy_denied);
  EXPECT_EQ(refusal(roots, "/etc/passwd"), Code::policy_denied);
}

TEST(Roots, RefusesSymlinksThatLeadOutside) {
  SandboxDir box;
  box.link("relative", "../outside/secret");
  box.link("absolute", box.outside() + "/secret");
  box.link("dir", box.outside());
  box.link("chain", "absolute");
  box.link("proc", "/proc/self/root/etc/passwd");
  const Roots roots = box.open();
  for (const char* path : {"relative", "absolute", "dir/secret", "chain", "proc"}) {
    EXPECT_EQ(refusal(roots, path), Code::policy_denied) << path;
  }
}

TEST(Roots, ARootWhoseNameIsAPrefixOfAnotherIsNotThatOther) {
  SandboxDir box;
  std::filesystem::create_directories(box.root() + "-evil");
  const Roots roots = box.open();
  EXPECT_EQ(refusal(roots, box.root() + "-evil/x"), Code::policy_denied);
}

TEST(Roots, FollowsSymlinksThatStayInside) {
  SandboxDir box;
  box.write("a/file", "inside");
  box.link("relative", "a/file");
  box.link("b/up", "../a/file");
  box.link("absolute", box.path("a/file"));
  box.link("dir", box.path("a"));
  box.link("chain", "dir/../absolute");
  const Roots roots = box.open();
  for (const char* path : {"relative", "b/up", "absolute", "dir/file", "chain"}) {
    EXPECT_EQ(read(roots, path), "inside") << path;
  }
}

TEST(Roots, ASymlinkLoopIsAnErrorAndEnds) {
  SandboxDir box;
  box.link("a", "b");
  box.link("b", "a");
  box.link("c", box.path("c"));
  const Roots roots = box.open();
  EXPECT_EQ(roots.open_file("a", O_RDONLY).error().details_json, R"({"errno":"ELOOP"})");
  EXPECT_EQ(roots.open_file("c", O_RDONLY).error().details_json, R"({"errno":"ELOOP"})");
}

TEST(Roots, LinksFromOneRootIntoAnotherAreFollowed) {
  SandboxDir box;
  box.link("other", box.outside() + "/secret");
  box.write("x", "back");
  const Roots roots = *Roots::open({box.root(), box.outside()});
  EXPECT_EQ(read(roots, "other"), "SECRET\n");
  EXPECT_EQ(read(roots, "../outside/secret"), "SECRET\n");
  EXPECT_EQ(read(roots, box.outside() + "/../root/x"), "back");
}

TEST(Roots, TheWholeFileSystemCanBeARoot) {
  SandboxDir box;
  box.write("file", "inside");
  box.link("absolute", box.path("file"));
  const Roots roots = *Roots::open({box.root(), "/"});
  EXPECT_EQ(read(roots, "absolute"), "inside");
  EXPECT_EQ(read(roots, box.outside() + "/secret"), "SECRET\n");
  EXPECT_EQ(read(roots, "/../../" + box.outside() + "/secret"), "SECRET\n");
}

TEST(Roots, RefusesFifosSocketsAndDevicesWithoutBlocking) {
  SandboxDir box;
  ASSERT_EQ(::mkfifo(box.path("fifo").c_str(), 0600), 0);
  const UniqueFd listener(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  box.path("sock").copy(address.sun_path, sizeof address.sun_path - 1);
  ASSERT_EQ(::bind(listener.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  const Roots roots = *Roots::open({box.root(), "/dev"});
  EXPECT_EQ(refusal(roots, "fifo"), Code::policy_denied);
  EXPECT_EQ(refusal(roots, "sock"), Code::policy_denied);
  EXPECT_EQ(refusal(roots, "/dev/zero"), Code::policy_denied);
}

TEST(Roots, ADirectoryIsNotAFile) {
  SandboxDir box;
  box.mkdir("d");
  EXPECT_EQ(box.open().open_file("d", O_RDONLY).error().details_json, R"({"errno":"EISDIR"})");
}

TEST(Roots, RefusesHardLinksOnlyWhereAsked) {
  SandboxDir box;
  std::filesystem::create_hard_link(box.outside() + "/secret", box.path("hard"));
  EXPECT_EQ(read(box.open(), "hard"), "SECRET\n");
  EXPECT_EQ(refusal(box.open({.refuse_hard_links = true}), "hard"), Code::policy_denied);
}

TEST(Roots, RefusesEmptyPathsAndNul) {
  SandboxDir box;
  const Roots roots = box.open();
  EXPECT_EQ(refusal(roots, ""), Code::invalid_params);
  EXPECT_EQ(refusal(roots, std::string_view("a\0b", 3)), Code::invalid_params);
}

TEST(Roots, AMagicLinkIsNotFollowed) {
  const Roots roots = *Roots::open({"/proc/self"});
  EXPECT_FALSE(roots.open_file("exe", O_RDONLY));
  EXPECT_FALSE(roots.open_directory("root"));
  EXPECT_FALSE(roots.open_directory("cwd"));
}

TEST(Roots, AMagicLinkIsNotFollowedThroughALinkThatIsWalkedByHand) {
  SandboxDir box;
  box.link("process", "/proc/self");
  const Roots roots = *Roots::open({box.root(), "/"});
  box.link("memory", "/proc/meminfo");
  EXPECT_TRUE(roots.open_file("memory", O_RDONLY));
  for (const char* path : {"process/root/etc/passwd", "process/cwd", "process/exe", "process/fd/0", "process/ns/pid"}) {
    EXPECT_FALSE(roots.open_any(path, Follow::yes)) << path;
  }
}

TEST(Roots, TheMemoryOfAProcessIsNoFile) {
  const Roots roots = *Roots::open({"/"});
  EXPECT_EQ(refusal(roots, "/proc/self/mem"), Code::policy_denied);
  EXPECT_EQ(refusal(roots, "/proc/thread-self/mem"), Code::policy_denied);
  EXPECT_EQ(refusal(roots, "/proc/" + std::to_string(::getppid()) + "/mem"), Code::policy_denied);
}

TEST(Roots, WhatTheKernelShowsOfThisProcessIsNotServed) {
  const Roots roots = *Roots::open({"/tmp", "/"});
  for (const char* name : {"maps", "smaps", "auxv", "syscall", "pagemap", "status", "task/self/maps"}) {
    EXPECT_FALSE(roots.open_file(std::string("/proc/self/") + name, O_RDONLY)) << name;
    EXPECT_FALSE(roots.open_file(std::string("/tmp/../proc/thread-self/") + name, O_RDONLY)) << name;
  }
  EXPECT_FALSE(roots.open_any("/proc/self/exe", Follow::no));
  EXPECT_FALSE(roots.open_directory("/proc/self"));
  EXPECT_FALSE(roots.open_directory("/proc/self/task"));
  EXPECT_TRUE(roots.open_file("/proc/" + std::to_string(::getppid()) + "/status", O_RDONLY));
}

TEST(Roots, APlaceIsWhereAChainOfLinksEnds) {
  SandboxDir box;
  box.mkdir("d");
  box.link("l", "m");
  box.link("m", box.path("d/new"));
  box.link("out", box.outside() + "/new");
  const Roots roots = box.open();
  EXPECT_EQ(roots.place("l", Follow::yes)->name, "new");
  EXPECT_EQ(roots.place("l", Follow::no)->name, "l");
  EXPECT_EQ(roots.place("out", Follow::yes).error().code, Code::policy_denied);
  EXPECT_EQ(roots.place("out", Follow::no)->name, "out");
  EXPECT_EQ(roots.place(".", Follow::no)->name, "");
  EXPECT_EQ(roots.place("nowhere/x", Follow::no).error().code, Code::io_error);
}

TEST(Roots, MakesDirectoriesOnlyInside) {
  SandboxDir box;
  box.link("out", box.outside());
  box.link("in", "real");
  box.mkdir("real");
  const Roots roots = box.open();
  int made = 0;
  EXPECT_TRUE(roots.make_directories("a/b/c", made));
  EXPECT_EQ(made, 3);
  EXPECT_TRUE(roots.make_directories("in/x", made));
  EXPECT_TRUE(box.exists("real/x"));
  EXPECT_FALSE(roots.make_directories("out/x", made));
  EXPECT_FALSE(roots.make_directories("../x", made));
  EXPECT_FALSE(std::filesystem::exists(box.outside() + "/x"));
}

}  // namespace
}  // namespace sallyport::worker
