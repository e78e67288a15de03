// The least that a sandbox of one command does, in one process and without a library: namespaces, a root of its own,
// Landlock, a filter of system calls, a pid 1. No profile, no search of the workspace, nothing protected in it, no
// masked secret, no limit, no report. Not a peer but the floor: the bare system calls, and the start of the program
// that makes them.
//   bench_sandbox_bare WORKSPACE PROGRAM
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/landlock.h>
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

namespace {

long must(long result, const char* what) {
  if (result >= 0) return result;
  std::perror(what);
  ::_exit(126);
}

void write_to(const char* path, const std::string& text) {
  const int file = ::open(path, O_WRONLY | O_CLOEXEC);
  must(::write(file, text.data(), text.size()), path);
  ::close(file);
}

void map_user(uid_t user, gid_t group) {
  const auto line = [](unsigned id) { return std::to_string(id) + " " + std::to_string(id) + " 1"; };
  write_to("/proc/self/setgroups", "deny");
  write_to("/proc/self/gid_map", line(group));
  write_to("/proc/self/uid_map", line(user));
}

void show(const char* path, const char* name, bool is_read_only) {
  must(::mount(path, name, nullptr, MS_BIND | MS_REC, nullptr), name);
  if (!is_read_only) return;
  mount_attr attributes{};
  attributes.attr_set = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV;
  must(::syscall(SYS_mount_setattr, AT_FDCWD, name, AT_RECURSIVE, &attributes, sizeof attributes), name);
}

void build_root(const char* workspace) {
  must(::mount(nullptr, "/", nullptr, MS_REC | MS_SLAVE, nullptr), "private mounts");
  const long work = must(::syscall(SYS_open_tree, AT_FDCWD, workspace, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC), workspace);
  must(::mount("tmpfs", "/tmp", "tmpfs", MS_NOSUID | MS_NODEV, "mode=755"), "root");
  must(::chdir("/tmp"), "root");
  for (const char* name : {"usr", "etc", "dev", "dev/pts", "proc", "tmp", "place"}) must(::mkdir(name, 0755), name);
  for (const char* name : {"bin", "lib", "lib64", "sbin"})
    must(::symlink(("usr/" + std::string(name)).c_str(), name), name);
  show("/usr", "usr", true);
  show("/etc", "etc", true);
  must(::syscall(SYS_move_mount, work, "", AT_FDCWD, "place", MOVE_MOUNT_F_EMPTY_PATH), "place");
  for (const char* name : {"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty"}) {
    must(::mknod(name + 1, S_IFREG | 0444, 0), name);
    show(name, name + 1, false);
  }
  must(::mount("devpts", "dev/pts", "devpts", MS_NOSUID | MS_NOEXEC, "newinstance,ptmxmode=0666"), "devpts");
  must(::mount("proc", "proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, nullptr), "proc");
  must(::syscall(SYS_pivot_root, ".", "."), "pivot_root");
  must(::umount2(".", MNT_DETACH), "the old root");
  must(::chdir("/place"), "place");
}

void set_up_loopback() {
  const int socket = ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  ifreq request{};
  std::strcpy(request.ifr_name, "lo");
  request.ifr_flags = IFF_UP;
  must(::ioctl(socket, SIOCSIFFLAGS, &request), "loopback");
  ::close(socket);
}

void apply_landlock() {
  constexpr std::uint64_t kAll = (LANDLOCK_ACCESS_FS_REFER << 1) - 1;
  constexpr std::uint64_t kRead = LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR;
  landlock_ruleset_attr attributes{};
  attributes.handled_access_fs = kAll;
  const long rules = must(::syscall(SYS_landlock_create_ruleset, &attributes, sizeof attributes, 0), "landlock");
  const std::pair<const char*, std::uint64_t> kAllowed[] = {{"/usr", kRead | LANDLOCK_ACCESS_FS_EXECUTE},
                                                            {"/etc", kRead},
                                                            {"/proc", kRead},
                                                            {"/dev", kAll},
                                                            {"/tmp", kAll},
                                                            {"/place", kAll}};
  for (const auto& [path, rights] : kAllowed) {
    landlock_path_beneath_attr rule{rights, ::open(path, O_PATH | O_CLOEXEC)};
    must(::syscall(SYS_landlock_add_rule, rules, LANDLOCK_RULE_PATH_BENEATH, &rule, 0), path);
    ::close(rule.parent_fd);
  }
  must(::syscall(SYS_landlock_restrict_self, rules, 0), "landlock");
  ::close(static_cast<int>(rules));
}

// Harmless, and not half as long as ours: what it costs to load is its length.
void apply_seccomp() {
  constexpr std::size_t kLength = 120;
  constexpr unsigned kNoCall = 5'000;
  std::array<sock_filter, kLength + 2> filter;
  filter.front() = BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0);
  for (unsigned i = 0; i < kLength; ++i) filter[i + 1] = BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, kNoCall + i, 0, 0);
  filter.back() = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
  const sock_fprog program{filter.size(), filter.data()};
  must(::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program), "seccomp");
}

[[noreturn]] void be_pid_1(char** command) {
  const pid_t child = ::vfork();
  if (child == 0) {
    ::execv(command[0], command);
    ::_exit(127);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  ::_exit(WEXITSTATUS(status));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  const uid_t user = ::geteuid();
  const gid_t group = ::getegid();
  clone_args arguments{};
  arguments.flags =
      CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWCGROUP;
  arguments.exit_signal = SIGCHLD;
  const long child = must(::syscall(SYS_clone3, &arguments, sizeof arguments), "clone3");
  if (child == 0) {
    map_user(user, group);
    build_root(argv[1]);
    set_up_loopback();
    must(::sethostname("sandbox", 7), "hostname");
    for (int right = 0; ::prctl(PR_CAPBSET_DROP, right, 0, 0, 0) == 0;) ++right;
    must(::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "privileges");
    apply_landlock();
    apply_seccomp();
    be_pid_1(argv + 2);
  }
  int status = 0;
  ::waitpid(static_cast<pid_t>(child), &status, 0);
  return WEXITSTATUS(status);
}
