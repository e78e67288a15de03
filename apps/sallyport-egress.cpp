// The proxy through which containers reach the hosts that they may reach. Started by sallyportd and by `sallyport run`,
// which hand it a socket as descriptor 3. Not for people.
#include <sys/socket.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>

#include "egress/egress.h"
#include "os/process.h"
#include "os/spawn.h"

using namespace sallyport;

int main(int argc, char** argv) {
  sallyport::os::open_standard_descriptors();
  int type = 0;
  socklen_t length = sizeof type;
  const bool has_hosts = argc == 3 && std::strcmp(argv[1], "--hosts") == 0;
  if ((argc != 1 && !has_hosts) || ::getsockopt(os::kHelperSocket, SOL_SOCKET, SO_TYPE, &type, &length) != 0 ||
      type != SOCK_SEQPACKET) {
    std::fputs("sallyport-egress is started by sallyportd and sallyport run\n", stderr);
    return 2;
  }
  // Whatever else the one that started it had open is none of its business.
  ::close_range(os::kHelperSocket + 1, ~0U, 0);
  return egress::run_proxy(UniqueFd(os::kHelperSocket), has_hosts ? argv[2] : "");
}
