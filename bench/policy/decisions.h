// What a decision costs, with 500 rules and with none.
#pragma once

#include <string>
#include <vector>

namespace sallyport::bench {

// A decision with its explanation, as rules with reviews and rates need it, and the short way of what is simply
// allowed.
struct DecisionCost {
  std::string what;
  bool has_many_rules = false;
  double explained_us = 0, at_once_us = 0;  // medians
};
std::vector<DecisionCost> measure_decisions();

inline constexpr double kDecisionTargetUs = 2;

}  // namespace sallyport::bench
