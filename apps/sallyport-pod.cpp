// A pod's daemon. Started by the warden, which hands it all it needs as descriptor 3. Not for people.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>

#include "os/process.h"
#include "pod/daemon.h"
#include "pod/limits.h"
#include "wire/wire.h"
#include "worker/entry.h"

using namespace sallyport;

namespace {

Result<pod::Startup> take_startup() {
  struct stat info{};
  if (::fstat(pod::kStartupFd, &info) != 0 || !S_ISREG(info.st_mode) || info.st_size <= 0 || info.st_size > 2 << 20) {
    return Error::make(Code::invalid_params, "sallyport-pod is started by sallyportd; see: sallyport pod --help");
  }
  Bytes content;
  content.resize(static_cast<std::size_t>(info.st_size));
  if (::pread(pod::kStartupFd, content.data(), content.size(), 0) != info.st_size) {
    return Error::make(Code::invalid_params, "what the pod was handed cannot be read");
  }
  ::close(pod::kStartupFd);
  return pod::decode_startup(content.view());
}

// The creator reads these as the reason.
int give_up(int creator, const Error& error) {
  const std::string json = wire::to_json([&](wire::JsonWriter& writer) { wire::write_error(writer, error); });
  ::dprintf(creator, "%s\n", json.c_str());
  return 1;
}

}  // namespace

int main() {
  sallyport::os::open_standard_descriptors();
  auto startup = take_startup();
  if (!startup) return give_up(STDERR_FILENO, startup.error());
  // The creator's child ends here; what lives on is nobody's child and no session's leader.
  const pid_t child = ::fork();
  if (child != 0) ::_exit(child < 0 ? 1 : 0);
  // Not ignored, which the agent would inherit: a handler ends with this program.
  for (const int number : {SIGPIPE, SIGHUP}) ::signal(number, [](int) {});
  ::umask(077);
  auto claim = pod::take_over(*startup);
  if (!claim) return give_up(STDERR_FILENO, claim.error());
  // From here on, what it and those it starts say is for its own log; the creator hears the outcome and sees the
  // pipe's end.
  UniqueFd creator{::fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3)};
  ::dup2(claim->log.get(), STDERR_FILENO);
  const SystemClock clock;
  Log log(STDERR_FILENO, LogFormat::text, LogLevel::info, clock);
  log.rotate_at(claim->place.log_path(), pod::kMostLogBytes);
  auto daemon = pod::Daemon::start(std::move(*startup), std::move(*claim), worker::serve_files, log, clock);
  if (!daemon) return give_up(creator.get(), daemon.error());
  [[maybe_unused]] const ssize_t written = ::write(creator.get(), &pod::kReadyByte, 1);
  creator.reset();
  (*daemon)->run();
  return 0;
}
