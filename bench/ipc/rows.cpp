#include "rows.h"

#include <sys/resource.h>
#include <sys/socket.h>

#include <functional>

#include "os/sockets.h"
#include "ours.h"
#include "raw.h"
#include "wire/wire.h"

namespace sallyport::bench {
namespace {

using Blocks = std::vector<Measurement>;
using Block = std::function<Measurement()>;

// What crosses in a small call and in a megabyte's echo.
struct Sizes {
  std::size_t request = 0, reply = 0;
};

Sizes sizes_of(std::string_view method, std::string_view params, std::string_view result) {
  Bytes request, reply;
  // Ids of as many digits as most calls of a run have.
  if (!wire::append_request(request, {"10000", method, 30'000, {}}, params) ||
      !wire::append_result(reply, "10000", result)) {
    die("a message of the benchmark does not fit a frame");
  }
  return {request.size(), reply.size()};
}

Sizes small_sizes() { return sizes_of("test.ping", {}, R"({"pong":true})"); }

std::string megabyte_params() { return R"({"data":")" + std::string(kMegabyte, 'x') + R"("})"; }

// Runs every block once to warm up, then all of them in turns: what disturbs one disturbs all.
std::vector<Blocks> interleave(int repetitions, const std::vector<Block>& blocks) {
  std::vector<Blocks> all(blocks.size());
  for (const Block& block : blocks) block();
  for (int i = 0; i < repetitions; ++i) {
    for (std::size_t b = 0; b < blocks.size(); ++b) all[b].push_back(blocks[b]());
  }
  return all;
}

// A line that compares a figure of ours (first) with raw's (second) and the peers' (the rest).
Line compare(std::string row, const std::vector<Blocks>& all, Figure figure, const char* unit, const Setting& setting,
             std::optional<double> target, std::optional<double> stretch) {
  Line line;
  line.row = std::move(row);
  line.ours = with_unit(median_of(all[0]).*figure, unit);
  line.raw = with_unit(median_of(all[1]).*figure, unit);
  line.figure = median_ratio(all[0], all[1], figure);
  line.target = target;
  line.stretch = stretch;
  line.more_is_better = figure == &Measurement::calls_per_s;
  for (std::size_t i = 2; i < all.size(); ++i) {
    line.peers[setting.peers[i - 2]->name()] = median_ratio(all[i], all[1], figure);
  }
  return line;
}

// A line that stands for itself, without raw.
Line single(std::string row, double figure, const char* unit, std::optional<double> target,
            std::optional<double> stretch) {
  Line line;
  line.row = std::move(row);
  line.ours = with_unit(figure, unit);
  line.figure = figure;
  line.target = target;
  line.stretch = stretch;
  return line;
}

void add_peers(std::vector<Block>& blocks, const Setting& setting, const char* load, int calls) {
  for (const auto& peer : setting.peers) blocks.push_back([&peer, load, calls] { return peer->run(load, calls); });
}

void small_one_core(const Setting& setting, std::vector<Line>& lines) {
  const Pinned pinned(kCpu);
  const Sizes sizes = small_sizes();
  Raw raw(Family::unix_socket, 1, sizes.request, sizes.reply, kCpu);
  const Daemon daemon(setting.daemon, kCpu);
  Ours ours(daemon.connect());
  const int calls = setting.calls(4000);
  std::vector<Block> blocks = {[&] { return measure_each(daemon.process(), calls, [&] { ours.ping(); }); },
                               [&] { return measure_each(raw.server(), calls, [&] { raw.call(); }); }};
  add_peers(blocks, setting, "small", setting.calls(400));
  const auto all = interleave(setting.repetitions, blocks);
  lines.push_back(compare("small call, one core, p50", all, &Measurement::p50_us, "us", setting, 1.25, 1.1));
  lines.push_back(compare("  p99", all, &Measurement::p99_us, "us", setting, {}, {}));
  lines.push_back(
      compare("CPU per small call, both sides, one core", all, &Measurement::cpu_us, "us", setting, 1.35, 1.15));
}

void small_idle(const Setting& setting, std::vector<Line>& lines) {
  const Sizes sizes = small_sizes();
  Raw raw(Family::unix_socket, 1, sizes.request, sizes.reply, kAnyCpu);
  const Daemon daemon(setting.daemon, kAnyCpu);
  Ours ours(daemon.connect());
  const int calls = setting.calls(1000);
  const auto all =
      interleave(setting.repetitions, {[&] { return measure_each(daemon.process(), calls, [&] { ours.ping(); }); },
                                       [&] { return measure_each(raw.server(), calls, [&] { raw.call(); }); }});
  lines.push_back(
      compare("small call, idle machine, spinning, p50", all, &Measurement::p50_us, "us", setting, 0.4, 0.12));
  lines.push_back(compare("  p99", all, &Measurement::p99_us, "us", setting, {}, {}));
  lines.push_back(compare("  CPU per call", all, &Measurement::cpu_us, "us", setting, {}, {}));
}

void small_busy(const Setting& setting, std::vector<Line>& lines) {
  const Daemon spinning(setting.daemon, kAnyCpu), sleeping(setting.daemon, kAnyCpu, {"--no-spin"});
  Ours with_spin(spinning.connect());
  // One CPU to choose from while it is made: this client never spins.
  std::optional<Pinned> pinned(kCpu);
  Ours without_spin(sleeping.connect());
  pinned.reset();
  const int calls = setting.calls(1000);
  for (const int neighbours : {1, 2}) {
    const auto loops = busy_loops(neighbours);
    const auto all = interleave(
        setting.repetitions, {[&] { return measure_each(spinning.process(), calls, [&] { with_spin.ping(); }); },
                              [&] { return measure_each(sleeping.process(), calls, [&] { without_spin.ping(); }); }});
    lines.push_back(compare("beside " + std::to_string(neighbours) + " busy loops, vs --no-spin", all,
                            &Measurement::calls_per_s, "/s", setting, 1.0, {}));
  }
}

void pipelined(const Setting& setting, std::vector<Line>& lines) {
  const Pinned pinned(kCpu);
  const Sizes sizes = small_sizes();
  Raw raw(Family::unix_socket, 1, sizes.request, sizes.reply, kCpu);
  const Daemon daemon(setting.daemon, kCpu);
  Ours ours(daemon.connect());
  const int calls = setting.calls(40'000);
  std::vector<Block> blocks = {[&] { return measure_batch(daemon.process(), calls, [&] { ours.pipeline(calls); }); },
                               [&] { return measure_batch(raw.server(), calls, [&] { raw.pipeline(calls); }); }};
  add_peers(blocks, setting, "pipeline", setting.calls(1000));
  const auto all = interleave(setting.repetitions, blocks);
  lines.push_back(
      compare("64 in flight on one connection, one core", all, &Measurement::calls_per_s, "/s", setting, 0.55, 0.65));
}

void connections(const Setting& setting, std::vector<Line>& lines) {
  const Sizes sizes = small_sizes();
  for (const int cpu : {kCpu, kAnyCpu}) {
    const Pinned pinned(cpu);
    Raw raw(Family::unix_socket, kWindow, sizes.request, sizes.reply, cpu);
    const Daemon daemon(setting.daemon, cpu);
    OursFanOut ours(daemon);
    const int calls = setting.calls(10'000);
    const auto all = interleave(setting.repetitions,
                                {[&] { return measure_batch(daemon.process(), calls, [&] { ours.run(calls); }); },
                                 [&] { return measure_batch(raw.server(), calls, [&] { raw.fan_out(calls); }); }});
    lines.push_back(compare(cpu == kCpu ? "64 connections, one core" : "  on all cores", all, &Measurement::calls_per_s,
                            "/s", setting, 0.8, 0.95));
  }
}

void megabyte(const Setting& setting, std::vector<Line>& lines) {
  const std::string params = megabyte_params();
  const Sizes sizes = sizes_of("test.echo", params, params);
  const std::string bytes(kMegabyte, 'x');
  for (const int cpu : {kCpu, kAnyCpu}) {
    const Pinned pinned(cpu);
    Raw raw(Family::unix_socket, 1, sizes.request, sizes.reply, cpu);
    const Daemon daemon(setting.daemon, cpu);
    Ours ours(daemon.connect());
    const int calls = setting.calls(40);
    std::vector<Block> blocks = {[&] { return measure_each(daemon.process(), calls, [&] { ours.echo_json(params); }); },
                                 [&] { return measure_each(raw.server(), calls, [&] { raw.call(); }); }};
    const Block chunks = [&] {
      return measure_each(daemon.process(), calls, [&] { ours.echo_chunks(as_bytes(bytes)); });
    };
    if (cpu == kCpu) add_peers(blocks, setting, "megabyte", setting.calls(10));
    const auto all = interleave(setting.repetitions, blocks);
    const auto streamed = interleave(setting.repetitions, {chunks, blocks[1]});
    const std::string where = cpu == kCpu ? ", one core" : ", all cores";
    lines.push_back(
        compare("1,000,000-byte echo as JSON" + where + ", p50", all, &Measurement::p50_us, "us", setting, 3.0, 2.2));
    lines.push_back(compare("  p99", all, &Measurement::p99_us, "us", setting, {}, {}));
    lines.push_back(
        compare("the same as chunks" + where + ", p50", streamed, &Measurement::p50_us, "us", setting, 1.4, 1.2));
    lines.push_back(compare("  p99", streamed, &Measurement::p99_us, "us", setting, {}, {}));
  }
}

void tcp(const Setting& setting, std::vector<Line>& lines) {
  const Sizes sizes = small_sizes();
  for (const int cpu : {kCpu, kAnyCpu}) {
    const Pinned pinned(cpu);
    const Daemon daemon(setting.daemon, cpu, {"--tcp"});
    Ours over_tcp(daemon.connect_tcp()), over_unix(daemon.connect());
    Raw raw_tcp(Family::tcp, 1, sizes.request, sizes.reply, cpu);
    Raw raw_unix(Family::unix_socket, 1, sizes.request, sizes.reply, cpu);
    const int calls = setting.calls(1000);
    const auto all = interleave(setting.repetitions,
                                {[&] { return measure_each(daemon.process(), calls, [&] { over_tcp.ping(); }); },
                                 [&] { return measure_each(daemon.process(), calls, [&] { over_unix.ping(); }); },
                                 [&] { return measure_each(raw_tcp.server(), calls, [&] { raw_tcp.call(); }); },
                                 [&] { return measure_each(raw_unix.server(), calls, [&] { raw_unix.call(); }); }});
    const std::vector<Blocks> ours(all.begin(), all.begin() + 2);
    const std::vector<Blocks> to_raw = {all[0], all[2]};
    const std::vector<Blocks> raws(all.begin() + 2, all.end());
    const std::string where = cpu == kCpu ? ", one core" : ", all cores";
    lines.push_back(compare("loopback TCP / Unix, small call" + where + ", p50", ours, &Measurement::p50_us, "us",
                            setting, 1.3, {}));
    lines.push_back(compare("  loopback TCP / raw TCP, p50", to_raw, &Measurement::p50_us, "us", setting, {}, {}));
    lines.push_back(compare("  raw TCP / raw Unix, p50", raws, &Measurement::p50_us, "us", setting, {}, {}));
  }
}

// Kibibytes that the server grows by for each connection that says nothing (more).
double idle_connection_kib(const Process& server, const std::string& socket, std::size_t count,
                           const std::string& greeting) {
  const std::uint64_t before = server.pss_kib();
  std::vector<UniqueFd> connections;
  for (std::size_t i = 0; i < count; ++i) {
    auto connection = os::connect_unix(socket);
    if (!connection) die(connection.error().describe());
    if (!greeting.empty()) ::send(connection->get(), greeting.data(), greeting.size(), MSG_NOSIGNAL);
    connections.push_back(std::move(*connection));
  }
  // Served in order: the answer to the last one comes when all are in place.
  ::usleep(500'000);
  const std::uint64_t after = server.pss_kib();
  return static_cast<double>(after > before ? after - before : 0) / static_cast<double>(count);
}

void idle_memory(const Setting& setting, std::vector<Line>& lines) {
  const Daemon daemon(setting.daemon, kAnyCpu);
  Ours first(daemon.connect());
  first.ping();
  const double idle_mib = static_cast<double>(daemon.process().pss_kib()) / 1024;
  const auto count = static_cast<std::size_t>(setting.calls(10'000));
  Line line = single("memory per idle connection at " + std::to_string(count),
                     idle_connection_kib(daemon.process(), daemon.socket(), count, {}), "KiB", 4.0, 0.5);
  first.ping();
  for (const auto& peer : setting.peers) {
    line.peers[peer->name()] = idle_connection_kib(peer->server(), peer->socket(), count / 5, peer->greeting());
  }
  lines.push_back(std::move(line));
  lines.push_back(single("daemon idle, PSS", idle_mib, "MiB", 5.0, 3.0));
}

double milliseconds_to_pong(const Setting& setting, const std::shared_ptr<Directory>& state) {
  const auto before = std::chrono::steady_clock::now();
  const Daemon daemon(setting.daemon, state);
  Ours(daemon.connect()).ping();
  const std::chrono::duration<double, std::milli> time = std::chrono::steady_clock::now() - before;
  return time.count();
}

void start(const Setting& setting, std::vector<Line>& lines) {
  std::vector<double> first, again;
  for (int i = 0; i < setting.repetitions; ++i) {
    const auto state = std::make_shared<Directory>();
    first.push_back(milliseconds_to_pong(setting, state));
    again.push_back(milliseconds_to_pong(setting, state));
  }
  lines.push_back(single("start to first pong", median(again), "ms", 10, 5));
  lines.push_back(single("  the very first, which makes the state", median(first), "ms", {}, {}));
}

}  // namespace

const std::vector<Row>& all_rows() {
  static const std::vector<Row> rows = {
      {"small", small_one_core},
      {"idle", small_idle},
      {"busy", small_busy},
      {"pipeline", pipelined},
      {"connections", connections},
      {"megabyte", megabyte},
      {"tcp", tcp},
      {"memory", idle_memory},
      {"start", start},
  };
  return rows;
}

}  // namespace sallyport::bench
