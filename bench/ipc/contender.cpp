#include "contender.h"

namespace sallyport::bench {
namespace {

using Time = std::chrono::steady_clock;

double micros(std::chrono::nanoseconds time) { return static_cast<double>(time.count()) / 1000; }

}  // namespace

Measurement measure_batch(const Process& server, int calls, const Call& batch) {
  const auto cpu = own_cpu_time() + server.cpu_time();
  const auto start = Time::now();
  batch();
  const auto elapsed = Time::now() - start;
  Measurement measured;
  measured.calls_per_s = calls * 1e6 / micros(elapsed);
  measured.cpu_us = micros(own_cpu_time() + server.cpu_time() - cpu) / calls;
  return measured;
}

Measurement measure_each(const Process& server, int calls, const Call& call) {
  std::vector<double> times;
  times.reserve(static_cast<std::size_t>(calls));
  Measurement measured = measure_batch(server, calls, [&] {
    auto before = Time::now();
    for (int i = 0; i < calls; ++i) {
      call();
      const auto after = Time::now();
      times.push_back(micros(after - before));
      before = after;
    }
  });
  measured.p50_us = quantile(times, 0.5);
  measured.p99_us = quantile(times, 0.99);
  return measured;
}

}  // namespace sallyport::bench
