// What seccomp refuses to a sandboxed command: data only.
//
// tools/make_filters.cpp turns these rows into BPF at build time (so a launch neither builds a
// filter nor loads libseccomp), and the supervisor answers notified calls from the same rows.
// Everything that is not named here is allowed: the namespaces, the mounts and the missing
// capabilities are the walls, this list removes the kernel's risky corners and what the other
// layers cannot see. Calls newer than kNewestKnownCall answer ENOSYS: unknown means no.
#pragma once

#include <linux/sched.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include <array>
#include <cerrno>
#include <cstdint>

namespace sallyport::sandbox {

enum class Compare : std::uint8_t { always, equal, not_equal, greater, masked };

struct ArgTest {
  Compare compare = Compare::always;
  unsigned index = 0;
  std::uint64_t value = 0;  // for masked: (argument & value) == wanted
  std::uint64_t wanted = 0;
};

struct FilterRule {
  int call;
  const char* name;   // of the call, for people
  int error;          // one per call: the supervisor answers by call number
  bool is_violation;  // reported through user notification where a supervisor listens
  const char* rule;   // which rule of docs/sandbox.md this is
  ArgTest first = {};
  ArgTest second = {};
};

constexpr int kNewestKnownCall = 466;  // removexattrat, Linux 6.13; the next one opens mount trees

constexpr ArgTest has_flag(unsigned index, std::uint64_t flag) { return {Compare::masked, index, flag, flag}; }
constexpr ArgTest lacks_flag(unsigned index, std::uint64_t flag) { return {Compare::masked, index, flag, 0}; }
constexpr ArgTest is(unsigned index, std::uint64_t value) { return {Compare::equal, index, value, 0}; }
constexpr ArgTest is_not(unsigned index, std::uint64_t value) { return {Compare::not_equal, index, value, 0}; }
constexpr ArgTest above(unsigned index, std::uint64_t value) { return {Compare::greater, index, value, 0}; }
// The kernel reads only 32 bits of an ioctl or fcntl request; so must we, or the upper half hides it.
constexpr ArgTest is_request(std::uint64_t request) { return {Compare::masked, 1, 0xffffffff, request}; }
// So it is with a process's number.
constexpr ArgTest is_process(unsigned index, std::uint64_t pid) { return {Compare::masked, index, 0xffffffff, pid}; }
// And with that of a limit.
constexpr ArgTest is_resource(unsigned index, std::uint64_t resource) {
  return {Compare::masked, index, 0xffffffff, resource};
}

constexpr std::uint64_t kNewTime = 0x80;
constexpr std::uint64_t kSetLease = 1024;  // F_SETLEASE
constexpr std::uint64_t kIoprioProcess = 1;
constexpr std::uint64_t kMemfdNoExecSeal = 0x8;
constexpr std::uint64_t kSetUid = 04000;
constexpr std::uint64_t kSetGid = 02000;
constexpr std::uint64_t kCreate = 0100;         // O_CREAT
constexpr std::uint64_t kNameless = 020000000;  // O_TMPFILE without O_DIRECTORY; linkat gives it a name later
constexpr std::uint64_t kBtrfsSnapCreate = 0x50009401, kBtrfsSnapCreateV2 = 0x50009417;
constexpr std::uint64_t kBcachefsSubvolumeCreate = 0x4020bc10;
constexpr std::uint64_t kTiocSti = 0x5412, kTiocLinux = 0x541C, kTiocCons = 0x541D, kTiocSetd = 0x5423;

#define SALLYPORT_REFUSED(call, rule) \
  FilterRule { SYS_##call, #call, EPERM, true, rule }

inline constexpr auto kCommandRules = std::to_array<FilterRule>({
    // clone3 takes its flags in memory, where no filter can see them; libc falls back to clone.
    {SYS_clone3, "clone3", ENOSYS, false, "namespaces"},
    {SYS_clone, "clone", EPERM, true, "namespaces", has_flag(0, CLONE_NEWNS)},
    {SYS_clone, "clone", EPERM, true, "namespaces", has_flag(0, CLONE_NEWUSER)},
    {SYS_clone, "clone", EPERM, true, "namespaces", has_flag(0, CLONE_NEWPID)},
    {SYS_clone, "clone", EPERM, true, "namespaces", has_flag(0, CLONE_NEWNET)},
    {SYS_clone, "clone", EPERM, true, "namespaces", has_flag(0, CLONE_NEWIPC)},
    {SYS_clone, "clone", EPERM, true, "namespaces", has_flag(0, CLONE_NEWUTS)},
    {SYS_clone, "clone", EPERM, true, "namespaces", has_flag(0, CLONE_NEWCGROUP)},
    {SYS_unshare, "unshare", EPERM, true, "namespaces", has_flag(0, CLONE_NEWNS)},
    {SYS_unshare, "unshare", EPERM, true, "namespaces", has_flag(0, CLONE_NEWUSER)},
    {SYS_unshare, "unshare", EPERM, true, "namespaces", has_flag(0, CLONE_NEWPID)},
    {SYS_unshare, "unshare", EPERM, true, "namespaces", has_flag(0, CLONE_NEWNET)},
    {SYS_unshare, "unshare", EPERM, true, "namespaces", has_flag(0, CLONE_NEWIPC)},
    {SYS_unshare, "unshare", EPERM, true, "namespaces", has_flag(0, CLONE_NEWUTS)},
    {SYS_unshare, "unshare", EPERM, true, "namespaces", has_flag(0, CLONE_NEWCGROUP)},
    {SYS_unshare, "unshare", EPERM, true, "namespaces", has_flag(0, kNewTime)},
    SALLYPORT_REFUSED(setns, "namespaces"),
    SALLYPORT_REFUSED(mount, "mounts"),
    SALLYPORT_REFUSED(umount2, "mounts"),
    SALLYPORT_REFUSED(pivot_root, "mounts"),
    SALLYPORT_REFUSED(open_tree, "mounts"),
    SALLYPORT_REFUSED(move_mount, "mounts"),
    SALLYPORT_REFUSED(fsopen, "mounts"),
    SALLYPORT_REFUSED(fsconfig, "mounts"),
    SALLYPORT_REFUSED(fsmount, "mounts"),
    SALLYPORT_REFUSED(fspick, "mounts"),
    SALLYPORT_REFUSED(mount_setattr, "mounts"),
    SALLYPORT_REFUSED(open_by_handle_at, "mounts"),
    SALLYPORT_REFUSED(quotactl, "mounts"),
    SALLYPORT_REFUSED(quotactl_fd, "mounts"),
    SALLYPORT_REFUSED(swapon, "mounts"),
    SALLYPORT_REFUSED(swapoff, "mounts"),
    SALLYPORT_REFUSED(io_uring_setup, "kernel-interfaces"),
    SALLYPORT_REFUSED(io_uring_enter, "kernel-interfaces"),
    SALLYPORT_REFUSED(io_uring_register, "kernel-interfaces"),
    // The machine has so many of these requests for all of its users; who is refused does without.
    {SYS_io_setup, "io_setup", ENOSYS, false, "kernel-interfaces"},
    SALLYPORT_REFUSED(bpf, "kernel-interfaces"),
    SALLYPORT_REFUSED(perf_event_open, "kernel-interfaces"),
    SALLYPORT_REFUSED(userfaultfd, "kernel-interfaces"),
    SALLYPORT_REFUSED(fanotify_init, "kernel-interfaces"),
    SALLYPORT_REFUSED(keyctl, "keys"),
    SALLYPORT_REFUSED(add_key, "keys"),
    SALLYPORT_REFUSED(request_key, "keys"),
    SALLYPORT_REFUSED(kexec_load, "machine"),
    SALLYPORT_REFUSED(kexec_file_load, "machine"),
    SALLYPORT_REFUSED(init_module, "machine"),
    SALLYPORT_REFUSED(finit_module, "machine"),
    SALLYPORT_REFUSED(delete_module, "machine"),
    SALLYPORT_REFUSED(reboot, "machine"),
    SALLYPORT_REFUSED(acct, "machine"),
    SALLYPORT_REFUSED(syslog, "machine"),
    SALLYPORT_REFUSED(vhangup, "machine"),
    SALLYPORT_REFUSED(clock_settime, "clock"),
    SALLYPORT_REFUSED(clock_adjtime, "clock"),
    SALLYPORT_REFUSED(settimeofday, "clock"),
    SALLYPORT_REFUSED(adjtimex, "clock"),
#ifdef __x86_64__
    SALLYPORT_REFUSED(iopl, "machine"),
    SALLYPORT_REFUSED(ioperm, "machine"),
    SALLYPORT_REFUSED(modify_ldt, "machine"),
    {SYS_chmod, "chmod", EPERM, true, "setuid-files", has_flag(1, kSetUid)},
    {SYS_chmod, "chmod", EPERM, true, "setuid-files", has_flag(1, kSetGid)},
    {SYS_creat, "creat", EPERM, true, "setuid-files", has_flag(1, kSetUid)},
    {SYS_creat, "creat", EPERM, true, "setuid-files", has_flag(1, kSetGid)},
    {SYS_open, "open", EPERM, true, "setuid-files", has_flag(1, kCreate), has_flag(2, kSetUid)},
    {SYS_open, "open", EPERM, true, "setuid-files", has_flag(1, kCreate), has_flag(2, kSetGid)},
    {SYS_open, "open", EPERM, true, "setuid-files", has_flag(1, kNameless), has_flag(2, kSetUid)},
    {SYS_open, "open", EPERM, true, "setuid-files", has_flag(1, kNameless), has_flag(2, kSetGid)},
    {SYS_mknod, "mknod", EPERM, true, "setuid-files", has_flag(1, kSetUid)},
    {SYS_mknod, "mknod", EPERM, true, "setuid-files", has_flag(1, kSetGid)},
#endif
    // A set-user-id file made here would be live on the host, where the workspace is not nosuid.
    {SYS_fchmod, "fchmod", EPERM, true, "setuid-files", has_flag(1, kSetUid)},
    {SYS_fchmod, "fchmod", EPERM, true, "setuid-files", has_flag(1, kSetGid)},
    {SYS_fchmodat, "fchmodat", EPERM, true, "setuid-files", has_flag(2, kSetUid)},
    {SYS_fchmodat, "fchmodat", EPERM, true, "setuid-files", has_flag(2, kSetGid)},
    {452, "fchmodat2", EPERM, true, "setuid-files", has_flag(2, kSetUid)},
    {452, "fchmodat2", EPERM, true, "setuid-files", has_flag(2, kSetGid)},
    {SYS_mknodat, "mknodat", EPERM, true, "setuid-files", has_flag(2, kSetUid)},
    {SYS_mknodat, "mknodat", EPERM, true, "setuid-files", has_flag(2, kSetGid)},
    {SYS_openat, "openat", EPERM, true, "setuid-files", has_flag(2, kCreate), has_flag(3, kSetUid)},
    {SYS_openat, "openat", EPERM, true, "setuid-files", has_flag(2, kCreate), has_flag(3, kSetGid)},
    {SYS_openat, "openat", EPERM, true, "setuid-files", has_flag(2, kNameless), has_flag(3, kSetUid)},
    {SYS_openat, "openat", EPERM, true, "setuid-files", has_flag(2, kNameless), has_flag(3, kSetGid)},
    // A memfd that may be executed would be a program that no exec list names.
    {SYS_memfd_create, "memfd_create", ENOSYS, false, "memfd", lacks_flag(1, kMemfdNoExecSeal)},
    {447, "memfd_secret", ENOSYS, false, "memfd"},
    {SYS_ioctl, "ioctl", EPERM, true, "terminal", is_request(kTiocSti)},
    {SYS_ioctl, "ioctl", EPERM, true, "terminal", is_request(kTiocLinux)},
    {SYS_ioctl, "ioctl", EPERM, true, "terminal", is_request(kTiocCons)},
    {SYS_ioctl, "ioctl", EPERM, true, "terminal", is_request(kTiocSetd)},
    // A snapshot of a directory that is a subvolume shows what is covered there.
    {SYS_ioctl, "ioctl", EPERM, true, "subvolumes", is_request(kBtrfsSnapCreate)},
    {SYS_ioctl, "ioctl", EPERM, true, "subvolumes", is_request(kBtrfsSnapCreateV2)},
    {SYS_ioctl, "ioctl", EPERM, true, "subvolumes", is_request(kBcachefsSubvolumeCreate)},
    // Pid 1 and the file worker belong to the same user: nobody else's limits are to be changed, and pid 1, which
    // watches the limits of all, is to run as soon as it wants to.
    {SYS_prlimit64, "prlimit64", EPERM, true, "limits", is_not(0, 0), is_not(2, 0)},
    {SYS_sched_setscheduler, "sched_setscheduler", EPERM, true, "limits", is_process(0, 1)},
    {SYS_sched_setparam, "sched_setparam", EPERM, true, "limits", is_process(0, 1)},
    {SYS_sched_setattr, "sched_setattr", EPERM, true, "limits", is_process(0, 1)},
    {SYS_sched_setaffinity, "sched_setaffinity", EPERM, true, "limits", is_process(0, 1)},
    // Of a whole group or user pid 1 may be part.
    {SYS_setpriority, "setpriority", EPERM, true, "limits", is_not(0, PRIO_PROCESS)},
    {SYS_setpriority, "setpriority", EPERM, true, "limits", is_process(1, 1)},
    {SYS_ioprio_set, "ioprio_set", EPERM, true, "limits", is_not(0, kIoprioProcess)},
    {SYS_ioprio_set, "ioprio_set", EPERM, true, "limits", is_process(1, 1)},
    // Only unix, inet, inet6, and of netlink only the route protocol (tools read addresses by it).
    {SYS_socket, "socket", EAFNOSUPPORT, true, "sockets", above(0, AF_NETLINK)},
    {SYS_socket, "socket", EAFNOSUPPORT, true, "sockets", is(0, AF_UNSPEC)},
    {SYS_socket, "socket", EAFNOSUPPORT, true, "sockets", is(0, AF_AX25)},
    {SYS_socket, "socket", EAFNOSUPPORT, true, "sockets", is(0, AF_IPX)},
    {SYS_socket, "socket", EAFNOSUPPORT, true, "sockets", is(0, AF_APPLETALK)},
    {SYS_socket, "socket", EAFNOSUPPORT, true, "sockets", is(0, AF_NETROM)},
    {SYS_socket, "socket", EAFNOSUPPORT, true, "sockets", is(0, AF_BRIDGE)},
    {SYS_socket, "socket", EAFNOSUPPORT, true, "sockets", is(0, AF_ATMPVC)},
    {SYS_socket, "socket", EAFNOSUPPORT, true, "sockets", is(0, AF_X25)},
    {SYS_socket, "socket", EAFNOSUPPORT, true, "sockets", is(0, AF_ROSE)},
    {SYS_socket, "socket", EAFNOSUPPORT, true, "sockets", is(0, AF_DECnet)},
    {SYS_socket, "socket", EAFNOSUPPORT, true, "sockets", is(0, AF_NETBEUI)},
    {SYS_socket, "socket", EAFNOSUPPORT, true, "sockets", is(0, AF_SECURITY)},
    {SYS_socket, "socket", EAFNOSUPPORT, true, "sockets", is(0, AF_KEY)},
    {SYS_socket, "socket", EAFNOSUPPORT, true, "sockets", is(0, AF_NETLINK), is_not(2, 0)},
    {SYS_socketpair, "socketpair", EAFNOSUPPORT, true, "sockets", is_not(0, AF_UNIX)},
});

// Added in the weak mode, where no namespace hides the host's network, processes and IPC objects.
inline constexpr auto kWeakRules = std::to_array<FilterRule>({
    {SYS_socket, "socket", EAFNOSUPPORT, true, "weak-sockets"},
    SALLYPORT_REFUSED(ptrace, "weak-processes"),
    SALLYPORT_REFUSED(process_vm_readv, "weak-processes"),
    SALLYPORT_REFUSED(process_vm_writev, "weak-processes"),
    SALLYPORT_REFUSED(pidfd_open, "weak-processes"),
    SALLYPORT_REFUSED(pidfd_getfd, "weak-processes"),
    SALLYPORT_REFUSED(kcmp, "weak-processes"),
    SALLYPORT_REFUSED(move_pages, "weak-processes"),
    SALLYPORT_REFUSED(migrate_pages, "weak-processes"),
    SALLYPORT_REFUSED(shmget, "weak-ipc"),
    SALLYPORT_REFUSED(shmat, "weak-ipc"),
    SALLYPORT_REFUSED(semget, "weak-ipc"),
    SALLYPORT_REFUSED(semop, "weak-ipc"),
    SALLYPORT_REFUSED(msgget, "weak-ipc"),
    SALLYPORT_REFUSED(msgsnd, "weak-ipc"),
    SALLYPORT_REFUSED(msgrcv, "weak-ipc"),
    SALLYPORT_REFUSED(mq_open, "weak-ipc"),
    SALLYPORT_REFUSED(shmctl, "weak-ipc"),
    SALLYPORT_REFUSED(semctl, "weak-ipc"),
    SALLYPORT_REFUSED(semtimedop, "weak-ipc"),
    SALLYPORT_REFUSED(msgctl, "weak-ipc"),
    SALLYPORT_REFUSED(mq_unlink, "weak-ipc"),
    {SYS_sched_setscheduler, "sched_setscheduler", EPERM, true, "weak-processes", is_not(0, 0)},
    {SYS_sched_setparam, "sched_setparam", EPERM, true, "weak-processes", is_not(0, 0)},
    {SYS_sched_setattr, "sched_setattr", EPERM, true, "weak-processes", is_not(0, 0)},
    {SYS_sched_setaffinity, "sched_setaffinity", EPERM, true, "weak-processes", is_not(0, 0)},
    {SYS_setpriority, "setpriority", EPERM, true, "weak-processes", is_not(0, PRIO_PROCESS)},
    {SYS_setpriority, "setpriority", EPERM, true, "weak-processes", is_not(1, 0)},
    {SYS_ioprio_set, "ioprio_set", EPERM, true, "weak-processes", is_not(0, kIoprioProcess)},
    {SYS_ioprio_set, "ioprio_set", EPERM, true, "weak-processes", is_not(1, 0)},
});

#undef SALLYPORT_REFUSED

// Added before a command is executed; pid 1 and the file worker, which have the rules above too, do without it.
inline constexpr auto kStartRules = std::to_array<FilterRule>({
    // Its mode is in memory, out of a filter's sight; callers fall back to openat.
    {SYS_openat2, "openat2", ENOSYS, false, "setuid-files"},
    // A lease on a file makes those wait who open it, and fails those who do not wait: our own search among them.
    {SYS_fcntl, "fcntl", EPERM, false, "leases", is_request(kSetLease)},
    // By this limit pid 1 knows what a command has started; see job.h.
    {SYS_setrlimit, "setrlimit", EPERM, false, "limits", is_resource(0, RLIMIT_LOCKS)},
    {SYS_prlimit64, "prlimit64", EPERM, false, "limits", is_resource(1, RLIMIT_LOCKS), is_not(2, 0)},
});

// All that a file worker may call, on top of what its container's filter leaves: files by descriptor, its
// one socket, its own memory and threads. Everything else answers EPERM. To these come, with tests of their
// arguments, openat2 with the table of os/beneath.h and the calls that change memory elsewhere than there.
inline constexpr auto kWorkerCalls = std::to_array<int>({
    SYS_read,
    SYS_write,
    SYS_readv,
    SYS_writev,
    SYS_pread64,
    SYS_pwrite64,
    SYS_lseek,
    SYS_close,
    SYS_dup,
    SYS_fcntl,
    SYS_openat,
    SYS_readlinkat,
    SYS_getdents64,
    SYS_getcwd,
    SYS_fstat,
    SYS_newfstatat,
    SYS_statx,
    SYS_fstatfs,
    SYS_faccessat,
    SYS_faccessat2,
    SYS_renameat,
    SYS_renameat2,
    SYS_unlinkat,
    SYS_mkdirat,
    SYS_linkat,
    SYS_symlinkat,
    SYS_ftruncate,
    SYS_fallocate,
    SYS_copy_file_range,
    SYS_sendfile,
    SYS_fadvise64,
    SYS_fsync,
    SYS_fdatasync,
    SYS_fchmod,
    SYS_fchown,
    SYS_fchownat,
    SYS_utimensat,
    SYS_flistxattr,
    SYS_fgetxattr,
    SYS_fsetxattr,
    SYS_fremovexattr,
    SYS_recvmsg,
    SYS_recvfrom,
    SYS_sendmsg,
    SYS_sendto,
    SYS_shutdown,
    SYS_poll,
    SYS_ppoll,
    SYS_brk,
    SYS_futex,
    SYS_clone,
    SYS_set_robust_list,
    SYS_rseq,
    SYS_sched_yield,
    SYS_sched_getaffinity,
    SYS_getrandom,
    SYS_clock_gettime,
    SYS_clock_nanosleep,
    SYS_nanosleep,
    SYS_rt_sigaction,
    SYS_rt_sigprocmask,
    SYS_rt_sigreturn,
    SYS_sigaltstack,
    SYS_restart_syscall,
    SYS_getpid,
    SYS_gettid,
    SYS_getuid,
    SYS_geteuid,
    SYS_getgid,
    SYS_getegid,
    SYS_tgkill,
    SYS_membarrier,
    SYS_sysinfo,
    SYS_prlimit64,
    SYS_exit,
    SYS_exit_group,
});

// What a sanitizer's runtime calls in a worker, allowed in a build that has one and in no other: that for undefined
// behaviour finds out whether an object can be read by writing it into a pipe, that for threads asks for the time.
inline constexpr auto kSanitizerCalls = std::to_array<int>({SYS_pipe2, SYS_gettimeofday});

}  // namespace sallyport::sandbox
