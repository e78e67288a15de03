// The warden daemon. Runs in the foreground and logs to stderr; `sallyport up` starts it detached.
#include <fcntl.h>
#include <malloc.h>
#include <unistd.h>

#include <charconv>
#include <cstdio>
#include <string>
#include <string_view>

#include "os/process.h"
#include "policy/profile.h"
#include "warden/config.h"
#include "warden/names.h"
#include "warden/warden.h"

#ifdef SALLYPORT_FAULTS
#include "mailbox/test_signals.h"
#endif

using namespace sallyport;

namespace {

constexpr const char* kUsage =
    "Usage: sallyportd [OPTIONS]\n"
    "The Sallyport warden: serves one user's control door until it is told to stop.\n\n"
    "  --tcp               also serve on loopback TCP, with mutual proof\n"
    "  --stdio             also serve the parent process on stdin and stdout; end with it\n"
    "  --log-format FORMAT text (default) or json\n"
    "  --log-level LEVEL   debug, info (default), warn or error\n"
    "  --no-spin           always sleep while waiting, even when the next request is imminent\n"
    "  --check-config      read the configuration and the profiles, name the first fault, and end\n"
    "  --ready-fd N        write 1 to this descriptor once the doors are open, or else why not\n"
    "  --version, --help\n";

// Another one is running here: it may be gone soon. The command line waits for that.
constexpr int kExitPlaceTaken = 75;

// And as much again of what came before: weeks of an ordinary warden.
constexpr std::uint64_t kMostLogBytes = 8U << 20;

struct Arguments {
  warden::Options options;
  LogFormat log_format = LogFormat::text;
  LogLevel log_level = LogLevel::info;
  int ready_fd = -1;
  bool only_checks = false;
  bool is_done = false;  // --help or --version was answered
};

Result<Arguments> parse(int argc, char** argv) {
  Arguments arguments;
  const auto usage = [](std::string problem) { return Error::make(Code::invalid_params, std::move(problem)); };
  for (int i = 1; i < argc; ++i) {
    const std::string_view option = argv[i];
    const bool takes_value = option == "--log-format" || option == "--log-level" || option == "--ready-fd";
    if (takes_value && i + 1 == argc) return usage(std::string(option) + " needs a value");
    const std::string_view value = takes_value ? argv[++i] : "";
    if (option == "--tcp") {
      arguments.options.with_loopback = true;
    } else if (option == "--stdio") {
      arguments.options.with_stdio = true;
    } else if (option == "--check-config") {
      arguments.only_checks = true;
    } else if (option == "--no-spin") {
      arguments.options.spin = Spinner::Mode::never;
    } else if (option == "--log-format" && (value == "text" || value == "json")) {
      arguments.log_format = value == "json" ? LogFormat::json : LogFormat::text;
    } else if (option == "--log-level") {
      constexpr std::string_view kLevels[] = {"debug", "info", "warn", "error"};
      std::size_t level = 0;
      while (level < 4 && kLevels[level] != value) ++level;
      if (level == 4) return usage("--log-level must be debug, info, warn or error");
      arguments.log_level = static_cast<LogLevel>(level);
    } else if (option == "--ready-fd" &&
               std::from_chars(value.data(), value.data() + value.size(), arguments.ready_fd).ptr ==
                   value.data() + value.size() &&
               arguments.ready_fd >= 0) {
      // Now, before anything is opened: later that number may be the ledger's.
      const int mode = ::fcntl(arguments.ready_fd, F_GETFL);
      if (mode < 0 || (mode & O_ACCMODE) == O_RDONLY) {
        return usage("--ready-fd " + std::string(value) + ": no descriptor that is open for writing");
      }
    } else if (option == "--help" || option == "-h") {
      std::fputs(kUsage, stdout);
      arguments.is_done = true;
    } else if (option == "--version") {
      std::puts("sallyportd " SALLYPORT_VERSION);
      arguments.is_done = true;
    } else {
      return usage("unknown option or value: " + std::string(option) + " " + std::string(value));
    }
  }
  return arguments;
}

// Large buffers come and go with each large message. Fetching their pages from the kernel anew each time
// costs more than the message; ipc::Sessions gives them back when all is quiet.
void keep_freed_memory() {
#ifdef __GLIBC__
  ::mallopt(M_MMAP_THRESHOLD, 8 << 20);
  ::mallopt(M_TRIM_THRESHOLD, 32 << 20);
#endif
}

int check_config(const os::Paths& paths) {
  const auto config = warden::load_config(paths.config_file);
  const auto profiles = policy::Profiles::load(paths.profiles_dir());
  const Status names = config && profiles ? warden::check_names(*config, *profiles) : ok();
  for (const Error* fault :
       {config ? nullptr : &config.error(), profiles ? nullptr : &profiles.error(), names ? nullptr : &names.error()}) {
    if (fault != nullptr) std::fprintf(stderr, "%s\n", fault->message.c_str());
  }
  return config && profiles && names ? 0 : 1;
}

int serve(const Arguments& arguments) {
  keep_freed_memory();
#ifdef SALLYPORT_FAULTS
  const testing::ShiftedClock clock;
#else
  const SystemClock clock;
#endif
  Log log(STDERR_FILENO, arguments.log_format, arguments.log_level, clock);
  log.rotate_at(arguments.options.paths.log_file(), kMostLogBytes);
  auto warden = warden::Warden::start(arguments.options, log, clock);
  if (!warden) {
    const std::string why = warden.error().describe();
    log.error("cannot start", {{"error", why}});
    // Not only in the log: the disk that it is on may be why.
    if (arguments.ready_fd >= 0) {
      [[maybe_unused]] const ssize_t told = ::write(arguments.ready_fd, why.data(), why.size());
    }
    return warden.error().detail == warden::kPlaceTaken ? kExitPlaceTaken : 1;
  }
  if (arguments.ready_fd >= 0) {
    [[maybe_unused]] const ssize_t written = ::write(arguments.ready_fd, "1", 1);
    ::close(arguments.ready_fd);
  }
  os::release_code();
  (*warden)->run();
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  auto arguments = parse(argc, argv);
  if (!arguments) {
    std::fprintf(stderr, "sallyportd: %s\n%s", arguments.error().message.c_str(), kUsage);
    return 2;
  }
  if (arguments->is_done) return 0;
  os::open_standard_descriptors();
  auto paths = os::paths_from_environment();
  if (!paths) {
    std::fprintf(stderr, "sallyportd: %s\n", paths.error().message.c_str());
    return 2;
  }
  if (arguments->only_checks) return check_config(*paths);
  arguments->options.paths = std::move(*paths);
  arguments->options.version = SALLYPORT_VERSION;
#ifdef SALLYPORT_FAULTS
  testing::add_test_signals(arguments->options);
#endif
  return serve(*arguments);
}
