// bench_platform_driver [--cpu N] BIN_DIR [PART...]: one table, each row beside its target. Contenders of a row run in
// turns, and ratios are medians over those turns.
#include <fcntl.h>
#include <hiredis/hiredis.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>

#include "hops.h"
#include "os/process.h"
#include "os/sockets.h"
#include "ours.h"
#include "platform/platform.h"
#include "process.h"
#include "stats.h"

using namespace sallyport;
using namespace sallyport::bench;

namespace {

using Steady = std::chrono::steady_clock;

double micros_since(Steady::time_point begin) {
  return std::chrono::duration<double, std::micro>(Steady::now() - begin).count();
}

template <typename T>
T must(Result<T> result) {
  if (!result) die(result.error().describe());
  return std::move(*result);
}

// One token a request, with the time at which it was written.
class TokenServer {
 public:
  TokenServer() : listening_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof address;
    if (::bind(listening_.get(), reinterpret_cast<sockaddr*>(&address), length) != 0 ||
        ::listen(listening_.get(), 16) != 0) {
      die("cannot listen on loopback");
    }
    ::getsockname(listening_.get(), reinterpret_cast<sockaddr*>(&address), &length);
    port_ = ntohs(address.sin_port);
    std::thread([this] { serve(); }).detach();
  }
  std::string url() const { return "http://127.0.0.1:" + std::to_string(port_) + "/v1"; }
  Steady::time_point written() const { return written_; }

 private:
  void serve() {
    for (;;) {
      const UniqueFd connection{::accept4(listening_.get(), nullptr, nullptr, SOCK_CLOEXEC)};
      std::string request;
      std::array<char, 8192> block{};
      while (request.find("\r\n\r\n") == std::string::npos) {
        const ssize_t count = ::recv(connection.get(), block.data(), block.size(), 0);
        if (count <= 0) break;
        request.append(block.data(), static_cast<std::size_t>(count));
      }
      if (request.starts_with("GET")) {
        say(connection.get(), "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}");
        continue;
      }
      say(connection.get(), "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n");
      // A model thinks before it speaks.
      std::this_thread::sleep_for(std::chrono::milliseconds(3));
      written_ = Steady::now();
      say(connection.get(), "data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\n");
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
      say(connection.get(), "data: [DONE]\n\n");
    }
  }
  static void say(int connection, std::string_view text) {
    [[maybe_unused]] const ssize_t sent = ::send(connection, text.data(), text.size(), MSG_NOSIGNAL);
  }

  UniqueFd listening_;
  std::uint16_t port_ = 0;
  std::atomic<Steady::time_point> written_ = Steady::time_point();
};

struct Bench {
  std::string bin;
  int cpu = kAnyCpu;
  std::shared_ptr<Directory> directory = std::make_shared<Directory>();
  Directory workspace{Directory::For::workspace};
  std::string socket = directory->path() + "/redis.sock";
  TokenServer tokens = {};
  Process redis = {};
  std::unique_ptr<Daemon> daemon = {};

  void start() {
    redis = Process::exec({"redis-server", "--port", "0", "--unixsocket", socket, "--save", "", "--appendonly", "no",
                           "--dir", directory->path()},
                          {}, cpu);
    for (int i = 0; ::access(socket.c_str(), F_OK) != 0; ++i) {
      if (i > 500) die("redis-server does not start");
      ::usleep(10'000);
    }
    write_config("redis");
    std::filesystem::create_directories(directory->path() + "/profiles");
    std::filesystem::copy(bin + "/bench_platform_worker", workspace.path() + "/worker");
    std::ofstream(directory->path() + "/profiles/bench.toml")
        << "[profile.bench]\nfs.read = [\"/usr\", \"/etc\"]\nfs.write = [\"${workspace}\"]\n"
           "exec = [\"/usr/**\", \"${workspace}/**\"]\nenv = { PATH = \"/usr/bin\" }\n"
           "methods = [\"*\"]\n[profile.bench.permissions.adapters]\nstorage = { buckets = [\"*\"] }\n"
           "cache = { namespaces = [\"*\"] }\nvector = { namespaces = [\"*\"] }\nllm = { models = [\"*\"] }\n";
    daemon = std::make_unique<Daemon>(bin + "/sallyportd", directory, cpu);
  }
  void write_config(const std::string& cache) const {
    std::ofstream(directory->path() + "/sallyport.toml")
        << "[platform.adapters]\nstorage = \"files\"\ncache = \"" << cache
        << "\"\nvector = \"sqlite\"\nllm = \"openai\"\n[platform.adapter_options.redis]\nurl = \"unix://" << socket
        << "\"\n[platform.adapter_options.openai]\nurl = \"" << tokens.url() << "\"\nmodels = { m = \"m\" }\n";
  }
  void use_cache(const std::string& cache) {
    write_config(cache);
    must(daemon->connect()->call("warden.reload"));
    must(daemon->connect()->call("cache.set", R"({"key":"k","value":"0123456789"})"));
  }
  std::string create(Client& client, const std::string& arguments) {
    const Answer made = must(client.call("container.create", R"({"template":"bench","config":{"workspace":")" +
                                                                 workspace.path() + "\"" + arguments + "}}"));
    return std::string(made.value().get("container").as_string().value_or(""));
  }
};

// p50 of one call, over a block.
template <typename Work>
double block_p50(int count, Work&& work) {
  std::vector<double> times;
  for (int i = 0; i < count; ++i) {
    const auto begin = Steady::now();
    work();
    times.push_back(micros_since(begin));
  }
  return median(std::move(times));
}

// Medians of both, and of their ratio, over blocks in turns.
template <typename First, typename Second>
std::array<double, 3> compare(First&& first, Second&& second) {
  constexpr int kBlocks = 15, kCalls = 400;
  std::vector<double> a, b, ratios;
  block_p50(200, first);
  block_p50(200, second);
  for (int i = 0; i < kBlocks; ++i) {
    a.push_back(block_p50(kCalls, first));
    b.push_back(block_p50(kCalls, second));
    ratios.push_back(a.back() / b.back());
  }
  return {median(std::move(a)), median(std::move(b)), median(std::move(ratios))};
}

void row(const char* what, double value, const char* unit, const char* note) {
  std::printf("%-52s %9.2f %-4s %s\n", what, value, unit, note);
  std::fflush(stdout);
}

void bench_spawn(Bench& bench) {
  std::vector<double> times;
  const std::string stamp = bench.workspace.path() + "/stamp";
  for (int i = 0; i < 60; ++i) {
    std::filesystem::remove(stamp);
    auto client = bench.daemon->connect();  // as whoever makes containers has
    const auto begin = Steady::now();
    const std::string id = bench.create(*client, R"(,"command":["./worker",")" + stamp + "\"]");
    std::int64_t ready = 0;
    for (int tries = 0; ready == 0 && tries < 5'000; ++tries) {
      ::usleep(1'000);
      std::ifstream file(stamp);
      std::string text;
      if (std::getline(file, text) && !file.eof()) ready = std::strtoll(text.c_str(), nullptr, 10);
    }
    if (ready == 0) die("the worker does not come up");
    times.push_back(static_cast<double>(ready - begin.time_since_epoch().count()) / 1e6);
    must(client->call("container.wait", R"({"container":")" + id + "\"}"));
    must(client->call("container.remove", R"({"container":")" + id + "\"}"));
  }
  row("worker spawned, with platform, ready: p50", median(std::move(times)), "ms", "target 3");
}

void bench_memory(Bench& bench) {
  const std::string stamp = bench.workspace.path() + "/stamp";
  std::filesystem::remove(stamp);
  auto client = bench.daemon->connect();
  const std::string id = bench.create(*client, R"(,"command":["./worker",")" + stamp + R"(","stay"])");
  while (!std::filesystem::exists(stamp) || std::filesystem::file_size(stamp) == 0) ::usleep(1'000);
  const Answer seen = must(client->call("container.inspect", R"({"container":")" + id + "\"}"));
  const auto init = static_cast<pid_t>(seen.value().get("pid").as_int().value_or(0));
  std::ifstream children("/proc/" + std::to_string(init) + "/task/" + std::to_string(init) + "/children");
  pid_t worker = 0;
  children >> worker;
  row("worker memory (PSS)", static_cast<double>(must(os::memory_pss_kib(worker))) / 1024, "MB", "target 4");
  must(client->call("container.stop", R"({"container":")" + id + R"(","grace_ms":0})"));
}

void bench_small_calls(Bench& bench) {
  auto client = bench.daemon->connect();
  const auto get = [&] { must(client->call("cache.get", R"({"key":"k"})")); };
  const auto ping = [&] { must(client->call("test.ping")); };
  bench.use_cache("redis");
  redisContext* direct = ::redisConnectUnix(bench.socket.c_str());
  if (direct == nullptr || direct->err != 0) die("cannot connect to Redis");
  const auto ask_redis = [&] { ::freeReplyObject(::redisCommand(direct, "GET k")); };
  const auto redis = compare(get, ask_redis);
  row("cache.get through the door, Redis behind it: p50", redis[0], "us", "");
  row("GET by hiredis, no door: p50", redis[1], "us", "");
  row("  ratio", redis[2], "x", "target 2.5, stretch 1.8");
  const Hops to_redis(2, must(os::connect_unix(bench.socket)));
  redisContext* bare = ::redisConnectFd(to_redis.fd());
  const auto through = compare([&] { ::freeReplyObject(::redisCommand(bare, "GET k")); }, ask_redis);
  row("  GET through two bare relays / without", through[2], "x", "the floor, on one CPU");
  ::redisFreeKeepFd(bare);
  ::redisFree(direct);
  bench.use_cache("memory");
  const auto memory = compare(get, ping);
  row("cache.get through the door, memory: p50", memory[0], "us", "");
  row("test.ping through the same door: p50", memory[1], "us", "");
  row("  ratio", memory[2], "x", "target 2.5");
  constexpr std::size_t kCallBytes = 100;
  const Hops one(1), none(0);
  const auto hop = compare([&] { one.ask(kCallBytes); }, [&] { none.ask(kCallBytes); });
  row("  an echo through a bare relay / without", hop[2], "x", "the floor, on one CPU");
}

void bench_bulk(Bench& bench) {
  auto platform = must(platform::init_platform(bench.daemon->connect()));
  constexpr std::size_t kVectors = 50, kDimensions = 1536;
  std::vector<float> vectors(kVectors * kDimensions);
  for (std::size_t i = 0; i < vectors.size(); ++i) vectors[i] = static_cast<float>(i % 97) / 97;
  std::vector<std::string> ids;
  for (std::size_t i = 0; i < kVectors; ++i) ids.push_back("v" + std::to_string(i));
  const std::string_view bytes(reinterpret_cast<const char*>(vectors.data()), vectors.size() * sizeof(float));
  auto cache = platform->cache();
  const auto send = [&] { must(cache.set("bulk", bytes)); };
  block_p50(50, send);
  row("50 x 1536 vectors to the adapters, kept in memory: p50", block_p50(300, send) / 1000, "ms",
      "target 2, stretch 1 (transport)");
  const auto upsert = [&] { must(platform->vectors().upsert(ids, vectors, kDimensions)); };
  row("50 x 1536 vectors upserted into SQLite: p50", block_p50(50, upsert) / 1000, "ms", "");
  const auto search = [&] { must(platform->vectors().search(std::span(vectors).first(kDimensions), 10)); };
  row("exact search among 50: p50", block_p50(200, search) / 1000, "ms", "");
}

void bench_tokens(Bench& bench) {
  auto platform = must(platform::init_platform(bench.daemon->connect()));
  std::vector<double> times;
  for (int i = 0; i < 200; ++i) {
    double late = 0;
    must(platform->stream("x", [&](std::string_view) {
      late = micros_since(bench.tokens.written());
      return true;
    }));
    times.push_back(late / 1000);
  }
  row("first token, from its arrival to the worker: p50", median(times), "ms", "target 1");
  row("  p99", quantile(times, 0.99), "ms", "");
}

void bench_pool(Bench& bench) {
  bench.use_cache("redis");
  std::vector<std::unique_ptr<Client>> workers;
  for (int i = 0; i < 100; ++i) workers.push_back(bench.daemon->connect());
  int answered = 0;
  const auto begin = Steady::now();
  for (int round = 0; round < 20; ++round) {
    for (auto& worker : workers) {
      must(worker->start("cache.incr", R"({"key":"n"})", [&](Result<Answer> answer) { answered += answer ? 1 : 0; }));
    }
    for (auto& worker : workers) {
      while (worker->pending() > 0) {
        if (!worker->dispatch(Millis(1'000))) die("a worker lost its door");
      }
    }
  }
  const double seconds = micros_since(begin) / 1e6;
  redisContext* direct = ::redisConnectUnix(bench.socket.c_str());
  auto* reply = static_cast<redisReply*>(::redisCommand(direct, "CLIENT LIST"));
  const std::string list(reply->str, static_cast<std::size_t>(reply->len));
  ::freeReplyObject(reply);
  ::redisFree(direct);
  row("connections to Redis with 100 workers", static_cast<double>(std::count(list.begin(), list.end(), '\n') - 1), "",
      "one pool");
  row("calls answered by 100 workers at once", answered / seconds, "/s", "");
}

struct Part {
  std::string_view name;
  void (*run)(Bench&);
};
constexpr Part kParts[] = {{"spawn", bench_spawn}, {"memory", bench_memory}, {"calls", bench_small_calls},
                           {"bulk", bench_bulk},   {"tokens", bench_tokens}, {"pool", bench_pool}};

}  // namespace

int main(int argc, char** argv) {
  std::vector<std::string_view> wanted(argv + 1, argv + argc);
  Bench bench{};
  if (wanted.size() >= 2 && wanted[0] == "--cpu") {
    // Everything on one: then nobody spins, and a call costs what its switches and system calls cost.
    bench.cpu = std::atoi(argv[2]);
    pin(0, bench.cpu);
    wanted.erase(wanted.begin(), wanted.begin() + 2);
  }
  if (wanted.empty()) die("usage: bench_platform_driver [--cpu N] BIN_DIR [spawn|memory|calls|bulk|tokens|pool]...");
  bench.bin = wanted.front();
  wanted.erase(wanted.begin());
  for (const std::string_view name : wanted) {
    const auto is_it = [&](const Part& part) { return part.name == name; };
    if (std::none_of(std::begin(kParts), std::end(kParts), is_it)) die("no such part: " + std::string(name));
  }
  bench.start();
  bench.use_cache("memory");
  for (const Part& part : kParts) {
    if (wanted.empty() || std::find(wanted.begin(), wanted.end(), part.name) != wanted.end()) part.run(bench);
  }
  bench.daemon.reset();
  bench.redis.stop();
  std::fflush(stdout);
  ::_exit(0);  // the token server's thread is still waiting
}
