// The result: one line per claim, printed for people or as JSON.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace sallyport::bench {

struct Line {
  std::string row;
  std::string ours, raw;  // with their units
  double figure = 0;      // what is judged: mostly a ratio
  // None: reported, not judged.
  std::optional<double> target, stretch;
  bool more_is_better = false;
  std::map<std::string, double> peers;  // the same figure of the others
};

std::string with_unit(double value, const char* unit);
void print_table(const std::vector<Line>& lines);
void print_json(const std::vector<Line>& lines);

}  // namespace sallyport::bench
