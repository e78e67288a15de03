// Makes sandboxes for the warden, which hands it a socket as descriptor 3. Not for people.
#include <sys/socket.h>
#include <unistd.h>

#include <cstdio>

#include "os/process.h"
#include "sandbox/launcher.h"
#include "worker/entry.h"

using namespace sallyport;

int main() {
  sallyport::os::open_standard_descriptors();
  constexpr int kSocket = 3;
  int type = 0;
  socklen_t length = sizeof type;
  if (::getsockopt(kSocket, SOL_SOCKET, SO_TYPE, &type, &length) != 0 || type != SOCK_SEQPACKET) {
    std::fputs("sallyport-launcher is started by sallyportd\n", stderr);
    return 2;
  }
  return sandbox::run_launcher(kSocket, worker::serve_files);
}
