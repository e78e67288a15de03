// Prints what an audit record costs: CPU per append, records per second with and without waiting for the
// disk, and how long one waits alone. Usage: bench_ledger_driver DIRECTORY
#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "ledger/ledger.h"

using namespace sallyport;
using namespace sallyport::ledger;

namespace {

using Steady = std::chrono::steady_clock;

double seconds_since(Steady::time_point start) { return std::chrono::duration<double>(Steady::now() - start).count(); }

double cpu_seconds(int who) {
  rusage usage{};
  ::getrusage(who, &usage);
  const auto seconds = [](const timeval& time) { return double(time.tv_sec) + double(time.tv_usec) / 1e6; };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

Entry sample(int number) {
  Entry entry;
  entry.stage = Stage::decision;
  entry.principal = "container/3f9a77b0";
  entry.peer_pid = 12345;
  entry.session = "container/3f9a77b0/17";
  entry.request_id = std::to_string(number);
  entry.method = "fs.write";
  entry.unhashed_payload.assign(200, 'x');
  return entry;
}

class Bench {
 public:
  explicit Bench(const std::string& parent) : path_(parent + "/sallyport-bench-XXXXXX") {
    if (::mkdtemp(path_.data()) == nullptr) std::abort();
    auto opened = Ledger::open({.state_dir = path_, .clock = clock_});
    if (!opened) {
      std::fprintf(stderr, "%s\n", opened.error().describe().c_str());
      std::exit(1);
    }
    ledger_ = std::move(*opened);
    // Completions are counted where they arise: a loop would only add its own cost.
    ledger_->start([](const std::function<void()>& work) { work(); });
    submit_and_wait(100);
  }
  ~Bench() {
    ledger_.reset();
    std::filesystem::remove_all(path_);
  }
  Bench(const Bench&) = delete;
  Bench& operator=(const Bench&) = delete;

  struct Cost {
    double seconds, cpu, caller_cpu;
  };

  // `count` buffered records, until the last is written.
  Cost append(int count) {
    return measure([&] {
      const std::uint64_t last = ledger_->health().last_seq + static_cast<std::uint64_t>(count);
      for (int i = 0; i < count; ++i) {
        while (!ledger_->append(sample(i))) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
      while (ledger_->health().last_seq < last) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    });
  }
  // `count` durable records, submitted as fast as they come.
  Cost burst(int count) {
    return measure([&] { submit_and_wait(count); });
  }
  // One durable record after the other: the median wait in microseconds.
  double alone(int count) {
    std::vector<double> waits;
    for (int i = 0; i < count; ++i) waits.push_back(measure([&] { submit_and_wait(1); }).seconds * 1e6);
    std::nth_element(waits.begin(), waits.begin() + count / 2, waits.end());
    return waits[static_cast<std::size_t>(count / 2)];
  }

 private:
  template <typename Work>
  static Cost measure(Work&& work) {
    const double cpu = cpu_seconds(RUSAGE_SELF), caller = cpu_seconds(RUSAGE_THREAD);
    const auto start = Steady::now();
    work();
    return {seconds_since(start), cpu_seconds(RUSAGE_SELF) - cpu, cpu_seconds(RUSAGE_THREAD) - caller};
  }
  void submit_and_wait(int count) {
    std::atomic<int> left{count};
    for (int i = 0; i < count; ++i) {
      Submission submission;
      submission.entries.push_back(sample(i));
      submission.done = [&left](const Status& status) {
        if (!status) std::abort();
        if (--left == 0) left.notify_one();
      };
      ledger_->submit(std::move(submission));
    }
    for (int now = left; now != 0; now = left) left.wait(now);
  }

  std::string path_;
  SystemClock clock_;
  std::unique_ptr<Ledger> ledger_;
};

// The floor: a page appended and synced.
double raw_sync_micros(const std::string& directory) {
  std::string path = directory + "/sallyport-sync-XXXXXX";
  const UniqueFd fd{::mkstemp(path.data())};
  ::unlink(path.c_str());
  const std::string page(4096, 'x');
  std::vector<double> times;
  for (int i = 0; i < 101; ++i) {
    const auto start = Steady::now();
    if (::write(fd.get(), page.data(), page.size()) < 0 || ::fdatasync(fd.get()) != 0) std::abort();
    times.push_back(seconds_since(start) * 1e6);
  }
  std::nth_element(times.begin(), times.begin() + 50, times.end());
  return times[50];
}

}  // namespace

int main(int argc, char** argv) {
  const std::string directory = argc > 1 ? argv[1] : "/tmp";
  constexpr int kRecords = 100'000, kBurst = 20'000, kRuns = 5;
  Bench bench(directory);

  const Bench::Cost many = bench.append(kRecords);
  std::printf("%-44s %8.2f us   (target 10; of it the caller's thread %.2f us)\n", "CPU per buffered record",
              many.cpu / kRecords * 1e6, many.caller_cpu / kRecords * 1e6);

  // In turns, so that both meet the same machine; the best of each.
  double durable = 0, buffered = 0, cpu = 1e9;
  for (int i = 0; i < kRuns; ++i) {
    buffered = std::max(buffered, kBurst / bench.append(kBurst).seconds);
    const Bench::Cost cost = bench.burst(kBurst);
    durable = std::max(durable, kBurst / cost.seconds);
    cpu = std::min(cpu, cost.cpu / kBurst * 1e6);
  }
  std::printf("%-44s %8.2f us   (target 10)\n", "CPU per durable record, group commit", cpu);
  std::printf("%-44s %8.0f /s\n", "buffered records, burst of 20,000", buffered);
  std::printf("%-44s %8.0f /s\n", "durable records, burst of 20,000", durable);
  std::printf("%-44s %8.2f      (target 0.9)\n", "durable / buffered", durable / buffered);
  std::printf("%-44s %8.0f us   (a page written and synced: %.0f us)\n", "one durable record alone, median",
              bench.alone(101), raw_sync_micros(directory));
  return 0;
}
