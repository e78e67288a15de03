// Rate limits by GCRA (the generic cell rate algorithm): smooth, one number of state per limit.
//
// Decisions are made in memory, at once, on the caller's thread. Limits with a period of kPersistedPeriod
// and more are also written (buffered) to the ledger and survive a restart; shorter ones are forgotten by
// then anyway. Running time is measured by the steady clock, so a jump of the wall clock changes nothing;
// across a restart the wall clock is all there is, and a jump then costs at most one period of waiting or
// gives at most one burst.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/base.h"

namespace sallyport::ledger {

class Ledger;
class Database;

// `count` requests per `period`, all of which may come at once after a rest.
struct Rate {
  std::int64_t count = 1;
  Millis period{1000};
};

// A rate under the name that it is counted by.
struct Limit {
  std::string rule;
  Rate rate;
};

// When the limit will be unused again, if nothing more comes; in microseconds of any clock.
using Micros = std::int64_t;

struct RateDecision {
  bool is_allowed = false;
  Micros unused_at = 0;             // the new state; unchanged if refused
  std::int64_t retry_after_ms = 0;  // if refused: when the next one would be allowed; at least 1
};
// Pure. A state further ahead than the rate can bring it (the clock was set back) counts as just used up.
RateDecision decide_rate(const Rate& rate, Micros unused_at, Micros now);
Micros interval_of(const Rate& rate);  // how far one request moves the state

class Rates {
 public:
  Rates(Ledger& ledger, const Clock& clock) : ledger_(ledger), clock_(clock) {}

  // What earlier runs left. Ledger::open() does it.
  Status load(Database& database);

  // Counts one request of `key` (who) under all of these limits. RATE_LIMITED with details {"retry_after_ms":n} if
  // one of them says that it comes too early; such a one is counted under none.
  Status take(std::string_view key, const std::vector<Limit>& limits);
  // As if the last one had not come.
  void give_back(std::string_view key, const std::vector<Limit>& limits);

  std::size_t size() const { return states_.size(); }

 private:
  void forget_unused(Micros now);
  void persist(std::string_view key, const Limit& limit, Micros unused_in);

  Ledger& ledger_;
  const Clock& clock_;
  std::map<std::pair<std::string, std::string>, Micros, std::less<>> states_;  // by the steady clock
  std::size_t clean_at_ = 1024;
};

}  // namespace sallyport::ledger
