// Room that is kept back on the ledger's disk: a file of nothing, given up when the disk is full, so that what stops
// things, and the last words of a warden that stops, can still be recorded.
#pragma once

#include <cstdint>
#include <string>

#include "base/base.h"

namespace sallyport::ledger {

class Reserve {
 public:
  // Takes it at once where there is ample room: kReserveBytes, on a small disk a sixteenth of what is free.
  explicit Reserve(const std::string& path);

  // Gives it up if there is less room beside it than it holds.
  void give_up_if_short();
  // Takes it again, once there is ample room.
  void refill();
  bool is_held() const { return held_ != 0; }

 private:
  std::uint64_t free_bytes() const;

  UniqueFd file_;
  std::uint64_t wanted_ = 0, held_ = 0;
};

}  // namespace sallyport::ledger
