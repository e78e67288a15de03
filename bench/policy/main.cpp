// Prints what a decision costs.
#include <cstdio>

#include "decisions.h"

using namespace sallyport::bench;

int main() {
  std::printf("%-34s %14s %16s  %-10s\n", "policy decision", "explained", "permit at once", "target");
  for (const DecisionCost& cost : measure_decisions()) {
    const char* verdict = !cost.has_many_rules                     ? ""
                          : cost.explained_us <= kDecisionTargetUs ? "<= 2 us  met"
                                                                   : "<= 2 us  MISSED";
    std::printf("%-34s %11.3f us %13.3f us  %s\n", cost.what.c_str(), cost.explained_us, cost.at_once_us, verdict);
  }
  return 0;
}
