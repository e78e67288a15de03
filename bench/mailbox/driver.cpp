// Drops files into mailboxes and waits for the answers; the same for us and for every peer.
#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;

struct Contender {
  std::string name;
  std::vector<std::string> command;  // BASE and STATE are replaced
};

std::string root;  // on tmpfs

std::string id_of(int number) {
  char text[40];
  std::snprintf(text, sizeof text, "00000000-0000-4000-8000-%012d", number);
  return text;
}
std::string box_of(int box) { return root + "/boxes/box" + std::to_string(box); }

void make_boxes(int count) {
  std::filesystem::remove_all(root + "/boxes");
  std::filesystem::remove_all(root + "/state");
  for (int i = 0; i < count; ++i) {
    for (const char* below : {"/in/tmp", "/in/new", "/out"}) std::filesystem::create_directories(box_of(i) + below);
  }
}

void drop(int box, int number) {
  const std::string id = id_of(number);
  const std::string content = R"({"signal":"bench","request_id":")" + id +
                              R"(","payload":{"text":"summarise what happened since yesterday and say what is next"}})";
  const std::string from = box_of(box) + "/in/tmp/" + id, to = box_of(box) + "/in/new/" + id;
  const int fd = ::open(from.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (fd < 0 || ::write(fd, content.data(), content.size()) != static_cast<ssize_t>(content.size())) std::abort();
  ::close(fd);
  if (::rename(from.c_str(), to.c_str()) != 0) std::abort();
}

int count_entries(const std::string& path) {
  DIR* directory = ::opendir(path.c_str());
  if (directory == nullptr) return 0;
  int count = 0;
  while (const dirent* entry = ::readdir(directory)) count += entry->d_name[0] != '.' ? 1 : 0;
  ::closedir(directory);
  return count;
}

class Server {
 public:
  explicit Server(const Contender& contender) {
    std::filesystem::create_directories(root + "/state");
    ::chmod((root + "/state").c_str(), 0700);
    int in[2], out[2];
    if (::pipe2(in, O_CLOEXEC) != 0 || ::pipe2(out, O_CLOEXEC) != 0) std::abort();
    pid_ = ::fork();
    if (pid_ == 0) {
      ::dup2(in[0], 0);
      ::dup2(out[1], 1);
      std::vector<std::string> words = contender.command;
      std::vector<char*> arguments;
      for (std::string& word : words) {
        if (word == "BASE") word = root + "/boxes";
        if (word == "STATE") word = root + "/state";
        arguments.push_back(word.data());
      }
      arguments.push_back(nullptr);
      ::execvp(arguments[0], arguments.data());
      ::_exit(127);
    }
    ::close(in[0]);
    ::close(out[1]);
    stdin_ = in[1];
    char byte = 0;
    while (::read(out[0], &byte, 1) == 1 && byte != '\n') continue;
    ::close(out[0]);
    is_ready_ = byte == '\n';
  }
  ~Server() {
    ::kill(pid_, SIGTERM);
    ::close(stdin_);
    ::waitpid(pid_, nullptr, 0);
  }
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;
  bool is_ready() const { return is_ready_; }

  // Of all its threads, in seconds.
  double cpu() const {
    double total = 0;
    for (const auto& task : std::filesystem::directory_iterator("/proc/" + std::to_string(pid_) + "/task")) {
      std::ifstream file(task.path() / "schedstat");
      double nanoseconds = 0;
      if (file >> nanoseconds) total += nanoseconds / 1e9;
    }
    return total;
  }

 private:
  pid_t pid_ = -1;
  int stdin_ = -1;
  bool is_ready_ = false;
};

struct Paced {
  double p50_us = 0, p99_us = 0, cpu_us = 0;
  int lost = 0;
};

Paced paced(const Contender& contender, int count, int per_second) {
  make_boxes(1);
  Server server(contender);
  if (!server.is_ready()) return {};
  const int watch = ::inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
  ::inotify_add_watch(watch, (box_of(0) + "/out").c_str(), IN_MOVED_TO | IN_CLOSE_WRITE);
  std::vector<double> latencies;
  Paced result;
  double before = 0;
  constexpr int kWarmUp = 50;
  for (int i = 0; i < count + kWarmUp; ++i) {
    if (i == kWarmUp) before = server.cpu();
    const Clock::time_point start = Clock::now();
    drop(0, i);
    const std::string reply = box_of(0) + "/out/" + id_of(i) + ".json";
    bool is_there = false;
    while (!(is_there = ::access(reply.c_str(), F_OK) == 0) && Clock::now() - start < std::chrono::seconds(2)) {
      pollfd ready{watch, POLLIN, 0};
      ::poll(&ready, 1, 100);
      char ignored[4096];
      while (::read(watch, ignored, sizeof ignored) > 0) continue;
    }
    if (i >= kWarmUp) {
      latencies.push_back(Seconds(Clock::now() - start).count() * 1e6);
      result.lost += is_there ? 0 : 1;
    }
    std::this_thread::sleep_until(start + std::chrono::duration<double>(1.0 / per_second));
  }
  result.cpu_us = (server.cpu() - before) * 1e6 / count;
  std::sort(latencies.begin(), latencies.end());
  result.p50_us = latencies[latencies.size() / 2];
  result.p99_us = latencies[latencies.size() * 99 / 100];
  ::close(watch);
  return result;
}

struct Bulk {
  double per_second = 0, seconds = 0, cpu_us = 0;
  int lost = 0;
};

int answered(int boxes) {
  int total = 0;
  for (int i = 0; i < boxes; ++i) total += count_entries(box_of(i) + "/out");
  return total;
}

// Waits until all are answered, or nothing has come for a while: what is missing then is lost.
Bulk wait_for(const Server& server, int boxes, int count, Clock::time_point start, double cpu_before) {
  int last = -1;
  Clock::time_point progress = Clock::now();
  for (;;) {
    const int now = answered(boxes);
    if (now != last) progress = Clock::now();
    last = now;
    if (now >= count || Clock::now() - progress > std::chrono::seconds(5)) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  Bulk bulk;
  bulk.seconds = Seconds(progress - start).count();
  bulk.per_second = last / bulk.seconds;
  bulk.cpu_us = (server.cpu() - cpu_before) * 1e6 / std::max(last, 1);
  bulk.lost = count - last;
  return bulk;
}

Bulk burst(const Contender& contender, int boxes, int per_box) {
  make_boxes(boxes);
  Server server(contender);
  if (!server.is_ready()) return {};
  const double before = server.cpu();
  const Clock::time_point start = Clock::now();
  for (int i = 0; i < boxes * per_box; ++i) drop(i % boxes, i);
  return wait_for(server, boxes, boxes * per_box, start, before);
}

Bulk sweep(const Contender& contender, int boxes, int per_box) {
  make_boxes(boxes);
  for (int i = 0; i < boxes * per_box; ++i) drop(i % boxes, i);
  const Clock::time_point start = Clock::now();
  Server server(contender);
  return wait_for(server, boxes, boxes * per_box, start, 0);
}

bool works(const std::vector<std::string>& command) {
  std::string line;
  for (const std::string& word : command) line += "'" + word + "' ";
  return std::system((line + ">/dev/null 2>&1").c_str()) == 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  const std::string server = argv[1], here = argv[2];
  root = std::string(argv[3]) + "/sallyport-bench-mailbox-" + std::to_string(::getpid());
  std::filesystem::create_directories(root);
  ::chmod(root.c_str(), 0700);
  std::vector<Contender> contenders = {{"sallyport", {server, "BASE", "STATE"}},
                                       {"sallyport, not durable", {server, "BASE", "STATE", "unsynced"}}};
  if (works({"/usr/bin/python3", "-c", "import watchdog"})) {
    contenders.push_back({"watchdog", {"/usr/bin/python3", here + "/peer_watchdog.py", "BASE"}});
  } else {
    std::puts("watchdog is left out: install python3-watchdog");
  }
  if (works({"node", "-e", "require('chokidar')"})) {
    contenders.push_back({"chokidar", {"node", here + "/peer_chokidar.js", "BASE"}});
  } else {
    std::puts("chokidar is left out: npm cannot fetch it here");
  }
  std::printf("%-24s %10s %10s %10s | %10s %8s %7s | %10s %8s %7s\n", "", "p50 us", "p99 us", "cpu us", "burst/s",
              "cpu us", "lost", "sweep s", "cpu us", "lost");
  for (const Contender& contender : contenders) {
    const Paced steady = paced(contender, 600, 150);
    const Bulk many = burst(contender, 20, 1000);
    const Bulk all = sweep(contender, 100, 1000);
    std::printf("%-24s %10.0f %10.0f %10.1f | %10.0f %8.1f %7d | %10.2f %8.1f %7d\n", contender.name.c_str(),
                steady.p50_us, steady.p99_us, steady.cpu_us, many.per_second, many.cpu_us, many.lost + steady.lost,
                all.seconds, all.cpu_us, all.lost);
    std::fflush(stdout);
  }
  std::filesystem::remove_all(root);
  return 0;
}
