// Where the ledger's files lie in the state directory.
#pragma once

#include <string>

namespace sallyport::ledger {

inline std::string database_path(const std::string& state_dir) { return state_dir + "/ledger.db"; }
inline std::string audit_directory(const std::string& state_dir) { return state_dir + "/audit"; }
inline std::string key_path(const std::string& state_dir) { return state_dir + "/audit.key"; }
inline std::string reserve_path(const std::string& state_dir) { return state_dir + "/ledger.reserve"; }
inline constexpr const char* kLockName = "ledger.lock";

}  // namespace sallyport::ledger
