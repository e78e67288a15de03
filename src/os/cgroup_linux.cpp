#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <map>
#include <sstream>

#include "os/cgroup.h"

namespace sallyport::os {
namespace {

constexpr std::string_view kPrefix = "sallyport-";
constexpr long kPeriodMicros = 100'000;

std::string read_all(const char* path) {
  std::string text;
  UniqueFd file(::open(path, O_RDONLY | O_CLOEXEC));
  char buffer[4096];
  for (ssize_t length = 0; file && (length = ::read(file.get(), buffer, sizeof(buffer))) > 0;) {
    text.append(buffer, static_cast<std::size_t>(length));
  }
  return text;
}

bool write_value(const std::string& path, const std::string& value) {
  UniqueFd file(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
  return file && ::write(file.get(), value.data(), value.size()) == static_cast<ssize_t>(value.size());
}

bool has_swap() {
  const std::string lines = read_all("/proc/swaps");
  return std::count(lines.begin(), lines.end(), '\n') > 1;  // below a heading
}

struct Mounted {
  std::string point;
  std::string root;
};

// Controller (or "" for version 2) -> where its hierarchy is mounted.
std::map<std::string, Mounted> mounted_hierarchies() {
  std::map<std::string, Mounted> found;
  std::istringstream lines(read_all("/proc/self/mountinfo"));
  for (std::string line; std::getline(lines, line);) {
    const std::size_t dash = line.find(" - ");
    if (dash == std::string::npos) continue;
    std::istringstream head(line.substr(0, dash));
    std::istringstream tail(line.substr(dash + 3));
    std::string skip, root, point, type, source, options;
    head >> skip >> skip >> skip >> root >> point;
    tail >> type >> source >> options;
    if (type == "cgroup2") found[""] = {point, root};
    if (type != "cgroup") continue;
    std::istringstream words(options);
    for (std::string word; std::getline(words, word, ',');) found[word] = {point, root};
  }
  return found;
}

std::string directory_of(const Mounted& mounted, const std::string& group) {
  if (mounted.root == "/" || !group.starts_with(mounted.root)) return mounted.point + (group == "/" ? "" : group);
  return mounted.point + group.substr(mounted.root.size());
}

// Groups carry their creator's pid; a creator that is gone cannot remove its own.
void sweep(const std::string& directory) {
  DIR* listing = ::opendir(directory.c_str());
  if (listing == nullptr) return;
  while (const dirent* entry = ::readdir(listing)) {
    if (!std::string_view(entry->d_name).starts_with(kPrefix)) continue;
    const long pid = std::strtol(entry->d_name + kPrefix.size(), nullptr, 10);
    if (pid > 0 && ::kill(static_cast<pid_t>(pid), 0) != 0 && errno == ESRCH) {
      ::rmdir((directory + "/" + entry->d_name).c_str());  // refused while it has processes
    }
  }
  ::closedir(listing);
}

}  // namespace

CgroupParent CgroupParent::find() {
  CgroupParent parent;
  const auto mounted = mounted_hierarchies();
  std::istringstream lines(read_all("/proc/self/cgroup"));
  for (std::string line; std::getline(lines, line);) {
    const std::size_t first = line.find(':');
    const std::size_t second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const std::string group = line.substr(second + 1);
    std::istringstream words(controllers);
    std::string controller;
    while (std::getline(words, controller, ',')) {
      const auto at = mounted.find(controller);
      if (at == mounted.end()) continue;
      const std::string directory = directory_of(at->second, group);
      if (::access(directory.c_str(), W_OK) == 0) parent.places_.push_back({controller, directory, false});
    }
    const auto unified = mounted.find("");
    if (!controllers.empty() || unified == mounted.end()) continue;
    const std::string directory = directory_of(unified->second, group);
    if (::access(directory.c_str(), W_OK) != 0) continue;
    // Version 2 gives children only what the parent passes down; a group with processes may not.
    std::istringstream passed(read_all((directory + "/cgroup.subtree_control").c_str()));
    while (passed >> controller) parent.places_.push_back({controller, directory, true});
  }
  return parent;
}

std::string CgroupParent::path_of(std::string_view controller) const {
  for (const Place& place : places_) {
    if (place.controller == controller) return place.directory;
  }
  return {};
}

Cgroup& Cgroup::operator=(Cgroup&& other) noexcept {
  remove();
  directories_ = std::move(other.directories_);
  procs_ = std::move(other.procs_);
  join_fds_ = std::move(other.join_fds_);
  in_force_ = other.in_force_;
  other.directories_.clear();
  return *this;
}

Result<Cgroup> Cgroup::create(const CgroupParent& parent, const std::string& name, const CgroupLimits& limits) {
  struct Wish {
    const char* controller;
    bool is_wanted;
    std::string v1_file, v1_value, v2_file, v2_value;
  };
  const std::string quota = std::to_string(static_cast<long>(limits.cpus * static_cast<double>(kPeriodMicros)));
  const std::string memory = std::to_string(limits.memory_bytes);
  const std::string pids = std::to_string(limits.processes);
  const Wish wishes[] = {
      {"memory", limits.memory_bytes != 0, "memory.limit_in_bytes", memory, "memory.max", memory},
      {"pids", limits.processes != 0, "pids.max", pids, "pids.max", pids},
      {"cpu", limits.cpus > 0, "cpu.cfs_quota_us", quota, "cpu.max", quota + " " + std::to_string(kPeriodMicros)},
  };
  Cgroup group;
  const std::string leaf = "/" + std::string(kPrefix) + std::to_string(::getpid()) + "-" + name;
  for (const Wish& wish : wishes) {
    if (!wish.is_wanted) continue;
    const auto place = std::find_if(parent.places_.begin(), parent.places_.end(),
                                    [&](const auto& each) { return each.controller == wish.controller; });
    if (place == parent.places_.end()) continue;
    sweep(place->directory);
    const std::string directory = place->directory + leaf;
    const bool is_made = std::find(group.directories_.begin(), group.directories_.end(), directory) !=
                         group.directories_.end();  // for another controller
    if (!is_made) {
      // An earlier process of this number may have left one of this name: nobody would be in it. What is not ours to
      // make, or is somebody's, is reported as not in force.
      ::rmdir(directory.c_str());
      if (::mkdir(directory.c_str(), 0755) != 0) continue;
      group.directories_.push_back(directory);
      UniqueFd procs(::open((directory + "/cgroup.procs").c_str(), O_WRONLY | O_CLOEXEC));
      if (!procs) return Error::from_errno("cannot join a control group", errno, directory);
      group.join_fds_.push_back(procs.get());
      group.procs_.push_back(std::move(procs));
    }
    const std::string file = directory + "/" + (place->is_v2 ? wish.v2_file : wish.v1_file);
    if (!write_value(file, place->is_v2 ? wish.v2_value : wish.v1_value)) {
      return Error::from_errno("cannot set a limit of a control group", errno, file);
    }
    if (wish.controller == std::string_view("memory")) {
      // Else what is beyond goes to swap. Where the kernel does not account for that there is nothing to be written.
      const bool is_bound = place->is_v2 ? write_value(directory + "/memory.swap.max", "0")
                                         : write_value(directory + "/memory.memsw.limit_in_bytes", memory);
      if (is_bound || !has_swap()) group.in_force_.memory_bytes = limits.memory_bytes;
    }
    if (wish.controller == std::string_view("pids")) group.in_force_.processes = limits.processes;
    if (wish.controller == std::string_view("cpu")) group.in_force_.cpus = limits.cpus;
  }
  return group;
}

void Cgroup::remove() {
  procs_.clear();
  join_fds_.clear();
  for (const std::string& directory : directories_) ::rmdir(directory.c_str());
  directories_.clear();
}

}  // namespace sallyport::os
