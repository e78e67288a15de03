#include <sched.h>
#include <sys/inotify.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdio>

#include "cli/doctor.h"
#include "os/cgroup.h"
#include "os/files.h"
#include "os/peer.h"

namespace sallyport::cli {
namespace {

// The built-in profiles list what may be executed, and are not run without Landlock's ABI 2, which came with the first.
// The second proves who a peer is.
constexpr int kOldestKernel = 5'019, kGoodKernel = 6'005;

// Below the first of each a warden cannot make its first sandbox; the second is what its default limits would use.
constexpr rlim_t kFewestFiles = 256, kManyFiles = 16'384;
constexpr rlim_t kFewestProcesses = 64, kManyProcesses = 4'096;
// A sandbox has a user namespace of its own, its file worker another, and so has what runs inside now and then.
constexpr long kFewestNamespaces = 16, kManyNamespaces = 1'024;

Finding check_kernel() {
  utsname name{};
  ::uname(&name);
  int major = 0, minor = 0;
  std::sscanf(name.release, "%d.%d", &major, &minor);
  const int version = major * 1'000 + minor;
  Finding finding{"kernel", Health::good, std::string(name.sysname) + " " + name.release,
                  "every wall is the kernel's: the built-in profiles need Linux 5.19, and all that is promised 6.5",
                  ""};
  if (version >= kGoodKernel) return finding;
  finding.health = version < kOldestKernel ? Health::bad : Health::weak;
  finding.advice = version < kOldestKernel
                       ? "sandboxes are refused or weak here; install a kernel of Linux 6.5 or newer"
                       : "install a kernel of Linux 6.5 or newer; what is missing stands below";
  return finding;
}

Finding check_peer_identity() {
  Finding finding{"peer identity", Health::bad, "", "how a door knows which process speaks, before it reads a byte",
                  ""};
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0) {
    finding.found = "no Unix sockets";
    finding.advice = "a kernel with CONFIG_UNIX is needed, and no filter that forbids socketpair";
    return finding;
  }
  const UniqueFd a{ends[0]}, b{ends[1]};
  const auto peer = os::identify_peer(a.get());
  const Status namespaces = peer ? os::require_own_namespaces(*peer) : Status(peer.error());
  if (!namespaces) {
    finding.found = namespaces.error().describe();
    finding.advice = "the control door refuses everyone like this; mount /proc: mount -t proc proc /proc";
    return finding;
  }
  const bool is_certain = peer->proof == os::IdentityProof::pidfd;
  finding.health = is_certain ? Health::good : Health::weak;
  finding.found = is_certain ? "pidfd" : "pid, checked twice";
  if (!is_certain) finding.advice = "Linux 6.5 or newer proves the process (SO_PEERPIDFD)";
  return finding;
}

long read_number(const char* path, long otherwise) {
  const auto text = os::read_small_file(path, 64);
  long number = otherwise;
  if (text) std::sscanf(text->c_str(), "%ld", &number);
  return number;
}

// As a sandbox makes them, and with what it does first in them: some systems let everybody make namespaces but do
// nothing there.
bool can_use_namespaces() {
  constexpr unsigned long kFlags = CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET | SIGCHLD;
  const auto child = static_cast<pid_t>(::syscall(SYS_clone, kFlags, nullptr, nullptr, nullptr, nullptr));
  if (child < 0) return false;
  if (child == 0) ::_exit(::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 ? 0 : 1);
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

Finding check_user_namespaces() {
  Finding finding{"user namespaces", Health::good, "available",
                  "a sandbox's own root, processes and network; without them --allow-weak runs with less", ""};
  const long most = read_number("/proc/sys/user/max_user_namespaces", kManyNamespaces);
  if (can_use_namespaces()) {
    if (most >= kManyNamespaces) return finding;
    finding.health = most < kFewestNamespaces ? Health::bad : Health::weak;
    finding.found += ", at most " + std::to_string(most);
    finding.advice = "enough for few sandboxes; run: sysctl user.max_user_namespaces=15000";
    return finding;
  }
  finding.health = Health::bad;
  finding.found = "forbidden";
  const auto advise = [&](const std::string& text) {
    finding.advice += (finding.advice.empty() ? "" : "; and ") + text;
  };
  if (most < kFewestNamespaces) advise("run: sysctl user.max_user_namespaces=15000");
  if (read_number("/proc/sys/kernel/unprivileged_userns_clone", 1) == 0) {
    advise("run: sysctl kernel.unprivileged_userns_clone=1");
  }
  if (read_number("/proc/sys/kernel/apparmor_restrict_unprivileged_userns", 0) == 1) {
    advise(
        "run: sysctl kernel.apparmor_restrict_unprivileged_userns=0 (or give sallyport's programs an AppArmor profile "
        "that has userns)");
  }
  if (finding.advice.empty()) advise("a chroot or a container around this forbids them: run outside of it, or as root");
  return finding;
}

Finding check_landlock() {
  constexpr unsigned kVersionFlag = 1;
  const long abi = ::syscall(SYS_landlock_create_ruleset, nullptr, 0, kVersionFlag);
  Finding finding{"landlock", Health::good, abi < 1 ? "not available" : "ABI " + std::to_string(abi),
                  "a second wall around files, and the only one around what may be executed", ""};
  if (abi < 2) {
    finding.health = Health::bad;
    finding.advice = "boot Linux 5.19 or newer with landlock among the lsm= of its command line";
  } else if (abi < 6) {
    finding.health = Health::weak;
    finding.advice =
        "ABI 6 (Linux 6.12) also keeps signals and abstract sockets in; without it the namespaces do so alone";
  }
  return finding;
}

Finding check_seccomp() {
  const auto actions = os::read_small_file("/proc/sys/kernel/seccomp/actions_avail", 4096);
  const bool can_report = actions && actions->find("user_notif") != std::string::npos;
  Finding finding{"seccomp", Health::good, "filters, with user notification",
                  "removes system calls that nothing inside needs, and reports attempts", ""};
  if (!actions) {
    finding.health = Health::bad;
    finding.found = "not available";
    finding.advice = "a kernel with CONFIG_SECCOMP_FILTER is needed";
  } else if (!can_report) {
    finding.health = Health::weak;
    finding.found = "filters, without user notification";
    finding.advice = "refused calls are refused but not reported; Linux 5.0 or newer can";
  }
  return finding;
}

Finding check_cgroups() {
  const os::CgroupParent parent = os::CgroupParent::find();
  std::string there, missing;
  for (const char* controller : {"memory", "pids", "cpu"}) {
    std::string& list = parent.has(controller) ? there : missing;
    list += (list.empty() ? "" : ", ") + std::string(controller);
  }
  Finding finding{
      "cgroups", missing.empty() ? Health::good : Health::weak,
      (there.empty() ? "none that we may use" : there) + (missing.empty() || there.empty() ? "" : "; not " + missing),
      "limits of a container as a whole; without: memory is supervised, cpus are not limited", ""};
  if (!missing.empty()) {
    finding.advice =
        "start the warden where groups are delegated to it: systemd-run --user --scope -p Delegate=yes sallyport up";
  }
  return finding;
}

Finding check_limit(const char* name, int resource, rlim_t fewest, rlim_t many, const char* meaning,
                    const char* advice) {
  rlimit limit{};
  ::getrlimit(static_cast<__rlimit_resource_t>(resource), &limit);
  Finding finding{name, Health::good, limit.rlim_max == RLIM_INFINITY ? "no limit" : std::to_string(limit.rlim_max),
                  meaning, ""};
  if (limit.rlim_max >= many) return finding;
  finding.health = limit.rlim_max < fewest ? Health::bad : Health::weak;
  finding.advice = (limit.rlim_max < fewest ? "too few for a warden with a sandbox: " : "few: ") + std::string(advice);
  return finding;
}

Finding check_notices() {
  const UniqueFd notices{::inotify_init1(IN_CLOEXEC)};
  const bool is_good = notices && ::inotify_add_watch(notices.get(), "/", IN_MOVED_TO) >= 0;
  return {"file notices", is_good ? Health::good : Health::weak,
          is_good ? "at most " + std::to_string(read_number("/proc/sys/fs/inotify/max_user_watches", 0)) + " watches"
                  : "none left for this user",
          "how the warden learns at once what a mailbox got; without: within a tenth of a second",
          is_good ? "" : "run: sysctl fs.inotify.max_user_instances=1024 fs.inotify.max_user_watches=65536"};
}

}  // namespace

std::vector<Finding> check_machine() {
  return {check_kernel(),
          check_peer_identity(),
          check_user_namespaces(),
          check_landlock(),
          check_seccomp(),
          check_cgroups(),
          check_limit("open files", RLIMIT_NOFILE, kFewestFiles, kManyFiles,
                      "each connection, container and stream of the warden takes some",
                      "raise the hard limit (nofile in /etc/security/limits.conf, or LimitNOFILE= of the service that "
                      "starts it), for instance to 65536"),
          check_limit("processes", RLIMIT_NPROC, kFewestProcesses, kManyProcesses,
                      "all of this user's together; a sandbox takes a handful besides what runs in it",
                      "raise the hard limit (nproc in /etc/security/limits.conf, or LimitNPROC= of the service that "
                      "starts it), for instance to 16384"),
          check_notices()};
}

}  // namespace sallyport::cli
