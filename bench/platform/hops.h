// Processes that pass bytes on and do nothing else: on one CPU, where nobody spins, the floor of whatever goes through
// a warden and its adapters.
#pragma once

#include <vector>

#include "base/unique_fd.h"
#include "process.h"

namespace sallyport::bench {

class Hops {
 public:
  // Between what is returned by fd() and `far`.
  Hops(int count, UniqueFd far);
  // Nothing behind them but a process that sends back what it gets.
  explicit Hops(int count);

  int fd() const { return near_.get(); }
  void ask(std::size_t bytes) const;  // and wait for as many

 private:
  void lead_to(int count, UniqueFd far);
  std::vector<Process> processes_;
  UniqueFd near_;
};

}  // namespace sallyport::bench
