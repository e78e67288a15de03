// A control group of our own below the caller's, version 1 or 2, where the machine lets us make one.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"

namespace sallyport::os {

struct CgroupLimits {
  std::uint64_t memory_bytes = 0;  // 0: none
  std::uint32_t processes = 0;
  double cpus = 0;
  bool any() const { return memory_bytes != 0 || processes != 0 || cpus > 0; }
};

// Where groups can be made: found once per process, since it reads two files of /proc.
class CgroupParent {
 public:
  static CgroupParent find();
  bool has(std::string_view controller) const { return !path_of(controller).empty(); }
  // "" where the controller is missing or its directory is not writable for us.
  std::string path_of(std::string_view controller) const;

 private:
  friend class Cgroup;
  struct Place {
    std::string controller;
    std::string directory;
    bool is_v2;
  };
  std::vector<Place> places_;
};

// Removes its directories when destroyed; they must be empty of processes by then.
class Cgroup {
 public:
  Cgroup() = default;
  Cgroup(Cgroup&& other) noexcept = default;
  Cgroup& operator=(Cgroup&& other) noexcept;
  ~Cgroup() { remove(); }

  // Sets what the machine can; in_force says which. Groups left by creators that were killed are
  // removed on the way. An error means that a group was made but a limit was refused.
  static Result<Cgroup> create(const CgroupParent& parent, const std::string& name, const CgroupLimits& limits);

  // Write "0" to each of them to join; valid for as long as this lives.
  const std::vector<int>& join_fds() const { return join_fds_; }
  CgroupLimits in_force() const { return in_force_; }
  void remove();

 private:
  std::vector<std::string> directories_;
  std::vector<UniqueFd> procs_;
  std::vector<int> join_fds_;
  CgroupLimits in_force_;
};

}  // namespace sallyport::os
