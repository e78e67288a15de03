#include "worker/entry.h"

#include <unistd.h>

#include "worker/worker.h"

namespace sallyport::worker {

int serve_files(int socket, const char* workspace, bool refuse_hard_links, char* const* environment) {
  const SystemClock clock;
  const Log log(STDERR_FILENO, LogFormat::text, LogLevel::error, clock);
  std::vector<std::string> directories = {"/"};
  if (workspace[0] != '\0') directories.insert(directories.begin(), workspace);
  auto roots = Roots::open(directories, {.refuse_hard_links = refuse_hard_links});
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
  return serve(UniqueFd(socket), Service(std::move(*roots), variable), log) ? 0 : 1;
}

}  // namespace sallyport::worker
