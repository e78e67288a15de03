#include "ledger/rates.h"

#include <algorithm>
#include <chrono>

#include "ledger/database.h"
#include "ledger/ledger.h"

namespace sallyport::ledger {
namespace {

Micros micros(SteadyTime time) {
  return std::chrono::duration_cast<std::chrono::microseconds>(time.time_since_epoch()).count();
}
Micros micros(Millis time) { return std::chrono::microseconds(time).count(); }

}  // namespace

Micros interval_of(const Rate& rate) {
  return std::max<Micros>(micros(rate.period) / std::max<std::int64_t>(rate.count, 1), 1);
}

RateDecision decide_rate(const Rate& rate, Micros unused_at, Micros now) {
  const Micros period = std::max<Micros>(micros(rate.period), 1);
  const Micros interval = interval_of(rate);
  const Micros state = std::clamp(unused_at, now, now + period);
  const Micros wait = state + interval - (now + period);
  if (wait > 0) return {.is_allowed = false, .unused_at = state, .retry_after_ms = (wait + 999) / 1000};
  return {.is_allowed = true, .unused_at = state + interval, .retry_after_ms = 0};
}

Status Rates::load(Database& database) {
  const std::int64_t wall = clock_.unix_millis();
  const Micros now = micros(clock_.steady());
  TRY(Statement select, database.prepare("SELECT key, rule, until_ms FROM rates"));
  for (;;) {
    TRY(const bool has_row, select.step());
    if (!has_row) break;
    const std::int64_t left = select.integer(2) - wall;
    // How long a rate may be is known when it is used: decide_rate() cuts what is too far ahead.
    if (left > 0) states_[{std::string(select.text(0)), std::string(select.text(1))}] = now + left * 1000;
  }
  TRY(Statement clean, database.prepare("DELETE FROM rates WHERE until_ms <= ?"));
  return clean.bind(wall).run();
}

Status Rates::take(std::string_view key, std::string_view rule, const Rate& rate) {
  const Micros now = micros(clock_.steady());
  if (states_.size() >= clean_at_) forget_unused(now);
  Micros& state = states_[{std::string(key), std::string(rule)}];
  const RateDecision decision = decide_rate(rate, state, now);
  state = decision.unused_at;
  if (!decision.is_allowed) {
    Error error = Error::make(Code::rate_limited, "too many requests", "rate of " + std::string(rule));
    error.details_json = "{\"retry_after_ms\":" + std::to_string(decision.retry_after_ms) + "}";
    error.retryable = true;
    return error;
  }
  if (rate.period >= kPersistedPeriod) persist(std::string(key), std::string(rule), decision.unused_at - now);
  return ok();
}

void Rates::give_back(std::string_view key, std::string_view rule, const Rate& rate) {
  const auto found = states_.find({std::string(key), std::string(rule)});
  if (found == states_.end()) return;
  found->second -= interval_of(rate);
  if (rate.period < kPersistedPeriod) return;
  const Micros now = micros(clock_.steady());
  persist(found->first.first, found->first.second, std::max<Micros>(found->second - now, 0));
}

void Rates::persist(const std::string& key, const std::string& rule, Micros unused_in) {
  const std::int64_t until = clock_.unix_millis() + (unused_in + 999) / 1000;
  Submission submission{.durability = Durability::buffered};
  submission.work = [key, rule, until](Transaction& transaction) -> Status {
    TRY(Statement insert,
        transaction.database().prepare("INSERT OR REPLACE INTO rates(key, rule, until_ms) VALUES(?,?,?)"));
    return insert.bind(key).bind(rule).bind(until).run();
  };
  ledger_.submit(std::move(submission));
}

// A limit that is unused is the same as one never seen.
void Rates::forget_unused(Micros now) {
  std::erase_if(states_, [&](const auto& entry) { return entry.second <= now; });
  clean_at_ = std::max<std::size_t>(1024, 2 * states_.size());
}

}  // namespace sallyport::ledger
