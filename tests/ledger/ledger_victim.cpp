// Writes to a ledger as fast as it can until it is killed, and says on stdout what was acknowledged:
// one line per durable record, "d <number>". Buffered records go in between. Usage: ledger_victim STATE_DIR
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <string>
#include <thread>

#include "ledger/ledger.h"

using namespace sallyport;
using namespace sallyport::ledger;

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  const SystemClock clock;
  auto opened = Ledger::open({.state_dir = argv[1], .clock = clock, .export_file_bytes = 64 << 10});
  if (!opened) {
    std::fprintf(stderr, "%s\n", opened.error().describe().c_str());
    return 1;
  }
  Ledger& book = **opened;
  std::atomic<long> in_flight{0};
  // Completions run on the writer thread here: an acknowledgement must be out before the kill can come.
  book.start([](const std::function<void()>& work) { work(); });
  for (long number = 0;; ++number) {
    Entry entry;
    entry.principal = "host";
    entry.method = "victim.buffered";
    entry.request_id = std::to_string(number);
    if (!book.append(Entry(entry))) return 1;
    entry.method = "victim.durable";
    Submission submission;
    submission.entries.push_back(entry);
    submission.done = [number, &in_flight](const Status& status) {
      --in_flight;
      const std::string line = (status ? "d " : "x ") + std::to_string(number) + "\n";
      if (::write(STDOUT_FILENO, line.data(), line.size()) < 0) ::_exit(1);
    };
    ++in_flight;
    book.submit(std::move(submission));
    while (in_flight > 16) std::this_thread::yield();
  }
}
