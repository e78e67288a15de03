// Prints what an audit record costs: CPU per append, records per second with and without waiting for the
// disk, and how long one waits alone. Usage: bench_ledger_driver DIRECTORY
#include <fcntl.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "../ipc/stats.h"
#include "records.h"

using namespace sallyport;
using namespace sallyport::bench;

namespace {

// The floor: a page appended and synced.
double raw_sync_micros(const std::string& directory) {
  std::string path = directory + "/sallyport-sync-XXXXXX";
  const UniqueFd fd{::mkstemp(path.data())};
  ::unlink(path.c_str());
  const std::string page(4096, 'x');
  std::vector<double> times;
  for (int i = 0; i < 101; ++i) {
    const auto start = std::chrono::steady_clock::now();
    if (::write(fd.get(), page.data(), page.size()) < 0 || ::fdatasync(fd.get()) != 0) std::abort();
    times.push_back(std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count());
  }
  return median(std::move(times));
}

void print(const char* row, double figure, const char* unit, const char* target = "", bool is_met = true) {
  const char* verdict = *target == '\0' ? "" : is_met ? "met" : "MISSED";
  std::printf("%-44s %10.2f %-4s %-8s %s\n", row, figure, unit, target, verdict);
}

}  // namespace

int main(int argc, char** argv) {
  const std::string directory = argc > 1 ? argv[1] : "/tmp";
  constexpr int kRecords = 20'000, kRuns = 7;
  LedgerBench bench(directory);

  // In turns, so that all meet the same machine; medians.
  std::vector<double> buffered_cpu, caller_cpu, durable_cpu, buffered, durable, ratio;
  for (int i = 0; i < kRuns; ++i) {
    const LedgerBench::Cost append = bench.append(kRecords), burst = bench.burst(kRecords);
    buffered_cpu.push_back(append.cpu / kRecords * 1e6);
    caller_cpu.push_back(append.caller_cpu / kRecords * 1e6);
    durable_cpu.push_back(burst.cpu / kRecords * 1e6);
    buffered.push_back(kRecords / append.seconds);
    durable.push_back(kRecords / burst.seconds);
    ratio.push_back(append.seconds / burst.seconds);
  }
  std::printf("%-44s %10s %-4s %-8s\n", "audit records, bursts of 20,000", "median", "", "target");
  const double cpu = median(durable_cpu);
  print("CPU per durable record, group commit", cpu, "us", "<= 10", cpu <= kRecordTargetUs);
  print("CPU per buffered record", median(buffered_cpu), "us", "<= 10", median(buffered_cpu) <= kRecordTargetUs);
  print("  of it on the caller's thread", median(caller_cpu), "us");
  print("buffered records", median(buffered), "/s");
  print("durable records", median(durable), "/s");
  print("durable / buffered", median(ratio), "", ">= 0.9", median(ratio) >= 0.9);
  print("one durable record alone", bench.alone(101), "us");
  print("a page written and synced", raw_sync_micros(directory), "us");
  return 0;
}
