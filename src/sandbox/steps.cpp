#include "sandbox/steps.h"

#include <array>
#include <cstddef>

namespace sallyport::sandbox {
namespace {

// Indexed by Step.
constexpr std::array<std::string_view, static_cast<std::size_t>(Step::count)> kNames = {
    "nothing",
    "plan the sandbox",
    "make the control socket",
    "make the control group",
    "create the namespaces",
    "let pid 1 go on",
    "arrange the descriptors",
    "join the control group",
    "map the user and group",
    "make the mounts private",
    "mount the new root",
    "make the directories",
    "bind a host path",
    "make a private directory",
    "mount /proc",
    "bind the devices",
    "mount /dev/pts",
    "change to the new root",
    "pin a protected path",
    "mask a denied path",
    "make the root read-only",
    "set the host name",
    "create the namespaces of network and IPC",
    "bring loopback up",
    "set the limits",
    "drop all capabilities",
    "forbid new privileges",
    "apply Landlock",
    "hand over the namespaces",
    "apply seccomp",
    "report the sandbox as ready",
    "enter the working directory",
    "create the command's process",
    "execute the command",
};

}  // namespace

std::string_view to_string(Step step) { return kNames.at(static_cast<std::size_t>(step)); }

}  // namespace sallyport::sandbox
