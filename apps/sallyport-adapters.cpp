// Holds the connections and credentials of the platform for the warden, which hands it a socket as descriptor 3
// and of its environment only what credentials name. Not for people.
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>

#include "adapters/service.h"
#include "os/process.h"
#include "platform/limits.h"

using namespace sallyport;

int main() {
  sallyport::os::open_standard_descriptors();
  constexpr int kSocket = 3;
  int type = 0;
  socklen_t length = sizeof type;
  if (::getsockopt(kSocket, SOL_SOCKET, SO_TYPE, &type, &length) != 0 || type != SOCK_STREAM) {
    std::fputs("sallyport-adapters is started by sallyportd\n", stderr);
    return 2;
  }
  // Neither core dumps nor other processes of this user show what it holds.
  ::prctl(PR_SET_DUMPABLE, 0);
  ::signal(SIGPIPE, SIG_IGN);
  ::fcntl(kSocket, F_SETFD, FD_CLOEXEC);
  const SystemClock clock;
  const Log log(STDERR_FILENO, LogFormat::text, LogLevel::info, clock);
  ipc::Loop loop;
  ipc::Sessions sessions(loop, log, {});
  adapters::Machinery machinery{sessions, log, clock};
  adapters::Service service(machinery);
  auto session = ipc::Session::open(sessions, UniqueFd(kSocket), UniqueFd(), wire::Side::accepting, "warden");
  if (!session) {
    log.error("adapters cannot start", {{"error", session.error().describe()}});
    return 1;
  }
  (*session)->set_never_idle(true);
  (*session)->set_capacity({.calls = platform::kLinkCalls,
                            .call_bytes = platform::kLinkCallBytes,
                            .unsent_bytes = platform::kLinkCallBytes,
                            .streams = platform::kLinkStreams});
  service.serve(std::move(*session));
  loop.run();
  // Whatever is under way has nobody to hear of it; threads and connections go with the process.
  ::_exit(0);
}
