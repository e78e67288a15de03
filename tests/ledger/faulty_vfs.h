// A SQLite VFS that fails on request: every write or every sync, with the error of one's choice.
#pragma once

#include <atomic>

namespace sallyport::ledger {

struct Faults {
  std::atomic<int> on_write{0};  // a SQLite result code, 0: none
  std::atomic<int> on_sync{0};
  std::atomic<int> syncs{0};  // counted, failed ones too
  std::atomic<int> writes{0};
};

inline constexpr const char* kFaultyVfs = "faulty";
// Registers the VFS (once) and returns what steers it.
Faults& faulty_vfs();

}  // namespace sallyport::ledger
