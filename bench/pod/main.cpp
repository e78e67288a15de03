// bench_pod_driver --bin DIR [--quick] [--json]: contenders are interleaved in every round; what is judged is
// the median over rounds of each one's ratio to the bare terminal of that round.
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <optional>
#include <thread>

#include "../ipc/directory.h"
#include "../ipc/table.h"
#include "os/peer.h"
#include "os/process.h"
#include "pod/terminal_filter.h"
#include "terminals.h"

namespace {

using namespace sallyport;
using namespace sallyport::bench;

constexpr std::size_t kTextBytes = 20'000'000;

double median(std::vector<double> samples) {
  std::sort(samples.begin(), samples.end());
  return samples.empty() ? 0 : samples[samples.size() / 2];
}

double own_cpu() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

struct Bench {
  std::string root, workspace, bin;
  bool is_quick = false;
  std::unique_ptr<Client> warden;
  pid_t warden_pid = -1;
  std::vector<Line> lines;

  std::string pods_dir() const { return root + "/state/pods"; }
  std::string text_file() const { return workspace + "/text"; }
  std::unique_ptr<OnPod> pod(const std::string& script, bool with_tcp = false) const {
    return std::make_unique<OnPod>(*warden, pods_dir(), workspace, script, with_tcp);
  }
  std::string dtach(const std::string& script) const {
    static int used = 0;
    return "exec dtach -c " + root + "/dtach" + std::to_string(++used) + ".sock -E -z -r none sh -c '" + script + "'";
  }
  std::string tmux(const std::string& script) const {
    static int used = 0;
    return "TERM=xterm exec tmux -S " + root + "/tmux" + std::to_string(++used) +
           ".sock -f /dev/null new-session 'stty -opost 2>/dev/null; " + script + "'";
  }
};

struct Relayed {
  double seconds = 0, cpu = 0;
};

// ---- relay ----

std::string relay_script(const Bench& bench) { return "printf ready; read x; cat " + bench.text_file(); }

Relayed relay_pty(const std::string& command, bool is_raw_outside, const std::function<double()>& other_cpu) {
  OnPty terminal(command, is_raw_outside);
  std::string seen;
  while (seen.find("ready") == std::string::npos) {
    const std::string_view came = terminal.read();
    if (came.empty()) return {};
    seen += came;
  }
  const double cpu_before = own_cpu() + other_cpu();
  const auto start = SteadyClock::now();
  terminal.type("\n");  // also where what stands between hands keys on as they are, as dtach does
  Relayed relayed;
  while (!terminal.read().empty()) relayed.cpu = own_cpu() + other_cpu() - cpu_before;
  relayed.seconds = seconds_since(start);
  terminal.finish();
  return relayed;
}

// The client does what `sallyport pod attach` does with the bytes: filters them, and writes them away.
Relayed relay_pod(const Bench& bench, bool with_tcp) {
  const auto pod = bench.pod(relay_script(bench), with_tcp);
  pod->attach();
  const UniqueFd away{::open("/dev/null", O_WRONLY | O_CLOEXEC)};
  pod::TerminalFilter filter(pod::TerminalFilter::Queries::pass);
  Bytes shown;
  for (std::string seen; seen.find("ready") == std::string::npos && !pod->read().empty();) seen += pod->last();
  const double cpu_before = own_cpu() + cpu_of(pod->daemon());
  const auto start = SteadyClock::now();
  pod->type("\r");
  std::size_t total = 0;
  while (!pod->read().empty()) {
    total += pod->last().size();
    filter.feed(as_bytes(pod->last()), shown);
    [[maybe_unused]] const ssize_t written = ::write(away.get(), shown.data(), shown.size());
    shown.clear();
  }
  const Relayed relayed{seconds_since(start), own_cpu() + cpu_of(pod->daemon()) - cpu_before};
  if (total + pod->skipped() < kTextBytes)
    std::fprintf(stderr, "bench pod: %zu bytes are missing\n", kTextBytes - total);
  if (pod->skipped() > 0)
    std::fprintf(stderr, "bench pod: the client skipped %zu bytes\n", static_cast<std::size_t>(pod->skipped()));
  pod->collect();
  return relayed;
}

void relay(Bench& bench) {
  std::vector<double> raw, unix_ratio, tcp_ratio, dtach_ratio, tmux_ratio, unix_cpu, tcp_cpu, ours;
  const auto nothing = [] { return 0.0; };
  for (int round = 0; round < (bench.is_quick ? 3 : 7); ++round) {
    const Relayed bare = relay_pty("exec sh -c '" + relay_script(bench) + "'", false, nothing);
    const Relayed local = relay_pod(bench, false), tcp = relay_pod(bench, true);
    const Relayed dtach = relay_pty(bench.dtach(relay_script(bench)), true, nothing);
    const Relayed tmux = relay_pty(bench.tmux(relay_script(bench)), true, nothing);
    raw.push_back(bare.seconds);
    ours.push_back(local.seconds);
    unix_ratio.push_back(bare.seconds / local.seconds);
    tcp_ratio.push_back(bare.seconds / tcp.seconds);
    dtach_ratio.push_back(bare.seconds / dtach.seconds);
    tmux_ratio.push_back(bare.seconds / tmux.seconds);
    unix_cpu.push_back(local.cpu / bare.cpu);
    tcp_cpu.push_back(tcp.cpu / bare.cpu);
  }
  const auto rate = [](double seconds) { return with_unit(kTextBytes / 1e6 / seconds, "MB/s"); };
  bench.lines.push_back({"relay / raw, Unix",
                         rate(median(ours)),
                         rate(median(raw)),
                         median(unix_ratio),
                         0.80,
                         0.90,
                         true,
                         {{"dtach", median(dtach_ratio)}, {"tmux", median(tmux_ratio)}}});
  bench.lines.push_back({"relay / raw, TCP", "", "", median(tcp_ratio), 0.75, 0.85, true, {}});
  bench.lines.push_back({"CPU per byte / raw, Unix", "", "", median(unix_cpu), 2.5, 2.0, false, {}});
  bench.lines.push_back({"CPU per byte / raw, TCP", "", "", median(tcp_cpu), 2.5, 2.0, false, {}});
}

// ---- echo ----

// Who shows a key: the terminal itself, as for a program that reads lines; or the program, as shells, editors and
// agents do that draw what they show.
enum class EchoBy : std::uint8_t { terminal, program };
struct Echo {
  EchoBy by;
  int keys;
};

// Ends with its last key, and so does whatever keeps it.
std::string echo_script(const Echo& echo) {
  const std::string count = std::to_string(echo.keys);
  return echo.by == EchoBy::terminal ? "stty raw echo; printf ready; exec head -c " + count + " >/dev/null"
                                     : "stty raw -echo; printf ready; exec dd bs=1 status=none count=" + count;
}

template <typename Terminal>
double echo_on(Terminal& terminal, int keys) {
  std::string seen;
  while (seen.find("ready") == std::string::npos) {
    const std::string_view came = terminal.read();
    if (came.empty()) give_up("a terminal ended before it was ready");
    seen += came;
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  std::vector<double> samples;
  for (int i = 0; i < keys; ++i) {
    const char key = static_cast<char>('a' + i % 26);
    const auto start = SteadyClock::now();
    terminal.type({&key, 1});
    for (std::string_view came; came.find(key) == std::string_view::npos;) {
      came = terminal.read();
      if (came.empty()) give_up("a terminal ended before its keys");
    }
    samples.push_back(seconds_since(start) * 1e6);
  }
  return median(samples);
}

double echo_pty(const std::string& command, bool is_raw_outside, int keys) {
  OnPty terminal(command, is_raw_outside);
  const double p50 = echo_on(terminal, keys);
  while (!terminal.read().empty()) {
  }
  return p50;
}

// It says nothing to nobody: only when somebody is there is it told to begin.
double echo_dtach(const Bench& bench, const Echo& echo) {
  static int used = 0;
  OnDtach terminal(bench.root + "/dtach-direct" + std::to_string(++used) + ".sock",
                   "stty raw echo; head -c 1 >/dev/null; " + echo_script(echo));
  terminal.type("-");
  return echo_on(terminal, echo.keys);
}

double echo_relay(bool with_tcp, const Echo& echo) {
  OnRelay terminal("exec sh -c '" + echo_script(echo) + "'", with_tcp);
  return echo_on(terminal, echo.keys);
}

double echo_pod(const Bench& bench, bool with_tcp, const Echo& echo) {
  const auto pod = bench.pod(echo_script(echo), with_tcp);
  pod->attach();
  return echo_on(*pod, echo.keys);
}

// On any core, as a person has it, each link of the chain may have to wake an idle one, the bare terminal's as the
// others'. These rows are held to the target. On one core a key's way is what all of it costs: there a relay that does
// nothing else is above the target already, so that those rows are shown beside it, and not judged.
void echo_with(Bench& bench, EchoBy by, bool is_on_one_core) {
  std::vector<double> raw, local, tcp, local_ratio, tcp_ratio, dtach_ratio, direct_ratio, tmux_ratio, bare_ratio,
      bare_tcp_ratio;
  const Echo echo{by, 2000}, fewer{by, 400};  // more than it takes to learn how to wait
  for (int round = 0; round < (bench.is_quick ? 3 : 7); ++round) {
    raw.push_back(echo_pty("exec sh -c '" + echo_script(echo) + "'", false, echo.keys));
    local.push_back(echo_pod(bench, false, echo));
    tcp.push_back(echo_pod(bench, true, echo));
    local_ratio.push_back(local.back() / raw.back());
    tcp_ratio.push_back(tcp.back() / raw.back());
    bare_ratio.push_back(echo_relay(false, echo) / raw.back());
    bare_tcp_ratio.push_back(echo_relay(true, echo) / raw.back());
    direct_ratio.push_back(echo_dtach(bench, echo) / raw.back());
    dtach_ratio.push_back(echo_pty(bench.dtach(echo_script(echo)), true, echo.keys) / raw.back());
    tmux_ratio.push_back(echo_pty(bench.tmux(echo_script(fewer)), true, fewer.keys) / raw.back());
  }
  const std::string what = by == EchoBy::program ? "program's echo / raw, " : "echo p50 / raw, ";
  const std::string where = is_on_one_core ? ", one core" : ", any core";
  const auto held_to = [&](double figure) { return is_on_one_core ? std::optional<double>() : figure; };
  bench.lines.push_back({what + "Unix" + where,
                         with_unit(median(local), "us"),
                         with_unit(median(raw), "us"),
                         median(local_ratio),
                         held_to(1.8),
                         held_to(1.6),
                         false,
                         {{"bare relay", median(bare_ratio)},
                          {"dtach at its socket", median(direct_ratio)},
                          {"dtach on a terminal", median(dtach_ratio)},
                          {"tmux on a terminal", median(tmux_ratio)}}});
  bench.lines.push_back({what + "TCP" + where,
                         with_unit(median(tcp), "us"),
                         "",
                         median(tcp_ratio),
                         held_to(2.2),
                         held_to(2.0),
                         false,
                         {{"bare relay", median(bare_tcp_ratio)}}});
}

void echo(Bench& bench) {
  for (const EchoBy by : {EchoBy::terminal, EchoBy::program}) {
    {
      const OnOneCore core(bench.warden_pid);
      echo_with(bench, by, true);
    }
    echo_with(bench, by, false);
  }
}

// ---- start ----

void starts(Bench& bench) {
  std::vector<double> ready, dead;
  for (int i = 0; i < (bench.is_quick ? 10 : 50); ++i) {
    auto start = SteadyClock::now();
    const auto pod = bench.pod("exec sleep 1000");
    ready.push_back(seconds_since(start) * 1e3);
    start = SteadyClock::now();
    const auto refused = bench.warden->call("pod.create", R"({"command":["/does/not/exist"]})");
    dead.push_back(seconds_since(start) * 1e3);
    if (refused) std::fprintf(stderr, "bench pod: a missing program was started\n");
  }
  bench.lines.push_back(
      {"create to ready, ms", with_unit(median(ready), "ms"), "", median(ready), 15.0, 8.0, false, {}});
  bench.lines.push_back(
      {"death at start told, ms", with_unit(median(dead), "ms"), "", median(dead), 50.0, {}, false, {}});
}

// ---- slow and stalled clients ----

// A person on a terminal that takes 500 KB/s: the real client, its terminal read at that pace.
double ctrl_c(const Bench& bench) {
  const auto pod = bench.pod("trap 'trap - INT; echo the-prompt; exec sleep 1000' INT; while :; do cat " +
                             bench.text_file() + "; done");
  OnPty person("exec " + bench.bin + "/sallyport pod attach " + pod->name(), true);
  const auto pace = [&](const std::string& until, double seconds) {
    const auto start = SteadyClock::now();
    std::string tail;
    std::size_t taken = 0;
    while (seconds_since(start) < seconds) {
      const auto allowed = static_cast<std::size_t>(seconds_since(start) * 500'000);
      if (taken >= allowed) {
        std::this_thread::sleep_for(std::chrono::milliseconds(2));
        continue;
      }
      if (!person.has_output(100)) continue;
      const std::string_view came = person.read_at_most(std::min<std::size_t>(allowed - taken, 4096));
      taken += came.size();
      tail.append(came);
      if (!until.empty() && tail.find(until) != std::string::npos) return seconds_since(start);
      if (tail.size() > 64) tail.erase(0, tail.size() - 64);
    }
    return seconds;
  };
  pace("", 3);
  person.type("\x03");
  return pace("the-prompt", 30);
}

double job(const Bench& bench, bool with_stalled_client) {
  const auto pod = bench.pod("read x; cat " + bench.text_file());
  pod->attach();
  const auto start = SteadyClock::now();
  pod->type("\r");
  if (!with_stalled_client) pod->detach();
  pod->wait();
  const double seconds = seconds_since(start);
  pod->detach();
  pod->collect();
  return seconds;
}

void clients(Bench& bench) {
  std::vector<double> interrupts, ratios;
  for (int i = 0; i < (bench.is_quick ? 2 : 5); ++i) interrupts.push_back(ctrl_c(bench));
  for (int i = 0; i < (bench.is_quick ? 4 : 15); ++i) {
    const bool is_stalled_first = i % 2 != 0;
    const double first = job(bench, is_stalled_first), second = job(bench, !is_stalled_first);
    ratios.push_back(is_stalled_first ? first / second : second / first);
  }
  bench.lines.push_back({"Ctrl-C behind 500 KB/s, s",
                         with_unit(median(interrupts) * 1e3, "ms"),
                         "",
                         median(interrupts),
                         0.5,
                         {},
                         false,
                         {}});
  bench.lines.push_back({"job, stalled / detached", "", "", median(ratios), 1.1, {}, false, {}});
}

// ---- memory, exits ----

void memory(Bench& bench) {
  std::vector<std::unique_ptr<OnPod>> pods;
  for (int i = 0; i < 8; ++i) pods.push_back(bench.pod("exec sleep 1000"));
  std::this_thread::sleep_for(std::chrono::seconds(3));
  std::vector<double> sizes;
  for (const auto& pod : pods) {
    if (const auto kib = os::memory_pss_kib(pod->daemon())) sizes.push_back(static_cast<double>(*kib) / 1024);
  }
  bench.lines.push_back(
      {"idle memory (PSS), MiB", with_unit(median(sizes), "MiB"), "", median(sizes), 2.0, 1.0, false, {}});
}

void exits(Bench& bench) {
  const int runs = bench.is_quick ? 50 : 1000;
  int lost = 0;
  for (int i = 0; i < runs; ++i) {
    const auto pod = bench.pod("seq 1 1500; printf the-last-byte");
    pod->attach();
    std::string all;
    while (!pod->read().empty()) all += pod->last();
    if (!all.ends_with("1500\r\nthe-last-byte") || !all.starts_with("1\r\n")) ++lost;
    pod->collect();
  }
  bench.lines.push_back({"exits that lost bytes, of " + std::to_string(runs),
                         std::to_string(lost),
                         "",
                         static_cast<double>(lost),
                         0.0,
                         {},
                         false,
                         {}});
}

void write_text(const std::string& path) {
  std::ofstream file(path);
  std::size_t written = 0;
  for (int i = 0; written < kTextBytes; ++i) {
    const std::string line = std::to_string(i) + " the quick brown fox jumps over the lazy dog and runs\n";
    file << line;
    written += line.size();
  }
}

}  // namespace

int main(int argc, char** argv) {
  Bench bench;
  bool is_json = false;
  std::string only;
  for (int i = 1; i < argc; ++i) {
    const std::string_view option = argv[i];
    if (option == "--quick") bench.is_quick = true;
    if (option == "--json") is_json = true;
    if (option == "--bin" && i + 1 < argc) bench.bin = argv[++i];
    if (option == "--row" && i + 1 < argc) only = argv[++i];
  }
  const Directory own, workspace(Directory::For::workspace);
  const std::string root = bench.root = own.path();
  bench.workspace = workspace.path();
  write_text(bench.text_file());
  ::setenv("SALLYPORT_RUNTIME_DIR", (root + "/run").c_str(), 1);
  ::setenv("SALLYPORT_STATE_DIR", (root + "/state").c_str(), 1);
  ::setenv("SALLYPORT_CONFIG", (root + "/sallyport.toml").c_str(), 1);
  ::setenv("TERM", "xterm", 1);
  if (std::system((bench.bin + "/sallyport up >/dev/null").c_str()) != 0) return 1;
  auto warden = Client::connect_unix(root + "/run/warden.sock");
  if (!warden) return 1;
  bench.warden = std::move(*warden);
  if (const auto peer = os::identify_peer(bench.warden->fd())) bench.warden_pid = peer->identity.pid;
  const std::pair<const char*, void (*)(Bench&)> kRows[] = {{"relay", relay},     {"echo", echo},     {"start", starts},
                                                            {"clients", clients}, {"memory", memory}, {"exits", exits}};
  for (const auto& [name, run] : kRows) {
    if (only.empty() || only == name) run(bench);
  }
  is_json ? print_json(bench.lines) : print_table(bench.lines);
  bench.warden.reset();
  const int down = std::system((bench.bin + "/sallyport down >/dev/null").c_str());
  return down == 0 ? 0 : 1;
}
