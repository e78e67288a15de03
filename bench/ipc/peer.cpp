#include "peer.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <optional>

namespace sallyport::bench {
namespace {

constexpr int kAnswerTimeoutMs = 30'000;

std::array<UniqueFd, 2> make_pipe() {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) die("pipe failed");
  return {UniqueFd(ends[0]), UniqueFd(ends[1])};
}

// A peer that says nothing in time is not there.
std::optional<std::string> read_line(int fd) {
  std::string line;
  for (;;) {
    pollfd event{fd, POLLIN, 0};
    char byte = 0;
    if (::poll(&event, 1, kAnswerTimeoutMs) != 1 || ::read(fd, &byte, 1) != 1) return std::nullopt;
    if (byte == '\n') return line;
    line += byte;
  }
}

std::vector<std::string> with(std::vector<std::string> command, const std::string& role, const std::string& socket) {
  command.push_back(role);
  command.push_back(socket);
  return command;
}

}  // namespace

std::unique_ptr<Peer> Peer::start(std::string name, const std::vector<std::string>& command, int cpu,
                                  std::string greeting) {
  std::unique_ptr<Peer> peer(new Peer(std::move(name), std::move(greeting)));
  std::string directory = (std::filesystem::temp_directory_path() / "sallyport-peer-XXXXXX").string();
  if (::mkdtemp(directory.data()) == nullptr) die("cannot make a temporary directory");
  peer->socket_ = directory + "/peer.sock";
  auto server_out = make_pipe(), client_in = make_pipe(), client_out = make_pipe();
  peer->server_ = Process::exec(with(command, "server", peer->socket_), {.out = server_out[1].get()}, cpu);
  server_out[1].reset();
  if (!read_line(server_out[0].get())) {
    std::fprintf(stderr, "bench ipc: %s is not here; skipped\n", peer->name_.c_str());
    return nullptr;
  }
  peer->client_ = Process::exec(with(command, "client", peer->socket_),
                                {.in = client_in[0].get(), .out = client_out[1].get()}, cpu);
  peer->from_server_ = std::move(server_out[0]);
  peer->to_client_ = std::move(client_in[1]);
  peer->from_client_ = std::move(client_out[0]);
  return peer;
}

Peer::~Peer() {
  client_.stop();
  server_.stop();
  if (socket_.empty()) return;
  std::error_code ignored;
  std::filesystem::remove_all(std::filesystem::path(socket_).parent_path(), ignored);
}

Measurement Peer::run(const std::string& what, int calls) {
  const std::string line = what + ' ' + std::to_string(calls) + '\n';
  const auto server_before = server_.cpu_time();
  if (::write(to_client_.get(), line.data(), line.size()) < 0) die(name_ + " is gone");
  const auto answer = read_line(from_client_.get());
  Measurement measured;
  if (!answer || std::sscanf(answer->c_str(), "%lf %lf %lf %lf", &measured.p50_us, &measured.p99_us,
                             &measured.calls_per_s, &measured.cpu_us) != 4) {
    die(name_ + " did not answer to " + what);
  }
  const std::chrono::duration<double, std::micro> server_cpu = server_.cpu_time() - server_before;
  measured.cpu_us += server_cpu.count() / calls;
  return measured;
}

}  // namespace sallyport::bench
