#include "sandbox/plan.h"

#include <fcntl.h>
#include <linux/mount.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <optional>
#include <set>
#include <string_view>

#include "base/unique_fd.h"
#include "os/landlock.h"
#include "os/paths.h"
#include "sandbox/held_directory.h"
#include "sandbox/job.h"
#include "sandbox/root_tree.h"
#include "sandbox/tracer.h"

namespace sallyport::sandbox {
namespace {

namespace landlock = os::landlock;

// Each takes about a kilobyte of the kernel's memory.
constexpr std::uint64_t kBytesPerScratchFile = 8192, kLeastScratchFiles = 4096;

// Directories that a merged /usr turns into links; elsewhere they are directories of their own.
constexpr std::array<const char*, 6> kSystemLinks = {"/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"};

// The kernel opens these for execution when a dynamic program starts.
constexpr std::array<const char*, 5> kLoaders = {"/lib64/ld-linux-x86-64.so.2", "/lib/ld-linux-aarch64.so.1",
                                                 "/lib/ld-linux.so.2", "/lib/ld-musl-x86_64.so.1",
                                                 "/lib/ld-musl-aarch64.so.1"};

// Where a directory on the way may not be entered, that directory: behind it is what is meant.
std::optional<std::string> resolve_or_barrier(std::string path) {
  auto real = os::real_path(path);
  while (!real && errno == EACCES && path.rfind('/') != 0) {
    path.resize(path.rfind('/'));
    real = os::real_path(path);
  }
  return real;
}

bool is_own(const std::string& path) {
  struct stat info{};
  return ::lstat(path.c_str(), &info) == 0 && info.st_uid == ::geteuid();
}

void add_system(const Spec& spec, RootTree& tree) {
  const bool sees_usr = std::find(spec.read.begin(), spec.read.end(), "/usr") != spec.read.end();
  for (const char* path : kSystemLinks) {
    if (const std::string text = link_text(AT_FDCWD, path); !text.empty()) {
      tree.link(path, text);
    } else if (sees_usr && is_directory(path)) {
      tree.bind(path, path, false, 0);
    }
  }
  tree.link("/var/tmp", "/tmp");
  tree.scratch("/tmp", 01777, 0);
  tree.scratch("/dev/shm", 01777, MOUNT_ATTR_NOEXEC);
}

// Our own places: a profile that names them would replace what the sandbox is made of.
bool is_reserved(const std::string& path) {
  return path == "/" || os::is_within(path, "/proc") || os::is_within(path, "/dev") || os::is_within(path, "/sys");
}

// An earlier sandbox may have replaced a path of the profile by a link, in a place that it could
// write: following that would mount what the attacker chose.
bool is_led_out(const Spec& spec, const std::string& path, const std::string& real) {
  std::vector<std::string> writable = spec.write;
  if (spec.is_workspace_writable && !spec.workspace.empty()) writable.push_back(spec.workspace);
  return std::any_of(writable.begin(), writable.end(), [&](const std::string& place) {
    return os::is_below(path, place) && !os::is_within(real, os::real_path(place).value_or(place));
  });
}

// Where root's links are the system's: whoever could write there would have the machine anyway. In the first ones
// only their own entries.
constexpr std::array<std::string_view, 4> kTopsOfSystem = {"/", "/run", "/usr", "/var"};
constexpr std::array<std::string_view, 4> kTreesOfSystem = {"/etc", "/usr/bin", "/usr/lib", "/usr/sbin"};

// Whether a sandbox that this user started, with whichever profile and workspace, may have made what lies there. A mode
// says nothing about a directory of the user's own, nor an owner about one below it, which can be moved.
bool is_open_to_sandboxes(std::string directory) {
  if (::geteuid() == 0) {
    return std::find(kTopsOfSystem.begin(), kTopsOfSystem.end(), directory) == kTopsOfSystem.end() &&
           std::none_of(kTreesOfSystem.begin(), kTreesOfSystem.end(),
                        [&](std::string_view tree) { return os::is_within(directory, tree); });
  }
  for (; directory.size() > 1; directory.resize(directory.rfind('/'))) {
    if (is_own(directory) || ::faccessat(AT_FDCWD, directory.c_str(), W_OK, AT_EACCESS) == 0) return true;
  }
  return false;
}

// In the home itself no sandbox has made a link, because that is never a workspace. Where the links lead elsewhere now
// than they did when `real` was found, one is at it.
bool is_link_doubtful(const Spec& spec, std::string path, const std::string& real) {
  std::string home = spec.home;
  if (!home.empty()) {
    home = os::real_path(home).value_or(home);
    if (os::is_within(path, spec.home)) path.replace(0, spec.home.size(), home);
  }
  const os::Walk walk = os::follow_links(path);
  return walk.reached != real || std::any_of(walk.links.begin(), walk.links.end(), [&](const std::string& link) {
           const std::string directory = std::filesystem::path(link).parent_path();
           const bool is_in_home = !home.empty() && home != "/" && os::is_within(directory, home);
           return is_in_home ? directory != home : is_open_to_sandboxes(directory);
         });
}

Status add_paths(const Spec& spec, const std::vector<std::string>& paths, bool is_writable, RootTree& tree,
                 std::vector<std::pair<std::string, std::string>>& left_out) {
  for (const std::string& path : paths) {
    const std::optional<std::string> real = os::real_path(path);
    if (!real) continue;
    if (is_led_out(spec, path, *real)) {
      return Error::make(Code::policy_denied, "a link in a writable place leads out of it: " + path, "to " + *real);
    }
    const bool is_meant = std::find(spec.meant.begin(), spec.meant.end(), path) != spec.meant.end();
    if (*real != path && !is_meant && is_link_doubtful(spec, path, *real)) {
      left_out.emplace_back(path, *real);
      continue;
    }
    if (is_reserved(*real)) {
      return Error::make(Code::invalid_params, "a profile may not mount " + path, "resolves to " + *real);
    }
    tree.bind(*real, *real, is_writable, 0);
    // The name that was asked for must work too when a link led elsewhere, if it means the same path inside.
    if (*real != path && !tree.is_visible(path) && os::is_tidy(path)) {
      tree.link(path, *real);
    }
  }
  return ok();
}

// A name that is denied must be found wherever it is, which is worth waiting for.
constexpr int kPatience = 10;

Status add_workspace(const Spec& spec, const Machine& machine, RootTree& tree, Plan& plan) {
  if (spec.workspace.empty()) return ok();
  const std::optional<std::string> real = os::real_path(spec.workspace);
  if (!real || !is_directory(*real)) {
    return Error::make(Code::not_found, "the workspace is not a directory", spec.workspace);
  }
  if (is_reserved(*real)) return Error::make(Code::invalid_params, "this directory cannot be a workspace", *real);
  tree.bind(*real, *real, spec.is_workspace_writable, 0);
  if (plan.directory.empty()) plan.directory = *real;
  plan.workspace = *real;
  WalkBounds bounds = machine.bounds;
  if (!spec.deny_patterns.empty()) bounds.time *= kPatience;
  plan.findings = find_protected(*real, spec.home, spec.is_workspace_writable && spec.protect_workspace,
                                 spec.deny_patterns, bounds);
  if (plan.findings.has_changed) return ok();
  if (plan.is_weak) {
    drop_covers(plan.findings);
    return ok();
  }
  if (plan.findings.was_cut && !spec.deny_patterns.empty()) {
    return Error::make(Code::unavailable,
                       "the workspace is too large to find every file that fs.deny names: move large directories out "
                       "of it, or deny whole paths instead of names",
                       "searched " + std::to_string(plan.findings.entries_seen) + " entries");
  }
  if (!spec.protect_workspace) plan.findings.pins.clear(), plan.findings.pin_writable.clear();
  return ok();
}

Status add_denied(const Spec& spec, RootTree& tree, Plan& plan) {
  for (const std::string& path : spec.deny) {
    const std::optional<std::string> real = resolve_or_barrier(path);
    if (!real) continue;
    tree.remove_beneath(*real);
    if (!tree.is_visible(*real)) continue;
    // What this user cannot read needs no mask, unless it is the user's own and only its mode says so: a
    // mode can be changed inside.
    if (::faccessat(AT_FDCWD, real->c_str(), R_OK, AT_EACCESS) != 0 && !is_own(*real)) continue;
    if (plan.is_weak) {
      return Error::make(Code::unavailable,
                         "without user namespaces a denied path inside an allowed one cannot be hidden", *real);
    }
    (is_directory(*real) ? plan.findings.mask_directories : plan.findings.masks).push_back(*real);
  }
  return ok();
}

// Each is a mount that takes time at every launch; an earlier sandbox may have made the files.
constexpr std::size_t kMaxCovers = 4096;

// A directory above a cover can be moved, and the cover with it: what was hidden would have another name at the next
// launch. As a mount point it stays where it is. Only what can be written can be moved.
void add_directories_above(const RootTree& tree, const std::string& path, std::set<std::string>& directories) {
  std::string top;
  const RootTree::Entry* entry = tree.above(path, &top);
  if (entry == nullptr || !entry->is_writable) return;
  for (std::size_t end = path.rfind('/'); end > top.size(); end = path.rfind('/', end - 1)) {
    if (!directories.insert(path.substr(0, end)).second) return;  // and so are those above it
  }
}

Status add_covers(const RootTree& tree, Plan& plan) {
  using Kind = Cover::Kind;
  const Findings& found = plan.findings;
  const std::set<std::string> hidden(found.mask_directories.begin(), found.mask_directories.end());
  const auto is_hidden = [&](std::string path) {
    while (!hidden.empty() && path.size() > 1) {
      path.resize(path.rfind('/'));
      if (hidden.contains(path)) return true;
    }
    return false;
  };
  std::vector<Cover> covers;
  std::set<std::string> movable(found.pin_writable.begin(), found.pin_writable.end());
  const auto add = [&](const auto& paths, Kind kind) {
    for (const std::string& path : paths) {
      if (is_hidden(path)) continue;
      covers.push_back({path, kind});
      add_directories_above(tree, path, movable);
    }
  };
  add(found.pins, Kind::pin);
  add(hidden, Kind::mask_directory);
  add(found.masks, Kind::mask_file);
  add(found.changed_secrets, Kind::mask_closed);
  for (const std::string& path : found.pin_writable) add_directories_above(tree, path, movable);
  // In the order of their names, what is above comes first.
  for (const std::string& path : movable) {
    if (!is_hidden(path)) plan.covers.push_back({path, Kind::pin_writable});
  }
  plan.covers.insert(plan.covers.end(), covers.begin(), covers.end());
  if (plan.covers.size() <= kMaxCovers) return ok();
  return Error::make(Code::unavailable,
                     "the workspace holds more secrets, settings and repositories than can be protected: remove or "
                     "move those that are not needed, or choose a smaller workspace",
                     std::to_string(plan.covers.size()) + " found, at most " + std::to_string(kMaxCovers) +
                         "; the last is " + plan.covers.back().target);
}

void add_landlock(const Spec& spec, const RootTree& tree, Plan& plan) {
  const int abi = plan.landlock_abi;
  // ABI 1 refuses every rename between directories and cannot be told otherwise.
  if (abi < 2) return;
  const bool all = spec.use_all_landlock_rights || plan.is_weak;
  // Changes are allowed everywhere inside: the mounts decide. But a descriptor of the host, such as
  // standard input, can be opened again for writing through /proc/self/fd, on the host's own mount;
  // a rule for the sandbox's root alone does not cover that.
  const std::uint64_t changes = landlock::all_fs_rights(abi) & ~(landlock::kReadRights | landlock::kIoctlDev);
  const std::uint64_t handled = all ? landlock::all_fs_rights(abi) : landlock::kExecute | changes;
  plan.landlock_handled = handled;
  const auto allow = [&](const std::string& path, std::uint64_t rights) {
    plan.landlock_rules.push_back({path, rights & handled});
  };
  for (const std::string& path : spec.exec) {
    const auto real = os::real_path(path);
    if (!real || !is_led_out(spec, path, *real)) allow(path, landlock::kExecute);
  }
  for (const char* loader : kLoaders) allow(loader, landlock::kExecute);
  if (!all) {
    allow("/", changes);
    plan.landlock_for_files_to_read = changes & landlock::kTruncate;
    return;
  }
  const std::uint64_t read = landlock::kReadFile | landlock::kReadDir;
  const std::uint64_t devices = landlock::kMakeChar | landlock::kMakeBlock;
  const std::uint64_t write = handled & ~(landlock::kExecute | devices);
  for (const auto& [path, entry] : tree.entries()) {
    if (entry.kind == RootTree::Kind::link) continue;
    if (plan.is_weak && entry.kind == RootTree::Kind::scratch) continue;
    allow(path, entry.is_writable ? write : read);
  }
  allow("/proc", plan.is_weak ? read : read | landlock::kWriteFile);
  if (plan.is_weak) {
    for (const char* device : kDevices) {
      allow(std::string("/dev/") + device, landlock::kReadFile | landlock::kWriteFile | landlock::kIoctlDev);
    }
  } else {
    allow("/", landlock::kReadDir);
    allow("/dev", read | landlock::kWriteFile | landlock::kTruncate | landlock::kIoctlDev);
  }
}

// The kernel keeps the first 300 numbers of a namespace for those that were there first, so that many
// more processes than asked for can exist at once. For the host's root nothing else counts them.
constexpr std::uint32_t kReservedPids = 301;

constexpr std::uint64_t kMostPendingSignals = 4096;

void add_limits(const Limits& limits, const Machine& machine, Plan& plan) {
  if (::geteuid() == 0 && machine.has_own_pid_max && limits.processes != 0 && !plan.is_weak) {
    plan.pid_max = std::to_string(limits.processes + kReservedPids);
  }
  const auto add = [&](int resource, std::uint64_t value) {
    if (value != 0) plan.limits.push_back({resource, {value, value}});
  };
  add(RLIMIT_NPROC, limits.processes);
  add(RLIMIT_NOFILE, limits.open_files);
  add(RLIMIT_FSIZE, limits.file_bytes);
  // Data, not address space: runtimes such as node reserve far more than they use.
  add(RLIMIT_DATA, limits.memory_bytes);
  // One byte, not none: none still starts the host's crash handler, where core_pattern is a pipe.
  plan.limits.push_back({RLIMIT_CORE, {1, 1}});
  // What the host counts for all processes of a user; and nobody in here runs before the host's own.
  add(RLIMIT_SIGPENDING, kMostPendingSignals);
  plan.limits.push_back({RLIMIT_RTPRIO, {0, 0}});
  plan.limits.push_back({RLIMIT_NICE, {0, 0}});
  // The user's own hard limits may be lower, and may not be raised.
  for (auto& [resource, limit] : plan.limits) {
    rlimit own{};
    if (::getrlimit(static_cast<__rlimit_resource>(resource), &own) != 0) continue;
    limit.rlim_max = std::min(limit.rlim_max, own.rlim_max);
    limit.rlim_cur = std::min(limit.rlim_cur, limit.rlim_max);
  }
}

void add_command(const Spec& spec, Plan& plan) {
  plan.command = spec.command;
  plan.environment = spec.environment;
  for (std::string& word : plan.command) plan.argv.push_back(word.data());
  for (std::string& entry : plan.environment) {
    plan.envp.push_back(entry.data());
    if (entry.starts_with("PATH=")) plan.path_list = entry.substr(5);
  }
  plan.argv.push_back(nullptr);
  plan.envp.push_back(nullptr);
  plan.is_traced = spec.explain;
  plan.refuse_hard_links = spec.refuse_hard_links;
}

// Where the kernel shows /proc/<pid>/cmdline from: fields 48 and 49 of stat.
std::span<char> own_command_line() {
  const UniqueFd file(::open("/proc/self/stat", O_RDONLY | O_CLOEXEC));
  std::array<char, 1024> buffer{};
  const ssize_t length = file ? ::read(file.get(), buffer.data(), buffer.size()) : -1;
  std::string_view text(buffer.data(), length > 0 ? static_cast<std::size_t>(length) : 0);
  // The name in field 2 may contain anything, but ends at the last parenthesis.
  const std::size_t name_end = text.rfind(')');
  if (name_end == std::string_view::npos) return {};
  text.remove_prefix(name_end + 1);
  std::array<std::uintptr_t, 2> bounds{};
  for (int field = 3; field <= 49; ++field) {
    const std::size_t word = text.find_first_not_of(' ');
    if (word == std::string_view::npos) return {};
    text.remove_prefix(word);
    if (field >= 48) std::from_chars(text.data(), text.data() + text.size(), bounds[field == 49 ? 1 : 0]);
    text.remove_prefix(std::min(text.find(' '), text.size()));
  }
  const auto [start, end] = bounds;
  if (start == 0 || end <= start) return {};
  return {reinterpret_cast<char*>(start), end - start};
}

}  // namespace

Machine Machine::probe() {
  Machine machine;
  machine.command_line = own_command_line();
  machine.landlock_abi = landlock::abi();
  utsname kernel{};
  int major = 0;
  int minor = 0;
  if (::uname(&kernel) == 0 && std::sscanf(kernel.release, "%d.%d", &major, &minor) == 2) {
    machine.has_own_pid_max = major > 6 || (major == 6 && minor >= 14);
  }
  return machine;
}

namespace {

Status fill_plan(const Spec& spec, const Machine& machine, Plan& plan) {
  if (spec.explain && !kCanTrace)
    return Error::make(Code::unimplemented, "--explain is not available on this kind of processor");
  plan.is_weak = !machine.has_user_namespaces;
  if (plan.is_weak) plan.mark = make_mark() & kMarksOfOne;
  plan.landlock_abi = machine.landlock_abi;
  plan.command_line = machine.command_line;
  if (plan.is_weak && plan.landlock_abi < 2) {
    return Error::make(Code::unavailable,
                       "this machine offers neither user namespaces nor Landlock: nothing can be confined");
  }
  if (plan.landlock_abi < 2 && !spec.exec.empty() && !spec.allow_weak) {
    return Error::make(Code::unavailable,
                       "the profile lists what may be executed, and this kernel has no Landlock (ABI 2) to hold it to "
                       "that; --allow-weak runs it without");
  }
  if (plan.is_weak && spec.has_proxy) {
    return Error::make(Code::unavailable,
                       "a sandbox without user namespaces has no network of its own to allow hosts in");
  }
  plan.has_proxy = spec.has_proxy;
  plan.scratch_size = std::to_string(spec.limits.scratch_bytes);
  plan.scratch_files = std::to_string(std::max(kLeastScratchFiles, spec.limits.scratch_bytes / kBytesPerScratchFile));
  plan.hostname = spec.hostname;
  plan.directory = spec.directory;
  // Files such as /proc/sys/kernel/core_pattern belong to the host's root, capabilities or not.
  plan.is_proc_read_only = ::geteuid() == 0;

  RootTree tree;
  add_system(spec, tree);
  if (!spec.home.empty()) {
    if (const auto home = os::real_path(spec.home); home && !is_reserved(*home)) tree.scratch(*home, 0700, 0);
  }
  std::vector<std::pair<std::string, std::string>> left_out;
  TRY(add_paths(spec, spec.read, false, tree, left_out));
  TRY(add_paths(spec, spec.write, true, tree, left_out));
  TRY(add_workspace(spec, machine, tree, plan));
  plan.findings.left_out = std::move(left_out);
  TRY(add_denied(spec, tree, plan));
  for (const Bind& bind : spec.binds) {
    const auto source = os::real_path(bind.source);
    if (!source) return Error::make(Code::not_found, "a path to mount does not exist", bind.source);
    tree.bind(bind.target, *source, bind.is_writable, bind.is_executable ? 0 : MOUNT_ATTR_NOEXEC);
  }
  tree.drop_redundant();
  plan.items = tree.items();
  if (plan.directory.empty()) plan.directory = "/";
  TRY(add_covers(tree, plan));
  add_landlock(spec, tree, plan);
  add_limits(spec.limits, machine, plan);
  plan.filter = plan.is_weak                                          ? Filter::weak
                : spec.report_violations && machine.has_notifications ? Filter::command_notified
                                                                      : Filter::command;
  add_command(spec, plan);
  return ok();
}

}  // namespace

Result<Plan> make_plan(const Spec& spec, const Machine& machine) {
  Plan plan;
  const Status filled = fill_plan(spec, machine, plan);
  if (filled) return plan;
  if (!plan.findings.placeholder.empty()) remove_placeholder(plan.findings.placeholder);
  return filled.error();
}

}  // namespace sallyport::sandbox
