#include "contest.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
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
#include <functional>
#include <thread>

#include "../ipc/stats.h"

namespace sallyport::bench {
namespace {

using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;

// Before what did not come is taken for lost.
constexpr std::chrono::seconds kSilence{5};
// Looking costs the machine something, which those who work with both cores would feel most: a tenth at most.
constexpr std::chrono::milliseconds kLookEvery{20};
constexpr int kRestPerLook = 9;

std::string id_of(int number) {
  char text[40];
  std::snprintf(text, sizeof text, "00000000-0000-4000-8000-%012d", number);
  return text;
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
  Server(const Ground& ground, const Contender& contender) {
    const std::string state = ground.root() + "/state";
    std::filesystem::create_directories(state);
    ::chmod(state.c_str(), 0700);
    int in[2], out[2];
    if (::pipe2(in, O_CLOEXEC) != 0 || ::pipe2(out, O_CLOEXEC) != 0) std::abort();
    pid_ = ::fork();
    if (pid_ == 0) {
      ::dup2(in[0], 0);
      ::dup2(out[1], 1);
      std::vector<std::string> words = contender.command;
      std::vector<char*> arguments;
      for (std::string& word : words) {
        if (word == "BASE") word = ground.root() + "/boxes";
        if (word == "STATE") word = state;
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
    if (byte != '\n') {
      std::fprintf(stderr, "bench mailbox: %s did not start\n", contender.name.c_str());
      std::exit(1);
    }
  }
  ~Server() {
    ::kill(pid_, SIGTERM);
    ::close(stdin_);
    ::waitpid(pid_, nullptr, 0);
  }
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  void signal(int number) const { ::kill(pid_, number); }

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
};

// Waits until `done` has reached `sent`, or stands still.
Bulk wait_for(const Server& server, const std::function<int()>& done, int sent, Clock::time_point start,
              double cpu_before) {
  int last = -1;
  Clock::time_point progress = Clock::now();
  for (;;) {
    const Clock::time_point began = Clock::now();
    const int now = done();
    if (now != last) progress = Clock::now();
    last = now;
    if (now >= sent || Clock::now() - progress > kSilence) break;
    std::this_thread::sleep_for(std::max<Clock::duration>(kLookEvery, kRestPerLook * (Clock::now() - began)));
  }
  Bulk bulk;
  bulk.seconds = Seconds(progress - start).count();
  bulk.per_second = last / bulk.seconds;
  bulk.cpu_us = (server.cpu() - cpu_before) * 1e6 / std::max(last, 1);
  bulk.sent = sent;
  bulk.lost = sent - last;
  return bulk;
}

}  // namespace

// ---- the ground ----

Ground::Ground(const std::string& parent) : root_(parent + "/sallyport-bench-XXXXXX") {
  if (::mkdtemp(root_.data()) == nullptr) {
    std::fprintf(stderr, "bench mailbox: cannot write in %s\n", parent.c_str());
    std::exit(1);
  }
}

Ground::~Ground() { std::filesystem::remove_all(root_); }

void Ground::make_boxes(int count) const {
  std::filesystem::remove_all(root_ + "/boxes");
  std::filesystem::remove_all(root_ + "/state");
  for (int i = 0; i < count; ++i) {
    for (const char* below : {"/in/tmp", "/in/new", "/out"}) std::filesystem::create_directories(box(i) + below);
  }
}

void Ground::drop(int to, int number) const {
  const std::string id = id_of(number);
  const std::string content = R"({"signal":"bench","request_id":")" + id +
                              R"(","payload":{"text":"summarise what happened since yesterday and say what is next"}})";
  const std::string from = box(to) + "/in/tmp/" + id, into = box(to) + "/in/new/" + id;
  const int fd = ::open(from.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (fd < 0 || ::write(fd, content.data(), content.size()) != static_cast<ssize_t>(content.size())) std::abort();
  ::close(fd);
  if (::rename(from.c_str(), into.c_str()) != 0) std::abort();
}

std::string Ground::reply(int from, int number) const { return box(from) + "/out/" + id_of(number) + ".json"; }

int Ground::answered(int boxes) const {
  int total = 0;
  for (int i = 0; i < boxes; ++i) total += count_entries(box(i) + "/out");
  return total;
}

int Ground::left(int boxes) const {
  int total = 0;
  for (int i = 0; i < boxes; ++i) total += count_entries(box(i) + "/in/new");
  return total;
}

// ---- awake ----

Awake::Awake() {
  for (unsigned cpu = 0; cpu < std::thread::hardware_concurrency(); ++cpu) {
    spinners_.emplace_back([this, cpu] {
      cpu_set_t mine;
      CPU_ZERO(&mine);
      CPU_SET(cpu, &mine);
      const sched_param lowest{};
      if (::sched_setaffinity(0, sizeof mine, &mine) != 0 || ::sched_setscheduler(0, SCHED_IDLE, &lowest) != 0) return;
      while (!is_over_) {
      }
    });
  }
}

Awake::~Awake() {
  is_over_ = true;
  for (std::thread& spinner : spinners_) spinner.join();
}

// ---- the contests ----

Paced run_paced(const Ground& ground, const Contender& contender, int count, int per_second) {
  ground.make_boxes(1);
  const Server server(ground, contender);
  const int watch = ::inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
  ::inotify_add_watch(watch, (ground.box(0) + "/out").c_str(), IN_MOVED_TO | IN_CLOSE_WRITE);
  std::vector<double> latencies;
  Paced result;
  double before = 0;
  constexpr int kWarmUp = 50;
  for (int i = 0; i < count + kWarmUp; ++i) {
    if (i == kWarmUp) before = server.cpu();
    const Clock::time_point start = Clock::now();
    ground.drop(0, i);
    const std::string reply = ground.reply(0, i);
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
    std::this_thread::sleep_until(start + Seconds(1.0 / per_second));
  }
  result.cpu_us = (server.cpu() - before) * 1e6 / count;
  result.p99_us = quantile(latencies, 0.99);
  result.p50_us = quantile(latencies, 0.5);
  ::close(watch);
  return result;
}

Bulk run_burst(const Ground& ground, const Contender& contender, int boxes, int per_box) {
  ground.make_boxes(boxes);
  const Server server(ground, contender);
  const double before = server.cpu();
  const Clock::time_point start = Clock::now();
  for (int i = 0; i < boxes * per_box; ++i) ground.drop(i % boxes, i);
  return wait_for(server, [&] { return ground.answered(boxes); }, boxes * per_box, start, before);
}

Bulk run_sweep(const Ground& ground, const Contender& contender, int boxes, int per_box, int more_per_box) {
  ground.make_boxes(boxes);
  const int before = boxes * per_box, all = before + boxes * more_per_box;
  for (int i = 0; i < before; ++i) ground.drop(i % boxes, i);
  const Clock::time_point start = Clock::now();
  const Server server(ground, contender);
  for (int i = before; i < all; ++i) ground.drop(i % boxes, i);
  return wait_for(server, [&] { return ground.answered(boxes); }, all, start, 0);
}

Bulk run_overflow(const Ground& ground, const Contender& contender, int count) {
  ground.make_boxes(1);
  const Server server(ground, contender);
  // Once this is answered it has read what lay there at its start: from now on only notices tell it.
  ground.drop(0, count);
  for (int i = 0; i < 250 && ::access(ground.reply(0, count).c_str(), F_OK) != 0; ++i) {
    std::this_thread::sleep_for(kLookEvery);
  }
  server.signal(SIGSTOP);
  for (int i = 0; i < count; ++i) ground.drop(0, i);
  const Clock::time_point start = Clock::now();
  const double before = server.cpu();
  server.signal(SIGCONT);
  return wait_for(server, [&] { return count - ground.left(1); }, count, start, before);
}

}  // namespace sallyport::bench
