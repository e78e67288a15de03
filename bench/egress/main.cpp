// bench_egress_driver --bin DIR [--quick] [--json]: latency of a CONNECT, throughput of a tunnel and memory of a
// thousand, through sallyport-egress, through tinyproxy, and directly. Contenders are interleaved in every round.
// Ours is reached as from a container, over the loopback of a sandbox's network; the others over the host's.
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "egress/protocol.h"
#include "os/packets.h"
#include "sandbox/network.h"
#include "sandbox/spec.h"

namespace {

using namespace sallyport;
using Clock = std::chrono::steady_clock;

[[noreturn]] void die(const std::string& what) {
  std::fprintf(stderr, "bench_egress_driver: %s (%s)\n", what.c_str(), std::strerror(errno));
  std::exit(1);
}

sockaddr_in loopback(std::uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

UniqueFd listen_any(std::uint16_t& port) {
  UniqueFd fd{::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  sockaddr_in address = loopback(0);
  socklen_t length = sizeof address;
  if (::bind(fd.get(), reinterpret_cast<sockaddr*>(&address), length) != 0 || ::listen(fd.get(), 4096) != 0)
    die("listen");
  ::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&address), &length);
  port = ntohs(address.sin_port);
  return fd;
}

UniqueFd make_socket() { return UniqueFd{::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)}; }

void connect_to(const UniqueFd& fd, std::uint16_t port) {
  const sockaddr_in address = loopback(port);
  const int one = 1;
  ::setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) die("connect");
}

void write_all(int fd, const char* bytes, std::size_t count) {
  while (count > 0) {
    const ssize_t written = ::send(fd, bytes, count, MSG_NOSIGNAL);
    if (written <= 0) return;
    bytes += written;
    count -= static_cast<std::size_t>(written);
  }
}

// Children end with this process.
pid_t spawn(const std::function<void()>& work) {
  std::fflush(nullptr);
  const pid_t pid = ::fork();
  if (pid == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    work();
    ::_exit(0);
  }
  return pid;
}

// The network of a sandbox: the proxy's listener, and sockets for as many clients as there will be.
class Inside {
 public:
  explicit Inside(int clients) {
    std::thread([&] {
      int listener = -1;
      const bool is_made = ::unshare(CLONE_NEWNET) == 0 && sandbox::set_up_network(&listener).is_ok();
      if (!is_made) die("cannot make a network");
      listener_ = UniqueFd(listener);
      while (clients-- > 0) sockets_.push_back(::make_socket());
    }).join();
  }
  int listener() const { return listener_.get(); }
  UniqueFd make_socket() {
    UniqueFd next = std::move(sockets_.back());
    sockets_.pop_back();
    return next;
  }

 private:
  UniqueFd listener_;
  std::vector<UniqueFd> sockets_;
};

// 'e': sends each byte back. 's' and eight hexadecimal digits: sends that many MiB and ends.
void serve_connection(int raw) {
  const UniqueFd fd{raw};
  const int one = 1;
  ::setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  char head[9];
  if (::recv(fd.get(), head, 1, 0) != 1) return;
  if (head[0] == 'e') {
    do {
      write_all(fd.get(), head, 1);
    } while (::recv(fd.get(), head, 1, 0) == 1);
    return;
  }
  if (::recv(fd.get(), head, 8, MSG_WAITALL) != 8) return;
  head[8] = '\0';
  const std::vector<char> block(1 << 20, 'b');
  for (unsigned long left = std::strtoul(head, nullptr, 16); left > 0; --left) {
    write_all(fd.get(), block.data(), block.size());
  }
}

void serve(int listener) {
  for (;;) {
    const int fd = ::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
    if (fd >= 0) std::thread(serve_connection, fd).detach();
  }
}

constexpr int kWarmUps = 20, kTunnels = 1000;

struct Options {
  std::string bin;
  int latency_rounds = 500;
  int throughput_rounds = 7;
  unsigned mebibytes = 512;
  bool is_json = false;
};

struct Contender {
  std::string name;
  std::uint16_t proxy = 0;  // 0: none
  std::string host = "127.0.0.1";
  Inside* inside = nullptr;  // where its clients are, if not on the host

  UniqueFd make_socket() const { return inside != nullptr ? inside->make_socket() : ::make_socket(); }
};

// Connects to the server, through the contender.
void open(const UniqueFd& fd, const Contender& contender, std::uint16_t server) {
  connect_to(fd, contender.proxy != 0 ? contender.proxy : server);
  if (contender.proxy == 0) return;
  const std::string target = contender.host + ":" + std::to_string(server);
  const std::string request = "CONNECT " + target + " HTTP/1.1\r\nHost: " + target + "\r\n\r\n";
  write_all(fd.get(), request.data(), request.size());
  std::string answer;
  char block[1024];
  while (answer.find("\r\n\r\n") == std::string::npos) {
    const ssize_t count = ::recv(fd.get(), block, sizeof block, 0);
    if (count <= 0) die(contender.name + " refuses: " + answer);
    answer.append(block, static_cast<std::size_t>(count));
  }
  if (answer.find(" 200 ") == std::string::npos) die(contender.name + " answers: " + answer);
}

double microseconds(Clock::time_point since) {
  return std::chrono::duration<double, std::micro>(Clock::now() - since).count();
}

double measure_latency(const Contender& contender, std::uint16_t server) {
  const UniqueFd fd = contender.make_socket();
  const auto begun = Clock::now();
  open(fd, contender, server);
  char byte = 'e';
  write_all(fd.get(), &byte, 1);
  if (::recv(fd.get(), &byte, 1, 0) != 1) die("no echo through " + contender.name);
  return microseconds(begun);
}

// MiB per second.
double measure_throughput(const Contender& contender, std::uint16_t server, unsigned mebibytes) {
  const UniqueFd fd = contender.make_socket();
  open(fd, contender, server);
  char request[16];
  std::snprintf(request, sizeof request, "s%08x", mebibytes);
  const auto begun = Clock::now();
  write_all(fd.get(), request, 9);
  static std::vector<char> block(1 << 20);
  std::uint64_t total = 0;
  for (;;) {
    const ssize_t count = ::recv(fd.get(), block.data(), block.size(), 0);
    if (count <= 0) break;
    total += static_cast<std::uint64_t>(count);
  }
  if (total != std::uint64_t{mebibytes} << 20) die("bytes were lost by " + contender.name);
  return mebibytes / (microseconds(begun) / 1e6);
}

double percentile(std::vector<double> samples, double share) {
  std::sort(samples.begin(), samples.end());
  return samples[static_cast<std::size_t>(share * static_cast<double>(samples.size() - 1))];
}

std::uint64_t pss_kib(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/smaps_rollup");
  for (std::string word; file >> word;) {
    if (word == "Pss:" && file >> word) return std::stoull(word);
  }
  return 0;
}

struct Proxy {
  pid_t pid = -1;
  std::uint16_t port = 0;
  UniqueFd control;
};

Proxy start_ours(const Options& options, int listener, std::uint16_t server, const std::string& directory) {
  Proxy proxy;
  proxy.port = sandbox::kProxyPort;
  const std::string hosts = directory + "/hosts", program = options.bin + "/sallyport-egress";
  std::ofstream(hosts) << "127.0.0.1 server.test\n";
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) die("socketpair");
  proxy.pid = spawn([&] {
    ::dup2(ends[1], 3);
    ::execl(program.c_str(), program.c_str(), "--hosts", hosts.c_str(), nullptr);
  });
  ::close(ends[1]);
  proxy.control = UniqueFd(ends[0]);
  const std::string port = std::to_string(server);
  auto policy = policy::NetPolicy::make({"127.0.0.1:" + port, "server.test:" + port}, {}, {});
  const auto order = egress::encode(egress::ToProxy(egress::Serve{"bench", *policy, {}}));
  if (!order || !os::send_packet(proxy.control.get(), *order, {listener}, MSG_DONTWAIT)) die("cannot reach the proxy");
  // Somebody listens to the reports, as the warden does.
  std::thread([fd = proxy.control.get()] {
    std::vector<char> packet(os::kMaxPacketBytes);
    while (::recv(fd, packet.data(), packet.size(), 0) > 0) {
    }
  }).detach();
  return proxy;
}

std::optional<Proxy> start_tinyproxy(const std::string& directory) {
  if (::access("/usr/bin/tinyproxy", X_OK) != 0) return std::nullopt;
  Proxy proxy;
  {
    const UniqueFd free = listen_any(proxy.port);
  }
  const std::string config = directory + "/tinyproxy.conf";
  std::ofstream(config) << "Port " << proxy.port
                        << "\nListen 127.0.0.1\nTimeout 600\nMaxClients 2000\nLogLevel Critical\n"
                        << "LogFile \"" << directory << "/tinyproxy.log\"\nAllow 127.0.0.1\n";
  proxy.pid = spawn([&] { ::execl("/usr/bin/tinyproxy", "tinyproxy", "-d", "-c", config.c_str(), nullptr); });
  for (int i = 0; i < 500; ++i) {
    const UniqueFd probe{::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
    const sockaddr_in address = loopback(proxy.port);
    if (::connect(probe.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0) return proxy;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return std::nullopt;
}

void print_verdict(const char* what, double measured, const char* unit, double target, bool is_met) {
  std::printf("  %-52s %8.2f %-8s target %.2f: %s\n", what, measured, unit, target, is_met ? "met" : "MISSED");
}

void stop(const Proxy& proxy) {
  ::kill(proxy.pid, SIGKILL);
  ::waitpid(proxy.pid, nullptr, 0);
}

int run(const Options& options, const std::string& directory) {
  std::uint16_t server = 0;
  const UniqueFd listener = listen_any(server);
  const pid_t serving = spawn([&] { serve(listener.get()); });
  Inside inside(2 * (kWarmUps + options.latency_rounds) + options.throughput_rounds + kTunnels);
  const Proxy ours = start_ours(options, inside.listener(), server, directory);
  const auto peer = start_tinyproxy(directory);
  std::vector<Contender> contenders = {{"direct"},
                                       {"sallyport", ours.port, "127.0.0.1", &inside},
                                       {"sallyport, by name", ours.port, "server.test", &inside}};
  if (peer) contenders.push_back({"tinyproxy", peer->port});

  std::vector<std::vector<double>> latency(contenders.size()), rate(contenders.size());
  for (int round = -kWarmUps; round < options.latency_rounds; ++round) {
    for (std::size_t i = 0; i < contenders.size(); ++i) {
      const double sample = measure_latency(contenders[i], server);
      if (round >= 0) latency[i].push_back(sample);
    }
  }
  for (int round = 0; round < options.throughput_rounds; ++round) {
    for (std::size_t i = 0; i < contenders.size(); ++i) {
      if (contenders[i].host == "127.0.0.1")
        rate[i].push_back(measure_throughput(contenders[i], server, options.mebibytes));
    }
  }
  std::vector<UniqueFd> tunnels;
  for (int i = 0; i < kTunnels; ++i) {
    tunnels.push_back(contenders[1].make_socket());
    open(tunnels.back(), contenders[1], server);
    char byte = 'e';
    write_all(tunnels.back().get(), &byte, 1);
    if (::recv(tunnels.back().get(), &byte, 1, 0) != 1) die("no echo through a tunnel");
  }
  const double memory = static_cast<double>(pss_kib(ours.pid)) / 1024;
  tunnels.clear();

  const double direct_us = percentile(latency[0], 0.5), direct_rate = percentile(rate[0], 0.5);
  if (options.is_json) std::printf("{\"tunnels_1000_mib\":%.1f,\"contenders\":[", memory);
  for (std::size_t i = 0; i < contenders.size(); ++i) {
    const double p50 = percentile(latency[i], 0.5), p99 = percentile(latency[i], 0.99);
    const double mib = rate[i].empty() ? 0 : percentile(rate[i], 0.5);
    if (options.is_json) {
      std::printf("%s{\"name\":\"%s\",\"p50_us\":%.1f,\"p99_us\":%.1f,\"mib_per_s\":%.0f}", i > 0 ? "," : "",
                  contenders[i].name.c_str(), p50, p99, mib);
    } else {
      std::printf("  %-20s connect + echo p50 %7.1f us, p99 %7.1f us", contenders[i].name.c_str(), p50, p99);
      if (mib > 0) std::printf(";  %6.0f MiB/s", mib);
      std::printf("\n");
    }
  }
  if (options.is_json) {
    std::printf("]}\n");
  } else {
    const double added = (percentile(latency[1], 0.5) - direct_us) / 1000,
                 share = percentile(rate[1], 0.5) / direct_rate;
    print_verdict("added by CONNECT, p50", added, "ms", 1, added <= 1);
    print_verdict("throughput, of direct", share, "", 0.8, share >= 0.8);
    if (peer) {
      const double theirs = (percentile(latency[3], 0.5) - direct_us) / 1000;
      const double against = percentile(rate[1], 0.5) / percentile(rate[3], 0.5);
      print_verdict("added by CONNECT, at most tinyproxy's", added, "ms", theirs, added <= theirs);
      print_verdict("throughput, of tinyproxy's", against, "times", 2, against >= 2);
    } else {
      std::printf("  tinyproxy is not installed: left out\n");
    }
    print_verdict("a thousand tunnels", memory, "MiB", 32, memory <= 32);
  }
  stop(ours);
  if (peer) stop(*peer);
  ::kill(serving, SIGKILL);
  ::waitpid(serving, nullptr, 0);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word == "--bin" && i + 1 < argc) {
      options.bin = argv[++i];
    } else if (word == "--quick") {
      options.latency_rounds = 100;
      options.throughput_rounds = 3;
      options.mebibytes = 128;
    } else if (word == "--json") {
      options.is_json = true;
    } else {
      std::fputs("usage: bench_egress_driver --bin DIR [--quick] [--json]\n", stderr);
      return 2;
    }
  }
  // Before there are threads: what a network of one's own takes without being root.
  if (::geteuid() != 0 && ::unshare(CLONE_NEWUSER) != 0) die("no user namespaces here");
  rlimit files{};
  ::getrlimit(RLIMIT_NOFILE, &files);
  files.rlim_cur = files.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &files);
  char directory[] = "/tmp/sallyport-bench-XXXXXX";
  if (::mkdtemp(directory) == nullptr) die("mkdtemp");
  const int status = run(options, directory);
  for (const char* name : {"/hosts", "/tinyproxy.conf", "/tinyproxy.log"}) {
    ::unlink((std::string(directory) + name).c_str());
  }
  ::rmdir(directory);
  std::fflush(nullptr);
  ::_exit(status);  // the thread that drains reports need not be waited for
}
