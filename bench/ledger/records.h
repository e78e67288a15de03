// A ledger in a directory of its own, and what a record costs there.
#pragma once

#include <string>

#include "ledger/ledger.h"

namespace sallyport::bench {

class LedgerBench {
 public:
  explicit LedgerBench(const std::string& parent);
  ~LedgerBench();
  LedgerBench(const LedgerBench&) = delete;
  LedgerBench& operator=(const LedgerBench&) = delete;

  struct Cost {
    double seconds, cpu, caller_cpu;
  };
  // `count` buffered records, until the last is written.
  Cost append(int count);
  // `count` durable records, submitted as fast as they come.
  Cost burst(int count);
  // One durable record after the other: the median wait in microseconds.
  double alone(int count);

 private:
  void submit_and_wait(int count);

  std::string path_;
  SystemClock clock_;
  std::unique_ptr<ledger::Ledger> ledger_;
};

inline constexpr double kRecordTargetUs = 10;  // of CPU, with group commit

}  // namespace sallyport::bench
