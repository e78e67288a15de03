#include "ledger/quotas.h"

#include <algorithm>

#include "ledger/database.h"
#include "ledger/ledger.h"
#include "wire/json.h"

namespace sallyport::ledger {

namespace {

// Far above any limit, and far from where sums with what is reserved would overflow.
constexpr std::int64_t kMostUsed = std::int64_t{1} << 61;

}  // namespace

QuotaState roll_window(const Quota& quota, QuotaState state, std::int64_t now_ms) {
  const std::int64_t now = quota.window.count() > 0 ? now_ms / quota.window.count() : 0;
  if (now > state.window) state.used = 0;
  // A clock that was set back over the end of a window may be set right again: that does not begin a new one.
  if (now != state.window - 1) state.window = now;
  return state;
}

Status Quotas::load(Database& database) {
  // A crash left these open: spent, as far as anyone knows.
  TRY(database.execute("UPDATE quotas SET used = used + reserved, reserved = 0 WHERE reserved <> 0"));
  TRY(Statement select, database.prepare("SELECT key, name, window, used FROM quotas"));
  for (;;) {
    TRY(const bool has_row, select.step());
    if (!has_row) return ok();
    states_[{std::string(select.text(0)), std::string(select.text(1))}] = {
        .window = select.integer(2), .used = select.integer(3), .reserved = 0};
  }
}

Result<Quotas::Reservation> Quotas::reserve(std::string_view key, std::string_view name, const Quota& quota,
                                            std::int64_t amount) {
  if (amount < 0) return Error::make(Code::invalid_params, "an amount to reserve cannot be negative");
  const Key place{key, name};
  const auto found = states_.find(place);
  QuotaState state = roll_window(quota, found == states_.end() ? QuotaState() : found->second, clock_.unix_millis());
  const std::int64_t taken = state.used + state.reserved;
  // Compared this way round, no sum can overflow.
  if (amount > quota.limit || taken > quota.limit - amount) {
    Error error = Error::make(Code::quota_exceeded, "the quota is used up", "quota " + std::string(name));
    error.retryable = quota.window.count() > 0 && amount <= quota.limit;
    error.details_json = wire::to_json([&](wire::JsonWriter& json) {
      json.begin_object().member("limit", quota.limit).member("used", state.used);
      json.member("reserved", state.reserved).member("requested", amount).member("quota", name).key("retry_after_ms");
      // What is counted for ever becomes free only when something is given back.
      if (error.retryable) {
        json.value(quota.window.count() - clock_.unix_millis() % quota.window.count());
      } else {
        json.null();
      }
      json.end_object();
    });
    return error;
  }
  state.reserved += amount;
  states_[place] = state;
  persist(place, state);
  return Reservation{std::string(key), std::string(name), amount};
}

void Quotas::settle(const Reservation& reservation, std::int64_t used) {
  const Key place{reservation.key, reservation.name};
  QuotaState& state = states_[place];
  state.reserved = std::max<std::int64_t>(0, state.reserved - reservation.amount);
  // Neither end is ever passed: what is used up stays so.
  std::int64_t sum = 0;
  if (__builtin_add_overflow(state.used, used, &sum)) sum = used > 0 ? kMostUsed : 0;
  state.used = std::clamp<std::int64_t>(sum, 0, kMostUsed);
  persist(place, state);
}

QuotaState Quotas::state(std::string_view key, std::string_view name) const {
  const auto found = states_.find(Key{key, name});
  return found == states_.end() ? QuotaState() : found->second;
}

void Quotas::set_used(std::string_view key, std::string_view name, std::int64_t used) {
  const Key place{key, name};
  QuotaState& state = states_[place];
  state.used = std::clamp<std::int64_t>(used, 0, kMostUsed);
  persist(place, state);
}

void Quotas::forget(const std::string& key) {
  std::erase_if(states_, [&](const auto& entry) { return entry.first.first == key; });
  Submission submission{.durability = Durability::buffered};
  submission.work = [key](Transaction& transaction) -> Status {
    TRY(Statement remove, transaction.database().prepare("DELETE FROM quotas WHERE key = ?"));
    return remove.bind(key).run();
  };
  ledger_.submit(std::move(submission));
}

void Quotas::persist(const Key& key, const QuotaState& state) {
  Submission submission{.durability = Durability::buffered};
  submission.work = [key, state](Transaction& transaction) -> Status {
    TRY(Statement insert, transaction.database().prepare(
                              "INSERT OR REPLACE INTO quotas(key, name, window, used, reserved) VALUES(?,?,?,?,?)"));
    return insert.bind(key.first).bind(key.second).bind(state.window).bind(state.used).bind(state.reserved).run();
  };
  ledger_.submit(std::move(submission));
}

}  // namespace sallyport::ledger
