// What is said of a launch that failed. Internal to the module.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"
#include "sandbox/control.h"
#include "sandbox/plan.h"

namespace sallyport::sandbox {

// What a step was about, as the plan numbers it; empty if it was about nothing in particular.
std::string item_name(const Plan& plan, Step step, std::uint32_t index);

// For what pid 1, or who was to become it, could not do.
Error launch_error(const Plan& plan, const Notice& notice);

// A file that may be executed and cannot be.
Error no_program(const std::string& name);
Error no_socket(int error);
// Namespaces cannot be had, and a sandbox without them was not asked for.
Error not_accepted(const Machine& machine, const std::string& why);
// A workspace that cannot be protected because it does not hold still; and what was last seen to move.
Error workspace_changes(const std::string& moved);

}  // namespace sallyport::sandbox
