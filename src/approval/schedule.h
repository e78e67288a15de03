// How often would this run? No I/O and no clock of its own.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/base.h"

namespace sallyport::approval {

struct Schedule {
  bool is_once = false;
  std::int64_t at_unix_ms = 0;  // of one that runs once
  Millis least_interval{0};     // of one that repeats: the shortest time between two of its runs
};

// A cron expression (five fields with * , - / and names, or @hourly @daily @weekly @monthly @yearly), or an RFC
// 3339 time. INVALID_PARAMS if it is neither, or would never run.
Result<Schedule> parse_schedule(std::string_view text);

}  // namespace sallyport::approval
