// Quotas: an amount per window of time (tokens per day) or for ever (bytes stored). What a call may cost
// at most is reserved before it, what it did cost is settled after it.
//
// Decided in memory, at once, on the caller's thread, so that parallel calls cannot share the last unit;
// written (buffered) to the ledger. What is submitted durably after a reservation is on the disk no
// sooner than it. A reservation that a crash left open counts as spent: nobody knows what became of it.
// The wall clock set ahead begins a new window early; set back, it keeps what was used and refunds
// nothing.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "base/base.h"

namespace sallyport::ledger {

class Ledger;
class Database;

struct Quota {
  std::int64_t limit = 0;
  Millis window{0};  // 0: for ever
};

struct QuotaState {
  std::int64_t window = 0;  // number of the window that `used` belongs to
  std::int64_t used = 0;
  std::int64_t reserved = 0;
  bool operator==(const QuotaState&) const = default;
};
// Pure. The state as it is at `now_ms`: a new window begins with nothing used, but open reservations
// stay.
QuotaState roll_window(const Quota& quota, QuotaState state, std::int64_t now_ms);

class Quotas {
 public:
  Quotas(Ledger& ledger, const Clock& clock) : ledger_(ledger), clock_(clock) {}

  // What earlier runs left. Ledger::open() does it.
  Status load(Database& database);

  // An open reservation; settle() takes it.
  struct Reservation {
    std::string key, name;
    std::int64_t amount = 0;
  };
  // QUOTA_EXCEEDED if it does not fit, with details {"limit","used","reserved","requested","quota",
  // "retry_after_ms"}; the last is null where no time helps.
  Result<Reservation> reserve(std::string_view key, std::string_view name, const Quota& quota, std::int64_t amount);
  // Books what was really used (more than was reserved is booked in full; less than 0 gives back, for
  // what was removed from a store) and frees the rest.
  void settle(const Reservation& reservation, std::int64_t used);

  QuotaState state(std::string_view key, std::string_view name) const;
  // What was counted anew, by who can see what is there. Open reservations stay.
  void set_used(std::string_view key, std::string_view name, std::int64_t used);
  // Of one that is no more.
  void forget(const std::string& key);

 private:
  using Key = std::pair<std::string, std::string>;
  void persist(const Key& key, const QuotaState& state);

  Ledger& ledger_;
  const Clock& clock_;
  std::map<Key, QuotaState> states_;
};

}  // namespace sallyport::ledger
