// The file that is swapped between check and use: a directory and a symlink to the outside change
// places in a tight loop while every method works on a path through them. Whatever a method answers, it
// never shows, changes or removes anything outside.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/fs.h>
#include <sys/syscall.h>

#include <atomic>
#include <map>
#include <set>
#include <thread>

#include "wire/wire.h"
#include "worker/sandbox_dir.h"
#include "worker/service.h"

namespace sallyport::worker {
namespace {

// SALLYPORT_RACE_CALLS=1000000 for the full million, over all methods together.
std::uint64_t calls_in_all() {
  const char* text = std::getenv("SALLYPORT_RACE_CALLS");
  return text == nullptr ? 26'000 : std::strtoull(text, nullptr, 10);
}

class Swapper {
 public:
  Swapper(std::string a, std::string b) : a_(std::move(a)), b_(std::move(b)), thread_([this] { run(); }) {}
  // Leaves both where they were.
  ~Swapper() {
    is_over_ = true;
    thread_.join();
    if (swaps_ % 2 != 0) ::renameat2(AT_FDCWD, a_.c_str(), AT_FDCWD, b_.c_str(), RENAME_EXCHANGE);
  }
  std::uint64_t swaps() const { return swaps_; }

 private:
  void run() {
    while (!is_over_) {
      if (::renameat2(AT_FDCWD, a_.c_str(), AT_FDCWD, b_.c_str(), RENAME_EXCHANGE) == 0) ++swaps_;
    }
  }
  std::string a_;
  std::string b_;
  std::atomic<bool> is_over_{false};
  std::atomic<std::uint64_t> swaps_{0};
  std::thread thread_;
};

struct Attack {
  const char* name;
  std::string method;
  std::string params;
};

TEST(Race, ADirectoryAndALinkSwappedInALoopLeakNothing) {
  SandboxDir box;
  const std::string secret = "SECRET-" + std::string(4313, 's');
  box.write_outside("file", secret + "\n");
  box.write_outside("sub/file", secret + "\n");
  box.write("dir/file", "inside\n");
  box.write("dir/sub/file", "inside\n");
  box.write("plain", "plain\n");
  box.link("link", box.outside());  // absolute: refused by the kernel, then walked by hand
  box.mkdir("other");
  box.link("relative", "../outside");
  const Service service(box.open());
  const std::vector<Attack> attacks = {
      {"read", "fs.read", R"({"path":"dir/file"})"},
      {"read deeper", "fs.read", R"({"path":"dir/sub/../sub/file"})"},
      {"read through a link inside", "fs.read", R"({"path":"via/file"})"},
      {"stat", "fs.stat", R"({"path":"dir/file"})"},
      {"list", "fs.list", R"({"path":"dir/sub"})"},
      {"grep", "fs.grep", R"({"pattern":"SECRET","root":"dir"})"},
      {"grep all", "fs.grep", R"({"pattern":"SECRET","ignored":true,"hidden":true})"},
      {"glob", "fs.glob", R"({"pattern":"**/leak*"})"},
      {"write", "fs.write", R"({"path":"dir/new","content":"written"})"},
      {"write over", "fs.write", R"({"path":"dir/file","content":"inside\n"})"},
      {"edit", "fs.edit", R"({"path":"dir/file","old_string":"SECRET","new_string":"x"})"},
      {"multi_edit", "fs.multi_edit",
       R"({"path":"dir/sub/file","edits":[{"old_string":"inside","new_string":"x"},{"old_string":"x","new_string":"inside"}]})"},
      {"copy out", "fs.copy", R"({"from":"dir/file","to":"stolen","overwrite":true})"},
      {"copy in", "fs.copy", R"({"from":"plain","to":"dir/planted","overwrite":true})"},
      {"copy tree", "fs.copy", R"({"from":"dir/sub","to":"tree","recursive":true})"},
      {"move out", "fs.move", R"({"from":"dir/moved","to":"moved","overwrite":true})"},
      {"move in", "fs.move", R"({"from":"plain2","to":"dir/moved","overwrite":true})"},
      {"remove", "fs.remove", R"({"path":"dir/planted"})"},
      {"remove tree", "fs.remove", R"({"path":"tree","recursive":true})"},
      {"mkdir", "fs.mkdir", R"({"path":"dir/made/deep","parents":true})"},
      {"remove made", "fs.remove", R"({"path":"dir/made","recursive":true})"},
  };
  box.link("via", "dir");
  box.write_outside("leak-outside", "");
  const auto listing = [&] {
    std::set<std::string> names;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(box.outside()))
      names.insert(entry.path().string());
    return names;
  };
  const std::set<std::string> before = listing();
  std::uint64_t calls = 0;
  std::uint64_t swaps = 0;
  std::map<std::string, std::uint64_t> succeeded;
  const std::uint64_t each = calls_in_all() / attacks.size() / 2;
  for (const char* link : {"link", "relative"}) {
    const Swapper swapper(box.path("dir"), box.path(link));
    wire::Decoder decoder;
    for (std::uint64_t round = 0; round < each; ++round) {
      if (round % 50 == 0) box.write("plain2", "plain\n");
      for (const Attack& attack : attacks) {
        const auto params = decoder.parse(attack.params);
        Bytes body;
        wire::JsonWriter json(body);
        Stop stop;
        const auto done = service.handle(attack.method, {params->root(), stop, json, nullptr});
        ++calls;
        if (!done) continue;
        ++succeeded[attack.name];
        const std::string_view answer = as_text(body.view());
        ASSERT_EQ(answer.find(secret), std::string_view::npos) << attack.name << ": " << answer;
        ASSERT_EQ(answer.find("leak-outside"), std::string_view::npos) << attack.name;
        ASSERT_EQ(answer.find("\"size\":4321"), std::string_view::npos) << attack.name << ": " << answer;
      }
      ASSERT_EQ(box.read("stolen").find(secret), std::string::npos);
    }
    swaps += swapper.swaps();
    ASSERT_EQ(listing(), before) << "something was made or removed outside";
    ASSERT_EQ(box.read_outside("file"), secret + "\n");
    ASSERT_EQ(box.read_outside("sub/file"), secret + "\n");
  }
  EXPECT_GT(swaps, calls / 100) << "the race was not run";
  for (const char* must : {"read", "write", "grep", "stat"})
    EXPECT_GT(succeeded[must], 0U) << must << " never got through";
  RecordProperty("calls", std::to_string(calls));
}

}  // namespace
}  // namespace sallyport::worker
