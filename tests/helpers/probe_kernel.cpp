// Calls that a sandbox has no business with: namespaces, mounts, kernel interfaces, other ABIs.
#include <fcntl.h>
#include <linux/keyctl.h>
#include <linux/perf_event.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <fstream>
#include <string>

#include "probe.h"

namespace probe {
namespace {

int unshare_user(const Arguments&) { return judge(static_cast<long>(::unshare(CLONE_NEWUSER))); }
int unshare_mount(const Arguments&) { return judge(static_cast<long>(::unshare(CLONE_NEWNS))); }

int clone_user(const Arguments&) {
  const long pid = ::syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, nullptr, nullptr, nullptr, nullptr);
  if (pid == 0) ::_exit(0);
  return judge(pid);
}

int clone3_user(const Arguments&) {
  std::uint64_t arguments[11] = {};
  arguments[0] = CLONE_NEWUSER;
  arguments[4] = SIGCHLD;
  const long pid = ::syscall(SYS_clone3, arguments, sizeof(arguments));
  if (pid == 0) ::_exit(0);
  return judge(pid);
}

int join_namespace(const Arguments&) {
  const int own = ::open("/proc/self/ns/net", O_RDONLY);
  return judge(static_cast<long>(::setns(own, 0)));
}

int mount_tmpfs(const Arguments&) { return judge(static_cast<long>(::mount("none", "/tmp", "tmpfs", 0, nullptr))); }
int remount(const Arguments& args) {
  return judge(static_cast<long>(::mount(nullptr, args[0].c_str(), nullptr, MS_REMOUNT | MS_BIND, nullptr)));
}
int unmount(const Arguments& args) { return judge(static_cast<long>(::umount2(args[0].c_str(), MNT_DETACH))); }
int open_tree_call(const Arguments&) { return judge(::syscall(SYS_open_tree, AT_FDCWD, "/", 1)); }
int open_tree_attr(const Arguments&) { return judge(::syscall(467, AT_FDCWD, "/", 1, nullptr, 0)); }
int mount_setattr_call(const Arguments&) {
  std::uint64_t change[4] = {0, 1, 0, 0};  // clear read-only
  return judge(::syscall(SYS_mount_setattr, AT_FDCWD, "/usr", 0, change, sizeof(change)));
}
int change_root(const Arguments&) { return judge(static_cast<long>(::chroot("/tmp"))); }
int pivot(const Arguments&) { return judge(::syscall(SYS_pivot_root, ".", ".")); }

int io_uring(const Arguments&) {
  char parameters[256] = {};
  return judge(::syscall(SYS_io_uring_setup, 4, parameters));
}

int asynchronous_io(const Arguments&) {
  unsigned long context = 0;
  return judge(::syscall(SYS_io_setup, 1, &context));
}

#ifdef __x86_64__
// The same call through the 32-bit entry and with the x32 bit: a filter for one ABI misses both.
int io_uring_i386(const Arguments&) {
  void* low = ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT, -1, 0);
  if (low == MAP_FAILED) return kBroken;
  long result = 425;
  asm volatile("int $0x80" : "+a"(result) : "b"(4L), "c"(low) : "memory", "r8", "r9", "r10", "r11");
  errno = static_cast<int>(-result);
  return judge(result < 0 ? -1L : result);
}
int getpid_i386(const Arguments&) {
  long result = 20;
  asm volatile("int $0x80" : "+a"(result) : : "memory", "r8", "r9", "r10", "r11");
  return judge(result);
}
int io_uring_x32(const Arguments&) {
  char parameters[256] = {};
  return judge(::syscall(0x40000000 | 425, 4, parameters));
}
#endif

int bpf(const Arguments&) {
  std::uint32_t attributes[16] = {2, 4, 4, 1};  // an array map
  return judge(::syscall(SYS_bpf, 0, attributes, sizeof(attributes)));
}
int perf(const Arguments&) {
  perf_event_attr attributes{};
  attributes.size = sizeof(attributes);
  attributes.type = PERF_TYPE_SOFTWARE;
  return judge(::syscall(SYS_perf_event_open, &attributes, 0, -1, -1, 0));
}
int keyctl_call(const Arguments&) {
  return judge(::syscall(SYS_keyctl, KEYCTL_GET_KEYRING_ID, KEY_SPEC_SESSION_KEYRING, 0));
}
int add_key_call(const Arguments&) {
  return judge(::syscall(SYS_add_key, "user", "probe", "x", 1, KEY_SPEC_PROCESS_KEYRING));
}
int userfault(const Arguments&) { return judge(::syscall(SYS_userfaultfd, 1)); }
int kernel_log(const Arguments&) {
  char text[64];
  return judge(::syscall(SYS_syslog, 3, text, sizeof(text)));
}
int kexec(const Arguments&) { return judge(::syscall(SYS_kexec_load, 0, 0, nullptr, 0)); }
int load_module(const Arguments&) { return judge(::syscall(SYS_finit_module, 0, "", 0)); }
int set_clock(const Arguments&) {
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  return judge(static_cast<long>(::clock_settime(CLOCK_REALTIME, &now)));
}
int unknown_call(const Arguments&) { return judge(::syscall(500)); }

int terminal_request(unsigned long request) {
  const int leader = ::posix_openpt(O_RDWR | O_NOCTTY);
  if (leader < 0 || ::grantpt(leader) != 0 || ::unlockpt(leader) != 0) return kBroken;
  ::setsid();
  const int terminal = ::open(::ptsname(leader), O_RDWR);
  if (terminal < 0) return kBroken;
  char injected = 'x';
  return judge(static_cast<long>(::ioctl(terminal, request, &injected)));
}
int inject_input(const Arguments&) { return terminal_request(TIOCSTI); }
// The upper half of the register is ignored by the kernel and must not hide the request.
int inject_input_disguised(const Arguments&) { return terminal_request(TIOCSTI | 0xdead00000000UL); }
int console_selection(const Arguments&) { return terminal_request(TIOCLINUX); }

int execute_memory(unsigned flags) {
  const int memory = ::memfd_create("probe", flags);
  if (memory < 0) return judge(-1L);
  std::ifstream self("/proc/self/exe", std::ios::binary);
  static char block[65536];
  while (self.read(block, sizeof(block)) || self.gcount() > 0) {
    if (::write(memory, block, static_cast<std::size_t>(self.gcount())) < 0) return kBroken;
  }
  char* const argv[] = {const_cast<char*>("probe"), const_cast<char*>("succeed"), nullptr};
  char* const envp[] = {nullptr};
  ::fexecve(memory, argv, envp);
  return judge(-1L);
}
int memfd_exec(const Arguments&) { return execute_memory(0); }
int memfd_exec_flag(const Arguments&) { return execute_memory(0x10); }   // MFD_EXEC
int memfd_exec_sealed(const Arguments&) { return execute_memory(0x8); }  // MFD_NOEXEC_SEAL

bool status_shows(const char* field, const char* value) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with(field)) return line.find(value) != std::string::npos;
  }
  return false;
}
// Succeeds as an attack if anything that could raise privileges is left.
int privileges(const Arguments&) {
  const bool is_bare = status_shows("NoNewPrivs:", "1") && status_shows("CapEff:", "0000000000000000") &&
                       status_shows("CapPrm:", "0000000000000000") && status_shows("CapBnd:", "0000000000000000") &&
                       status_shows("CapInh:", "0000000000000000") && status_shows("CapAmb:", "0000000000000000");
  return judge(!is_bare);
}

constexpr Attack kAttacks[] = {
    {"unshare-user", 0, unshare_user},
    {"unshare-mount", 0, unshare_mount},
    {"clone-user", 0, clone_user},
    {"clone3-user", 0, clone3_user},
    {"setns", 0, join_namespace},
    {"mount", 0, mount_tmpfs},
    {"remount", 1, remount},
    {"umount", 1, unmount},
    {"open-tree", 0, open_tree_call},
    {"open-tree-attr", 0, open_tree_attr},
    {"mount-setattr", 0, mount_setattr_call},
    {"chroot", 0, change_root},
    {"pivot-root", 0, pivot},
    {"io-uring", 0, io_uring},
    {"aio", 0, asynchronous_io},
#ifdef __x86_64__
    {"io-uring-i386", 0, io_uring_i386},
    {"getpid-i386", 0, getpid_i386},
    {"io-uring-x32", 0, io_uring_x32},
#endif
    {"bpf", 0, bpf},
    {"perf", 0, perf},
    {"keyctl", 0, keyctl_call},
    {"add-key", 0, add_key_call},
    {"userfaultfd", 0, userfault},
    {"dmesg", 0, kernel_log},
    {"kexec", 0, kexec},
    {"load-module", 0, load_module},
    {"set-clock", 0, set_clock},
    {"unknown-call", 0, unknown_call},
    {"tiocsti", 0, inject_input},
    {"tiocsti-disguised", 0, inject_input_disguised},
    {"tioclinux", 0, console_selection},
    {"memfd-exec", 0, memfd_exec},
    {"memfd-exec-flag", 0, memfd_exec_flag},
    {"memfd-exec-sealed", 0, memfd_exec_sealed},
    {"privileges", 0, privileges},
};

}  // namespace

std::span<const Attack> kernel_attacks() { return kAttacks; }

}  // namespace probe
