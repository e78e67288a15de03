#include "stats.h"

#include <algorithm>
#include <cmath>

namespace sallyport::bench {

double quantile(std::vector<double>& samples, double quantile) {
  if (samples.empty()) return std::nan("");
  const auto rank = static_cast<std::size_t>(quantile * static_cast<double>(samples.size() - 1));
  const auto place = samples.begin() + static_cast<std::ptrdiff_t>(rank);
  std::nth_element(samples.begin(), place, samples.end());
  return *place;
}

double median(std::vector<double> samples) { return quantile(samples, 0.5); }

Measurement median_of(const std::vector<Measurement>& blocks) {
  const auto over = [&](Figure figure) {
    std::vector<double> samples;
    for (const Measurement& block : blocks) samples.push_back(block.*figure);
    return median(std::move(samples));
  };
  return {over(&Measurement::p50_us), over(&Measurement::p99_us), over(&Measurement::calls_per_s),
          over(&Measurement::cpu_us)};
}

double median_ratio(const std::vector<Measurement>& first, const std::vector<Measurement>& second, Figure figure) {
  std::vector<double> ratios;
  for (std::size_t i = 0; i < std::min(first.size(), second.size()); ++i) {
    ratios.push_back(first[i].*figure / (second[i].*figure));
  }
  return median(std::move(ratios));
}

}  // namespace sallyport::bench
