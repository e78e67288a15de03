// Makes sandboxes for the warden, which hands it a socket as descriptor 3. Not for people.
#include <sys/socket.h>
#include <unistd.h>

#include <cstdio>

#include "sandbox/launcher.h"
#include "worker/worker.h"

using namespace sallyport;

namespace {

// In a container, behind its walls and its own: serves files until the warden hangs up.
int serve_files(int socket, const char* workspace, bool refuse_hard_links, char* const* environment) {
  const SystemClock clock;
  const Log log(STDERR_FILENO, LogFormat::text, LogLevel::error, clock);
  std::vector<std::string> directories = {"/"};
  if (workspace[0] != '\0') directories.insert(directories.begin(), workspace);
  auto roots = worker::Roots::open(directories, {.refuse_hard_links = refuse_hard_links});
  if (!roots) return 1;
  const auto variable = [environment](const std::string& name) -> std::optional<std::string> {
    for (char* const* at = environment; *at != nullptr; ++at) {
      const std::string_view entry = *at;
      if (entry.starts_with(name) && entry.substr(name.size()).starts_with("=")) {
        return std::string(entry.substr(name.size() + 1));
      }
    }
    return std::nullopt;
  };
  return worker::serve(UniqueFd(socket), worker::Service(std::move(*roots), variable), log) ? 0 : 1;
}

}  // namespace

int main() {
  constexpr int kSocket = 3;
  int type = 0;
  socklen_t length = sizeof type;
  if (::getsockopt(kSocket, SOL_SOCKET, SO_TYPE, &type, &length) != 0 || type != SOCK_SEQPACKET) {
    std::fputs("sallyport-launcher is started by sallyportd\n", stderr);
    return 2;
  }
  return sandbox::run_launcher(kSocket, serve_files);
}
