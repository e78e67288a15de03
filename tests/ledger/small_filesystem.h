// Runs a scenario in a child process on a real small tmpfs, in a mount namespace of its own.
#pragma once

#include <functional>
#include <string>

namespace sallyport::ledger {

// What the scenario found wrong; empty when all is well. "skip: ..." if the machine lets nobody mount.
// `options` are tmpfs's own: "size=1m,nr_inodes=20". The scenario gets the mount point.
std::string on_small_filesystem(const std::string& options,
                                const std::function<std::string(const std::string&)>& scenario);

}  // namespace sallyport::ledger
