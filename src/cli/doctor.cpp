// sallyport doctor: what this machine offers, what it means, and how to mend what is missing.
#include <fcntl.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <array>
#include <vector>

#include "cli/command.h"
#include "cli/warden_link.h"
#include "os/files.h"
#include "os/peer.h"

namespace sallyport::cli {
namespace {

enum class Health : std::uint8_t { good, weak, bad };

struct Finding {
  std::string name;
  Health health;
  std::string found;
  std::string advice;  // empty when all is well
};

Finding check_kernel() {
  utsname name{};
  ::uname(&name);
  return {"kernel", Health::good, std::string(name.sysname) + " " + name.release, ""};
}

Finding check_peer_identity() {
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0) {
    return {"peer identity", Health::bad, "no Unix sockets", "Sallyport cannot work here"};
  }
  const UniqueFd a{ends[0]}, b{ends[1]};
  const auto peer = os::identify_peer(a.get());
  if (!peer) return {"peer identity", Health::bad, peer.error().describe(), "the control door will refuse everyone"};
  if (const Status namespaces = os::require_own_namespaces(*peer); !namespaces) {
    return {"peer identity", Health::bad, namespaces.error().describe(), "is /proc mounted?"};
  }
  if (peer->proof != os::IdentityProof::pidfd) {
    return {"peer identity", Health::weak, "pid-checked", "Linux 6.5 or newer proves the process (SO_PEERPIDFD)"};
  }
  return {"peer identity", Health::good, "pidfd", ""};
}

// In a child, because it cannot be undone.
bool can_unshare(int flags) {
  const pid_t child = ::fork();
  if (child < 0) return false;
  if (child == 0) ::_exit(::unshare(flags) == 0 ? 0 : 1);
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

Finding check_user_namespaces() {
  if (can_unshare(CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET)) {
    return {"user namespaces", Health::good, "available", ""};
  }
  return {"user namespaces", Health::bad, "forbidden",
          "sandboxes fall back to Landlock and seccomp alone; allow with sysctl kernel.unprivileged_userns_clone=1"};
}

Finding check_landlock() {
  constexpr unsigned kVersionFlag = 1;
  const long abi = ::syscall(SYS_landlock_create_ruleset, nullptr, 0, kVersionFlag);
  if (abi < 1) return {"landlock", Health::bad, "not available", "boot with lsm=landlock,... on Linux 5.13 or newer"};
  if (abi < 6) {
    return {"landlock", Health::weak, "ABI " + std::to_string(abi),
            "ABI 6 (Linux 6.12) also scopes signals and sockets"};
  }
  return {"landlock", Health::good, "ABI " + std::to_string(abi), ""};
}

Finding check_seccomp() {
  const auto actions = os::read_small_file("/proc/sys/kernel/seccomp/actions_avail", 4096);
  if (!actions) return {"seccomp", Health::bad, "not available", "a kernel with CONFIG_SECCOMP_FILTER is needed"};
  if (actions->find("user_notif") == std::string::npos) {
    return {"seccomp", Health::weak, "without user notification", "refused calls cannot be reported"};
  }
  return {"seccomp", Health::good, "filters, with user notification", ""};
}

Finding check_cgroups() {
  const auto controllers = os::read_small_file("/sys/fs/cgroup/cgroup.controllers", 4096);
  if (controllers && controllers->find("memory") != std::string::npos) {
    return {"cgroups", Health::good, "v2 with the memory controller", ""};
  }
  return {"cgroups", Health::weak,
          controllers ? "v2 without the memory controller" : "no v2 hierarchy at /sys/fs/cgroup",
          "limits are enforced by rlimits and supervision instead"};
}

Finding check_open_files() {
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  const std::string found = std::to_string(limit.rlim_max);
  if (limit.rlim_max >= 16'384) return {"open files", Health::good, found, ""};
  return {"open files", Health::weak, found, "for many connections raise the hard limit: ulimit -Hn 65536"};
}

Finding check_runtime_directory(const os::Paths& paths) {
  const auto directory = os::open_private_directory(paths.runtime_dir);
  if (directory) return {"runtime directory", Health::good, paths.runtime_dir, ""};
  return {"runtime directory", Health::bad, directory.error().message, "see SALLYPORT_RUNTIME_DIR"};
}

Finding check_warden(const os::Paths& paths) {
  const auto client = connect_warden(paths);
  if (!client) return {"warden", Health::weak, "not running", "start it with: sallyport up"};
  if (const auto answer = (*client)->call("test.ping"); !answer) {
    return {"warden", Health::bad, answer.error().message, "see " + paths.log_file()};
  }
  return {"warden", Health::good, "answers at " + paths.control_socket(), ""};
}

std::string_view to_string(Health health) {
  return health == Health::good ? "good" : health == Health::weak ? "weak" : "bad";
}

void show(const Context& context, const std::vector<Finding>& findings) {
  if (context.wants_json) {
    print(wire::to_json([&](wire::JsonWriter& json) {
      json.begin_object().key("checks").begin_array();
      for (const Finding& finding : findings) {
        json.begin_object().member("name", finding.name).member("health", to_string(finding.health));
        json.member("found", finding.found).member("advice", finding.advice).end_object();
      }
      json.end_array().end_object();
    }));
    return;
  }
  for (const Finding& finding : findings) {
    const std::string mark = finding.health == Health::good   ? green("ok  ")
                             : finding.health == Health::weak ? yellow("weak")
                                                              : red("BAD ");
    print(mark + "  " + finding.name + std::string(20 - std::min<std::size_t>(finding.name.size(), 19), ' ') +
          finding.found);
    if (!finding.advice.empty()) print(dim("      " + finding.advice));
  }
}

}  // namespace

void add_doctor_command(CLI::App& app, Context& context) {
  app.add_subcommand("doctor", "Check what this machine offers, and how to mend what is missing")->callback([&context] {
    const std::vector<Finding> findings = {check_kernel(),
                                           check_peer_identity(),
                                           check_user_namespaces(),
                                           check_landlock(),
                                           check_seccomp(),
                                           check_cgroups(),
                                           check_open_files(),
                                           check_runtime_directory(context.paths),
                                           check_warden(context.paths)};
    show(context, findings);
    for (const Finding& finding : findings) {
      if (finding.health == Health::bad) context.exit_code = static_cast<int>(Exit::failed);
    }
  });
}

}  // namespace sallyport::cli
