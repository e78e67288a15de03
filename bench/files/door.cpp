#include "door.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <functional>
#include <optional>
#include <vector>

#include "../ipc/ours.h"
#include "../ipc/process.h"
#include "client/client.h"

namespace sallyport::bench {
namespace {

using Clock = std::chrono::steady_clock;

double microseconds(const std::function<void()>& once) {
  const auto start = Clock::now();
  once();
  return std::chrono::duration<double, std::micro>(Clock::now() - start).count();
}

// A file server that speaks MCP on stdin and stdout, as its clients start it.
class McpServer {
 public:
  McpServer(const DoorSetting& setting, const std::vector<std::string>& directories) {
    std::array<int, 2> in{}, out{};
    if (::pipe2(in.data(), O_CLOEXEC) != 0 || ::pipe2(out.data(), O_CLOEXEC) != 0) die("pipe failed");
    std::vector<std::string> command = {setting.node, setting.peer_script};
    command.insert(command.end(), directories.begin(), directories.end());
    process_ = Process::exec(command, {.in = in[0], .out = out[1], .extra = -1}, kAnyCpu);
    ::close(in[0]);
    ::close(out[1]);
    to_ = UniqueFd(in[1]);
    from_ = UniqueFd(out[0]);
    ask("initialize", R"({"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"b","version":"1"}})");
    send(R"({"jsonrpc":"2.0","method":"notifications/initialized"})");
  }

  // The answer's bytes; the run ends if it is an error.
  std::size_t tool(const std::string& name, const std::string& arguments) {
    const std::string answer = ask("tools/call", R"({"name":")" + name + R"(","arguments":)" + arguments + "}");
    if (answer.find("\"isError\":true") != std::string::npos) die("the peer refuses: " + answer.substr(0, 300));
    return answer.size();
  }

 private:
  std::string ask(const std::string& method, const std::string& params) {
    const std::string id = "\"id\":" + std::to_string(++last_);
    send(R"({"jsonrpc":"2.0",)" + id + R"(,"method":")" + method + R"(","params":)" + params + "}");
    for (;;) {
      std::string line = next_line();
      // It may ask or tell things of its own in between.
      if (line.find(id + ",") != std::string::npos || line.find(id + "}") != std::string::npos) return line;
    }
  }
  void send(const std::string& line) const {
    const std::string whole = line + "\n";
    if (::write(to_.get(), whole.data(), whole.size()) != static_cast<ssize_t>(whole.size())) die("the peer is gone");
  }
  std::string next_line() {
    for (;;) {
      if (const std::size_t end = buffer_.find('\n', seen_); end != std::string::npos) {
        std::string line = buffer_.substr(0, end);
        buffer_.erase(0, end + 1);
        seen_ = 0;
        return line;
      }
      seen_ = buffer_.size();
      std::array<char, 65536> block;
      const ssize_t count = ::read(from_.get(), block.data(), block.size());
      if (count <= 0) die("the peer is gone");
      buffer_.append(block.data(), static_cast<std::size_t>(count));
    }
  }

  Process process_;
  UniqueFd to_, from_;
  std::string buffer_;
  std::size_t seen_ = 0;
  int last_ = 0;
};

class OurDoor {
 public:
  explicit OurDoor(const std::string& daemon) : daemon_(daemon, kAnyCpu, {}), client_(daemon_.connect()) {}

  std::size_t call(const std::string& method, const std::string& params) {
    auto answer = client_->call(method, params, {.deadline = Millis(60'000), .token = {}});
    // A worker that is just leaving; the next one is started by the next call.
    while (!answer && answer.error().code == Code::unavailable) answer = client_->call(method, params);
    if (!answer) die(method + ": " + answer.error().describe());
    return answer->value().size();
  }
  // The file worker is the only child of the only child of the launcher: pid 1 of its container.
  std::optional<long> worker_pss_kib() const {
    pid_t pid = daemon_.process().pid();
    for (int generation = 0; generation < 3; ++generation) {
      std::ifstream children("/proc/" + std::to_string(pid) + "/task/" + std::to_string(pid) + "/children");
      if (!(children >> pid)) return std::nullopt;
    }
    std::ifstream rollup("/proc/" + std::to_string(pid) + "/smaps_rollup");
    for (std::string line; std::getline(rollup, line);) {
      if (line.starts_with("Pss:")) return std::stol(line.substr(4));
    }
    return std::nullopt;
  }

 private:
  Daemon daemon_;
  std::unique_ptr<Client> client_;
};

void print(const char* row, double ours, double theirs, double target) {
  std::printf("%-44s ours %8.1f us, server-filesystem %10.1f us: %6.1fx  target %.0fx %s\n", row, ours, theirs,
              theirs / ours, target, theirs / ours >= target ? "met" : "MISSED");
}

}  // namespace

void door_rows(const DoorSetting& setting, const std::string& scratch, const std::string& tree) {
  OurDoor door(setting.daemon);
  const std::string where = R"({"workspace":")" + scratch + "\"";
  door.call("fs.stat", where + R"(,"path":"1k"})");

  // Sent away, the worker is started again by the next call that needs it, with all its walls.
  std::vector<double> cold, warm;
  for (int i = 0; i < 100; ++i) {
    door.call("worker.shutdown", where + "}");
    cold.push_back(microseconds([&] { door.call("worker.ping", where + "}"); }));
    for (int j = 0; j < 10; ++j) warm.push_back(microseconds([&] { door.call("worker.ping", where + "}"); }));
  }
  std::printf("%-44s %8.1f us  target 3000 %s\n", "worker ready, cold, all protections", median(cold),
              median(cold) <= 3000 ? "met" : "MISSED");
  std::printf("%-44s %8.1f us  target 500 %s\n", "worker ready, warm", median(warm),
              median(warm) <= 500 ? "met" : "MISSED");
  if (const auto pss = door.worker_pss_kib()) {
    std::printf("%-44s %8ld KiB target 4096 %s\n", "idle worker (PSS)", *pss, *pss <= 4096 ? "met" : "MISSED");
  }

  if (setting.node.empty()) {
    std::fprintf(stderr, "server-filesystem could not be had from npm: left out\n");
    return;
  }
  McpServer peer(setting, {scratch, tree});
  for (const auto& [row, file] :
       {std::pair{"read 1 KB through the door", "1k"}, {"read 100 KB through the door", "100k"}}) {
    const std::string path = scratch + "/" + file;
    const auto read_ours = [&] { door.call("fs.read", where + R"(,"path":")" + path + "\"}"); };
    const auto read_theirs = [&] { peer.tool("read_text_file", R"({"path":")" + path + "\"}"); };
    std::vector<double> ours, theirs, ours_alone, theirs_alone;
    // In turns, but some reads after another, as an agent at work does; then each after a pause, when every
    // process of the chain has to be woken.
    for (int i = 0; i < 10; ++i) {
      for (int j = 0; j < 100; ++j) ours.push_back(microseconds(read_ours));
      for (int j = 0; j < 100; ++j) theirs.push_back(microseconds(read_theirs));
    }
    for (int i = 0; i < 200; ++i) {
      ours_alone.push_back(microseconds(read_ours));
      theirs_alone.push_back(microseconds(read_theirs));
    }
    print(row, median(ours), median(theirs), 5);
    std::printf("%-44s ours %8.1f us, server-filesystem %10.1f us: %6.1fx\n", "  after a pause", median(ours_alone),
                median(theirs_alone), median(theirs_alone) / median(ours_alone));
  }
  std::vector<double> ours, theirs;
  for (int i = 0; i < 3; ++i) {
    ours.push_back(microseconds([&] {
      door.call("fs.glob",
                R"({"workspace":")" + tree + R"(","root":".","pattern":"**/*.h","limit":100000,"max_bytes":983040})");
    }));
    theirs.push_back(
        microseconds([&] { peer.tool("search_files", R"({"path":")" + tree + R"(","pattern":"**/*.h"})"); }));
  }
  print("glob **/*.h through the door", median(ours), median(theirs), 100);
}

}  // namespace sallyport::bench
