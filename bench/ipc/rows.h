// The rows of the benchmark, each with its contenders interleaved.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "peer.h"
#include "table.h"

namespace sallyport::bench {

struct Setting {
  std::string daemon;  // the program
  int repetitions = 15;
  int scale = 1;                             // calls per block are divided by it
  std::vector<std::unique_ptr<Peer>> peers;  // on kCpu

  int calls(int full) const { return full / scale; }
};

// Where both sides of the pinned rows run.
inline constexpr int kCpu = 1;

struct Row {
  std::string_view name;
  void (*run)(const Setting& setting, std::vector<Line>& lines);
};
const std::vector<Row>& all_rows();

}  // namespace sallyport::bench
