// bench_sandbox_driver --bin DIR [--quick] [--json] [--peer NAME "PROGRAM ARGUMENTS"]...: contenders are interleaved in
// every round, and what is reported is the median over rounds of each one's ratio to the plain spawn of that round.
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <sstream>

#include "contenders.h"

namespace {

using namespace sallyport;
using namespace sallyport::bench;

struct Options {
  std::string bin;
  int rounds = 200;
  int file_rounds = 15;
  int peer_rounds = 10;  // of those that take long
  bool is_json = false;
  std::vector<std::pair<std::string, Words>> peers;
};

struct Row {
  std::string name;
  double median = 0;  // microseconds
  double ratio = 0;   // to the first contender
  std::optional<double> target;
};

struct Contender {
  std::string name;
  std::function<double()> once;
  std::optional<double> target;
};

double median(std::vector<double> samples) {
  std::nth_element(samples.begin(), samples.begin() + static_cast<long>(samples.size() / 2), samples.end());
  return samples[samples.size() / 2];
}

std::vector<Row> measure(const std::vector<Contender>& contenders, int rounds) {
  std::vector<std::vector<double>> times(contenders.size());
  for (const Contender& contender : contenders) contender.once();  // warm
  for (int round = 0; round < rounds; ++round) {
    for (std::size_t i = 0; i < contenders.size(); ++i) times[i].push_back(contenders[i].once());
  }
  std::vector<Row> rows;
  for (std::size_t i = 0; i < contenders.size(); ++i) {
    std::vector<double> ratios;
    for (std::size_t round = 0; round < times[i].size(); ++round) ratios.push_back(times[i][round] / times[0][round]);
    rows.push_back({contenders[i].name, median(times[i]), median(ratios), contenders[i].target});
  }
  return rows;
}

sandbox::Spec default_spec(const std::string& workspace) {
  sandbox::Spec spec;
  spec.workspace = workspace;
  spec.home = "/root";
  spec.read = {"/usr", "/etc", "/opt"};
  spec.exec = {"/usr", "/opt", workspace};
  spec.environment = {"PATH=/usr/bin", "HOME=/root", "LANG=C"};
  return spec;
}

std::string in_path(const char* program) {
  for (const char* directory : {"/usr/bin/", "/usr/local/bin/"}) {
    if (::access((std::string(directory) + program).c_str(), X_OK) == 0) return std::string(directory) + program;
  }
  return {};
}

Words words_of(const std::string& line) {
  std::istringstream words(line);
  return {std::istream_iterator<std::string>(words), {}};
}

// What takes a hundred times as long is measured in fewer rounds, beside a plain spawn of its own.
void measure_slow_peers(const Options& options, const std::string& workspace, std::vector<Row>& rows) {
  std::vector<Contender> contenders = {{"plain spawn", [] { return time_spawn({"/bin/true"}); }, {}}};
  for (const auto& [name, words] : options.peers) {
    Words command = words;
    command.push_back("/bin/true");
    contenders.push_back({name, [command] { return time_spawn(command); }, {}});
  }
  std::filesystem::current_path(workspace);
  ::setenv("TMPDIR", workspace.c_str(), 1);  // one of them leaves sockets behind
  const std::vector<Row> slow = measure(contenders, options.peer_rounds);
  rows.insert(rows.end(), slow.begin() + 1, slow.end());
}

std::vector<Row> start_up(const Options& options, LauncherUnderTest& launcher, const std::string& workspace) {
  const std::string sallyport = options.bin + "/sallyport";
  sandbox::Spec one_command = default_spec(workspace);
  one_command.command = {"/bin/true"};
  launcher.start(default_spec(workspace));
  std::vector<Contender> contenders = {
      {"plain spawn", [] { return time_spawn({"/bin/true"}); }, {}},
      {"cold, sallyport run",
       [&] { return time_spawn({sallyport, "run", "--no-warden", "--workspace", workspace, "--", "/bin/true"}); }, 4.8},
      {"bare system calls, the floor",
       [&] { return time_spawn({options.bin + "/bench_sandbox_bare", workspace, "/bin/true"}); },
       {}},
      {"next command in a container", [&] { return launcher.time_exec({"/bin/true"}); }, 1.6},
  };
  if (const std::string bwrap = in_path("bwrap"); !bwrap.empty()) {
    contenders.push_back({"bubblewrap",
                          [=] {
                            return time_spawn({bwrap, "--ro-bind", "/", "/", "--tmpfs", "/tmp", "--bind", workspace,
                                               workspace, "--unshare-all", "--die-with-parent", "--new-session",
                                               "/bin/true"});
                          },
                          {}});
  } else {
    std::fprintf(stderr, "bubblewrap is not installed: left out\n");
  }
  const std::vector<Row> warm = measure(contenders, options.rounds);
  launcher.stop();
  const std::vector<Contender> cold = {
      {"plain spawn", [] { return time_spawn({"/bin/true"}); }, {}},
      {"cold, by the launcher", [&] { return launcher.time_launch(one_command); }, 3.8},
  };
  std::vector<Row> rows = measure(cold, options.rounds);
  for (const Row& row : warm) {
    if (row.name != cold[0].name) rows.push_back(row);
  }
  measure_slow_peers(options, workspace, rows);
  return rows;
}

void make_files(const std::string& workspace) {
  for (int directory = 0; directory < 30; ++directory) {
    const std::string path = workspace + "/d" + std::to_string(directory);
    std::filesystem::create_directory(path);
    for (int file = 0; file < 100; ++file) std::ofstream(path + "/f" + std::to_string(file)) << "some text\nneedle\n";
  }
  const std::string quiet =
      "cd " + workspace + " && git init -q && git add . && git -c user.name=b -c user.email=b@c commit -qm x";
  if (std::system(quiet.c_str()) != 0) std::exit(1);
}

std::vector<Row> file_work(const Options& options, LauncherUnderTest& launcher, LauncherUnderTest& strict_launcher,
                           const std::string& workspace) {
  make_files(workspace);
  const std::string script =
      "cd " + workspace +
      " && git --no-optional-locks status --porcelain > /dev/null && cat d*/* > /dev/null && grep -rq absent . ; true";
  const Words command = {"/bin/sh", "-c", script};
  launcher.start(default_spec(workspace));
  sandbox::Spec strict = default_spec(workspace);
  strict.use_all_landlock_rights = true;
  strict_launcher.start(strict);
  auto rows = measure({{"files, outside", [&] { return time_spawn(command); }, {}},
                       {"files, inside", [&] { return launcher.time_exec(command); }, 1.06},
                       {"files, inside, all Landlock rules", [&] { return strict_launcher.time_exec(command); }, 1.15}},
                      options.file_rounds);
  std::printf("helper memory (PSS of pid 1): %ld KiB, target 1024\n", launcher.init_pss_kib());
  launcher.stop();
  strict_launcher.stop();
  return rows;
}

void print(const std::vector<Row>& rows, bool is_json) {
  for (const Row& row : rows) {
    if (is_json) {
      std::printf("{\"name\":\"%s\",\"median_us\":%.0f,\"ratio\":%.3f,\"target\":%s}\n", row.name.c_str(), row.median,
                  row.ratio, row.target ? std::to_string(*row.target).c_str() : "null");
    } else {
      std::printf("%-36s %9.0f us  %6.2fx", row.name.c_str(), row.median, row.ratio);
      if (row.target) std::printf("  target %.2f %s", *row.target, row.ratio <= *row.target ? "met" : "MISSED");
      std::printf("\n");
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--bin") == 0 && i + 1 < argc) options.bin = argv[++i];
    if (std::strcmp(argv[i], "--quick") == 0) options.rounds = 40, options.file_rounds = 5;
    if (std::strcmp(argv[i], "--json") == 0) options.is_json = true;
    if (std::strcmp(argv[i], "--peer") == 0 && i + 2 < argc) {
      options.peers.emplace_back(argv[i + 1], words_of(argv[i + 2]));
      i += 2;
    }
  }
  std::string workspace = "/tmp/sallyport-bench-XXXXXX";
  if (::mkdtemp(workspace.data()) == nullptr) return 1;
  {
    LauncherUnderTest launcher(options.bin + "/sallyport-launcher");
    LauncherUnderTest strict(options.bin + "/sallyport-launcher");
    print(start_up(options, launcher, workspace), options.is_json);
    print(file_work(options, launcher, strict, workspace), options.is_json);
  }
  std::filesystem::remove_all(workspace);
  return 0;
}
