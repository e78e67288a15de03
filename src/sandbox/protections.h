// What holds for a sandbox, said aloud.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "os/cgroup.h"
#include "sandbox/plan.h"
#include "sandbox/spec.h"

namespace sallyport::sandbox {

enum class Force : std::uint8_t { none, supervised, kernel };
std::string_view to_string(Force force);

// What holds for this sandbox, on this machine. Nothing is ever assumed to be in force.
struct Protections {
  bool has_namespaces = false;
  int landlock_abi = 0;
  bool enforces_exec_list = false;
  bool reports_violations = false;
  Force memory = Force::none;
  Force processes = Force::none;
  Force cpu = Force::none;
  std::vector<std::string> lost;  // sentences: what a full sandbox would have had

  std::string to_json() const;
};

// Sentences: what a sandbox without user namespaces does not have here.
std::vector<std::string> weak_losses(const Machine& machine);

Protections describe(const Spec& spec, const Plan& plan, const os::Cgroup& cgroup, const Machine& machine);

}  // namespace sallyport::sandbox
