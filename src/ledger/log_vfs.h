// A SQLite VFS that hands each commit to the kernel in one piece.
//
// SQLite writes its log with two system calls for every page. Here what is written one behind the other gathers until
// the log is synced, read, cut or closed, and no commit is acknowledged before it is synced. A failure to write is
// therefore told by the sync, which undoes a commit just as well. All else is left to the VFS underneath.
#pragma once

#include <string>

#include "base/base.h"

namespace sallyport::ledger {

// Registers it over the VFS of that name (empty: SQLite's own), once for each, and returns its name.
Result<std::string> register_log_vfs(const std::string& base);

}  // namespace sallyport::ledger
