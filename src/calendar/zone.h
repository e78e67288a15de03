// A time zone: which clock people mean when they write "at 3". Pure; the rules come from a TZif file (RFC 8536).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/base.h"

namespace sallyport::calendar {

inline constexpr const char* kZoneDirectory = "/usr/share/zoneinfo";

class Zone {
 public:
  Zone() = default;  // UTC

  // "UTC", or a file below `directory` such as Europe/Berlin. INVALID_PARAMS if there is none of this name.
  static Result<Zone> load(const std::string& name, const std::string& directory = kZoneDirectory);
  static Result<Zone> parse(std::string_view tzif, std::string name);

  const std::string& name() const { return name_; }
  // Seconds to add to UTC, at a moment in Unix seconds.
  std::int32_t offset_at(std::int64_t moment) const;

  // When clocks here show `local` (seconds since 1970-01-01 00:00 of this zone's own calendar): once; twice,
  // where clocks were set back; never, where they were set forward, and then `gap_end` is the moment at which
  // they jumped over it.
  struct Moments {
    int count = 0;
    std::int64_t first = 0, second = 0;
    std::int64_t gap_end = 0;
  };
  Moments moments_of(std::int64_t local) const;

 private:
  // One half of a POSIX TZ rule: on which day of a year, and at which second of it, clocks change.
  struct Change {
    enum class Kind : std::uint8_t { month_week_day, julian, day_of_year };
    Kind kind = Kind::month_week_day;
    int month = 0, week = 0, day = 0;
    std::int32_t time = 7200;
    std::int64_t in_year(int year) const;  // local seconds
  };
  struct Rule {
    std::int32_t standard = 0, daylight = 0;
    std::optional<Change> begin, end;  // of daylight saving
    std::int32_t offset_at(std::int64_t moment) const;
  };
  class RuleReader;
  struct Transition {
    std::int64_t moment = 0;
    std::int32_t offset = 0;  // from then on
  };

  std::string name_ = "UTC";
  std::int32_t before_ = 0;  // the first transition
  std::vector<Transition> transitions_;
  std::optional<Rule> after_;  // the last one
};

}  // namespace sallyport::calendar
