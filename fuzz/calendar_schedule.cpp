// Schedules and time zones from anywhere: what parses has a next run that is later, and the same each time.
#include <cstdlib>

#include "calendar/schedule.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace sallyport;
  using namespace sallyport::calendar;
  const std::string_view text = as_text({data, size});
  const auto demand = [](bool holds) {
    if (!holds) std::abort();
  };
  const Zone utc;
  if (const auto schedule = Schedule::parse(text)) {
    const std::int64_t start = 1'767'225'600'000;
    const auto first = schedule->next_ms(start, utc);
    demand(!first || *first > start);
    demand(!schedule->is_periodic() || (first && *first % 60'000 == 0));
    if (first && schedule->is_periodic()) demand(schedule->next_ms(*first - 1, utc) == first);
  }
  if (const auto moment = parse_rfc3339(text)) {
    const auto again = parse_rfc3339(format_rfc3339(*moment));
    demand(!again || *again / 1000 == (*moment - ((*moment % 1000) + 1000) % 1000) / 1000);
  }
  if (const auto zone = Zone::parse(text, "fuzzed")) {
    for (const std::int64_t moment :
         {INT64_C(-4'000'000'000), INT64_C(0), INT64_C(1'767'225'600), INT64_C(5'000'000'000)}) {
      const std::int64_t local = moment + zone->offset_at(moment);
      const Zone::Moments moments = zone->moments_of(local);
      demand(moments.count >= 0 && moments.count <= 2);
    }
  }
  return 0;
}
