// How fast the worker finds, reads and resolves, beside ripgrep and fd.
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <string>
#include <tuple>
#include <vector>

#include "contest.h"
#include "door.h"
#include "tree.h"
#include "wire/wire.h"
#include "worker/worker.h"

namespace sallyport::bench {
namespace {

using Clock = std::chrono::steady_clock;

// A method called as the worker calls it, JSON in and JSON out.
std::function<void()> ours(const std::string& root, std::string method, std::string params) {
  return [root, method = std::move(method), params = std::move(params)] {
    auto roots = worker::Roots::open({root});
    const worker::Service service(*std::move(roots));
    wire::Decoder decoder;
    const auto document = decoder.parse(params);
    Bytes out;
    wire::JsonWriter json(out);
    worker::Stop stop;
    if (!service.handle(method, {document->root(), stop, json, nullptr})) ::_exit(9);
    const int file = ::open("/dev/shm", O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600);
    if (::write(file, out.data(), out.size()) < 0) ::_exit(9);
  };
}

void searches(const std::string& tree, int rounds) {
  const std::string rare = kRareWord;
  const auto grep = [&](const std::string& rest) { return R"({"limit":100000,"max_bytes":983040,)" + rest + "}"; };
  contest("literal grep, all files",
          {{"fs.grep", ours(tree, "fs.grep", grep(R"("pattern":")" + rare + R"(","ignored":true,"hidden":true)"))},
           {"ripgrep", program({"rg", "--no-config", "-uu", "-n", rare, "."}, tree)}},
          rounds);
  contest("literal grep, ignore rules on",
          {{"fs.grep", ours(tree, "fs.grep", grep(R"("pattern":")" + rare + R"(")"))},
           {"ripgrep", program({"rg", "--no-config", "-n", rare, "."}, tree)}},
          rounds);
  contest("case-insensitive grep, ignore rules on",
          {{"fs.grep", ours(tree, "fs.grep", grep(R"("pattern":"quixotic_sentinel","case":"insensitive")"))},
           {"ripgrep", program({"rg", "--no-config", "-i", "-n", rare, "."}, tree)}},
          rounds);
  contest("regex with a literal, ignore rules on",
          {{"fs.grep", ours(tree, "fs.grep", grep(R"json("pattern":"\\w+\\(quixotic_\\w+\\)")json"))},
           {"ripgrep", program({"rg", "--no-config", "-n", "\\w+\\(quixotic_\\w+\\)", "."}, tree)}},
          rounds);
  contest("regex without a literal, ignore rules on",
          {{"fs.grep", ours(tree, "fs.grep", grep(R"("pattern":"[0-9]{4}-[0-9]{2}")"))},
           {"ripgrep", program({"rg", "--no-config", "-n", "[0-9]{4}-[0-9]{2}", "."}, tree)}},
          rounds);
  contest("files with a common word, ignore rules on",
          {{"fs.grep", ours(tree, "fs.grep", grep(R"("pattern":"buffer","mode":"files")"))},
           {"ripgrep", program({"rg", "--no-config", "-l", kCommonWord, "."}, tree)}},
          rounds);
  contest("glob **/*.h, ignore rules on",
          {{"fs.glob", ours(tree, "fs.glob", R"({"pattern":"**/*.h","limit":100000,"max_bytes":983040})")},
           {"fd", program({"fdfind", "--glob", "*.h", "--type", "f", "."}, tree)},
           {"ripgrep --files", program({"rg", "--no-config", "--files", "-g", "*.h", "."}, tree)}},
          rounds);
}

double median_ns(std::vector<double> samples) {
  std::sort(samples.begin(), samples.end());
  return samples[samples.size() / 2];
}

// Opening and closing one file four directories deep, plainly and through the roots.
void resolution(const std::string& scratch) {
  const std::string directory = scratch + "/one/two/three/four";
  std::filesystem::create_directories(directory);
  std::ofstream(directory + "/file") << "x";
  const auto roots = worker::Roots::open({scratch});
  const UniqueFd root(::open(scratch.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  const char* const path = "one/two/three/four/file";
  // CPU time, so that busy neighbours do not count.
  const auto now = [] {
    timespec time{};
    ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) * 1e9 + static_cast<double>(time.tv_nsec);
  };
  const auto time = [&](auto&& once) {
    const double start = now();
    for (int i = 0; i < 20'000; ++i) once();
    return (now() - start) / 20'000;
  };
  std::vector<double> plain;
  std::vector<double> safe;
  std::vector<double> ratio;
  for (int round = 0; round < 21; ++round) {
    plain.push_back(time([&] {
      struct stat status{};
      const UniqueFd fd(::openat(root.get(), path, O_RDONLY | O_CLOEXEC));
      ::fstat(fd.get(), &status);
    }));
    safe.push_back(time([&] {
      if (!roots->open_file(path, O_RDONLY)) std::exit(1);
    }));
    ratio.push_back(safe.back() / plain.back());
  }
  std::printf("path resolution: plain openat + fstat %.0f ns, through the roots %.0f ns, %.1f %% more\n",
              median_ns(plain), median_ns(safe), (median_ns(ratio) - 1) * 100);
}

// A worker in a process of its own, reached over its socket.
class WorkerProcess {
 public:
  explicit WorkerProcess(const std::string& root) {
    int pair[2];
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0) std::exit(1);
    started_ = Clock::now();
    child_ = ::fork();
    if (child_ == 0) {
      ::close(pair[0]);
      const SystemClock clock;
      const Log log(2, LogFormat::text, LogLevel::error, clock);
      ::_exit(worker::serve(UniqueFd(pair[1]), worker::Service(*worker::Roots::open({root})), log) ? 0 : 1);
    }
    ::close(pair[1]);
    socket_ = UniqueFd(pair[0]);
  }
  ~WorkerProcess() {
    socket_.reset();
    ::waitpid(child_, nullptr, 0);
  }
  WorkerProcess(const WorkerProcess&) = delete;
  WorkerProcess& operator=(const WorkerProcess&) = delete;

  std::size_t call(std::string_view method, std::string_view params) {
    out_.clear();
    if (!wire::append_request(out_, {.id = "1", .method = method, .deadline_ms = {}, .token = {}}, params))
      std::exit(1);
    if (::send(socket_.get(), out_.data(), out_.size(), 0) < 0) std::exit(1);
    while (true) {
      auto body = reader_.next();
      if (!body) std::exit(1);
      if (*body) return (*body)->size();
      const auto room = reader_.writable();
      const ssize_t count = ::recv(socket_.get(), room.data(), room.size(), 0);
      if (count <= 0) std::exit(1);
      reader_.commit(static_cast<std::size_t>(count));
    }
  }
  double microseconds_since_start() const {
    return std::chrono::duration<double, std::micro>(Clock::now() - started_).count();
  }
  long pss_kilobytes() const {
    std::ifstream rollup("/proc/" + std::to_string(child_) + "/smaps_rollup");
    for (std::string line; std::getline(rollup, line);) {
      if (line.starts_with("Pss:")) return std::strtol(line.c_str() + 4, nullptr, 10);
    }
    return -1;
  }

 private:
  pid_t child_;
  UniqueFd socket_;
  Clock::time_point started_;
  Bytes out_;
  wire::FrameReader reader_;
};

void calls(const std::string& scratch, const std::string& tree) {
  std::string text;
  while (text.size() < 1000) text += "a line of text\n";
  std::ofstream(scratch + "/1k") << text;
  while (text.size() < 100'000) text += "a line of text\n";
  std::ofstream(scratch + "/100k") << text;
  WorkerProcess process(scratch);
  process.call("worker.ping", "");
  std::printf("worker: first answer %.0f us after fork, PSS %ld kB\n", process.microseconds_since_start(),
              process.pss_kilobytes());
  for (const auto& [name, method, params] : std::vector<std::tuple<const char*, const char*, const char*>>{
           {"ping", "worker.ping", ""},
           {"stat", "fs.stat", R"({"path":"1k"})"},
           {"read 1 KB", "fs.read", R"({"path":"1k"})"},
           {"read 100 KB", "fs.read", R"({"path":"100k"})"}}) {
    std::vector<double> samples;
    for (int i = 0; i < 5000; ++i) {
      const auto start = Clock::now();
      process.call(method, params);
      samples.push_back(std::chrono::duration<double, std::micro>(Clock::now() - start).count());
    }
    std::sort(samples.begin(), samples.end());
    std::printf("%-12s p50 %7.1f us   p99 %7.1f us\n", name, samples[samples.size() / 2],
                samples[samples.size() * 99 / 100]);
  }
  std::printf("worker after the calls: PSS %ld kB\n", process.pss_kilobytes());
  WorkerProcess searching(tree);
  searching.call("fs.grep", R"({"pattern":"buffer","limit":100000,"max_bytes":983040})");
  std::printf("worker after a search with many hits: PSS %ld kB\n", searching.pss_kilobytes());
}

}  // namespace
}  // namespace sallyport::bench

int main(int argc, char** argv) {
  using namespace sallyport::bench;
  bool is_quick = false;
  DoorSetting door;
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    if (word == "--quick") is_quick = true;
    if (word == "--daemon" && i + 1 < argc) door.daemon = argv[++i];
    if (word == "--peer" && i + 2 < argc) {
      door.node = argv[++i];
      door.peer_script = argv[++i];
    }
  }
  const char* base = std::getenv("SALLYPORT_BENCH_DIR");
  const std::string top = std::string(base != nullptr ? base : "/tmp") + "/sallyport-bench-files";
  std::filesystem::create_directories(top);
  const std::size_t files = is_quick ? 10'000 : 100'000;
  const std::string tree = top + "/tree" + std::to_string(files);
  const TreeFacts facts = make_tree(tree, files);
  std::printf("tree: %zu files, %.0f MB\n", facts.files, static_cast<double>(facts.bytes) / 1e6);
  const std::string scratch = top + "/scratch";
  std::filesystem::create_directories(scratch);
  resolution(scratch);
  calls(scratch, tree);
  door_rows(door, scratch, tree);
  searches(tree, is_quick ? 3 : 9);
  std::filesystem::remove_all(scratch);
  return 0;
}
