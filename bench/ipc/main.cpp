// Measures the door beside its peers. Run by bench/ipc/run.
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "os/process.h"
#include "rows.h"

using namespace sallyport::bench;

namespace {

struct Arguments {
  std::string bin, scripts;
  std::vector<std::string_view> rows;  // all if empty
  bool is_quick = false, as_json = false, with_peers = true;
};

Arguments parse(int argc, char** argv) {
  Arguments arguments;
  for (int i = 1; i < argc; ++i) {
    const std::string_view option = argv[i];
    const bool has_value = i + 1 < argc;
    if (option == "--quick") {
      arguments.is_quick = true;
    } else if (option == "--json") {
      arguments.as_json = true;
    } else if (option == "--no-peers") {
      arguments.with_peers = false;
    } else if (option == "--bin" && has_value) {
      arguments.bin = argv[++i];
    } else if (option == "--scripts" && has_value) {
      arguments.scripts = argv[++i];
    } else if (option == "--row" && has_value) {
      arguments.rows.emplace_back(argv[++i]);
    } else {
      std::string names;
      for (const Row& row : all_rows()) names += ' ' + std::string(row.name);
      die("unknown option " + std::string(option) + "; known: --quick --json --no-peers --row NAME; rows:" + names);
    }
  }
  return arguments;
}

std::vector<std::unique_ptr<Peer>> start_peers(const Arguments& arguments) {
  // The client's half of an HTTP/2 connection that then says nothing: the preface and empty settings.
  const std::string http2 = std::string("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n") + std::string("\0\0\0\4\0\0\0\0\0", 9);
  std::vector<std::unique_ptr<Peer>> peers;
  peers.push_back(Peer::start("grpc", {arguments.bin + "/bench_ipc_grpc"}, kCpu, http2));
  peers.push_back(Peer::start("node", {"node", arguments.scripts + "/peer_node.js"}, kCpu));
  std::erase(peers, nullptr);
  return peers;
}

// Others at work spoil the rows that want an idle machine, and disturb the rest.
void warn_if_busy() {
  double load = 0;
  if (::getloadavg(&load, 1) == 1 && load > 1) {
    std::fprintf(stderr, "bench ipc: the load average is %.1f; the rows of an idle machine mean little now\n", load);
  }
}

}  // namespace

int main(int argc, char** argv) {
  ::signal(SIGPIPE, SIG_IGN);
  const Arguments arguments = parse(argc, argv);
  sallyport::os::raise_open_files_limit();
  Setting setting;
  setting.daemon = arguments.bin + "/sallyportd";
  if (arguments.is_quick) {
    setting.repetitions = 5;
    setting.scale = 5;
  }
  warn_if_busy();
  if (arguments.with_peers) setting.peers = start_peers(arguments);
  std::vector<Line> lines;
  for (const Row& row : all_rows()) {
    const bool is_wanted = arguments.rows.empty() ||
                           std::find(arguments.rows.begin(), arguments.rows.end(), row.name) != arguments.rows.end();
    if (!is_wanted) continue;
    if (::isatty(STDERR_FILENO) == 1) std::fprintf(stderr, "%s ...\n", std::string(row.name).c_str());
    row.run(setting, lines);
  }
  arguments.as_json ? print_json(lines) : print_table(lines);
  return 0;
}
