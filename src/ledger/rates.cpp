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

Status Rates::take(std::string_view key, const std::vector<Limit>& limits) {
  const Micros now = micros(clock_.steady());
  if (states_.size() >= clean_at_) forget_unused(now);
  std::vector<std::pair<Micros*, Micros>> changes;
  changes.reserve(limits.size());
  const Limit* refusing = nullptr;
  std::int64_t retry_after_ms = 0;
  for (const Limit& limit : limits) {
    Micros& state = states_[{std::string(key), limit.rule}];
    const RateDecision decision = decide_rate(limit.rate, state, now);
    changes.emplace_back(&state, decision.unused_at);
    if (!decision.is_allowed) state = decision.unused_at;  // which counts nothing: see decide_rate()
    if (decision.is_allowed || decision.retry_after_ms <= retry_after_ms) continue;
    refusing = &limit;
    retry_after_ms = decision.retry_after_ms;
  }
  if (refusing != nullptr) {
    Error error = Error::make(Code::rate_limited, "too many requests", "rate of " + refusing->rule);
    error.details_json = "{\"retry_after_ms\":" + std::to_string(retry_after_ms) + "}";
    error.retryable = true;
    return error;
  }
  for (std::size_t i = 0; i < limits.size(); ++i) {
    *changes[i].first = changes[i].second;
    persist(key, limits[i], changes[i].second - now);
  }
  return ok();
}

void Rates::give_back(std::string_view key, const std::vector<Limit>& limits) {
  const Micros now = micros(clock_.steady());
  for (const Limit& limit : limits) {
    const auto found = states_.find({std::string(key), limit.rule});
    if (found == states_.end()) continue;
    found->second -= interval_of(limit.rate);
    persist(key, limit, std::max<Micros>(found->second - now, 0));
  }
}

void Rates::persist(std::string_view key, const Limit& limit, Micros unused_in) {
  if (limit.rate.period < kPersistedPeriod) return;
  const std::int64_t until = clock_.unix_millis() + (unused_in + 999) / 1000;
  Submission submission{.durability = Durability::buffered};
  submission.work = [key = std::string(key), rule = limit.rule, until](Transaction& transaction) -> Status {
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
