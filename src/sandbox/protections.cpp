#include "sandbox/protections.h"

#include <unistd.h>

namespace sallyport::sandbox {

std::vector<std::string> weak_losses(const Machine& machine) {
  std::vector<std::string> lost = {
      "no private view of the file system: what the user may read is refused by Landlock, but can be stat'ed",
      "no private /tmp, /dev/shm and home directory",
      "no protection of modes, owners, times and attributes: those of any file of the user can be changed",
      "no pins and masks inside the workspace: .git/hooks and .env are as writable and readable as the rest",
      "no network namespace: sockets are refused by seccomp altogether",
      "no process namespace: host processes can be seen",
      "no limit on the number of processes of its own",
  };
  if (machine.landlock_abi < 6) lost.emplace_back("this kernel's Landlock cannot keep signals from host processes");
  return lost;
}

std::string_view to_string(Force force) {
  switch (force) {
    case Force::none:
      return "none";
    case Force::supervised:
      return "supervised";
    case Force::kernel:
      return "kernel";
  }
  return "none";
}

std::string Protections::to_json() const {
  const auto flag = [](bool value) { return value ? "true" : "false"; };
  std::string text =
      std::string("{\"namespaces\":") + flag(has_namespaces) + ",\"landlock_abi\":" + std::to_string(landlock_abi) +
      ",\"exec_list\":" + flag(enforces_exec_list) + ",\"seccomp\":true,\"violations\":" + flag(reports_violations);
  const auto add = [&](const char* key, Force force) {
    text += std::string(",\"") + key + "\":\"" + std::string(to_string(force)) + "\"";
  };
  add("memory", memory);
  add("processes", processes);
  add("cpu", cpu);
  text += ",\"lost\":[";
  for (std::size_t i = 0; i < lost.size(); ++i) text += (i > 0 ? ",\"" : "\"") + lost[i] + "\"";  // our own plain words
  return text + "]}";
}

Protections describe(const Spec& spec, const Plan& plan, const os::Cgroup& cgroup, const Machine& machine) {
  Protections in_force;
  in_force.has_namespaces = !plan.is_weak;
  in_force.landlock_abi = plan.landlock_abi;
  in_force.enforces_exec_list = plan.landlock_abi >= 2;
  in_force.reports_violations = plan.filter == Filter::command_notified;
  const os::CgroupLimits kernel = cgroup.in_force();
  in_force.memory = kernel.memory_bytes != 0      ? Force::kernel
                    : plan.supervised_memory != 0 ? Force::supervised
                                                  : Force::none;
  // In a fresh user namespace the count starts at zero; the host's root is never counted.
  const bool is_counted = !plan.is_weak && ::geteuid() != 0 && spec.limits.processes != 0;
  in_force.processes = kernel.processes != 0 || is_counted || !plan.pid_max.empty() ? Force::kernel : Force::none;
  in_force.cpu = kernel.cpus > 0 ? Force::kernel : Force::none;
  if (plan.is_weak) in_force.lost = weak_losses(machine);
  if (!in_force.enforces_exec_list) in_force.lost.emplace_back("no exec list: this kernel has no Landlock of ABI 2");
  if (plan.findings.was_cut) {
    in_force.lost.emplace_back(
        "the workspace is large, or has paths too long: not all of it was searched for secrets and settings");
  }
  if (plan.findings.has_more) {
    in_force.lost.emplace_back(
        "not every repository or setting is protected: there are too many, or a configuration is too large");
  }
  if (spec.limits.memory_bytes != 0 && in_force.memory == Force::none)
    in_force.lost.emplace_back("no memory limit on the whole");
  if (spec.limits.processes != 0 && in_force.processes == Force::none) {
    in_force.lost.emplace_back("no limit on the number of processes: no writable control group");
  }
  if (spec.limits.cpus > 0 && in_force.cpu == Force::none) {
    in_force.lost.emplace_back("no cpu limit: no writable control group");
  }
  return in_force;
}

}  // namespace sallyport::sandbox
