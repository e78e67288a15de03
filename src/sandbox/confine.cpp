// What the new process gives up for good: limits, capabilities, privileges, calls.
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <linux/securebits.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

#include "os/beneath.h"
#include "os/landlock.h"
#include "sandbox/child.h"
#include "sandbox/job.h"

namespace sallyport::sandbox {
namespace {

namespace landlock = os::landlock;

// Ends at EINVAL, past the last one.
void empty_bounding_set() {
  for (int capability = 0; raw_call(SYS_prctl, PR_CAPBSET_DROP, capability, 0, 0, 0).is_ok();) ++capability;
}

}  // namespace

void bound_capabilities(const Reporter& reporter) {
  // Locked: user id 0 of this namespace is a user like any other, also across exec.
  constexpr unsigned long kNoRoot = SECBIT_NOROOT | SECBIT_NOROOT_LOCKED | SECBIT_NO_SETUID_FIXUP |
                                    SECBIT_NO_SETUID_FIXUP_LOCKED | SECBIT_KEEP_CAPS_LOCKED |
                                    SECBIT_NO_CAP_AMBIENT_RAISE | SECBIT_NO_CAP_AMBIENT_RAISE_LOCKED;
  reporter.must(Step::capabilities, raw_call(SYS_prctl, PR_SET_SECUREBITS, kNoRoot, 0, 0, 0));
  empty_bounding_set();
}

long load_filter(Filter wanted, unsigned flags) {
  const auto program = filter_program(wanted);
  const sock_fprog filter = {static_cast<unsigned short>(program.size()), const_cast<sock_filter*>(program.data())};
  return ::syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &filter);
}

void bound_rights(const Plan& plan, const Reporter& reporter) {
  for (std::size_t i = 0; i < plan.limits.size(); ++i) {
    const auto& [resource, limit] = plan.limits[i];
    if (is_of_commands_only(resource)) continue;
    reporter.must(Step::limits, ::setrlimit(static_cast<__rlimit_resource>(resource), &limit), i);
  }
  rlimit descriptors{};
  reporter.must(Step::limits, ::getrlimit(RLIMIT_NOFILE, &descriptors));
  descriptors.rlim_cur = descriptors.rlim_max;
  reporter.must(Step::limits, ::setrlimit(RLIMIT_NOFILE, &descriptors));
  reporter.must(Step::no_new_privileges, ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
  // An ordinary user gets EPERM at the first, and no_new_privs alone keeps capabilities away.
  if (plan.is_weak) empty_bounding_set();
}

void apply_landlock(const Plan& plan, const Reporter& reporter) {
  if (plan.landlock_abi < 2) return;
  landlock::Ruleset rules;
  rules.handled_fs = plan.landlock_handled;
  rules.scoped = landlock::kAbstractUnixSocket | landlock::kSignal;
  if (plan.is_weak) rules.handled_net = landlock::kBindTcp | landlock::kConnectTcp;
  const int ruleset = static_cast<int>(reporter.must(Step::landlock, landlock::create(rules, plan.landlock_abi)));
  for (std::size_t i = 0; i < plan.landlock_rules.size(); ++i) {
    const ExecRule& rule = plan.landlock_rules[i];
    const int place = ::open(rule.path.c_str(), O_PATH | O_CLOEXEC);
    if (place < 0) continue;  // what is not there needs no right
    struct stat info{};
    reporter.must(Step::landlock, ::fstat(place, &info), i);
    const std::uint64_t rights =
        plan.landlock_handled & (S_ISDIR(info.st_mode) ? rule.rights : rule.rights & landlock::kFileRights);
    if (rights != 0) reporter.must(Step::landlock, landlock::allow_beneath(ruleset, place, rights), i);
    ::close(place);
  }
  // The command's own output may be opened again, as scripts do through /dev/stderr.
  const std::uint64_t write =
      plan.landlock_handled & (landlock::kWriteFile | landlock::kTruncate | landlock::kIoctlDev);
  for (int stream = 0; stream < 3 && write != 0; ++stream) {
    const int mode = ::fcntl(stream, F_GETFL);
    if (mode < 0 || (mode & O_ACCMODE) == O_RDONLY) continue;
    const bool can_read = (mode & O_ACCMODE) == O_RDWR;
    // Pipes and sockets are on no mount and need no rule: EBADFD.
    (void)landlock::allow_beneath(ruleset, stream,
                                  write | (can_read ? plan.landlock_handled & landlock::kReadFile : 0));
  }
  reporter.must(Step::landlock, landlock::restrict_self(ruleset));
  ::close(ruleset);
}

void drop_capabilities(const Reporter& reporter) {
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  const __user_cap_data_struct nothing[2] = {};
  reporter.must(Step::capabilities, ::syscall(SYS_capset, &header, nothing));
}

int apply_seccomp(const Plan& plan, const Reporter& reporter) {
  const bool is_notified = plan.filter == Filter::command_notified;
  const unsigned flags = is_notified ? SECCOMP_FILTER_FLAG_NEW_LISTENER : 0U;
  const long result = reporter.must(Step::seccomp, load_filter(plan.filter, flags));
  return is_notified ? static_cast<int>(result) : -1;
}

bool confine_worker(int landlock_abi) {
  if (!os::make_open_table()) return false;
  if (landlock_abi >= 1) {
    landlock::Ruleset rules;
    rules.handled_fs = landlock::kExecute;
    if (landlock_abi >= 4) rules.handled_net = landlock::kBindTcp | landlock::kConnectTcp;
    const int ruleset = static_cast<int>(landlock::create(rules, landlock_abi));
    if (ruleset < 0 || landlock::restrict_self(ruleset) < 0) return false;
    ::close(ruleset);
  }
  return load_filter(Filter::worker) == 0;
}

}  // namespace sallyport::sandbox
