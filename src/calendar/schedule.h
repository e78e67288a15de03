// When something runs: a cron expression or one moment. Pure.
//
//   minute hour day-of-month month day-of-week       "*/15 8-18 * * MON-FRI"
//   @hourly @daily @midnight @weekly @monthly @yearly @annually
//   2026-03-01T09:00:00+01:00                         RFC 3339, runs once
//
// docs/scheduler.md says what is accepted, and what happens where clocks change.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "base/base.h"
#include "calendar/zone.h"

namespace sallyport::calendar {

inline constexpr std::size_t kMaxScheduleBytes = 256;

class Cron {
 public:
  // INVALID_PARAMS says which field is wrong and what it takes.
  static Result<Cron> parse(std::string_view text);

  // The first run after a moment, in Unix seconds. Hours that are fixed ("0 3 * * *") run once on each of
  // their days: a time that clocks jump over runs when they have jumped, one that comes twice runs at its
  // first. With `*` in the hour field it follows the time that passes: nothing in the gap, both times in the
  // repeat. None within nine years: never.
  std::optional<std::int64_t> next(std::int64_t after, const Zone& zone) const;
  // The shortest time between two runs, in seconds, where no clock changes.
  std::int64_t least_interval() const;

 private:
  bool has_day(std::int64_t day) const;  // days since 1970-01-01
  std::optional<std::int64_t> next_on(std::int64_t day, std::int64_t after, const Zone& zone) const;

  std::uint64_t minutes_ = 0, hours_ = 0, days_ = 0, months_ = 0, weekdays_ = 0;  // bit n: n is in it
  bool is_any_day_ = false, is_any_weekday_ = false, is_any_hour_ = false;        // the field begins with *
};

// YYYY-MM-DDThh:mm:ss[.fraction](Z|+hh:mm|-hh:mm), in Unix milliseconds. No leap seconds.
Result<std::int64_t> parse_rfc3339(std::string_view text);
std::string format_rfc3339(std::int64_t unix_ms);  // in UTC, to the second

class Schedule {
 public:
  static Result<Schedule> parse(std::string_view text);
  bool is_periodic() const { return std::holds_alternative<Cron>(when_); }
  // Of one that is periodic: the shortest time between two runs.
  Millis least_interval() const;
  // In Unix milliseconds; none: it will not run again.
  std::optional<std::int64_t> next_ms(std::int64_t after_ms, const Zone& zone) const;

 private:
  explicit Schedule(std::variant<Cron, std::int64_t> when) : when_(when) {}
  std::variant<Cron, std::int64_t> when_;
};

}  // namespace sallyport::calendar
