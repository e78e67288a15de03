// Programs of ours that another one starts and talks to.
#pragma once

#include <sys/socket.h>
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

struct HelperOptions {
  std::vector<std::string> arguments = {};
  std::vector<char*> environment = {};  // entries of our own that it gets; of others it knows nothing
  int socket_type = SOCK_SEQPACKET;     // with SOCK_NONBLOCK, if both ends want it
};

// Starts a sibling program (see paths.h) in a process group of its own, with default signal dispositions and the other
// end of a socket pair as its descriptor 3. It is expected to end with the socket.
Result<Spawned> spawn_helper(const std::string& name, HelperOptions options = {});
inline constexpr int kHelperSocket = 3;

}  // namespace sallyport::os
