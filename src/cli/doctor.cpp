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
#include "os/paths.h"
#include "os/peer.h"
#include "os/spawn.h"

extern char** environ;

namespace sallyport::cli {
namespace {

enum class Health : std::uint8_t { good, weak, bad };

struct Finding {
  std::string name;
  Health health;
  std::string found;
  std::string advice;  // empty when all is well
};

// Below the first a warden cannot make its first sandbox; the second is what its default limits would use.
constexpr rlim_t kFewestFiles = 256, kManyFiles = 16'384;

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
  if (limit.rlim_max >= kManyFiles) return {"open files", Health::good, found, ""};
  const bool is_few = limit.rlim_max < kFewestFiles;
  return {"open files", is_few ? Health::bad : Health::weak, found,
          std::string(is_few ? "too few for a warden with a sandbox" : "enough for some hundred connections") +
              ": raise the hard limit (nofile in /etc/security/limits.conf, or LimitNOFILE= of the service that starts "
              "it), for instance to 65536"};
}

Finding check_directory(const char* name, const std::string& path, const char* variable) {
  const auto directory = os::open_private_directory(path);
  if (directory) return {name, Health::good, path, ""};
  return {name, Health::bad, directory.error().message,
          "no warden starts with it; another can be named by " + std::string(variable)};
}

// What a program of ours says on stderr, if it fails.
Status run_quietly(const std::string& name, const std::string& option) {
  TRY(const std::string program, os::sibling_program(name));
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return Error::from_errno("cannot make a pipe", errno);
  const UniqueFd read_end{ends[0]};
  UniqueFd write_end{ends[1]};
  os::SpawnPlan plan(os::SpawnPlan::Place::own_group);
  plan.give(write_end.get(), STDERR_FILENO);
  TRY(const pid_t pid, plan.spawn(program, {program, option}, environ));
  write_end.reset();
  std::string said;
  std::array<char, 1024> piece{};
  for (;;) {
    const ssize_t count = ::read(read_end.get(), piece.data(), piece.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) break;
    said.append(piece.data(), static_cast<std::size_t>(count));
  }
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return ok();
  while (said.ends_with('\n')) said.pop_back();
  return Error::make(Code::invalid_params, said.empty() ? name + " does not run" : said);
}

Finding check_configuration(const os::Paths& paths) {
  if (const Status checked = run_quietly("sallyportd", "--check-config"); !checked) {
    return {"configuration", Health::bad, checked.error().message,
            "no warden starts with it, and one that runs keeps what it had; another can be named by SALLYPORT_CONFIG"};
  }
  const bool is_there = ::access(paths.config_file.c_str(), F_OK) == 0;
  return {"configuration", Health::good,
          is_there ? paths.config_file : "the defaults; " + paths.config_file + " would be read", ""};
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
    const std::vector<Finding> findings = {
        check_kernel(),
        check_peer_identity(),
        check_user_namespaces(),
        check_landlock(),
        check_seccomp(),
        check_cgroups(),
        check_open_files(),
        check_directory("runtime directory", context.paths.runtime_dir, "SALLYPORT_RUNTIME_DIR"),
        check_directory("state directory", context.paths.state_dir, "SALLYPORT_STATE_DIR"),
        check_configuration(context.paths),
        check_warden(context.paths)};
    show(context, findings);
    for (const Finding& finding : findings) {
      if (finding.health == Health::bad) context.exit_code = static_cast<int>(Exit::failed);
    }
  });
}

}  // namespace sallyport::cli
