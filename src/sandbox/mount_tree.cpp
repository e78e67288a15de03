// The file system that a sandbox sees, built with the descriptor-based mount calls: no path is
// looked up twice, and no link inside a workspace is ever followed on the host.
#include <fcntl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>

#include "sandbox/child.h"
#include "sandbox/covers.h"

#ifndef OPEN_TREE_CLONE
#define OPEN_TREE_CLONE 1
#endif

namespace sallyport::sandbox {
namespace {

constexpr struct {
  const char* name;
  const char* text;
} kDeviceLinks[] = {{"dev/fd", "/proc/self/fd"},
                    {"dev/stdin", "/proc/self/fd/0"},
                    {"dev/stdout", "/proc/self/fd/1"},
                    {"dev/stderr", "/proc/self/fd/2"},
                    {"dev/ptmx", "pts/ptmx"}};

Answer set_attributes(int tree, std::uint64_t attributes, bool is_recursive) {
  if (attributes == 0) return {};
  mount_attr change{};
  change.attr_set = attributes;
  const unsigned flags = AT_EMPTY_PATH | (is_recursive ? AT_RECURSIVE : 0U);
  return raw_call(SYS_mount_setattr, tree, "", flags, &change, sizeof(change));
}

Answer clone_tree(int from, const char* path, bool is_recursive) {
  const unsigned flags = OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_SYMLINK_NOFOLLOW |
                         (path[0] == '\0' ? AT_EMPTY_PATH : 0U) | (is_recursive ? AT_RECURSIVE : 0U);
  return raw_call(SYS_open_tree, from, path, flags);
}

Answer attach(int tree, int at, const char* target) {
  const unsigned flags = MOVE_MOUNT_F_EMPTY_PATH | (target[0] == '\0' ? MOVE_MOUNT_T_EMPTY_PATH : 0U);
  return raw_call(SYS_move_mount, tree, "", at, target, flags);
}

struct Option {
  const char* key;
  const char* value;
};

// Sets them, and then has the kernel make the file system, or change it.
Answer configure(int context, std::initializer_list<Option> options, fsconfig_command command) {
  for (const Option& option : options) {
    const Answer set = raw_call(SYS_fsconfig, context, FSCONFIG_SET_STRING, option.key, option.value, 0);
    if (!set.is_ok()) return set;
  }
  return raw_call(SYS_fsconfig, context, command, nullptr, nullptr, 0);
}

Answer make_file_system(const char* type, std::initializer_list<Option> options, unsigned attributes) {
  const Answer context = raw_call(SYS_fsopen, type, FSOPEN_CLOEXEC);
  if (!context.is_ok()) return context;
  Answer made = configure(static_cast<int>(context.value), options, FSCONFIG_CMD_CREATE);
  if (made.is_ok()) made = raw_call(SYS_fsmount, context.value, FSMOUNT_CLOEXEC, attributes);
  raw_call(SYS_close, context.value);
  return made;
}

// Files without content take memory too.
Answer bound_size(const Plan& plan, int tmpfs) {
  const Answer context = raw_call(SYS_fspick, tmpfs, "", FSPICK_EMPTY_PATH | FSPICK_CLOEXEC);
  if (!context.is_ok()) return context;
  const Answer bound = configure(static_cast<int>(context.value),
                                 {{"size", plan.scratch_size.c_str()}, {"nr_inodes", plan.scratch_files.c_str()}},
                                 FSCONFIG_CMD_RECONFIGURE);
  raw_call(SYS_close, context.value);
  return bound;
}

void bind_host_path(const Item& item, std::size_t index, int root, const Reporter& reporter) {
  const int source = static_cast<int>(reporter.must(Step::bind, open_exactly(item.source.c_str()), index));
  const int tree = static_cast<int>(reporter.must(Step::bind, clone_tree(source, "", true), index));
  reporter.must(Step::bind, set_attributes(tree, item.attributes, true), index);
  reporter.must(Step::bind, attach(tree, root, item.target.c_str()), index);
  ::close(tree);
  ::close(source);
}

void make_scratch(const Plan& plan, const Item& item, std::size_t index, int root, const Reporter& reporter) {
  const bool is_own = item.action == Action::own_scratch;
  const Answer made =
      is_own ? clone_tree(root, item.target.c_str(), false) : make_file_system("tmpfs", {{"mode", "0700"}}, 0);
  const int tree = static_cast<int>(reporter.must(Step::scratch, made, index));
  if (!is_own) reporter.must(Step::scratch, bound_size(plan, tree), index);
  reporter.must(Step::scratch, set_attributes(tree, item.attributes, false), index);
  reporter.must(Step::scratch, attach(tree, root, item.target.c_str()), index);
  ::close(tree);
}

void place(const Plan& plan, std::size_t index, int root, const Reporter& reporter) {
  const Item& item = plan.items[index];
  const char* target = item.target.c_str();
  switch (item.action) {
    case Action::make_directory:
      reporter.must(Step::directories, ::mkdirat(root, target, item.mode), index);
      break;
    case Action::make_file:
      reporter.must(Step::directories, ::mknodat(root, target, S_IFREG | 0444, 0), index);
      break;
    case Action::make_link:
      reporter.must(Step::directories, ::symlinkat(item.source.c_str(), root, target), index);
      break;
    case Action::bind:
      bind_host_path(item, index, root, reporter);
      break;
    case Action::own_scratch:
    case Action::new_scratch:
      make_scratch(plan, item, index, root, reporter);
      break;
  }
}

void add_devices(int root, const Reporter& reporter) {
  reporter.must(Step::devices, raw_call(SYS_mkdirat, root, "dev", 0755));
  for (std::size_t i = 0; i < kDevices.size(); ++i) {
    char path[32] = "/dev/";
    std::strncat(path, kDevices[i], sizeof(path) - 6);
    const Answer cloned = clone_tree(AT_FDCWD, path, false);
    if (cloned.is(ENOENT)) continue;  // a host without it
    const int tree = static_cast<int>(reporter.must(Step::devices, cloned, i));
    // Read-only still lets a device be read and written, but not have its mode changed by an owner.
    reporter.must(Step::devices, set_attributes(tree, MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC, false),
                  i);
    reporter.must(Step::devices, raw_call(SYS_mknodat, root, path + 1, S_IFREG | 0444, 0), i);
    reporter.must(Step::devices, attach(tree, root, path + 1), i);
    raw_call(SYS_close, tree);
  }
  for (const auto& [name, text] : kDeviceLinks) {
    reporter.must(Step::devices, raw_call(SYS_symlinkat, text, root, name));
  }
}

void add_terminals(int root, const Reporter& reporter) {
  // All sandboxes of a machine have three thousand.
  const Answer made = make_file_system("devpts", {{"ptmxmode", "0666"}, {"mode", "620"}, {"max", "1024"}},
                                       MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC);
  const int terminals = static_cast<int>(reporter.must(Step::terminals, made));
  reporter.must(Step::terminals, raw_call(SYS_mkdirat, root, "dev/pts", 0755));
  reporter.must(Step::terminals, attach(terminals, root, "dev/pts"));
  raw_call(SYS_close, terminals);
}

// Of what a user may have on the host, this sandbox may have half.
void halve(int proc, const char* all, const char* own) {
  char text[32] = {};
  const int file = ::openat(proc, all, O_RDONLY | O_CLOEXEC);
  const ssize_t length = file < 0 ? -1 : ::read(file, text, sizeof(text) - 1);
  ::close(file);
  std::uint64_t value = 0;
  for (ssize_t i = 0; i < length && text[i] >= '0' && text[i] <= '9'; ++i) {
    value = value * 10 + static_cast<std::uint64_t>(text[i] - '0');
  }
  char half[32];
  std::snprintf(half, sizeof(half), "%llu", static_cast<unsigned long long>(value / 2));
  if (value > 1) (void)write_whole(proc, own, half);
}

void add_proc(const Plan& plan, int root, const Reporter& reporter) {
  constexpr unsigned kBare = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC;
  const int proc = static_cast<int>(reporter.must(Step::proc, make_file_system("proc", {}, kBare)));
  // Not by the host's /proc, which knows this file once for each namespace that there was, and would look at them all.
  if (!plan.pid_max.empty()) {
    reporter.must(Step::limits, write_whole(proc, "sys/kernel/pid_max", plan.pid_max.c_str()));
  }
  // The host's user has so many for everything, and its own programs need some. Older kernels count otherwise.
  halve(proc, "sys/fs/inotify/max_user_instances", "sys/user/max_inotify_instances");
  halve(proc, "sys/fs/inotify/max_user_watches", "sys/user/max_inotify_watches");
  if (plan.is_proc_read_only) reporter.must(Step::proc, set_attributes(proc, MOUNT_ATTR_RDONLY, false));
  reporter.must(Step::proc, ::mkdirat(root, "proc", 0555));
  reporter.must(Step::proc, attach(proc, root, "proc"));
  ::close(proc);
}

Step step_of(const Cover& cover) {
  const bool is_pin = cover.kind == Cover::Kind::pin || cover.kind == Cover::Kind::pin_writable;
  return is_pin ? Step::pin : Step::mask;
}

// Covers come after the change of root: from here on even a hostile link leads nowhere else. What is not where the plan
// has it is a failure: a cover less would be a secret more.
void add_covers(const Plan& plan, const Reporter& reporter) {
  for (std::size_t i = 0; i < plan.covers.size(); ++i) {
    reporter.must(step_of(plan.covers[i]), put_cover(plan.covers[i]) == Covered::failed ? -1 : 0, i);
  }
}

void change_root(int root, const Reporter& reporter) {
  reporter.must(Step::pivot, ::fchdir(root));
  reporter.must(Step::pivot, ::syscall(SYS_pivot_root, ".", "."));
  reporter.must(Step::pivot, ::umount2(".", MNT_DETACH));  // the old one, on top of the new one
  reporter.must(Step::pivot, ::chdir("/"));
}

}  // namespace

int make_root(const Reporter& reporter) {
  mount_attr is_private{};
  is_private.propagation = MS_PRIVATE;
  reporter.must(Step::private_mounts,
                raw_call(SYS_mount_setattr, AT_FDCWD, "/", AT_RECURSIVE, &is_private, sizeof(is_private)));

  // One tmpfs is the root and, through mounts of its own directories, all private places: a mount
  // costs far less than a file system, and one size bounds them together.
  const Answer made = make_file_system("tmpfs", {{"mode", "0755"}}, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV);
  const int root = static_cast<int>(reporter.must(Step::root, made));
  reporter.must(Step::root, attach(root, AT_FDCWD, "/"));
  raw_call(SYS_umask, 0);
  add_devices(root, reporter);
  add_terminals(root, reporter);
  return root;
}

void build_root(const Plan& plan, int root, const Reporter& reporter) {
  reporter.must(Step::root, bound_size(plan, root));
  for (std::size_t i = 0; i < plan.items.size(); ++i) place(plan, i, root, reporter);
  add_proc(plan, root, reporter);
  if (::mkdirat(root, "run", 0755) != 0 && errno != EEXIST) reporter.fail(Step::directories, errno);
  change_root(root, reporter);
  reporter.must(Step::mask, ::mknod(kEmptyFile, S_IFREG | 0444, 0));
  reporter.must(Step::mask, ::mknod(kClosedFile, S_IFREG, 0));
  reporter.must(Step::mask, ::mkdir(kEmptyDirectory, 0555));
  add_covers(plan, reporter);
  reporter.must(Step::seal_root, set_attributes(root, MOUNT_ATTR_RDONLY, false));
  ::umask(022);
  ::close(root);
}

void check_covers(const Plan& plan, const Reporter& reporter) {
  for (std::size_t i = 0; i < plan.covers.size(); ++i) {
    if (!is_covered(plan.covers[i])) reporter.fail(step_of(plan.covers[i]), errno, i);
  }
}

}  // namespace sallyport::sandbox
