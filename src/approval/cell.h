// A command in a sandbox of its own: it sees system programs and what it is shown, writes nothing, has no
// network, and ends when its handle goes. Whoever owns the launcher gives the function that starts one.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/base.h"

namespace sallyport::approval {

struct CellCommand {
  std::vector<std::string> argv;      // argv[0] absolute
  std::vector<std::string> readable;  // absolute host paths, mounted read-only
  std::vector<int> fds;               // stdin, stdout, stderr and, if given, 3
  Millis lifetime{60'000};
};

// Does not wait: a command that cannot be started looks to its reader like one that ended at once.
using StartCell = std::function<Result<std::shared_ptr<void>>(const CellCommand&)>;

}  // namespace sallyport::approval
