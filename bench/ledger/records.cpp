#include "records.h"

#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <thread>
#include <vector>

#include "../ipc/stats.h"

namespace sallyport::bench {
namespace {

using namespace ledger;

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

template <typename Work>
LedgerBench::Cost measure(Work&& work) {
  const double cpu = cpu_seconds(RUSAGE_SELF), caller = cpu_seconds(RUSAGE_THREAD);
  const auto start = std::chrono::steady_clock::now();
  work();
  const std::chrono::duration<double> time = std::chrono::steady_clock::now() - start;
  return {time.count(), cpu_seconds(RUSAGE_SELF) - cpu, cpu_seconds(RUSAGE_THREAD) - caller};
}

}  // namespace

LedgerBench::LedgerBench(const std::string& parent) : path_(parent + "/sallyport-bench-XXXXXX") {
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

LedgerBench::~LedgerBench() {
  ledger_.reset();
  std::filesystem::remove_all(path_);
}

LedgerBench::Cost LedgerBench::append(int count) {
  return measure([&] {
    const std::uint64_t last = ledger_->health().last_seq + static_cast<std::uint64_t>(count);
    for (int i = 0; i < count; ++i) {
      while (!ledger_->append(sample(i))) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    while (ledger_->health().last_seq < last) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  });
}

LedgerBench::Cost LedgerBench::burst(int count) {
  return measure([&] { submit_and_wait(count); });
}

double LedgerBench::alone(int count) {
  std::vector<double> waits;
  for (int i = 0; i < count; ++i) waits.push_back(measure([&] { submit_and_wait(1); }).seconds * 1e6);
  return median(std::move(waits));
}

void LedgerBench::submit_and_wait(int count) {
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

}  // namespace sallyport::bench
