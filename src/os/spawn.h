// Programs of ours that another one starts and talks to.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"

namespace sallyport::os {

struct Spawned {
  pid_t pid = -1;
  UniqueFd socket;  // our end
};

// Starts a sibling program (see paths.h) with an empty environment, in a process group of its own, with default signal
// dispositions and the other end of a SOCK_SEQPACKET pair as its descriptor 3. It is expected to end with the socket.
Result<Spawned> spawn_helper(const std::string& name, const std::vector<std::string>& arguments = {});
inline constexpr int kHelperSocket = 3;

}  // namespace sallyport::os
