// Watch, read, write the response, rename it, unlink: the system calls alone, without journal, checks or even JSON. Not
// a peer but the floor: what nobody on this machine can be faster than.
//   bench_mailbox_bare BASE
#include <fcntl.h>
#include <sys/inotify.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <string>

namespace {

// The directories of a mailbox, opened once.
struct Box {
  int root = -1, in = -1, out = -1;
};

void answer(const Box& box, const char* name) {
  std::array<char, 64U << 10> content;
  const int file = ::openat(box.in, name, O_RDONLY | O_CLOEXEC);
  if (file < 0) return;
  const ssize_t size = ::read(file, content.data(), content.size());
  ::close(file);
  const int reply = ::openat(box.root, ".reply", O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (size < 0 || ::write(reply, content.data(), static_cast<std::size_t>(size)) != size) std::abort();
  ::close(reply);
  ::renameat(box.root, ".reply", box.out, (std::string(name) + ".json").c_str());
  ::unlinkat(box.in, name, 0);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  const int notices = ::inotify_init1(IN_CLOEXEC);
  std::map<int, Box> boxes;
  for (const auto& entry : std::filesystem::directory_iterator(argv[1])) {
    const auto open = [&](const char* below) { return ::open((entry.path() / below).c_str(), O_RDONLY | O_CLOEXEC); };
    const std::string in = entry.path() / "in/new";
    boxes[::inotify_add_watch(notices, in.c_str(), IN_MOVED_TO)] = {open("."), open("in/new"), open("out")};
  }
  std::puts("ready");
  std::fflush(stdout);
  for (const auto& [watch, box] : boxes) {
    const std::string in = "/proc/self/fd/" + std::to_string(box.in);
    for (const auto& file : std::filesystem::directory_iterator(in)) answer(box, file.path().filename().c_str());
  }
  alignas(inotify_event) std::array<char, 32U << 10> block;
  for (;;) {
    const ssize_t count = ::read(notices, block.data(), block.size());
    for (ssize_t at = 0; at < count;) {
      const auto* event = reinterpret_cast<const inotify_event*>(block.data() + at);
      at += static_cast<ssize_t>(sizeof(inotify_event) + event->len);
      if (const auto box = boxes.find(event->wd); box != boxes.end()) answer(box->second, event->name);
    }
  }
}
