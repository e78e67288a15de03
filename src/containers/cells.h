// Cells: commands in sandboxes of their own that are no containers: no door, no mailbox, nothing writable but
// what vanishes, no network unless somebody serves its proxy. For those whose word the host listens to, such as
// deputies.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/base.h"
#include "containers/launcher_link.h"
#include "ipc/loop.h"

namespace sallyport::containers {

class Cells {
 public:
  Cells(ipc::Loop& loop, const Log& log) : loop_(loop), log_(log) {}
  Cells(const Cells&) = delete;
  Cells& operator=(const Cells&) = delete;

  struct Command {
    std::vector<std::string> argv;
    std::vector<std::string> readable;  // host paths that it sees besides system programs
    std::vector<int> fds;               // become 0, 1, 2 and 3
    Millis lifetime{60'000};
    // If given, the cell has a listener for a proxy inside, which comes here once it is made: its one way out, for
    // whoever accepts there.
    std::function<void(UniqueFd)> on_proxy_listener = {};
  };
  // What is started ends, with all its children, when the handle goes or after its lifetime. Does not wait: a
  // failure to start shows as the end of its descriptors, and in the log.
  Result<std::shared_ptr<void>> start(const Command& command);
  // Ends all of them. Whoever is told so may want the next one: it gets none.
  void close() {
    is_closed_ = true;
    link_.reset();
  }

 private:
  void on_notice(const sandbox::FromLauncher& notice, std::vector<UniqueFd> fds);

  ipc::Loop& loop_;
  const Log& log_;
  std::shared_ptr<LauncherLink> link_;                                // a launcher of its own, from the first cell on
  std::map<sandbox::Handle, std::function<void(UniqueFd)>> waiting_;  // for a proxy's listener
  sandbox::Handle last_ = 0;
  bool is_closed_ = false;
};

}  // namespace sallyport::containers
