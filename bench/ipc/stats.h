// What one block of calls measured, and medians over blocks.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

namespace sallyport::bench {

struct Measurement {
  double p50_us = 0;
  double p99_us = 0;
  double calls_per_s = 0;
  double cpu_us = 0;  // of both sides, per call
};

// `quantile` of 0.5 is the median. The samples are reordered.
double quantile(std::vector<double>& samples, double quantile);
double median(std::vector<double> samples);

// The medians of each figure over the repetitions of one contender.
Measurement median_of(const std::vector<Measurement>& blocks);

// The median over repetitions of (first / second): both ran in the same moment of a noisy machine.
using Figure = double Measurement::*;
double median_ratio(const std::vector<Measurement>& first, const std::vector<Measurement>& second, Figure figure);

}  // namespace sallyport::bench
